"""`NAME=VALUE` on the command line: what becomes of a value, by the JSON Schema of the input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ropewalk.doors.cli.arguments import split_pairs, with_arguments
from ropewalk.doors.cli.dispatch import UsageError, dispatch

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 5},
        "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
        "note": {"type": ["string", "null"]},
        "tags": {"type": "array"},
        "on": {"type": "boolean"},
        "level": {"enum": ["1", "2"]},
        "size": {"$ref": "#/$defs/size"},
        "at": {"type": "object", "properties": {"city": {"type": "string"}, "x": {"type": "number"}}},
        "a.b": {"type": "string"},
        "free": {},
    },
    "$defs": {"size": {"type": "string"}},
}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("n=7", {"n": 7}),
        ("n=3", {"n": 3}),  # too small, which the run reports
        ("n=x", {"n": "x"}),
        ("zip=01234", {"zip": "01234"}),
        ("zip=12345", {"zip": "12345"}),
        ("zip=123456789012345678901", {"zip": "123456789012345678901"}),
        ("zip=123", {"zip": "123"}),  # too short, and yet text
        ("note=null", {"note": None}),
        ("note=5", {"note": "5"}),
        ('note="5"', {"note": '"5"'}),
        ('tags=["a", 1]', {"tags": ["a", 1]}),
        ("on=true", {"on": True}),
        ("level=1", {"level": "1"}),
        ("size=10", {"size": "10"}),
        ("at.city=5", {"at": {"city": "5"}}),
        ("at.x=5", {"at": {"x": 5}}),
        ("a.b=5", {"a.b": "5"}),
        ("free=5", {"free": 5}),
        ("free=a=b", {"free": "a=b"}),
        ("free=", {"free": ""}),
        ("other.x=1", {"other": {"x": 1}}),
    ],
)
def test_the_schema_decides_what_a_value_is(word: str, expected: Any) -> None:
    assert with_arguments(None, split_pairs([word], "argument"), SCHEMA) == expected


def test_words_add_to_the_input() -> None:
    values = {"n": 1, "at": {"x": 1}}
    assert with_arguments(values, {"n": "7", "at.city": "Ely"}, SCHEMA) == {"n": 7, "at": {"x": 1, "city": "Ely"}}
    assert values == {"n": 1, "at": {"x": 1}}
    assert with_arguments({"n": 1}, {"who": "5", "what": "a b"}, None) == {"n": 1, "who": 5, "what": "a b"}


@pytest.mark.parametrize(
    ("values", "words", "message"),
    [
        (None, ["n"], "argument 'n': must be name=value"),
        (None, ["=5"], "argument '=5': must be name=value"),
        (None, ["n=5", "n=6"], "argument 'n=6': n is given twice"),
        (None, ["tgas=5"], "argument tgas: unknown name 'tgas'; did you mean tags?"),
        (None, ["at.ctiy=5"], "argument at.ctiy: unknown name 'ctiy'; did you mean city?"),
        (None, [".x=5"], "argument .x: a name is missing at a dot"),
        (None, ["at.=5"], "argument at.: a name is missing at a dot"),
        (None, ["at=5", "at.x=6"], "argument at: excludes at.x; write one of them"),
        ({"n": 5}, ["n.x=6"], "argument n.x: n is not an object"),
        ([1], ["n=5"], "--input must be a JSON object: NAME=VALUE adds to it"),
    ],
)
def test_an_error_names_the_key(values: Any, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        with_arguments(values, split_pairs(words, "argument"), SCHEMA)


def test_a_run_and_a_call_take_them(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chain = {"kind": "chain", "inputSchema": SCHEMA, "nodes": [{"id": "a", "type": "transform", "input": "$input"}]}
    Path("c.json").write_text(json.dumps(chain))
    assert dispatch(["run", "c.json", "n=7", "zip=12345", "--input", '{"on": true}', "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["result"] == {"a": {"on": True, "n": 7, "zip": "12345"}}
    assert dispatch(["run", "c.json", "n=x"]) == 2
    assert 'input.n: "x" is not of type "integer"' in capfd.readouterr().err


@pytest.mark.parametrize("option", ["--input", "--args", "-i"])
def test_an_error_names_the_option_that_was_given(
    option: str, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text("kind: chain\nnodes: [{id: a, type: transform, input: 1}]")
    wrong = {
        ("tools", "call", "t", option, "nonsense"): f"{option} is not JSON; text needs quotes: {option} '\"...\"'",
        ("tools", "call", "t", option, "[1]"): f"{option} must be a JSON object: the tool's arguments by name",
        ("run", "c.yaml", f"{option}=@none.json"): "no file 'none.json'",
        ("run", "c.yaml", "n=5", option, "[1]"): f"{option} must be a JSON object: NAME=VALUE adds to it",
    }
    for words, message in wrong.items():
        assert dispatch(list(words)) == 2
        assert f"error: {message}" in capfd.readouterr().err

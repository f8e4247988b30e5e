"""A secret is passed on whole, or asked about; what would make another text of it is refused before the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk import App
from ropewalk.errors import InvalidFlow
from ropewalk.expr.ast import Fn, Ref
from ropewalk.expr.lift import lift
from ropewalk.expr.parser import parse

from .flows import call, compute, obj, ordered, out, problems

ROOTS = frozenset(("secret", "input", "output"))


def refused(name: str) -> str:
    return (
        f"{name!r} would change $secret.KEY, and the changed text would be recorded because redaction cannot find it; "
        "pass the secret unchanged and let the tool change it"
    )


def told(expr: Any) -> list[str]:
    return problems(ordered(call("t", "echo", args_=obj(x=expr))))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("upper(secret.KEY)", "upper"),
        ("split(secret.KEY, '-')", "split"),
        ("secret.KEY.lower()", "lower"),
        ("trim(secret.KEY)", "trim"),
        ("int(secret.KEY)", "int"),
        ("bool(secret.KEY)", "bool"),
        ("secret.KEY.replace('-', '')", "replace"),
        ("secret.KEY - 1", "-"),
        ("-secret.KEY", "neg"),
        ("upper('Bearer ' + secret.KEY)", "upper"),
        ("upper(coalesce(input.x, secret.KEY))", "upper"),
        ("upper(input.x ? secret.KEY : 'none')", "upper"),
        ("upper([secret.KEY, 'x'][0])", "upper"),
        ("[secret.KEY, input.x].map(k, upper(k))", "upper"),
        ("[secret.KEY].reduce(all, k, all + upper(k), '')", "upper"),
        ("sum([secret.KEY])", "sum"),
        ("upper(string({'h': secret.KEY}))", "upper"),
        ("upper(flatten([[secret.KEY]])[0])", "upper"),
        ("upper(sort([secret.KEY])[0])", "upper"),
        ("upper(zip([secret.KEY])[0][0])", "upper"),
        ("upper(merge({'a': secret.KEY}).a)", "upper"),
        ("upper(merge(input, {'a': secret.KEY}).b)", "upper"),
        ("upper(min(secret.KEY, 'zzz'))", "upper"),
        ("upper(query([secret.KEY], '$[*]')[0])", "upper"),
        ("upper(keys([secret.KEY].group_by(x, x))[0])", "upper"),
        ("upper([input.x, [secret.KEY]][1][0])", "upper"),
        ("upper({'a': secret.KEY}[input.x])", "upper"),
        ("input.l.reduce(a, x, upper(a), secret.KEY)", "upper"),
        ("input.l.reduce(a, x, upper(string(a)) + secret.KEY, '')", "upper"),
        ("input.l.flat_map(x, [secret.KEY]).map(x, lower(x))", "lower"),
        ("rename({'a': 1}, {'a': secret.KEY}).map(k, upper(k))", "upper"),
        ("base64(secret.KEY)", "base64"),
        ("matches(input.x, secret.KEY)", "matches"),
        ("query(input, secret.KEY)", "query"),
        ("pick(input, [secret.KEY])", "pick"),
    ],
)
def test_what_would_make_another_text_of_a_secret_is_refused(text: str, name: str) -> None:
    (one,) = told(parse(text))
    assert one.partition(": ")[2] == refused(name)


@pytest.mark.parametrize(
    "text",
    [
        "secret.KEY",
        "secret.KEY == null",
        "secret.KEY != input.x && secret.KEY in input.list",
        "has(secret.KEY) || !exists(secret.KEY)",
        "startsWith(secret.KEY, 'sk-') && length(secret.KEY) > 3",
        "coalesce(input.key, secret.KEY)",
        "input.live ? secret.KEY : secret.TEST",
        "secret.KEY == 'x' ? upper('a') : lower('B')",
        "'Bearer ' + secret.KEY",
        "string(secret.KEY)",
        "join(['Basic', secret.KEY], ' ')",
        "replace(input.template, 'KEY', secret.KEY)",
        "merge(input, {'key': secret.KEY})",
        "[secret.KEY, secret.OTHER].filter(k, k != '')",
        "[{'name': input.x, 'key': secret.KEY}].map(e, upper(e.name))",
    ],
)
def test_what_leaves_a_secret_whole_or_asks_about_it_is_fine(text: str) -> None:
    assert told(parse(text)) == []


def test_a_new_function_refuses_secrets_unless_it_declares_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    from ropewalk.expr.function_registry import EVERY, FUNCTIONS, function

    for name in ("doubled", "kept", "asked"):
        monkeypatch.setitem(FUNCTIONS, name, FUNCTIONS["has"])
    function("doubled", 1)(lambda value: value)
    function("kept", 2, keeps=(1,))(lambda first, value: value)
    function("asked", 1, asks=EVERY)(lambda value: True)
    assert len(told(Fn("doubled", (Ref("secret", ("KEY",)),)))) == 1
    assert len(told(Fn("kept", (Ref("secret", ("KEY",)), Ref("input"))))) == 1
    kept = Fn("kept", (Ref("input"), Ref("secret", ("KEY",))))
    assert told(kept) == told(Fn("asked", (kept,))) == []
    assert len(told(Fn("upper", (kept,)))) == 1
    assert told(Fn("upper", (Fn("asked", (kept,)),))) == []


def test_reductions_in_reductions_are_checked_quickly() -> None:
    text = "secret.KEY"
    for i in range(20):
        text = f"input.l.reduce(a{i}, x{i}, {text}, '')"
    assert told(parse(text)) == []


def test_interpolation_is_fine() -> None:
    assert told(lift("Bearer ${secret.KEY}", ROOTS)) == []
    assert len(told(lift("Bearer ${upper(secret.KEY)}", ROOTS))) == 1


def test_a_secret_is_followed_through_what_is_computed() -> None:
    made = compute("c", obj(key=Ref("secret", ("KEY",)), word=Ref("input", ("word",))))
    assert len(problems(ordered(made, result=Fn("upper", (out("c", "key"),))))) == 1
    assert problems(ordered(made, result=Fn("upper", (out("c", "word"),)))) == []


def test_nothing_of_a_changed_secret_reaches_the_journal(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "sesame-open-now")
    called: list[Any] = []

    async def echo(text: str) -> str:
        called.append(text)
        return text

    async def case() -> None:
        async with App(f"sqlite:///{tmp_path}/r.db", tools=[echo], secrets=["KEY"]) as app:
            node = {"id": "a", "type": "tool", "tool": "echo", "params": {"text": "${upper(secret.KEY)}"}}
            with pytest.raises(InvalidFlow) as caught:
                await app.run({"kind": "chain", "nodes": [node]})
            (problem,) = caught.value.problems
            assert problem.path == "nodes[0].params.text"
            assert problem.column is not None

    asyncio.run(case())
    assert called == []
    assert not any(b"SESAME" in path.read_bytes() for path in tmp_path.iterdir())

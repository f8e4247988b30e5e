"""Documents with places: what is read, what is refused, and where everything is said to stand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import InvalidFlow, NotFound, Place, Problem
from ropewalk.source.document import doubtful_numbers, render_problem, with_places
from ropewalk.source.load import load
from ropewalk.source.locations import Limits
from tiers import examples


def refused(text: str | Path, **options: object) -> list[tuple[int, int, str]]:
    with pytest.raises(InvalidFlow) as caught:
        load(text, **options)  # type: ignore[arg-type]
    found = []
    for problem in caught.value.problems:
        assert problem.place is not None
        found.append((problem.place.line, problem.place.column, problem.message))
    return found


@pytest.mark.parametrize("text", ["a: {x: ${b}, y: 1}", "a: [${b}]", "a: {x: ${$output.fav}}"])
def test_unquoted_interpolation_in_braces_is_told_to_need_quotes(text):
    with pytest.raises(InvalidFlow) as caught:
        load(text, name="c.yaml")
    (problem,) = caught.value.problems
    assert ("must be quoted" in problem.message, problem.place.column) == (True, text.index("$") + 1)


def test_yaml_is_read_by_the_core_schema_of_1_2():
    data = load(
        "on: yes\nver: 0.1.0\ngroup: 1_000\noctal: 0o17\nhex: 0x1F\nold: 017\nexp: 1e3\nnone: ~\nempty:\n"
        "quoted: '5'\ntime: 12:30:45\ndate: 2026-01-02\nneg: -3\ndot: .5\nt: True\n1: one\nno: off\n"
    ).data
    assert data == {
        "on": "yes",
        "ver": "0.1.0",
        "group": "1_000",
        "octal": 15,
        "hex": 31,
        "old": 17,
        "exp": 1000.0,
        "none": None,
        "empty": None,
        "quoted": "5",
        "time": "12:30:45",
        "date": "2026-01-02",
        "neg": -3,
        "dot": 0.5,
        "t": True,
        "1": "one",
        "no": "off",
    }


def test_numbers_that_begin_with_a_zero_are_doubtful() -> None:
    text = "a: 0777\nb: {c: [-010, 0, 0.5, '0777', 08:30, 2026-01-02, 0o17]}\nd: x 0777\ne: 089\n"
    doubts = doubtful_numbers(load(text))
    assert [(item.path, item.place.line, item.place.column, item.message) for item in doubts] == [
        ("a", 1, 4, '0777 is read as 777; write 0o777 for an octal number, or "0777" for text'),
        ("b.c[0]", 2, 9, '-010 is read as -10; write -0o10 for an octal number, or "-010" for text'),
        ("e", 4, 4, '089 is read as 89; write "089" for text'),
    ]
    assert doubtful_numbers(load('{"a": 1}')) == []


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 1, "repeated key 'a'; it is first defined on line 1"),
        ('{"a": 1,\n "a": 2}', 2, 2, "repeated key 'a'; it is first defined on line 1"),
        ('{"a": {"b": NaN}}', 1, 13, "nan is not JSON"),
        ("a: [1, .nan]\n", 1, 8, "nan is not JSON"),
        ("a: -.Inf\n", 1, 4, "-inf is not JSON"),
        ("a: 1e999\n", 1, 4, "inf is not JSON"),
        ("a: 9223372036854775808\n", 1, 4, "integer past 64 bits"),
        ("a: +" + "9" * 5000 + "\n", 1, 4, "integer past 64 bits"),
        ('{"a": -' + "9" * 5000 + "}", 1, 7, "integer past 64 bits"),
        ('{"a": "\\ud800"}', 1, 7, "lone surrogate"),
        ('a: "\\0"\n', 1, 4, "NUL"),
        ("a: x\x07\n", 1, 5, "U+0007"),
        ("a: x\ud800\n", 1, 5, "U+D800"),
        ("a: !!python/object:os.system x\n", 1, 4, "tags (!!python/object:os.system)"),
        ("a: ! x\n", 1, 4, "tags"),
        ("<<: 1\n", 1, 1, "merge keys"),
        ("a: *b\n", 1, 4, "no anchor &b"),
        ("a: &a [*a]\n", 1, 8, "inside the value that it names"),
        ("a: 1\n---\nb: 2\n", 2, 1, "second document"),
        ("a:\n\t- b\n", 2, 1, "use spaces"),
        ("a: b: c\n", 1, 5, "colon in quotes"),
        ("a: 1\nb: 'x\nc: 3\n", 2, 4, "never closed"),
        ("- a\nb: c\n", 2, 1, "does not continue the list that begins on line 1"),
        ("a: {{x}}\n", 1, 5, "put text that holds {} or [] in quotes"),
        ("? [a]\n: b\n", 1, 3, "a key must be text"),
        ("a: @x\n", 1, 4, "put it in quotes"),
        ("a: * b\n", 1, 4, "begins an alias"),
        (": 1\n", 1, 1, "a key is missing"),
        ("\n  \n", 1, 1, "empty"),
        ("# nothing but a comment\n", 1, 1, "empty"),
        ('{"a": 1,}', 1, 8, "comma before '}'"),
        ('{"a": [1,\n ]}', 1, 9, "comma before ']'"),
        ('{"a": 1', 1, 8, "before every { and [ is closed"),
        ('{"a": // x\n1}', 1, 7, "no comments"),
        ('{"a": "x', 1, 7, "never closed"),
        ('{"a": 1} x', 1, 10, "after the end"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text, line, column, says):
    found = refused(text)
    assert (found[0][0], found[0][1]) == (line, column), found
    assert says in found[0][2]


def test_single_quotes_in_a_json_file_are_explained(tmp_path):
    file = tmp_path / "a.json"
    file.write_text("{'a': 1}")
    assert refused(file) == [(1, 2, "JSON text needs double quotes, not single quotes")]


def test_every_repeated_key_is_reported_at_once():
    assert [line for line, _, _ in refused("a: 1\na: 2\nb:\n  c: 1\n  c: 2\n")] == [2, 5]


def test_a_json_file_with_unusual_line_separators_keeps_its_text():
    assert load('{"a": "x\u2028y\x85z"}').data == {"a": "x\u2028y\x85z"}
    assert load('a: "x\u2028y\x85z"\nb: x\u2029y\n').data == {"a": "x\u2028y\x85z", "b": "x\u2029y"}


def test_a_byte_order_mark_is_skipped(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: [\n")
    assert refused(file)[0][:2] == (2, 1)
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert load(file).data == {"a": 1}


def test_bytes_that_are_not_utf_8_have_a_place(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_bytes("a: é\nb: ".encode() + b"\xe9\n")
    assert refused(file) == [(2, 4, "byte 0xe9 is not UTF-8; write it as UTF-8")]
    file.write_bytes("a: 1\n".encode("utf-16"))
    assert "UTF-16" in refused(file)[0][2]


def test_a_missing_file_suggests_its_neighbour(tmp_path):
    (tmp_path / "chain.yaml").write_text("a: 1\n")
    with pytest.raises(NotFound, match=r"did you mean .*chain\.yaml"):
        load(tmp_path / "chian.yaml")


def test_a_directory_stands_for_its_experience(tmp_path):
    with pytest.raises(NotFound, match=r"experience\.yaml"):
        load(tmp_path)
    (tmp_path / "experience.yaml").write_text("name: x\n")
    document = load(tmp_path)
    assert document.data == {"name": "x"}
    assert document.file.endswith("experience.yaml")


def test_aliases_are_copies():
    data = load("a: &x {k: [1]}\nb: *x\nc: *x\n").data
    assert data == {"a": {"k": [1]}, "b": {"k": [1]}, "c": {"k": [1]}}
    assert data["b"] is not data["c"]
    assert data["b"]["k"] is not data["a"]["k"]


def test_nesting_is_counted_through_aliases():
    inner = "[" * 40 + "]" * 40
    assert load(f"a: &x {inner}\nb: *x\n").data
    assert "nested deeper than 64 through *x" in refused(f"a: &x {inner}\nb: {'[' * 30}*x{']' * 30}\n")[0][2]


def test_exactly_the_allowed_nesting_is_read():
    for name in ("a.yaml", "a.json"):
        assert load("[" * 64 + "]" * 64 + "\n", name=name).data
        assert refused("[" * 65 + "]" * 65 + "\n", name=name)[0] == (1, 65, "nested deeper than 64")


def test_limits_can_be_set():
    assert "more than 2 aliases" in refused("a: &a 1\nb: [*a, *a, *a]\n", limits=Limits(aliases=2))[0][2]
    assert "larger than 10 bytes" in refused("a: 12345678\n", limits=Limits(size=10))[0][2]
    assert "larger than 10 bytes" in refused("a: éééé\n", limits=Limits(size=10))[0][2]


PLACED = """\
# a comment
nodes:
  - id: first
    tool: search
    params:
      q: $prev.snipet == "x"
      r: "é \\n ${ input.y } \\u00e9 z"
      s: |   # a comment
        line one

        then $prev.bad
      t: >
        folded
        text $prev.x
      u: 'it''s $prev.y'
      v: plain
        over $prev.lines
    "a.b": 3
"""


@pytest.mark.parametrize(
    ("path", "column", "line", "at"),
    [
        ("nodes[0].params.q", 7, 6, "snipet"),
        ("nodes[0].params.q", None, 6, "$prev"),
        ("nodes[0].params.r", 8, 7, "input.y"),
        ("nodes[0].params.s", 16, 11, "$prev.bad"),
        ("nodes[0].params.t", 13, 14, "$prev.x"),
        ("nodes[0].params.u", 6, 15, "$prev.y"),
        ("nodes[0].params.v", 12, 17, "$prev.lines"),
        ("nodes[0].params", None, 5, "params"),
        ("nodes[0].params.zz.y", None, 5, "params"),
        ("nodes[0].tol", None, 3, "id"),
        ("nodes[0].a.b", None, 18, "3"),
        ('nodes[0]["a.b"]', None, 18, "3"),
        ("nodes.0.tool", None, 4, "search"),
        ("nodes[7].x", None, 2, "nodes"),
        ("", None, 2, "nodes"),
    ],
)
def test_a_path_leads_to_its_line_and_column(path, column, line, at):
    place = load(PLACED, name="c.yaml").locate(path, column)
    assert (place.file, place.line) == ("c.yaml", line)
    assert place.text[place.column - 1 :].startswith(at)


def test_a_path_in_json_leads_through_escapes():
    document = load('{"nodes": [\n {"id": "a", "x": "\\u00e9\\ud83d\\ude00\\t $prev.x", "y": {"z": [1, 22]}}]}')
    for path, column, at in [
        ("nodes[0].x", 5, "$prev.x"),
        ("nodes[0].y.z[1]", None, "22"),
        ("nodes[0].y", None, '"y"'),
    ]:
        place = document.locate(path, column)
        assert place.line == 2
        assert place.text[place.column - 1 :].startswith(at)


def test_a_path_leads_through_an_alias_into_what_it_names():
    place = load("base: &b\n  q: one\nuse: *b\n").locate("use.q")
    assert (place.line, place.column) == (2, 6)


def test_an_unknown_key_is_shown_at_the_key_and_a_value_at_the_value():
    document = load("nodes: []\nmod: fast\n", name="c.yaml")
    key, value = with_places(
        [Problem(path="mod", message="unknown key", suggestion="mode"), Problem(path="mod", message="bad")], document
    )
    assert key.place is not None
    assert value.place is not None
    assert (key.place.column, value.place.column) == (1, 6)
    assert render_problem(key) == "c.yaml:2:1: mod: unknown key; did you mean mode?\n    mod: fast\n    ^"


def test_a_problem_that_has_a_place_keeps_it():
    own = Place("other.py", 3, 4, "text")
    assert with_places([Problem(path="a", message="m", place=own)], load("a: 1\n"))[0].place is own


def test_the_caret_stands_under_wide_combining_and_tabbed_text():
    text = 'a: "漢e\u0301\t$x"\n'
    problem = with_places([Problem(path="a", message="m", column=5)], load(text, name="c.yaml"))[0]
    source, caret = render_problem(problem).splitlines()[1:]
    assert source == '    a: "漢e\u0301\t$x"'
    # two cells for the ideograph, one for e, none for its accent, then the tab itself
    assert caret == "    " + " " * 4 + "  " + " " + "\t" + "^"


def test_a_document_cannot_drive_the_terminal():
    problem = Problem(path="a\x1b[2J", message="m\u202e", place=Place("f\x9b", 1, 1, "\x1b]0;owned\x07"))
    assert not any(c in render_problem(problem) for c in "\x1b\x9b\x07\u202e")


def test_a_very_long_line_is_shown_around_the_place():
    document = load(json.dumps({"a": ["x" * 50] * 1000, "b": 1}), name="c.json")
    out = render_problem(Problem(path="b", message="m", place=document.locate("b")))
    source, caret = out.splitlines()[1:]
    assert len(source) < 140
    assert source[caret.index("^")] == "1"


BOMBS = {
    "brackets.yaml": "'a: ' + '[' * 200_000",
    "brackets.json": "'[' * 200_000",
    "closed.json": "'[' * 200_000 + ']' * 200_000",
    "objects.json": "'{\"a\":' * 100_000",
    "dashes.yaml": "'- ' * 100_000 + 'x'",
    "questions.yaml": "'? ' * 100_000 + 'x'",
    "braces.yaml": "'{a: ' * 100_000",
    "laughs.yaml": "'a0: &a0 [x,x,x,x,x,x,x,x,x,x]\\n' + ''.join("
    "f'a{i}: &a{i} [' + ','.join([f'*a{i - 1}'] * 10) + ']\\n' for i in range(1, 30))",
    "copies.yaml": "'a: &a ' + 'x' * 1_000_000 + '\\nb: [' + ','.join(['*a'] * 999) + ']\\n'",
    "aliases.yaml": "'a: &a 1\\nb: [' + ','.join(['*a'] * 500_000) + ']\\n'",
    "big.yaml": "'a: ' + 'x' * 10_000_001",
    "big.json": "'\"' + 'x' * 10_000_001 + '\"'",
    "keys.yaml": "'a: 1\\n' * 1_000_000",
    "keys.json": "'{' + ','.join(['\"a\":1'] * 500_000) + '}'",
    "anchors.yaml": "'&a ' * 300_000 + 'x'",
    "digits.json": "'[' + '9' * 5_000_000 + ']'",
    "digits.yaml": "'a: ' + '9' * 5_000_000",
    "quote.yaml": "'a: \"' + 'x' * 5_000_000",
    "key.yaml": "'x' * 5_000_000 + ': 1'",
    "colons.yaml": "'a: b: ' * 300_000",
    "escapes.json": "'\"' + '\\\\\\\\' * 2_000_000",
}

CHILD = """
import resource, sys, time
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000,) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from ropewalk.errors import InvalidFlow
from ropewalk.source.load import load
from ropewalk.source import yaml_reader as yaml_text
from ropewalk.source.document import render_problem
for name, make in BOMBS.items():
    file = Path(sys.argv[1]) / name
    file.write_text(eval(make))
    began = time.process_time()
    try:
        load(file)
        text = "read"
    except InvalidFlow as error:
        text = render_problem(error.problems[0])
    spent = time.process_time() - began
    first = text.splitlines()[0].removeprefix(sys.argv[1] + "/")
    print(f"{spent:.3f}\\t{first}", flush=True)
"""


def test_bombs_are_refused_quickly_and_without_a_crash(tmp_path):
    child = subprocess.run(
        [sys.executable, "-c", f"BOMBS = {BOMBS!r}\n{CHILD}", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    rows = [line.split("\t", 1) for line in child.stdout.splitlines()]
    assert len(rows) == len(BOMBS)
    for spent, said in rows:
        assert float(spent) < 1.0, said
        assert ": " in said, said


trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@examples(150)
@given(trees)
def test_json_text_reads_back_as_it_was_in_both_readers(value):
    for escaped in (True, False):
        assert load(json.dumps(value, ensure_ascii=escaped) + "\n", name="a.json").data == value
    text = json.dumps(value, ensure_ascii=True)
    if "\\ud" not in text:  # surrogate pairs are the one JSON escape that YAML has not
        assert load(text + "\n", name="a.yaml").data == value


@examples(100)
@given(trees, st.booleans(), st.sampled_from(["a.json", "a.yaml"]))
def test_every_scalar_is_found_where_it_stands(value, pretty, name):
    text = json.dumps(value, indent=2 if pretty else None) + "\n"
    if name.endswith("yaml") and "\\ud" in text:
        name = "a.json"
    document = load(text, name=name)

    def look(item, path):
        if isinstance(item, dict):
            for key, inner in item.items():
                if key.isalnum():
                    look(inner, f"{path}.{key}".removeprefix("."))
        elif isinstance(item, list):
            for i, inner in enumerate(item):
                look(inner, f"{path}[{i}]")
        else:
            place = document.locate(path)
            assert place.text[place.column - 1 :].startswith(json.dumps(item))

    look(value, "")


@examples(200)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_place(text):
    for name in ("a.json", "a.yaml"):
        problems: tuple[Problem, ...] = ()
        try:
            load(text + "\n", name=name)
        except InvalidFlow as error:
            problems = error.problems
        assert all(p.place is not None and render_problem(p) for p in problems)

"""Constructs of original experience directories, each in a directory of its own: it is valid, and it runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from experiences.conftest import Make
from experiences.running import run, warnings
from ropewalk import App
from ropewalk.errors import InvalidFlow

COUNT = "def run(args): return {'state_delta': {'n': len(args['_state'].get('rows') or [])}}"
READ = """
nodes:
  - {id: load, kind: dataset, source: %s, writes: [rows]}
  - {id: count, kind: tool, impl: ./count.py, reads: [rows], writes: [n]}
edges: [{from: load, to: count}]
"""
ROWS = "{rows: {type: array, items: {type: object}}, n: {type: number}}"


# --- state -----------------------------------------------------------------------------------------


def test_state_fields_take_any_keyword_of_json_schema(make: Make) -> None:
    state = """{
      level: {type: string, enum: [low, high], description: how bad},
      tags: {type: array, items: {type: string}, minItems: 1, merge: array_append},
      about: {type: object, properties: {id: {type: number}}, required: [id], additionalProperties: false},
      outside: {$ref: ./other.json}, free: {title: anything at all}, x: {type: string, x-shown-as: a bar}}"""
    home = make(
        "nodes: [{id: a, kind: tool, impl: ./a.py, writes: [level, tags, about, outside]}]",
        state,
        a_py="""def run(args): return {'state_delta': {
            'level': 'low', 'tags': ['x'], 'about': {'id': 1}, 'outside': [1]}}""",
    )
    assert run(home).final_state == {"level": "low", "tags": ["x"], "about": {"id": 1}, "outside": [1]}


def test_a_misspelt_keyword_of_a_field_is_a_problem(make: Make) -> None:
    home = make(
        "nodes: [{id: a, kind: tool, impl: ./a.py}]", "{t: {type: array, itms: {}}, u: {enum: 3, type: string}}"
    )
    with pytest.raises(InvalidFlow) as refused:
        App().load(home)
    said = {problem.path: str(problem) for problem in refused.value.problems}
    assert "did you mean items?" in said["state.schema.t.itms"]
    assert any(path.startswith("state.schema.u.enum") for path in said)


def test_the_store_of_the_state_and_the_budget_of_a_loop_are_read_and_told(make: Make) -> None:
    home = make(
        """
        nodes: [{id: up, kind: tool, impl: ./up.py, writes: [n]}]
        loops: [{id: l, body: up, until: "$.n >= 3", max_iters: 9, budget: 100}]
        """,
        "{n: {type: number, default: 0}}",
        up_py="def run(args): return {'state_delta': {'n': args['_state']['n'] + 1}}",
    )
    text = (home / "experience.yaml").read_text()
    (home / "experience.yaml").write_text(text.replace("state: {", "state: {store: .state/s.sqlite, "))
    assert run(home).final_state == {"n": 3}
    told = warnings(home)
    assert any("state.store: is not used" in one for one in told)
    assert any("budget: is not enforced" in one for one in told)


# --- datasets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["{type: file, uri: ./d.csv, format: csv}", "{type: file, uri: d.csv}"])
def test_a_file_by_its_type(make: Make, source: str) -> None:
    home = make(READ % source, ROWS, count_py=COUNT)
    (home / "d.csv").write_text("a,b\n1,2\n3,4\n")
    assert run(home).final_state["n"] == 2


def test_a_sqlite_file_by_its_type(make: Make) -> None:
    home = make(READ % "{type: sqlite, uri: ./d.db, query: select id from t where id > 1}", ROWS, count_py=COUNT)
    with sqlite3.connect(home / "d.db") as db:
        db.executescript("create table t(id integer); insert into t values (1), (2), (3);")
    assert run(home).final_state["rows"] == [{"id": 2}, {"id": 3}]


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    asked: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.command, self.rfile.read(int(self.headers.get("content-length") or 0))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'[{"id": 7}]')

        do_POST = do_GET

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    found = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{found.server_port}/rows", asked
    found.shutdown()
    found.server_close()


@pytest.mark.parametrize(
    ("more", "method", "body"),
    [
        ("", "GET", b""),
        (", method: get, body: {ignored: true}", "GET", b""),
        (", method: POST, body: {of: $input.of, q: [1, null]}", "POST", b'{"of":3,"q":[1,null]}'),
        (", method: POST", "POST", b""),
    ],
)
def test_a_url_with_method_and_body(make: Make, server: Any, more: str, method: str, body: bytes) -> None:
    url, asked = server
    home = make(READ % f"{{type: http, url: '{url}'{more}}}", ROWS, count_py=COUNT)
    assert run(home, {"of": 3}).final_state["rows"] == [{"id": 7}]
    assert asked == [(method, body)]


@pytest.mark.parametrize(
    ("source", "path", "said"),
    [
        ("{type: file}", "uri", "required"),
        ("{type: sqlite, uri: ./d.db}", "query", "required for a sqlite source"),
        ("{type: fle, uri: x}", "type", "did you mean file?"),
        ("{type: file, uri: ../d.csv}", "file", "'..' is not allowed"),
        ("{type: http, url: 'http://x/', method: DELETE}", "method", "GET or POST"),
        ("{type: file, uri: d.csv, query: x}", "query", "a file source has no query"),
    ],
)
def test_what_is_wrong_with_a_typed_source(make: Make, source: str, path: str, said: str) -> None:
    home = make(READ % source, ROWS, count_py=COUNT)
    with pytest.raises(InvalidFlow) as refused:
        run(home)
    found = {problem.path: str(problem) for problem in refused.value.problems}
    assert said in found[f"graph.nodes[0].source.{path}"]


# --- pipelines and modules -------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [("before", "first", "second", "after"), ("before", "p", "p", "after")])
def test_edges_name_a_pipeline_or_one_of_its_stages(make: Make, ends: tuple[str, ...]) -> None:
    home = make(
        f"""
        nodes:
          - {{id: before, kind: tool, impl: ./before.py, writes: [items]}}
          - {{id: first, kind: tool, impl: ./stage.py, writes: [log]}}
          - {{id: second, kind: tool, impl: ./stage.py, writes: [log]}}
          - {{id: after, kind: tool, impl: ./after.py, writes: [n]}}
        edges: [{{from: {ends[0]}, to: {ends[1]}}}, {{from: first, to: second}}, {{from: {ends[2]}, to: {ends[3]}}}]
        pipelines: [{{id: p, items: $.items, stages: [first, second]}}]
        """,
        "{items: {type: array}, log: {type: array, merge: array_append}, n: {type: number}}",
        before_py="def run(args): return {'state_delta': {'items': [5, 6]}}",
        stage_py="def run(args): return {'state_delta': {'log': [args['$item']]}}",
        after_py="def run(args): return {'state_delta': {'n': len(args['_state']['log'])}}",
    )
    assert run(home).final_state == {"items": [5, 6], "log": [5, 5, 6, 6], "n": 4}


@pytest.mark.parametrize("language", ["py", "mjs"])
def test_modules_have_the_item_and_its_index_under_both_names(make: Make, language: str) -> None:
    names = ("$item", "_item", "$index", "_item_index")
    code = {
        "py": f"def run(args): return {{'state_delta': {{'got': [[args[k] for k in {names}]]}}}}",
        "mjs": "export default a => ({state_delta: {got: [[a.$item, a._item, a.$index, a._item_index]]}})",
    }
    home = make(
        f"nodes: [{{id: a, kind: tool, impl: ./a.{language}, for_each: {{source: [x, y]}}, writes: [got]}}]",
        "{got: {type: array, merge: array_append}}",
        **{f"a_{language}": code[language]},
    )
    assert run(home).final_state == {"got": [["x", "x", 0, 0], ["y", "y", 1, 1]]}


# --- experiences in experiences --------------------------------------------------------------------

INNER = "nodes: [{id: up, kind: tool, impl: ./up.py, reads: [n], writes: [n, seen]}]"
UP = "def run(args): return {'state_delta': {'n': args['_state'].get('n', 0) + 1, 'seen': 'in'}}"


@pytest.mark.parametrize(
    ("scope", "writes", "final"),
    [
        ("isolated", "last", {"n": 5, "last": {"n": 1, "seen": "in"}}),
        ("shared", "n, seen", {"n": 6, "seen": "in"}),
        ("shared", "n", {"n": 6}),
    ],
)
@pytest.mark.parametrize("impl", ["./inner", "./inner/experience.yaml"])
def test_the_scope_of_the_state_of_an_experience_inside(
    make: Make, scope: str, writes: str, final: Any, impl: str
) -> None:
    home = make(
        f"nodes: [{{id: sub, kind: experience, impl: {impl}, state_scope: {scope}, writes: [{writes}]}}]",
        "{n: {type: number, default: 5}, seen: {type: string}, last: {type: object}}",
    )
    make(INNER, "{n: {type: number}, seen: {type: string}}", at="exp/inner", up_py=UP)
    assert run(home).final_state == final


def test_a_shared_field_that_would_merge_twice_is_a_problem(make: Make) -> None:
    home = make(
        "nodes: [{id: sub, kind: experience, impl: ./inner, state_scope: shared, writes: [log]}]",
        "{log: {type: array, merge: array_append}}",
    )
    with pytest.raises(InvalidFlow, match="array_append would merge that value twice"):
        App().load(home)

"""Each construct of original experience directories, in a directory of its own: it is valid, and it runs."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from experiences.conftest import Make
from ropewalk import App
from ropewalk.errors import InvalidFlow, InvalidInput
from ropewalk.testing import ScriptedModel

Run = Callable[..., dict[str, Any]]


def run(home: Path, input: Any = None, *, model: ScriptedModel | None = None, **more: Any) -> Any:
    """The result of a run of a directory, which has no problem."""

    async def ran() -> Any:
        async with App(model=model) as app:
            app.ensure(app.load(home))
            return await app.run(home, input, **more)

    return asyncio.run(ran())


def warnings(home: Path) -> list[str]:
    app = App()
    return [str(problem) for problem in app.check(app.load(home)).warnings]


COUNT = "def run(args): return {'state_delta': {'n': len(args['_state'].get('rows') or [])}}"
READ = """
nodes:
  - {id: load, kind: dataset, source: %s, writes: [rows]}
  - {id: count, kind: tool, impl: ./count.py, reads: [rows], writes: [n]}
edges: [{from: load, to: count}]
"""
ROWS = "{rows: {type: array, items: {type: object}}, n: {type: number}}"


# --- state ----------------------------------------------------------------------------------------


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


# --- datasets -------------------------------------------------------------------------------------


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
    Thread(target=found.serve_forever, daemon=True).start()
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


# --- agents ---------------------------------------------------------------------------------------


def asked(model: ScriptedModel) -> list[str]:
    """The text of the first message of each request."""
    texts = []
    for request in model.requests:
        content = request.messages[0]["content"]
        texts.append(content if isinstance(content, str) else "".join(block.get("text", "") for block in content))
    return texts


def test_a_prompt_file_with_arguments_and_a_model(make: Make) -> None:
    home = make(
        """
        nodes:
          - {id: greet, kind: agent, prompt: ./prompts/hi.md, args: {name: $input.who}, model: small-1, writes: [t]}
        """,
        "{t: {type: string}}",
    )
    (home / "prompts").mkdir()
    (home / "prompts/hi.md").write_text("Greet {{name}} for ${price} and {{ nobody }}. $input\n")
    model = ScriptedModel("hello")
    assert run(home, {"who": "Ada"}, model=model).final_state == {"t": "hello"}
    assert asked(model) == ["Greet Ada for ${price} and {{ nobody }}. $input\n"]
    assert [request.model for request in model.requests] == ["small-1"]
    assert any("{{ nobody }} names no argument" in one for one in warnings(home))


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("./prompts/hi.md", "there is no file prompts/hi.md; did you mean prompts/hello.md?"),
        ("prompts/hi.md", "there is no file prompts/hi.md"),
        ("../hi.md", "'..' is not allowed"),
        ("/etc/motd.txt", "is an absolute path"),
        ("./prompts/out.md", "is a link that leads out"),
    ],
)
def test_a_prompt_file_that_cannot_be_read_is_a_problem_of_the_check(make: Make, prompt: str, said: str) -> None:
    home = make(f"nodes: [{{id: a, kind: agent, prompt: {prompt}, writes: [t]}}]", "{t: {type: string}}")
    (home / "prompts").mkdir()
    (home / "prompts/hello.md").write_text("hello")
    (home / "prompts/out.md").symlink_to("/etc/hostname")
    with pytest.raises(InvalidFlow) as refused:
        App().load(home)
    [problem] = refused.value.problems
    assert problem.path == "graph.nodes[0].prompt"
    assert said in problem.message
    assert problem.place is not None


def test_a_document_from_no_directory_names_no_prompt_files() -> None:
    node = {"id": "a", "kind": "agent", "prompt": "./x.md", "writes": ["t"]}
    document = {"name": "x", "version": "0.1.0", "state": {"schema": {"t": {"type": "string"}}}}
    with pytest.raises(InvalidFlow, match="comes from no directory"):
        App().load({**document, "graph": {"nodes": [node]}})
    App().load({**document, "graph": {"nodes": [node]}, "files": {"./x.md": "hello"}})


def test_a_changed_prompt_is_a_changed_definition_and_a_run_keeps_its_own(make: Make) -> None:
    home = make("nodes: [{id: a, kind: agent, prompt: ./p.md, writes: [t]}]", "{t: {type: string}}")
    (home / "p.md").write_text("one")
    app = App()
    first = app.load(home)
    (home / "p.md").write_text("two")
    second = app.load(home)
    assert first.fingerprint != second.fingerprint
    again = app.definitions.loaded(first.document | {"kind": "experience"}, None, str(home))
    assert again.fingerprint == first.fingerprint


def test_items_predecessors_and_parts_of_the_state_in_a_prompt(make: Make) -> None:
    home = make(
        """
        nodes:
          - {id: load, kind: tool, impl: ./load.py, writes: [items, about]}
          - id: each
            kind: agent
            for_each: {source: $.items, concurrency: 1}
            prompt: "{{$index}} {{$item.id}} of {{items|length}} in {{about.place.name}} by {{load}} {{items | shout}}"
            writes: [said]
        edges: [{from: load, to: each}]
        """,
        "{items: {type: array}, about: {type: object}, said: {type: string}}",
        load_py="""def run(args): return {
            'state_delta': {'items': [{'id': 'a'}, {'id': 'b'}], 'about': {'place': {'name': 'Rome'}}},
            'edge_output': {'k': 1}}""",
    )
    model = ScriptedModel("x")
    run(home, model=model)
    assert asked(model) == [f'{i} {id} of 2 in Rome by {{"k":1}} {{{{items | shout}}}}' for i, id in enumerate("ab")]
    assert any("there is no filter shout" in one for one in warnings(home))


PROPERTIES = "{is_old: {type: boolean}, name: {type: string}, age: {type: number}}"
SCHEMA = f"{{type: object, required: [is_old, name], properties: {PROPERTIES}}}"


def test_an_answer_writes_several_fields_and_only_what_it_has(make: Make) -> None:
    home = make(
        f"nodes: [{{id: a, kind: agent, prompt: who?, schema: {SCHEMA}, writes: [is_old, name, age]}}]",
        PROPERTIES,
    )
    model = ScriptedModel('{"is_old": false, "name": "Ada"}')
    assert run(home, model=model).final_state == {"is_old": False, "name": "Ada"}
    assert [request.schema["required"] for request in model.requests] == [["is_old", "name"]]


@pytest.mark.parametrize(
    ("field", "schema", "answer", "wrote"),
    [
        ("{type: array}", "{type: object, required: [findings], properties: {findings: {type: array}}}",
         {"findings": [1]}, [1]),
        ("{type: object}", "{type: object, properties: {all: {type: array}}}", {"all": [1]}, {"all": [1]}),
        ("{type: object}", "{type: object, properties: {f: {type: object}}}", {"f": {"x": 1}}, {"x": 1}),
        ("{type: number}", "{type: integer}", 3, 3),
    ],
)  # fmt: skip
def test_a_property_of_another_name_goes_to_the_one_field(
    make: Make, field: str, schema: str, answer: Any, wrote: Any
) -> None:
    home = make(f"nodes: [{{id: a, kind: agent, prompt: go, schema: {schema}, writes: [f]}}]", f"{{f: {field}}}")
    assert run(home, model=ScriptedModel(json.dumps(answer))).final_state == {"f": wrote}


def test_an_answer_that_fits_no_field_is_a_problem(make: Make) -> None:
    home = make(f"nodes: [{{id: a, kind: agent, prompt: go, schema: {SCHEMA}, writes: [f]}}]", "{f: {type: array}}")
    with pytest.raises(
        InvalidFlow, match="none of its properties is of the type array; give the property the name 'f'"
    ):
        App().load(home)


def test_the_schema_of_an_answer_in_a_file(make: Make) -> None:
    home = make("nodes: [{id: a, kind: agent, prompt: go, schema: ./s.json, writes: [n]}]", "{n: {type: number}}")
    (home / "s.json").write_text('{"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}}')
    assert run(home, model=ScriptedModel('{"n": 4}')).final_state == {"n": 4}
    (home / "s.json").write_text('{"type": "objct"}')
    with pytest.raises(InvalidFlow, match="did you mean object"):
        App().load(home)


def test_a_skill_is_a_system_prompt(make: Make) -> None:
    home = make(
        "nodes: [{id: s, kind: skill, impl: ./skills/sum, reads: [n], inputs: {by: $input.by}, writes: [t]}]",
        "{n: {type: number, default: 2}, t: {type: string}}",
    )
    (home / "skills/sum").mkdir(parents=True)
    (home / "skills/sum/SKILL.md").write_text("---\nname: sum\n---\nAdd things up.\n")
    model = ScriptedModel("five")
    assert run(home, {"by": 3}, model=model).final_state == {"n": 2, "t": "five"}
    assert json.loads(asked(model)[0]) == {"n": 2, "by": 3}
    assert "Add things up." in str(model.requests[0].system)
    assert "name: sum" not in str(model.requests[0].system)


# --- pipelines and modules ------------------------------------------------------------------------


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


# --- input ----------------------------------------------------------------------------------------


def schema_of(home: Path) -> Any:
    return App().load(home).flow.input_schema


ASK = """
nodes:
  - {id: seed, kind: tool, impl: ./seed.py, writes: [rows]}
  - {id: ask, kind: agent, prompt: "{{topic}} {{rows}} {{$input.of}}", writes: [said]}
  - {id: more, kind: agent, prompt: "{{said}}", writes: [rest]}
edges: [{from: seed, to: ask, when: $.level > 1}, {from: ask, to: more}]
"""
FIELDS = """{topic: {type: string, description: what about, merge: set_once}, level: {type: number, default: 2},
  rows: {type: array}, said: {type: string}, rest: {type: string}}"""


def test_the_input_is_inferred_from_the_state_that_is_read_before_it_is_written(make: Make) -> None:
    home = make(ASK, FIELDS, seed_py="def run(args): return {'state_delta': {'rows': [args['_state'].get('topic')]}}")
    assert schema_of(home) == {
        "type": "object",
        "properties": {"topic": {"type": "string", "description": "what about"}, "level": {"type": "number"}, "of": {}},
    }
    model = ScriptedModel("a", "b")
    result = run(home, {"topic": "tea", "of": 1, "rows": "not read first"}, model=model)
    assert asked(model) == ['tea ["tea"] 1', "a"]
    assert result.final_state == {"topic": "tea", "level": 2, "rows": ["tea"], "said": "a", "rest": "b"}
    assert run(home, {"level": 1}, model=ScriptedModel("x")).final_state == {"level": 1, "rows": [None]}


def test_a_declared_input_schema_holds(make: Make) -> None:
    schema = "{type: object, required: [topic], properties: {of: {}, topic: {type: string, minLength: 2}}}"
    home = make(ASK, FIELDS, more=f"inputSchema: {schema}", seed_py="def run(args): return {'state_delta': {}}")
    assert schema_of(home)["required"] == ["topic"]
    with pytest.raises(InvalidInput, match="topic"):
        run(home, {}, model=ScriptedModel("x"))
    assert run(home, {"topic": "tea"}, model=ScriptedModel("x")).final_state["topic"] == "tea"


def test_a_declared_input_that_fits_no_field_is_a_problem(make: Make) -> None:
    home = make(ASK, FIELDS, more="inputSchema: {type: object, properties: {rows: {type: string}}}")
    with pytest.raises(InvalidFlow, match="begins the state field 'rows', which is declared as type array"):
        App().load(home)


def test_an_experience_as_a_tool_takes_its_input(make: Make) -> None:
    home = make(
        "nodes: [{id: a, kind: tool, impl: ./a.py, reads: [name], writes: [greeting]}]",
        "{name: {type: string}, greeting: {type: string}}",
        a_py="def run(args): return {'state_delta': {'greeting': 'hello, ' + args['_state']['name']}}",
    )

    async def called() -> Any:
        async with App() as app:
            tool = app.as_tool(home)
            return tool.input_schema, await tool.handler(name="Ada")

    schema, value = asyncio.run(called())
    assert schema["properties"] == {"name": {"type": "string"}}
    assert value == {"name": "Ada", "greeting": "hello, Ada"}


def test_fields_written_by_a_loop_before_they_are_read_are_no_input(make: Make) -> None:
    home = make(
        """
        nodes:
          - {id: one, kind: tool, impl: ./one.py, writes: [a]}
          - {id: two, kind: tool, impl: ./one.py, reads: [a, b], writes: [b]}
          - {id: end, kind: agent, prompt: "{{a}} {{b}}"}
        edges: [{from: one, to: two}, {from: l, to: end}]
        loops: [{id: l, body: [one, two], max_iters: 1}]
        """,
        "{a: {type: string}, b: {type: string}}",
        one_py="def run(args): return {'state_delta': {}}",
    )
    assert schema_of(home)["properties"].keys() == {"b"}

"""Prompts, prompt files, skills, and which part of an answer goes to which field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiences.conftest import Make
from experiences.running import asked, run, warnings
from ropewalk import App
from ropewalk.errors import InvalidFlow
from ropewalk.testing import ScriptedModel


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
    with pytest.raises(InvalidFlow, match="was not read from a directory"):
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
    again = app.definitions.get(first.document | {"kind": "experience"}, None, str(home))
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
    assert any("unknown filter shout" in one for one in warnings(home))


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

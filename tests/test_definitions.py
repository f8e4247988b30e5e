"""Documents that are read once: what is the same to a reader, and what is not."""

from __future__ import annotations

import asyncio
import copy
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from ropewalk import tool
from ropewalk.app import definitions
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow, NotFound
from ropewalk.source.load import load

EXAMPLES = Path(__file__).parent.parent / "examples"
DOCUMENTS = {
    "chain": load(EXAMPLES / "change_report" / "change_report.yaml").data,
    "composition": {
        "kind": "composition",
        "nodes": [
            {"id": "a", "type": "TOOL", "tool": "given", "inputMapping": {"value": [1, {"b": 2}]}},
            {"id": "b", "type": "TOOL", "tool": "given", "inputMapping": {"value": "$input"}},
        ],
    },
    "composite": load(EXAMPLES / "composite" / "reading_list.yaml").data,
    "experience": load(EXAMPLES / "experiences" / "sales" / "experience.yaml").data | {"kind": "experience"},
    "agent": load(EXAMPLES / "agent" / "agent.yaml").data,
}


@tool
async def given(value: Any) -> Any:
    """Gives what it is given."""
    return value


def chain(value: Any) -> dict[str, Any]:
    return {"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "given", "params": {"value": value}}]}


def spoilt(value: Any) -> None:
    """Change whatever can be changed in a value."""
    if isinstance(value, dict):
        for inner in value.values():
            spoilt(inner)
        value["spoilt"] = True
    elif isinstance(value, list):
        for inner in value:
            spoilt(inner)
        value.append("spoilt")


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_is_read_once_and_keeps_nothing_of_the_one_that_was_given(kind: str) -> None:
    app, document = App("memory"), copy.deepcopy(DOCUMENTS[kind])
    first = app.load(document)
    said = copy.deepcopy(first.document)
    spoilt(document)
    again = app.load(copy.deepcopy(DOCUMENTS[kind]))
    assert again is first
    assert again.document == said
    with pytest.raises(InvalidFlow):  # the changed one is another
        app.load(document)


def test_a_document_that_was_changed_is_another_one() -> None:
    async def run() -> None:
        async with App("memory", tools=[given]) as app:
            document, found = chain(0), []
            for value in (1, True, 1.0, None, "1", 2):
                document["nodes"][0]["params"]["value"] = value
                found.append((await app.run(document))["results"]["a"])
            assert [(type(one), one) for one in found] == [
                (int, 1), (bool, True), (float, 1.0), (type(None), None), (str, "1"), (int, 2)
            ]  # fmt: skip

    asyncio.run(run())


def test_what_is_no_json_is_refused_after_the_like_of_it_was_read() -> None:
    app = App("memory")
    app.load(chain([1, "2", {"1": 2}]))
    for value in ([1, b"2", {"1": 2}], [1, float("nan")], [1, "2", {1: 2}], [object()]):
        with pytest.raises(InvalidFlow):
            app.load(chain(value))


def test_a_document_in_two_files_has_the_place_of_each(tmp_path: Path) -> None:
    app, text = App("memory"), "kind: chain\nnodes:\n  - {id: a, type: tool, tool: nowhere}\n"
    for name, before in (("one.yaml", ""), ("two.yaml", "# a comment\n")):
        (tmp_path / name).write_text(before + text)
        (warning,) = app.check(app.load(tmp_path / name)).warnings
        assert warning.place is not None
        assert (Path(warning.place.file).name, warning.place.line) == (name, 4 if before else 3)


def test_a_file_that_says_the_same_is_not_compiled_again(tmp_path: Path) -> None:
    app, file = App("memory"), tmp_path / "one.yaml"
    file.write_text("kind: chain\nnodes:\n  - {id: a, type: tool, tool: nowhere}\n")
    first = app.load(file)
    assert app.load(file).compiled is first.compiled
    file.write_text("kind: chain\nnodes:\n  - {id: b, type: tool, tool: nowhere}\n")
    assert [node.id for node in app.load(file).flow.body.nodes] == ["b"]


def test_many_documents_from_many_threads() -> None:
    app, wrong = App("memory"), list[object]()

    def many(which: int) -> None:
        try:
            for n in range(400):  # more than are kept
                value = [n, which % 2]
                node = app.load(chain(value)).document["nodes"][0]  # type: ignore[index]
                if node["params"] != {"value": value}:  # type: ignore[index]
                    wrong.append(node)
        except Exception as error:  # noqa: BLE001 - told below
            wrong.append(error)

    threads = [threading.Thread(target=many, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def text(value: int) -> str:
    """A chain whose texts all have the same size."""
    return f"kind: chain\nnodes: [{{id: a, type: tool, tool: given, params: {{value: {value}}}}}]\n"


def value_in(app: App, path: Path | str) -> Any:
    return app.load(path).document["nodes"][0]["params"]["value"]


def edit(path: Path, value: int) -> None:
    """Change a file so that its size and its time stamp stay."""
    before = path.stat()
    path.write_text(text(value))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_that_was_just_written_is_read_again_whatever_its_stamp_says(tmp_path: Path) -> None:
    app, path = App("memory"), tmp_path / "flow.yaml"
    path.write_text(text(0))
    for value in range(1, 50):
        assert value_in(app, path) == (value - 1) % 10
        edit(path, value % 10)


def test_a_settled_file_is_read_once_and_again_after_every_kind_of_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app, path = App("memory", tools=[given]), tmp_path / "flow.yaml"
    path.write_text(text(0))
    assert app.load(path) is app.load(path)
    assert app.load("flow.yaml") is app.load("flow.yaml")

    def swap(value: int) -> None:
        (tmp_path / "new.yaml").write_text(text(value))
        (tmp_path / "new.yaml").replace(path)

    def rewrite(value: int) -> None:
        path.write_text(text(value) + "# longer\n")

    for value, change in enumerate([edit, swap, rewrite, edit, swap], 1):
        first, before = app.load(path), path.stat().st_ctime_ns
        while path.stat().st_ctime_ns == before:  # the clock of the file system moves in steps
            change(path, value) if change is edit else change(value)  # type: ignore[call-arg,arg-type]
        assert app.load(path) is not first
        assert value_in(app, path) == value_in(app, "flow.yaml") == value
    path.unlink()
    with pytest.raises(NotFound):
        app.load(path)


def test_one_name_in_two_directories_is_two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("memory")
    for value in (1, 2):
        folder = tmp_path / str(value)
        folder.mkdir()
        (folder / "flow.yaml").write_text(text(value))
        monkeypatch.chdir(folder)
        assert value_in(app, "flow.yaml") == value


def test_a_plan_in_a_file_means_the_tools_of_now(tmp_path: Path) -> None:
    app, path = App("memory"), tmp_path / "plan.yaml"
    path.write_text("kind: plan\nname: p\ncode: |\n  return await given(value=1)\n")
    with pytest.raises(InvalidFlow, match="given"):
        app.load(path)
    app.toolbox.register(given)
    assert app.load(path).document["tools"]["given"]["id"] == "given"


def test_a_definition_is_checked_once_until_its_tools_change(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = []
    check = definitions.check
    monkeypatch.setattr(definitions, "check", lambda *args, **named: checks.append(1) or check(*args, **named))
    app = App("memory", tools=[given])
    loaded = app.load(chain(1))
    for _ in range(3):
        assert not app.check(loaded, unknown_tools="problem").problems
    assert len(checks) == 1
    app.toolbox.remove("given")
    assert app.check(loaded, unknown_tools="problem").problems
    assert not app.check(loaded).problems  # a warning
    assert len(checks) == 3


def test_check_takes_a_document_and_answers_as_validate_does(tmp_path: Path) -> None:
    unknown = {"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "absent"}]}
    (tmp_path / "doubtful.yaml").write_text("kind: chain\nnodes: [{id: a, type: delay, delay: 0777}]\n")
    (tmp_path / "sure.yaml").write_text("kind: chain\nnodes: [{id: a, type: delay, delay: 777}]\n")
    files = [tmp_path / "sure.yaml", tmp_path / "doubtful.yaml", tmp_path / "sure.yaml"]  # one definition in all
    sources: list[Any] = [chain(1), unknown, {"kind": "chain", "nodes": 5}, "kind: chain\nnodes: [", *files]
    with App("memory", tools=[given]) as app:
        answers = [app.check(source) for source in sources]
        assert answers == [asyncio.run(app.validate(source)) for source in sources]
        assert [len(answer.problems) for answer in answers] == [0, 1, 1, 1, 0, 0, 0]
        assert [[str(item) for item in answer.warnings] for answer in answers[-3:]] == [
            [],
            ['nodes[0].delay: 0777 is read as 777; write 0o777 for an octal number, or "0777" for text'],
            [],
        ]
        assert app.check(unknown, unknown_tools="warning").problems == ()
        with pytest.raises(NotFound):
            app.check(tmp_path / "absent.yaml")


def test_a_tool_cannot_wait_for_its_app_without_await() -> None:
    async def checks() -> None:
        app.check(chain(1))

    with App("memory", tools=[tool(checks)]) as app:
        outcome = app.run_sync({"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "checks"}]})
    assert "without await; write await app.run(...)" in str(outcome["errors"])

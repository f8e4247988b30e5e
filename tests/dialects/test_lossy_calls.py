"""A document that was written with losses makes no call that the original does not make."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk import App, flow
from ropewalk.errors import InvalidFlow

pytestmark = pytest.mark.anyio
KINDS = ("chain", "composition", "composite", "experience", "runchain")
SEND: dict[str, Any] = {"id": "send", "type": "tool", "tool": "send", "params": {"text": "a"}}
OTHER: dict[str, Any] = {"id": "other", "type": "tool", "tool": "other"}


def chain(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "chain", "name": "c", "nodes": list(nodes), **more}


SOURCES: dict[str, dict[str, Any]] = {
    "secret in a text": chain({**SEND, "params": {"auth": "Bearer ${$secret.TOKEN}"}}, OTHER),
    "secret in an object": chain({**SEND, "params": {"auth": {"deep": ["$secret.TOKEN"]}}}, OTHER),
    "secret in a condition": chain({**SEND, "condition": "$secret.TOKEN == 'x'"}, OTHER),
    "variable": chain({**SEND, "params": {"text": "${$var.who} pays"}}, OTHER, variables={"who": "Ann"}),
    "condition": chain({**SEND, "condition": "$input.go == true"}, OTHER),
    "skipped choice": {
        "kind": "composition",
        "name": "c",
        "nodes": [
            {
                "id": "if",
                "type": "BRANCH",
                "condition": "$input.go == true",
                "branches": [
                    {"condition": "$input.go != true", "nodes": [{"id": "send", "type": "TOOL", "tool": "send"}]}
                ],
            },
            {"id": "other", "type": "TOOL", "tool": "other", "inputMapping": {}},
        ],
    },
    "jump": chain({**OTHER, "onError": "send", "onSuccess": "end"}, SEND, {"id": "end", "type": "tool", "tool": "end"}),
    "items": chain(
        OTHER,
        {"id": "each", "type": "loop", "items": "$secret.TOKEN", "nodes": [{**SEND, "params": {"text": "$item"}}]},
    ),
    "condition per item": chain(
        {"id": "each", "type": "loop", "items": [1], "nodes": [{**SEND, "condition": "$input.go == true"}]}, OTHER
    ),
}


async def calls(app: App, source: Any) -> list[tuple[str, Any]]:
    made: list[tuple[str, Any]] = []

    async def tools(name: str, params: dict[str, Any]) -> Any:
        made.append((name, params))
        return None

    await app.run(source, {}, executor=tools)
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SOURCES)
async def test_a_call_that_cannot_be_written_whole_is_left_out(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3")
    async with App("memory", secrets=["TOKEN"]) as app:
        wanted = await calls(app, SOURCES[name])
        made = app.convert(SOURCES[name], kind, allow_loss=True)
        found = await calls(app, dict(made))
        assert [call for call in found if call not in wanted] == []
        assert len(found) == len(wanted) or made.losses


async def test_a_call_with_a_secret_is_left_out_and_named() -> None:
    async with App("memory", secrets=["TOKEN"]) as app:
        made = app.convert(SOURCES["secret in a text"], "composite", allow_loss=True)
    assert [step["tool"] for step in made["steps"]] == ["other"]
    said = [str(loss) for loss in made.losses]
    assert "send.args: a composite cannot read $secret; pass the value as an input" in said
    assert "send: is left out and gives null, because it would do something else without its lost parts" in said


async def test_a_run_chain_gives_no_step_the_result_of_another_than_the_one_before() -> None:
    """Between the two there is a node that a run chain cannot hold."""
    value = {"id": "value", "type": "transform", "input": 5}
    last = {**OTHER, "params": {"previous": "$output.value"}}
    async with App("memory") as app:
        made = app.convert(chain(SEND, value, last), "runchain", allow_loss=True)
    assert made["steps"] == [{"toolId": "send", "args": {"text": "a"}}]


def test_a_flow_in_python_exports_with_the_losses_of_convert() -> None:
    f = flow("loops")
    f.loop(lambda: f.value(1), limit=2, collect=False)
    f.call("send", text="a")
    built = f.done()
    with pytest.raises(InvalidFlow):
        built.export("composition")
    made: Any = built.export("composition", allow_loss=True)
    assert [str(loss) for loss in made.losses] == [str(loss) for loss in refused(built)]
    assert dict(made)["kind"] == "composition"


def refused(built: Any) -> Any:
    return App("memory").convert(built, "composition", allow_loss=True).losses


@pytest.mark.parametrize(("result", "fits"), [({"v": "$output.l"}, False), ({"v": "$output.send"}, True)])
async def test_a_schema_that_the_value_no_longer_fits_is_lost_too(result: Any, fits: bool) -> None:
    loop = {"id": "l", "type": "loop", "maxIterations": 2, "nodes": [{**OTHER, "id": "i"}]}
    schema = {"type": "object", "properties": {"v": {"type": "array"}}, "required": ["v"]}
    async with App("memory") as app:
        document = app.convert(
            chain(SEND, loop, result=result, outputSchema=schema if not fits else {"type": "object"}),
            "composite",
            allow_loss=True,
        )
        assert ("outputSchema" in document, "outputSchema" in [loss.path for loss in document.losses]) == (
            fits,
            not fits,
        )
        done = await app.run(document, executor=lambda tool, args: "x")
        assert (done.status, done.result) == ("completed", {"v": "x" if fits else None})

"""Which tool a call reaches when the offer has just changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ropewalk import App, tool
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.flows import Flows
from ropewalk.doors.mcp.gateway import Tools
from ropewalk.doors.mcp.tool_source import CallContext

FLOW = "kind: chain\nname: say\nnodes: [{{id: word, type: transform, input: {word}}}]\n"


def test_a_call_right_after_a_change_reaches_the_changed_tool(tmp_path: Path) -> None:
    file = tmp_path / "say.yaml"
    file.write_text(FLOW.format(word="old"))

    @tool(name="number")
    def one() -> int:
        """A number."""
        return 1

    @tool(name="number")
    def two() -> int:
        """Another number."""
        return 2

    async def case() -> None:
        async with App("memory", tools=[one]) as app:
            catalogue = Catalogue(Finder(app), [Flows(app, ["*.yaml"], tmp_path)], [Tools(app)])

            async def call(name: str) -> object:
                found = catalogue.known(name)
                assert found is not None
                return (await found.call({}, CallContext())).structured_content

            assert [await call("say"), await call("number")] == [{"word": "old"}, {"result": 1}]
            assert catalogue.known("say") is catalogue.known("say")
            file.write_text(FLOW.format(word="brand-new"))
            app.toolbox.remove("number")
            app.toolbox.register(two)
            assert [await call("say"), await call("number")] == [{"word": "brand-new"}, {"result": 2}]
            file.unlink()
            app.toolbox.remove("number")
            assert [catalogue.known(name) for name in ("say", "number")] == [None, None]

    asyncio.run(case())

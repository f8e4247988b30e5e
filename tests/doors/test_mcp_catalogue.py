"""What a catalogue offers and finds, and which tool a call reaches when the offer has just changed."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from ropewalk import App, tool
from ropewalk.app.plan_operations import install_operations
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.flows import Flows
from ropewalk.doors.mcp.gateway import Tools
from ropewalk.doors.mcp.plans import PlanOperations
from ropewalk.doors.mcp.tool_source import CallContext
from ropewalk.tools.tool import Tool

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


TOOLS = """
from ropewalk import tool

@tool(annotations={"readOnlyHint": True})
def upper(text: str) -> str:
    \"\"\"Make a text upper case.\"\"\"
    return text.upper()
"""
SHOUT = """\
kind: composite
name: shout
description: Shout a word at the neighbours.
inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
mode: compose
steps: [{name: up, tool: upper, inputMapping: {text: $input.text}}]
"""


def test_flows_and_saved_plans_are_found_and_parts_of_agents_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / "ropewalk.toml").write_text('[tools]\nmodules = ["catalogue_tools"]\n[plans]\nsave = "allow"\n')
    (tmp_path / "catalogue_tools.py").write_text(TOOLS)
    (tmp_path / "shout.yaml").write_text(SHOUT)
    code = "word: str\nreturn await upper(text=word)"

    async def case() -> None:
        async with App.open(tmp_path, store="memory") as app:
            await app.plans.save_plan("whisper", code, "Whisper a word to a friend.")
            install_operations(app.context, app.jobs)  # as the first agent with plans does
            others = [PlanOperations(app, saved_only=True), Tools(app)]
            catalogue = Catalogue(Finder(app), [Flows(app, ["*.yaml"], tmp_path)], others, max_listed=1)
            await catalogue.connect()
            assert {*catalogue.tools} == {"shout", "upper", "whisper", "find_tools", "call_tool", "read_value"}
            find, call = (catalogue.listed[name] for name in ("find_tools", "call_tool"))
            queries = ["shout at neighbours", "whisper to friend", "upper case"]
            found = (await find.call({"queries": queries}, CallContext())).structured_content
            assert [tool["name"] for tool in found["tools"]] == ["shout", "whisper", "upper"]
            stubs: Any = await app.plans.find_tools(queries=queries)
            assert [tool["name"] for tool in stubs["tools"]] == ["shout", "plans.whisper", "upper"]
            arguments = {"name": "whisper", "arguments": {"word": "psst"}}
            assert (await call.call(arguments, CallContext())).structured_content["result"] == "PSST"

    asyncio.run(case())


def test_many_long_definitions_are_answered_in_few_words() -> None:
    def long_tool(number: int) -> Tool:
        properties = {f"field_{n}": {"type": "string", "description": "An option. " * 9} for n in range(9)}
        schema = {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": properties,
            "required": ["field_1"],
        }
        return Tool(f"paint_{number}", f"Paint wall {number}. Then more. " * 9, schema, handler=lambda **_: None)

    async def case() -> None:
        async with App("memory", tools=[long_tool(number) for number in range(20)]) as app:
            find = Catalogue(Finder(app), [], [Tools(app)], max_listed=1).listed["find_tools"]
            found = (await find.call({"queries": ["paint wall"]}, CallContext())).structured_content
            assert (len(found["tools"]), len(found["more"])) == (3, 5)
            assert "$schema" not in found["tools"][0]["inputSchema"]
            shown = {tool["name"] for tool in found["tools"]}
            for line in found["more"]:
                match = re.fullmatch(r"(paint_(\d+))\(field_1\): Paint wall \2\.", line)
                assert match is not None, line
                assert match[1] not in shown
                name = match[1]
            by_name = (await find.call({"query": name}, CallContext())).structured_content
            assert by_name["tools"][0]["name"] == name

    asyncio.run(case())

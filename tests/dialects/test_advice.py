"""The advice of messages, taken literally: what a message says to write is valid, and runs."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.errors import InvalidFlow


@tool
def say(text: str) -> str:
    """Return the text."""
    return text


def chain(text: str) -> str:
    return f"kind: chain\nname: c\nnodes:\n- {{id: a, type: tool, tool: say, params: {{text: {text}}}}}\n"


@pytest.mark.parametrize(
    ("text", "advice", "result"),
    [
        ("$5.00", r'write "(\S+)"', "$5.00"),
        ("'about $input.topic'", r"inside a longer text write (\S+)", "about rope"),
        ("0777", r'or ("0777") for text', "0777"),
    ],
)
def test_yaml_that_a_message_advises_is_valid(text: str, advice: str, result: str) -> None:
    with App("memory", tools=[say]) as app:
        checked = app.check(chain(text))
        said = "; ".join(map(str, (*checked.problems, *checked.warnings)))
        match = re.search(advice, said)
        assert match is not None, said
        mended = f"'about {match[1]}'" if "about" in text else match[1]
        checked = app.check(chain(mended))
        assert (checked.problems, checked.warnings) == ((), ())
        assert app.run_sync(chain(mended), {"topic": "rope"}).result == {"a": result}


def test_python_that_a_message_advises_runs() -> None:
    inner: dict[str, Any] = {"kind": "chain", "name": "inner", "nodes": [{"id": "b", "type": "tool", "tool": "say",
                             "params": {"text": "hi"}}]}  # fmt: skip
    outer = {"kind": "chain", "name": "outer", "nodes": [{"id": "a", "type": "tool", "tool": "inner"}]}

    async def case() -> Any:
        async with App("memory", tools=[App("memory").as_tool(inner)]) as app:
            with pytest.raises(InvalidFlow) as refused:
                await app.run(outer)
        advice = re.search(r"make the tool with (App\(.*\)\.as_tool\(\.\.\.\))", str(refused.value))
        assert advice is not None, refused.value
        code = advice[1].replace("App(...", "App('memory'").replace("(...)", "(inner)")
        made = eval(code, {"App": App, "say": say, "inner": inner})
        async with App("memory", tools=[made]) as app:
            return (await app.run(outer)).result

    assert asyncio.run(case()) == {"a": {"b": "hi"}}

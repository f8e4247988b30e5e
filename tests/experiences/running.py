"""Runs of experience directories, and what their scripted model was asked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ropewalk import App, Toolbox
from ropewalk.testing import ScriptedModel


def run(home: Path, input: Any = None, *, model: ScriptedModel | None = None, **more: Any) -> Any:
    """The result of a run of a directory, which has no problem."""

    async def ran() -> Any:
        async with App(model=model, toolbox=Toolbox(allow_hosts=["127.0.0.1"])) as app:
            app.ensure(app.load(home))
            return await app.run(home, input, **more)

    return asyncio.run(ran())


def warnings(home: Path) -> list[str]:
    app = App()
    return [str(problem) for problem in app.check(app.load(home)).warnings]


def asked(model: ScriptedModel) -> list[str]:
    """The text of the first message of each request."""
    texts = []
    for request in model.requests:
        content = request.messages[0]["content"]
        texts.append(content if isinstance(content, str) else "".join(block.get("text", "") for block in content))
    return texts

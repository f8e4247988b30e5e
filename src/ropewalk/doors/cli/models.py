"""`ropewalk models`: the models of the project, with their keys, prices and capabilities."""

from __future__ import annotations

import asyncio

from ...app.app import App
from .dispatch import Answer
from .options import Json, Project
from .output import columns
from .session import Interrupts, with_app


def models(*, json: Json = False, project: Project = None) -> Answer:
    """List the models of the project, with their keys, prices and capabilities. No model is asked."""

    async def work(app: App, _: Interrupts) -> Answer:
        from ...agents.model_facts import model_facts

        data = await asyncio.to_thread(model_facts, app.context.models, app.context.claude)
        table = [
            (
                one["name"] or "(default)",
                one["model"],
                one["missing"] or "ok",
                *("-" if price is None else f"${price:g}" for price in (one["inputPrice"], one["outputPrice"])),
                ", ".join(one["capabilities"]) if one["capabilities"] is not None else "-",
                ", ".join(one["fallback"]) or "-",
            )
            for one in data
        ]
        head = ("NAME", "MODEL", "STATUS", "INPUT $/M", "OUTPUT $/M", "CAPABILITIES", "FALLBACK")
        return Answer(data=data, text=columns(head, table))

    return with_app(work, project=project)

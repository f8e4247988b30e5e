"""`ropewalk models`: the models of the project, and what commands say that need one and have none."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.util import find_spec
from typing import Final

from ...app.app import App
from ...config.providers import ADDRESSES, no_model_message, suggest_models
from ...errors import ModelError, install_command
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
                "missing" if one["missing"] else "ok",
                *("-" if price is None else f"${price:g}" for price in (one["inputPrice"], one["outputPrice"])),
                ", ".join(one["capabilities"]) if one["capabilities"] is not None else "-",
                ", ".join(one["fallback"]) or "-",
            )
            for one in data
        ]
        head = ("NAME", "MODEL", "STATUS", "INPUT $/M", "OUTPUT $/M", "CAPABILITIES", "FALLBACK")
        missing = [f"{one['name'] or '(default)'}: {one['missing']}" for one in data if one["missing"]]
        return Answer(
            data=data, text="\n".join([*columns(head, table).splitlines(), *([""] if missing else []), *missing])
        )

    return with_app(work, project=project)


_REACH_SECONDS: Final = 2.0


async def require_model(app: App, model: str | None = None, *, reachable: bool = True) -> None:
    """Raise ModelError if the model has no key or cannot be reached, before a tool or a server is used."""
    reason = app.jobs.why_model_unavailable(model or "")
    if reason == no_model_message():
        is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
        raise ModelError(_choices() if is_terminal else f"{reason}, or use --model PROVIDER:MODEL")
    if reason is not None:
        raise ModelError(reason)
    check_reachable = getattr(app.context.client_of(model or ""), "check_reachable", None)  # optional for a ModelClient
    if reachable and check_reachable is not None:
        await check_reachable(_REACH_SECONDS)


def _choices() -> str:
    """Return the models to choose from, with the lines to write."""
    suggested = suggest_models()
    rows = [(model, f"{name} is set" if os.environ.get(name) else f"set {name}") for model, name in suggested.items()]
    rows += [(f"{provider}:MODEL", f"yours, at {usual}: set {name}") for provider, (name, usual) in ADDRESSES.items()]
    first = next(iter(suggested))
    lines = ["no model is configured; which one?", "", *columns(("MODEL", "KEY"), rows).splitlines(), ""]
    lines += [
        f"for this command: --model {first}",
        "for the project, in ropewalk.toml:",
        "",
        "[model]",
        f'model = "{first}"',
    ]
    extra = "claude" if first.startswith("anthropic:") else "models"
    if find_spec("anthropic" if extra == "claude" else "pydantic_ai") is None:
        lines += ["", f"it needs a package: {install_command(extra)}"]
    return "\n".join(lines)

"""A conversation over several prompts: each is a run of its own that begins where the last one ended.

Of more tools than a model should be told of, each prompt has those that fit it best, and those that were used before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from ..engine.engine import new_run_id
from ..values import Json
from .approval import Ask
from .completion import Completion
from .loop import complete_with_tools
from .turn import Listener

MOST_TOOLS: Final = 40


class Session:
    """Says prompts one after another. `tools`, `approve` and `options` are those of `complete_with_tools`; a prompt has
    at most `most_tools` of them, chosen by the app's selector. `on_run` hears the id of each run and its tools."""

    def __init__(
        self,
        app: Any,
        *,
        tools: Collection[str],
        approve: Collection[str] = (),
        ask: Ask | None = None,
        on_event: Listener | None = None,
        on_run: Callable[[str, list[str]], None] | None = None,
        most_tools: int = MOST_TOOLS,
        name: str = "chat",
        **options: Any,
    ) -> None:
        self._app, self._tools, self._options = app, list(tools), options
        self._more: dict[str, Any] = {"ask": ask, "on_event": on_event, "name": name}
        self._approve = set(approve)
        self._on_run, self._most = on_run, most_tools
        self._used: dict[str, None] = {}
        self.messages: list[dict[str, Json]] = []

    async def say(self, prompt: str) -> Completion:
        """The answer to a prompt. What fails leaves the conversation as it was before."""
        run_id, tools = new_run_id(), self._fitting(prompt)
        if self._on_run is not None:
            self._on_run(run_id, tools)
        done = await complete_with_tools(
            prompt,
            messages=self.messages or None,
            tools=tools,
            app=self._app,
            run_id=run_id,
            approve=self._approve.intersection(tools),
            **self._more,
            **self._options,
        )
        self.messages = done.messages
        self._used |= dict.fromkeys(str(use["tool"]) for use in done.trace if use["tool"] is not None)
        return done

    def _fitting(self, prompt: str) -> list[str]:
        """The tools for a prompt: all where they are few, else those that fit it, after those that were used."""
        if len(self._tools) <= self._most:
            return self._tools
        # Those that fit best, however unsure that is: what is left out here the model cannot ask for.
        found = self._app.selector.select(prompt, maxResults=self._most, allowTools=self._tools, threshold=0)
        fitting = dict.fromkeys([*list(self._used)[-self._most :], *(str(row["name"]) for row in found["results"])])
        return list(fitting)[: self._most]

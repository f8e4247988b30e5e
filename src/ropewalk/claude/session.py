"""A conversation over several prompts: each is a run of its own that begins where the last one ended."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..engine.engine import new_run_id
from ..values import Json
from .approval import Ask
from .completion import Completion
from .loop import complete_with_tools
from .turn import Listener


class Session:
    """Says prompts one after another. `tools`, `approve` and `options` are those of `complete_with_tools`."""

    def __init__(
        self,
        app: Any,
        *,
        tools: Collection[str],
        approve: Collection[str] = (),
        ask: Ask | None = None,
        on_event: Listener | None = None,
        on_run: Callable[[str], None] | None = None,
        name: str = "chat",
        **options: Any,
    ) -> None:
        self._app, self._tools, self._options = app, list(tools), options
        self._more: dict[str, Any] = {"approve": set(approve), "ask": ask, "on_event": on_event, "name": name}
        self._on_run = on_run
        self.messages: list[dict[str, Json]] = []

    async def say(self, prompt: str) -> Completion:
        """The answer to a prompt. What fails leaves the conversation as it was before."""
        run_id = new_run_id()
        if self._on_run is not None:
            self._on_run(run_id)
        done = await complete_with_tools(
            prompt,
            messages=self.messages or None,
            tools=self._tools,
            app=self._app,
            run_id=run_id,
            **self._more,
            **self._options,
        )
        self.messages = done.messages
        return done

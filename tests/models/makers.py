"""The four APIs that the tests talk to: their stand-ins, and the models behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ropewalk.config.models import ModelSettings

from .chat_wire import ChatWire
from .gemini_wire import GeminiWire
from .messages_wire import MessagesWire
from .responses_wire import ResponsesWire
from .stand_in import Wire


@dataclass(frozen=True)
class Maker:
    """One API: how a project names its model, and where the stand-in has it."""

    name: str
    model: str
    path: str  # of the base URL
    wire: type[Any]
    lacks: tuple[str, ...] = ()  # scenarios of which the API has no notion

    def settings(self, url: str, **more: Any) -> ModelSettings:
        """The settings of a model at a stand-in."""
        return ModelSettings(model=self.model, base_url=url + self.path, key="STAND_IN_KEY", **more)

    def create(self) -> Wire:
        made: Wire = self.wire()
        return made


MAKERS = (
    Maker("messages", "anthropic:claude-sonnet-5-5", "", MessagesWire),
    # Reasoning of OpenAI stays with OpenAI there: the API neither gives it nor takes it back.
    Maker("chat", "openai-chat:gpt-4o", "/v1", ChatWire, ("thinking back",)),
    Maker("responses", "openai:gpt-5", "/v1", ResponsesWire),
    Maker("gemini", "google:gemini-2.5-flash", "", GeminiWire),
)

"""Answers what a server asks during a call that no gateway passes on: input, completions, directories.

The program gives the answers: `McpServers.on_elicit` asks its user, `on_sample` its model, and `roots` of the server's
settings are the directories. Only what can be answered is declared to the server. Refused here: an answer without the
fields that the server requires, and more requests to the model than the settings allow.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...config.settings import SamplingLimits
from ...fast_dataclass import dataclass
from ...values import Json, did_you_mean

_FORM: Final = "form"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elicitation:
    """A question of a server for the user.

    Attributes:
        server: The name of the server.
        message: The question. The server wrote it, so treat it as data.
        schema: The JSON Schema of the answer, an object with flat fields; None for an address.
        url: An address for the user to open in place of a form; None for a form.
    """

    server: str
    message: str
    schema: Mapping[str, Json] | None = None
    url: str | None = None


OnElicit: TypeAlias = Callable[[Elicitation], Any]
"""Returns the fields of a form, or True for an address that the user agrees to open. None or "decline" declines,
"cancel" says that the user has closed the question. Plain or async."""

OnSample: TypeAlias = Callable[[str, dict[str, Any]], Any]
"""Takes the server's name and the parameters of `sampling/createMessage`, and returns its result. Plain or async."""


class LocalClient:
    """The program itself, as the client of the calls of one server.

    Args:
        server: The server's name.
        on_elicit: Asks the user, or None.
        on_sample: Asks a model, or None.
        roots: The directories that the server may use.
        limits: How much the server may ask the model.
        samples: Counts the requests to the model by server.
    """

    log_level: str | None = None

    def __init__(
        self,
        server: str,
        on_elicit: OnElicit | None,
        on_sample: OnSample | None,
        roots: tuple[str, ...],
        limits: SamplingLimits,
        samples: Counter[str],
    ) -> None:
        self.id: object = self
        self._server, self._on_elicit, self._on_sample, self._roots = server, on_elicit, on_sample, roots
        self._limits, self._samples = limits, samples
        capabilities: dict[str, Json] = {}
        if on_elicit is not None:
            capabilities["elicitation"] = {"form": {}, "url": {}}
        if on_sample is not None:
            capabilities["sampling"] = {}
        if roots:
            capabilities["roots"] = {}
        self.capabilities: Mapping[str, Json] = capabilities

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of the server.

        Args:
            method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
            params: The parameters of the request.

        Raises:
            MCPError: The answer of the program does not fit.
        """
        if method == "roots/list":
            return {"roots": [{"uri": Path(root).as_uri(), "name": Path(root).name} for root in self._roots]}
        if method == "elicitation/create":
            return await self._elicit(params)
        return await self._sample(params)

    def log(self, params: dict[str, Any]) -> None:
        """Drop a log message of the server."""

    async def _sample(self, params: dict[str, Any]) -> dict[str, Any]:
        from mcp import MCPError
        from mcp_types import INVALID_REQUEST

        assert self._on_sample is not None
        if self._samples[self._server] >= self._limits.max_requests:
            why = f"the limit of {self._limits.max_requests:,} requests to the model is reached (sampling.max_requests)"
            raise MCPError(INVALID_REQUEST, why)
        self._samples[self._server] += 1
        tokens = params.get("maxTokens")
        allowed = self._limits.max_tokens
        limited = {**params, "maxTokens": min(tokens, allowed) if isinstance(tokens, int) else allowed}
        return dict(await _result(self._on_sample(self._server, limited)))

    async def _elicit(self, params: dict[str, Any]) -> dict[str, Any]:
        assert self._on_elicit is not None
        is_form = params.get("mode", _FORM) == _FORM
        question = Elicitation(
            server=self._server,
            message=str(params.get("message", "")),
            schema=params.get("requestedSchema") if is_form else None,
            url=None if is_form else params.get("url"),
        )
        answer = await _result(self._on_elicit(question))
        if answer is None or answer is False or answer == "decline":
            return {"action": "decline"}
        if answer == "cancel":
            return {"action": "cancel"}
        return {"action": "accept", "content": _with_defaults(question, answer)} if is_form else {"action": "accept"}


def _with_defaults(question: Elicitation, answer: Any) -> dict[str, Any]:
    """Return the fields of a form, with the server's defaults for those that are left out."""
    from mcp import MCPError
    from mcp_types import INVALID_PARAMS

    schema = question.schema or {}
    properties: Any = schema.get("properties") or {}
    if not isinstance(answer, Mapping):
        raise MCPError(INVALID_PARAMS, f"the answer must be an object with fields, not {type(answer).__name__}")
    defaults = {name: field["default"] for name, field in properties.items() if "default" in field}
    fields = {**defaults, **answer}
    for name in fields:
        if name not in properties:
            near = did_you_mean(name, properties)
            raise MCPError(INVALID_PARAMS, f"no field {name!r}" + (f"; did you mean {near!r}?" if near else ""))
    required: Any = schema.get("required") or []
    if missing := [name for name in required if name not in fields]:
        raise MCPError(INVALID_PARAMS, f"the answer lacks {', '.join(missing)}")
    return fields


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value

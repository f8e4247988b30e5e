"""Answers what a server asks during a call that no gateway passes on: input, completions, directories.

The program gives the answers: `McpServers.on_elicit` asks its user, `on_sample` its model, and `roots` of the server's
settings are the directories. Only what can be answered is declared to the server. Refused here: an answer that does
not fit the form of the server, and more requests to the model than the settings allow.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ...config.settings import SamplingLimits
from ...errors import InvalidValue
from ...problems import join_problems
from ...values import Json, check_json
from .questions import CAPABILITY, DECLINE, Elicitation, answer_problems, elicitation_result, read_question

__all__ = ["Elicitation", "LocalClient", "OnElicit", "OnSample"]

OnElicit: TypeAlias = Callable[[Elicitation], Any]
"""Returns the fields of a form, or True for an address that the user agrees to open. None or "decline" declines,
"cancel" says that the user has closed the question. Plain or async."""

OnSample: TypeAlias = Callable[[str, dict[str, Any]], Any]
"""Takes the server's name and the parameters of `sampling/createMessage`, and returns its result. Plain or async."""


class LocalClient:
    """The program itself, as the client of the calls of one server."""

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
            capabilities["elicitation"] = dict(CAPABILITY)
        if on_sample is not None:
            capabilities["sampling"] = {}
        if roots:
            capabilities["roots"] = {}
        self.capabilities: Mapping[str, Json] = capabilities

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of the server."""
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
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS

        assert self._on_elicit is not None
        question = read_question(self._server, params)
        answer = await _result(self._on_elicit(question))
        if answer is None or answer is False:
            answer = DECLINE
        try:
            answer = check_json(answer, "answer")
        except InvalidValue as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        if problems := answer_problems(question.to_json(), answer, "answer"):
            raise MCPError(INVALID_PARAMS, join_problems(problems))
        return elicitation_result(question.to_json(), answer)


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value

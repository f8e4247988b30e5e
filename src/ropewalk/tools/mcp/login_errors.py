"""The error of a server that wants a login, and the reason why a server cannot be used, with what helps."""

from __future__ import annotations

from typing import Self

from ...errors import Action, Place, Remedy, RopewalkError


class Reason(str):
    """Why something cannot be used, as text; `remedy` is an action that can help, `place` is where the text begins."""

    __slots__ = ("place", "remedy")
    remedy: Remedy | None
    place: Place | None

    def __new__(cls, text: str, remedy: Remedy | None = None, place: Place | None = None) -> Self:
        reason = super().__new__(cls, text)
        reason.remedy, reason.place = remedy, place
        return reason


class LoginRequired(RopewalkError):
    """An MCP server refuses a request until somebody logs in, or logs in with more rights."""

    # `challenge` is the header with which the server refused the request; logins start with it.

    retryable = False
    challenge = ""

    def __init__(self, message: str, server: str = "", scope: str | None = None) -> None:
        self.server, self.scope = server, scope
        super().__init__(message)
        if scope is None:
            self.with_remedy(Action.LOG_IN, server=server)
        else:
            self.with_remedy(Action.LOG_IN_SCOPE, server=server, scope=scope)

    def __str__(self) -> str:
        return Exception.__str__(self)

"""The stand-ins refuse what the documentation of their APIs forbids."""

from __future__ import annotations

from typing import Any

import pytest

from .makers import MAKERS, Maker
from .malformed import MALFORMED

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-2.5-flash:generateContent",
    "messages": "/v1/messages",
}
CASES = [(maker, rule, body) for maker in MAKERS for rule, body in MALFORMED[maker.name]]


@pytest.mark.parametrize(("maker", "rule", "body"), CASES, ids=[f"{maker.name}-{rule}" for maker, rule, _ in CASES])
def test_what_the_documentation_forbids_is_refused(maker: Maker, rule: str, body: dict[str, Any]) -> None:
    assert maker.create().judge(PATHS[maker.name], body), rule


def test_there_are_twenty_for_each() -> None:
    assert all(len({rule for rule, _ in cases}) >= 20 for cases in MALFORMED.values())

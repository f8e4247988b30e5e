"""What a server prints and logs during a call: without its secrets, in whatever pieces and values it comes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ropewalk.config.secrets import Secrets
from ropewalk.tools.mcp.call_output import CallOutput


class Lines:
    """The output of a step."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, stream: str, text: str) -> None:
        self.texts.append(text)

    def add(self, stream: str, text: str, level: str = "") -> None:
        self.texts.append(f"{level}: {text}")


def call_output() -> tuple[CallOutput, Lines, list[Any]]:
    lines = Lines()
    requests: list[Any] = [SimpleNamespace(output=lines), SimpleNamespace(output=None)]
    return CallOutput(requests, lambda: Secrets(frozenset({"hunter2"}), frozenset({"s3cret-é"}))), lines, requests


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_secret_in_pieces_is_masked_and_the_last_line_is_not_lost(size: int) -> None:
    output, lines, requests = call_output()
    data = "it is hunter2\nand s3cret-é é\nhunter2 again".encode()
    for at in range(0, len(data), size):
        output.keep_stderr(data[at : at + size])
    output.flush()
    assert "".join(lines.texts) == "it is ***\nand *** é\n*** again"
    output.keep_stderr(b"x" * 100_000)
    assert len(lines.texts[-1]) == 100_000  # a line without an end is not held for ever
    requests.clear()
    output.keep_stderr(b"to nobody\n")
    assert len(lines.texts[-1]) == 100_000


def test_a_message_is_text_or_json_without_secrets() -> None:
    output, lines, _ = call_output()
    ring: list[Any] = []
    ring.append(ring)
    for data in ("it is hunter2", {"n": 2**70, "é": "s3cret-é"}, None, "\ud800", ring):
        output.keep_message({"level": "info", "data": data})
    assert lines.texts[:4] == [
        "info: it is ***", 'info: {"n":1180591620717411303424,"é":"***"}', "info: null", "info: \ud800",
    ]  # fmt: skip
    assert lines.texts[4].startswith("info: [[[")

"""What a chat shows of what it hears."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk.doors.cli.agents import _Talk


def test_an_answer_that_breaks_off_is_not_read_on(capsys: pytest.CaptureFixture[str]) -> None:
    nobody: Any = None  # to interrupt it

    async def hear() -> None:
        talk = _Talk(nobody, False, False)
        talk.hear({"type": "text", "text": "half"})
        talk.hear({"type": "broken_off", "text": "half", "thinking": "", "error": "the stream ended\nearly"})
        talk.hear({"type": "text", "text": "whole"})

    asyncio.run(hear())
    shown = capsys.readouterr()
    assert shown.out == "half\nwhole"
    assert shown.err == "! the answer was interrupted: the stream ended …; asking again\n"

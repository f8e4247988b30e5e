"""What a command gives back: an exit code, data for `--json`, text for people."""

from __future__ import annotations

from typing import Any

from ...frozen import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`data` is printed with `--json`, `text` without; None prints nothing. `recorded` is the command that shows it
    again."""

    exit: int = 0
    data: Any = None
    text: str | None = None
    recorded: str = ""

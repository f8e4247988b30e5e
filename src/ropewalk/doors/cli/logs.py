"""What a command logs on standard error: plain lines, or with `--log json` one JSON object per record."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Literal, TypeAlias

from ...telemetry.logs import Texts, log_as_json

if TYPE_CHECKING:
    from ...app import App

Form: TypeAlias = Literal["text", "json"]
_LINES = (("ropewalk.modules", "%(line)s"), ("ropewalk.workers", "%(asctime)s %(message)s"))
"""Who is heard of in any case, and how: what JavaScript tools print (a Python one prints by itself), and workers."""


def set_up(form: Form, app: App) -> None:
    """Begin to log; once per process, which is a command's."""
    root = logging.getLogger()
    if any(isinstance(handler, _Ours) for handler in root.handlers):
        return
    if form == "json":
        log_as_json(app)
        return
    root.addHandler(_Ours("%(message)s", logging.WARNING))
    for name, said in _LINES:
        log = logging.getLogger(name)
        log.addHandler(_Ours(said, logging.INFO))
        log.setLevel(logging.INFO)
        log.propagate = False


class _Ours(logging.StreamHandler):  # type: ignore[type-arg]
    def __init__(self, said: str, level: int) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(Texts(said))
        self.setLevel(level)

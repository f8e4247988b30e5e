"""What a command says on standard error beside its progress: plain lines, or with `--log json` JSON lines and nothing
else. Whoever has something to say there uses `tell`; what is logged by `logging` comes by itself.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from ...errors import ConfigError
from ...telemetry.logs import RunLog, Texts, Where, log_as_json

if TYPE_CHECKING:
    from ...app import App

Form: TypeAlias = Literal["text", "json"]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]
LEVEL: Final = "ROPEWALK_LOG_LEVEL"
_LINES = (("ropewalk.modules", "%(line)s"), ("ropewalk.workers", "%(asctime)s %(message)s"))
"""Who is heard of from `info` on, and how: what JavaScript tools print (a Python one prints by itself), and workers."""
_OURS: Final = "ropewalk.cli"
_json: logging.Handler | None = None  # what standard error goes through, where it is JSON lines


def begin(form: Form, level: Level | None = None) -> None:
    """Begin to log; once per process, which is a command's."""
    global _json
    root = logging.getLogger()
    if any(isinstance(handler, _Ours) for handler in root.handlers) or _json is not None:
        return
    least = _least(level)
    if form == "json":
        _json = log_as_json(level=logging.INFO if least is None else least)
        logging.captureWarnings(True)
        return
    root.addHandler(_Ours("%(message)s", logging.WARNING if least is None else least))
    root.setLevel(min(root.level, logging.WARNING if least is None else least))
    for name, said in _LINES:
        log = logging.getLogger(name)
        log.addHandler(_Ours(said, logging.INFO if least is None else least))
        log.setLevel(logging.INFO if least is None else least)
        log.propagate = False


def follow(app: App) -> None:
    """Have JSON lines tell what happens in the runs of `app`."""
    if _json is not None:
        app.watch(RunLog().take)


def asked(words: Sequence[str]) -> Form:
    """The form that a command line asks for, also where it cannot be parsed."""
    said = " ".join(words).replace("--log=", "--log ")
    return "json" if "--log json" in said else "text"


def tell(text: str, level: int = logging.INFO, **more: Any) -> None:
    """A line of the command itself, whatever the level: a person may need it. `more` is for JSON."""
    if _json is None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    else:
        said = {"where": Where(), "said": more}
        _json.handle(logging.getLogger(_OURS).makeRecord(_OURS, level, "", 0, text.strip(), (), None, extra=said))


def tells_json() -> bool:
    """Whether standard error is JSON lines."""
    return _json is not None


def _least(level: str | None) -> int | None:
    named = level or os.environ.get(LEVEL)
    if not named:
        return None
    if named.lower() not in get_args(Level):
        raise ConfigError(f"{LEVEL}={named}: one of {', '.join(get_args(Level))}")
    return logging.getLevelNamesMapping()[named.upper()]


class _Ours(logging.StreamHandler):  # type: ignore[type-arg]
    def __init__(self, said: str, level: int) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(Texts(said))
        self.setLevel(level)

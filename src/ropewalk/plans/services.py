"""The services of a child, by name. A service is a function of a message and the link to the parent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..values import Json
from . import compiler, play
from .boundary.child import Link, Service


def _echo(message: dict[str, Any], link: Link) -> Json:
    """Return what the message holds: the cheapest program."""
    return message.get("value")


SERVICES: Final[Mapping[str, Service]] = {
    "echo": _echo,
    "names": compiler.names,
    "compile": compiler.compile_plan,
    "types": compiler.types,
    "piece": compiler.piece,
    "play": play.play,
}


def warm_up() -> None:
    """Use everything once, because a child can open no file and so import nothing."""
    compiler.warm_up()
    play.warm_up()

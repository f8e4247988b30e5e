"""Masks in the input of a fork: people see `***` for a secret of the recorded input, edit another value, and send both
back.
"""

from __future__ import annotations

from typing import Any, Final

from ...config.secrets import process_redaction
from ...errors import InvalidInput, Problem
from ...redaction import MARK, Redaction
from ...values import Json

_NOTHING: Final = object()


def unmasked(sent: Json, recorded: Json) -> Json:
    """Return the input of a fork with the recorded secrets where it has their masks; raise InvalidInput for a mask in
    another place.
    """
    redaction = process_redaction()
    shown = redaction.value(recorded)
    if shown == recorded:
        return sent
    problems: list[Problem] = []
    result = _Masks(redaction, problems).replaced(sent, shown, recorded, "input")
    if problems:
        raise InvalidInput(problems)
    return result


class _Masks:
    """Replaces the masks in a value, and collects those that stand for no recorded secret."""

    def __init__(self, redaction: Redaction, problems: list[Problem]) -> None:
        self._redaction, self._problems = redaction, problems

    def replaced(self, sent: Any, shown: Any, recorded: Any, path: str) -> Any:
        """Return a value with the secrets of the value that was recorded and shown in its place."""
        kind = type(sent)
        if kind is str:
            return self._text(sent, shown, recorded, path)
        if kind is dict:
            return self._members(sent, shown, recorded, path)
        if kind is list:
            # If items were moved, it is not known which secret a mask stands for.
            is_moved = type(shown) is not list or len(sent) != len(shown) or _is_reordered(sent, shown)
            if is_moved:
                shown = recorded = [_NOTHING] * len(sent)
            return [self.replaced(sent[at], shown[at], recorded[at], f"{path}[{at}]") for at in range(len(sent))]
        return sent

    def _members(self, sent: dict[str, Any], shown: Any, recorded: Any, path: str) -> dict[str, Any]:
        known = shown if type(shown) is dict else {}
        keys = {self._redaction.text(key): key for key in recorded} if known else {}
        return {
            self._text(key, key if key in keys else _NOTHING, keys.get(key, _NOTHING), path): self.replaced(
                value, known.get(key, _NOTHING), recorded[keys[key]] if key in keys else _NOTHING, f"{path}.{key}"
            )
            for key, value in sent.items()
        }

    def _text(self, sent: str, shown: Any, recorded: Any, path: str) -> str:
        if sent == shown:
            return str(recorded)
        has_mark_of_its_own = shown == recorded and type(shown) is str and MARK in shown
        if MARK in sent and not has_mark_of_its_own:
            message = f"{MARK} stands for a secret that is not recorded in this place; write the secret itself"
            self._problems.append(Problem(path=path, message=message))
        return sent


def _is_reordered(sent: list[Any], shown: list[Any]) -> bool:
    return any(item != there and item in shown for item, there in zip(sent, shown, strict=True))

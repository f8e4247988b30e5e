"""Rejected results: what a tool returned, kept for the record although nothing can use it."""

from __future__ import annotations

import json
import reprlib
from typing import Any, Final

from ..fast_dataclass import dataclass
from ..values import Json, check_json

MAX_TEXT: Final = 2_000
"""Longest text, in characters, that is kept of a result that is not JSON."""


@dataclass(frozen=True, slots=True)
class RawResult:
    """A rejected result: `value` if it `is_json`, otherwise `text`, a shortened representation."""

    is_json: bool
    value: Json = None
    text: str = ""

    def to_dict(self) -> dict[str, Json]:
        """Return the result as the journal keeps it: `{value}` or `{text}`."""
        return {"value": self.value} if self.is_json else {"text": self.text}

    @classmethod
    def from_dict(cls, data: dict[str, Json]) -> RawResult:
        """Read what `to_dict` returned."""
        return cls(True, data["value"]) if "value" in data else cls(False, text=str(data.get("text", "")))


class UnusableResult(Exception):
    """Tell the pipeline that a tool ran, but that its result cannot be used."""

    def __init__(self, message: str, result: Any = None) -> None:
        self.result = result
        super().__init__(message)


def raw_result(received: Any) -> RawResult:
    """Keep a result: as JSON if it is JSON, otherwise as a bounded text."""

    # Never raises.
    if isinstance(received, RawResult):
        return received
    try:
        return RawResult(True, check_json(received))
    except Exception:  # noqa: BLE001 - any value may come here, and any code of its class may run
        return RawResult(False, text=shortened(received))


def shortened(value: Any) -> str:
    """Represent any value in at most MAX_TEXT characters that every store can keep."""
    try:
        text = _short.repr(value)
    except Exception as error:  # noqa: BLE001 - a __repr__ of the tool's own
        text = f"<{type(value).__qualname__}: its repr() raised {type(error).__name__}>"
    return bounded(text)


def json_text(value: Any) -> str:
    """Write any value as JSON, or as `shortened` does if it is not JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))  # orjson refuses integers over 64 bits
    except Exception:  # noqa: BLE001 - any value may come here
        return shortened(value)


def bounded(text: str) -> str:
    """Cut a text to MAX_TEXT characters and write out what stores cannot keep."""
    text = text[: MAX_TEXT + 1].encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


class _Short(reprlib.Repr):
    """repr() that visits only the beginning of large values."""

    def __init__(self) -> None:
        super().__init__()
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = 50
        self.maxlevel, self.maxstring, self.maxother = 8, 500, 500

    def repr_bytes(self, value: bytes, level: int) -> str:
        """Represent bytes; a large blob is cut before it is formatted."""
        head = repr(bytes(value[: self.maxstring]))
        return head if len(value) <= self.maxstring else f"{head}... ({len(value):,} bytes)"

    repr_bytearray = repr_bytes


_short: Final = _Short()

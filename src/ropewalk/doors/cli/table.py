"""Plain columns, times and sizes for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...source import visible


def columns(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table whose columns are as wide as they must be; the last one is never padded."""
    cells = [list(head), *([visible(str(c)).replace("\n", " ") for c in row] for row in rows)]
    wide = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, wide, strict=True)).rstrip() for row in cells)


def duration(seconds: float | None) -> str:
    """A duration in the unit that fits."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"


def size(bytes: int) -> str:
    """A number of bytes in the unit that fits."""
    amount = float(bytes)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"


def moment(at: float | None) -> str:
    """A time in the local zone, to the second."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S") if at else "-"


def first_line(text: str, most: int = 72) -> str:
    """The first line of a text, cut to `most` characters; what is left out is an ellipsis."""
    line, _, more = text.strip().partition("\n")
    line = line.strip() + (" …" if more else "")
    return line if len(line) <= most else line[: most - 1] + "…"

"""The end of what a program printed, for errors: tracebacks without the frames of libraries, if it is too long.

A Python server prints about 100 lines for an exception. The lines that matter, the exception and the frames of the
user's own files, may be in the middle: a group of exceptions has them behind `| `, and rich draws a box around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

_LIBRARY: Final = re.compile(r"(?:site|dist)-packages|lib/python3|<frozen |node:internal|node_modules/", re.IGNORECASE)
_FRAME: Final = re.compile(r'([ |+-]*)(?:File ".*", line \d+|at .*[:(].*:\d+)')
_BOX_LINE: Final = re.compile(r"\s*│ (.*) │\s*")
_BOX_EDGE: Final = re.compile(r"\s*[╭╰]─.*")
_BOX_FRAME: Final = re.compile(r"(\S.*):(\d+) in (\S+)")
_BOX_CODE: Final = re.compile(r"❱ +\d+ [│ ]*(.*)")


def printed_end(text: str, limit: int) -> str:
    """Return a text of at most about `limit` characters: the whole text, without frames of libraries, or its end."""
    if len(text) > limit:
        text = "\n".join(_folded(list(_unboxed(text.splitlines()))))
    if len(text) <= limit:
        return text
    end = text[-limit:]
    return f"…\n{end.partition(chr(10))[2]}" if "\n" in end else f"…{end}"


def _unboxed(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with the tracebacks of rich as Python prints them."""
    has_box = False
    for is_box, group in groupby(lines, lambda line: bool(_BOX_LINE.fullmatch(line) or _BOX_EDGE.fullmatch(line))):
        parts = list(group)
        if not is_box or "─ Traceback " not in parts[0]:
            yield from (line.strip() if has_box else line for line in parts)
            continue
        has_box = True
        yield "Traceback (most recent call last):"
        paragraph = ""
        for line in parts:
            match = _BOX_LINE.fullmatch(line)
            content = match[1] if match is not None else ""
            if content.strip():
                # A line that fills the box continues in the next one, and any other was broken at a space.
                paragraph += content if not content.endswith(" ") else content.rstrip() + " "
                if (code := _BOX_CODE.match(content.strip())) is not None:
                    yield f"    {code[1].strip()}"
            else:
                if (frame := _BOX_FRAME.fullmatch(paragraph.strip())) is not None:
                    yield f'  File "{frame[1]}", line {frame[2]}, in {frame[3]}'
                paragraph = ""


def _folded(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines with one line for frames of libraries, but for the last frame of a traceback."""
    frames: list[list[str]] = []  # of libraries, not yet written
    indent = 0  # of the frame to which deeper lines belong; 0 outside of frames
    for line in lines:
        frame = _FRAME.match(line)
        if frame is not None:
            indent = len(frame[1])
            if _LIBRARY.search(line):
                frames.append([line])
                continue
            yield from _fold(frames, 0)
        elif indent and len(line) - len(line.lstrip(" |")) > indent:
            if frames:
                frames[-1].append(line)
                continue
        else:
            indent = 0
            yield from _fold(frames, 1)
        yield line
    yield from _fold(frames, 1)


def _fold(frames: list[list[str]], kept: int) -> Iterator[str]:
    """Yield a line for the frames and the lines of the last `kept` ones, and clear the list."""
    folded, shown = frames[: len(frames) - kept], frames[max(len(frames) - kept, 0) :]
    if folded:
        match = _FRAME.match(folded[0][0])
        yield f"{match[1] if match is not None else ''}… {len(folded)} frame{'s' * (len(folded) > 1)} of libraries"
    for lines in shown:
        yield from lines
    frames.clear()

"""From a path or a text to a Document, every refusal an InvalidFlow with places."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from ..errors import InvalidFlow, NotFound, Place, Problem
from ..values import closest, complaints, is_json
from .document import Document
from .fault import SYNTAX, Fault, Refused
from .file import instead_of_one, read_bytes
from .limits import Limits
from .spot import Lines

FORMS = {"yaml": ".yaml_text", "json": ".json_text"}
_IN_DIRECTORY = ("experience.yaml", "experience.yml", "experience.json")
_LOOKS_JSON = re.compile(r'\s*[\[{][\s\[{]*(?:["\]}]|\Z)')
_DEFAULT = Limits()


def load(
    source: Path | str, *, name: str | None = None, form: str | None = None, limits: Limits = _DEFAULT
) -> Document:
    """Read a document; the data is JSON within the limits, or InvalidFlow says where it is not.

    A Path is a file, or a directory with an `experience.yaml`. A str is a text when it holds a
    line break, `: ` or begins with a bracket, else a path; with `form` ("json" or "yaml") it is
    always a text of that form. `name` is the file name in messages.
    A file that does not exist is NotFound.
    """
    if isinstance(source, str) and (form is not None or _is_text(source)):
        text, file = source, name or "<text>"
        if len(text) > limits.size or len(text.encode("utf-8", "surrogatepass")) > limits.size:
            raise _whole(file, _too_big(limits))
    else:
        try:
            path = _file(Path(source))
        except OSError as error:  # a name too long, a directory that may not be entered
            raise _unread(name or str(source), error) from error
        file = name or str(path)
        text = _read(path, file, limits)
    text = text.removeprefix("\ufeff")
    form = form or _form(file, text)
    lines = Lines(file, text)
    try:
        if not text.strip():
            raise Refused([Fault(0, "the document is empty", keyword=SYNTAX)])
        data = import_module(FORMS[form], __package__).read(text, limits)
    except Refused as refused:
        raise InvalidFlow(_problem(fault, lines) for fault in refused.faults) from None
    document = Document(data=data, file=file, text=text, form=form)
    if not is_json(data):
        found = [Problem(path=one.place.removeprefix("."), message=one.message) for one in complaints(data, "")]
        told: dict[Place | None, Problem] = {}
        for problem in map(document.told, found):
            told.setdefault(problem.place, problem)  # once where it is written, however many aliases lead there
        raise InvalidFlow(told.values())
    return document


def _is_text(source: str) -> bool:
    return "\n" in source or "\r" in source or ": " in source or source.lstrip()[:1] in ("{", "[")


def _file(path: Path) -> Path:
    if path.is_dir():
        for inner in _IN_DIRECTORY:
            if (path / inner).exists():
                return path / inner
        raise NotFound(f"{_IN_DIRECTORY[0]} in the directory", str(path))
    if path.is_symlink() and not path.exists():
        raise NotFound("file", str(path), why=f"it is {instead_of_one(path)}")
    if not path.exists():
        near = _neighbours(path)
        raise NotFound("file", str(path), suggestion=str(path.with_name(near)) if near else None)
    return path


def _neighbours(path: Path) -> str | None:
    try:
        return closest(path.name, (p.name for p in path.parent.iterdir()))
    except OSError:  # the directory is not there either: nothing to suggest
        return None


def _read(path: Path, file: str, limits: Limits) -> str:
    try:
        # One byte past the limit is enough to know; a device without an end is no danger.
        raw = read_bytes(path, limits.size + 1)
    except OSError as error:
        raise _unread(file, error) from error
    if len(raw) > limits.size:
        raise _whole(file, _too_big(limits))
    return decoded(raw, file)


def decoded(raw: bytes, file: str) -> str:
    """The text that bytes are in UTF-8; InvalidFlow with the place of the first that is none."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise _whole(file, "this is UTF-16; write it as UTF-8") from None
        good = Lines(file, raw[: error.start].decode("utf-8"))
        place = good.place(len(good.text))
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8; write it as UTF-8"
        raise InvalidFlow([Problem(path="", message=message, place=place)]) from None


def _form(file: str, text: str) -> str:
    ending = file.lower().rpartition(".")[2]
    if ending in ("yaml", "yml"):
        return "yaml"
    return "json" if ending == "json" or _LOOKS_JSON.match(text) else "yaml"


def _too_big(limits: Limits) -> str:
    return f"larger than {limits.size:,} bytes; split it, or keep data in files that tools read"


def _unread(file: str, error: OSError) -> InvalidFlow:
    return _whole(file, f"cannot be read: {error.strerror or error}")


def _whole(file: str, message: str) -> InvalidFlow:
    return InvalidFlow([Problem(path="", message=message, place=Place(file, 1, 1))])


def _problem(fault: Fault, lines: Lines) -> Problem:
    place = lines.place(fault.offset)
    also = f"; it first stands on line {lines.place(fault.first).line}" if fault.first is not None else ""
    message = fault.message + also
    return Problem(path="", message=message, suggestion=fault.suggestion, place=place, keyword=fault.keyword)

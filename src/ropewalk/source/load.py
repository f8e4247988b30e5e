"""Read a path or a text into a `Document`, and write documents and files.

- `load` refuses with an InvalidFlow that has places. An unchanged text is parsed once. To add a
  form of text, add its reader to `FORMS`.
- `read_bytes` never waits for a pipe that has no writer; `instead_of_one` says what a path is, if
  it is not a file.
- `dump` writes a document as text that `load` reads back as the same.
- `create_file` and `replace_file` follow no link: a directory may come from a stranger and hold
  links under the names that we are going to use.
"""

from __future__ import annotations

import errno
import marshal
import os
import re
import secrets
import stat
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import yaml

from ..errors import InvalidFlow, NotFound, Place, Problem
from ..values import Json, did_you_mean, is_json, json_problems
from .document import Document, escape_invisible, json_text
from .locations import SYNTAX, Fault, Limits, Lines, Refused
from .yaml_reader import plain

_READ_FLAGS: Final = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))


def is_file(path: Path) -> bool:
    """Return True if a regular file is at `path`, False if nothing is."""
    if path.is_file():
        return True
    if os.path.lexists(path):
        raise FileExistsError(f"must be a file; it is {instead_of_one(path)}")
    return False


def instead_of_one(path: Path) -> str:
    """Say what is at a path that is not a regular file, such as "a directory"."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "a link that leads to itself"
        return "a link that leads nowhere" if path.is_symlink() else f"nothing ({error.strerror})"
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def read_bytes(path: Path, limit: int) -> bytes:
    """Read at most `limit` bytes of a file, also from a pipe that somebody writes to."""
    try:
        handle = os.open(path, _READ_FLAGS)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(error.errno, f"it is {instead_of_one(path)}") from error
        raise
    with open(handle, "rb") as file:
        start = b""
        mode = os.fstat(handle).st_mode
        if stat.S_ISFIFO(mode):
            # Without blocking, an empty read means that nobody has the pipe open for writing.
            try:
                start = os.read(handle, limit)
            except BlockingIOError:
                pass  # its writer has not written yet
            else:
                if not start:
                    raise OSError(errno.EPIPE, "it is a pipe that nobody writes to")
        if not stat.S_ISREG(mode):
            os.set_blocking(handle, True)
        return start + file.read(limit - len(start))


FORMS = {"yaml": ".yaml_reader", "json": ".json_reader"}
_EXPERIENCE_FILES = ("experience.yaml", "experience.yml", "experience.json")
_LOOKS_JSON = re.compile(r'\s*[\[{][\s\[{]*(?:["\]}]|\Z)')
_DEFAULT_LIMITS = Limits()
_MAX_PARSED: Final = 16_000_000
"""How many characters of texts and bytes of their data the cache keeps, in all."""


class _ParsedTexts:
    """A cache of parsed texts, so that an unchanged one is parsed once."""

    # The key is the text itself: a file may change within the resolution of its time stamp.

    def __init__(self) -> None:
        self._data: dict[tuple[str, Limits, str], bytes] = {}
        self._size = 0
        self._lock = threading.Lock()

    def get(self, form: str, limits: Limits, text: str) -> bytes | None:
        return self._data.get((form, limits, text))

    def put(self, form: str, limits: Limits, text: str, data: Json) -> None:
        """Keep the data of a text, and drop the oldest texts when there are too many."""
        try:
            # As bytes: every reader gets objects of its own, and may change them.
            packed = marshal.dumps(data)
        except ValueError:  # nested too deeply for marshal
            return
        size = len(text) + len(packed)
        if size > _MAX_PARSED // 8:
            return  # it would take the place of many others
        with self._lock:
            if (form, limits, text) not in self._data:
                self._data[form, limits, text] = packed
                self._size += size
            while self._size > _MAX_PARSED:
                oldest = next(iter(self._data))
                self._size -= len(oldest[2]) + len(self._data.pop(oldest))


_parsed = _ParsedTexts()


def load(
    source: Path | str, *, name: str | None = None, form: str | None = None, limits: Limits = _DEFAULT_LIMITS
) -> Document:
    """Read a document."""
    # Read the text.
    if isinstance(source, str) and (form is not None or _is_text(source)):
        text, file, directory = source, name or "<text>", None
        if len(text) > limits.size or len(text.encode("utf-8", "surrogatepass")) > limits.size:
            raise _too_large(file, limits)
    else:
        try:
            path = _file(Path(source))
        except OSError as error:  # a name too long, a directory that may not be entered
            raise _unreadable(name or str(source), error) from error
        file, directory = name or str(path), os.path.dirname(os.path.realpath(path))
        text = _read_text(path, file, limits)
    text = text.removeprefix("\ufeff")

    form = form or _form(file, text)
    if form == "jsonc":
        from .json_reader import without_comments

        text, form = without_comments(text), "json"
    parsed = _parsed.get(form, limits, text)
    if parsed is not None:
        return Document(data=marshal.loads(parsed), file=file, text=text, form=form, directory=directory)

    # Parse it.
    try:
        if not text.strip():
            raise Refused([Fault(0, "the document is empty", keyword=SYNTAX)])
        data = import_module(FORMS[form], __package__).read(text, limits)
    except Refused as refused:
        lines = Lines(file, text)
        raise InvalidFlow(_problem(fault, lines) for fault in refused.faults) from None
    document = Document(data=data, file=file, text=text, form=form, directory=directory)
    if limits.any_number:
        return document
    if not is_json(data):
        raise _not_json(document)
    _parsed.put(form, limits, text, data)
    return document


def _not_json(document: Document) -> InvalidFlow:
    problems: dict[Place | None, Problem] = {}
    for item in json_problems(document.data, ""):
        problem = document.with_place(Problem(path=item.place.removeprefix("."), message=item.message))
        # A value is reported once where it is written, however many aliases lead there.
        problems.setdefault(problem.place, problem)
    return InvalidFlow(problems.values())


def _is_text(source: str) -> bool:
    return "\n" in source or "\r" in source or ": " in source or source.lstrip()[:1] in ("{", "[")


def _file(path: Path) -> Path:
    if path.is_dir():
        for name in _EXPERIENCE_FILES:
            if (path / name).exists():
                return path / name
        raise NotFound(f"{_EXPERIENCE_FILES[0]} in the directory", str(path))
    if path.is_symlink() and not path.exists():
        raise NotFound("file", str(path), why=f"it is {instead_of_one(path)}")
    if not path.exists():
        similar = _similar_name(path)
        raise NotFound("file", str(path), suggestion=str(path.with_name(similar)) if similar else None)
    return path


def _similar_name(path: Path) -> str | None:
    try:
        return did_you_mean(path.name, (p.name for p in path.parent.iterdir()))
    except OSError:  # the directory does not exist either
        return None


def _read_text(path: Path, file: str, limits: Limits) -> str:
    try:
        # One byte past the limit is enough to know, and a device without an end does no harm.
        data = read_bytes(path, limits.size + 1)
    except OSError as error:
        raise _unreadable(file, error) from error
    if len(data) > limits.size:
        raise _too_large(file, limits)
    return decoded(data, file)


def decoded(raw: bytes, file: str) -> str:
    """Decode a text from UTF-8."""

    # `raw`: The bytes.
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise _file_problem(file, "this is UTF-16; write it as UTF-8") from None
        valid = raw[: error.start].decode("utf-8")
        place = Lines(file, valid).place(len(valid))
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8; write it as UTF-8"
        raise InvalidFlow([Problem(path="", message=message, place=place)]) from None


def _form(file: str, text: str) -> str:
    suffix = file.lower().rpartition(".")[2]
    if suffix in ("yaml", "yml"):
        return "yaml"
    return "json" if suffix == "json" or _LOOKS_JSON.match(text) else "yaml"


def _too_large(file: str, limits: Limits) -> InvalidFlow:
    return _file_problem(file, f"larger than {limits.size:,} bytes; split it, or keep data in files that tools read")


def _unreadable(file: str, error: OSError) -> InvalidFlow:
    return _file_problem(file, f"cannot be read: {error.strerror or error}")


def _file_problem(file: str, message: str) -> InvalidFlow:
    return InvalidFlow([Problem(path="", message=message, place=Place(file, 1, 1))])


def _problem(fault: Fault, lines: Lines) -> Problem:
    place = lines.place(fault.offset)
    message = fault.message
    if fault.first is not None:
        message += f"; it is first defined on line {lines.place(fault.first).line}"
    return Problem(path="", message=message, suggestion=fault.suggestion, place=place, keyword=fault.keyword)


class _Dumper(yaml.SafeDumper):
    """Writes block style and keeps the order of keys; quotes texts that YAML 1.2 would read as another type."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text and _fits_block(text):
        style = "|"
    elif not text.isprintable():
        style = '"'
    elif not text or plain(text) is not text:
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _fits_block(text: str) -> bool:
    """Return True if a literal block can hold every line as it is."""
    # An indented first line would need an indentation indicator, which few readers know.
    is_plain = text.replace("\n", "").isprintable() and text[:1] not in (" ", "\n")
    return is_plain and all(line == line.rstrip() for line in text.split("\n"))


_Dumper.add_representer(str, _represent_text)


def dump(document: Json, form: str = "yaml") -> str:
    """Write a document as text."""
    if form == "json":
        return json_text(document) + "\n"
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return escape_invisible(text)  # the dumper has quoted every string with such a character


_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def create_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a new file."""
    handle = os.open(path, _CREATE_FLAGS, mode)
    try:
        with open(handle, "wb") as file:
            file.write(data)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def replace_file(path: Path, data: bytes) -> None:
    """Write a file as a whole, or leave it unchanged."""

    # A link of this name is replaced, never followed.
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.new")
    create_file(temporary, data)
    try:
        mode = _regular_mode(path)
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _regular_mode(path: Path) -> int | None:
    """Return the permissions of a regular file; None for anything else, also for a link."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return stat.S_IMODE(mode) if stat.S_ISREG(mode) else None

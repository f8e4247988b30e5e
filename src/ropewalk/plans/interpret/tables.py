"""Files in memory and tables as text: `io.StringIO` and `csv`."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from typing import Any, Final

from ...expr.python.evaluation import BuiltinFunction, Members
from ...expr.python.formatting import text
from ...expr.python.modules import Constant
from .shared import Shared

_OPTIONS: Final = frozenset(
    "dialect delimiter quotechar escapechar doublequote skipinitialspace lineterminator quoting strict".split()  # noqa: SIM905
)
_FIELD_ROOM: Final = 64


class TextFile(Shared):
    """`io.StringIO(...)`."""

    is_async = False
    functions = tuple("close getvalue read readline readlines seek tell truncate write writelines".split())  # noqa: SIM905

    def __init__(self, evaluation: Any, initial: Any = "", newline: Any = "\n") -> None:
        self._evaluation, self._file = evaluation, io.StringIO(initial, newline)
        evaluation.reserve(len(initial or ""))

    def _read(self, value: Any) -> Any:
        self._evaluation.reserve(len(value))
        return value

    def write(self, part: Any) -> int:
        """Write some text."""
        self._evaluation.reserve(len(part) if isinstance(part, str) else 0)
        return self._file.write(part)

    def writelines(self, parts: Any) -> None:
        """Write texts one after another."""
        for part in self._evaluation.iterate(parts):
            self.write(part)

    def getvalue(self) -> Any:
        """Return the whole text."""
        return self._read(self._file.getvalue())

    def read(self, size: Any = -1) -> Any:
        """Return the rest of the text, or some characters of it."""
        return self._read(self._file.read(size))

    def readline(self, size: Any = -1) -> Any:
        """Return the next line."""
        return self._read(self._file.readline(size))

    def readlines(self) -> Any:
        """Return the rest of the lines."""
        return self._evaluation.collect(self)

    def seek(self, position: Any, whence: Any = 0) -> int:
        """Continue at a position."""
        return self._file.seek(position, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def truncate(self, size: Any = None) -> int:
        """Cut the text off at the position."""
        return self._file.truncate(size)

    def close(self) -> None:
        """Forget the text."""
        self._file.close()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._read(next(self._file))

    async def enter(self) -> TextFile:
        """Give the file itself."""
        return self

    async def leave(self, error: BaseException | None) -> bool:
        """Close the file."""
        self.close()
        return False

    def __repr__(self) -> str:
        return "<io.StringIO object>"


class Reader(Members):
    """`csv.reader(...)` and `csv.DictReader(...)`."""

    __slots__ = ("_native", "_reserve")

    def __init__(self, native: Any, evaluation: Any) -> None:
        self._native, self._reserve = native, evaluation.reserve

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        row = next(self._native)
        self._reserve(_FIELD_ROOM * len(row))
        return row

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return the names of the fields, or the number of lines that were read."""
        if name == "line_num" or (name == "fieldnames" and isinstance(self._native, csv.DictReader)):
            return getattr(self._native, name)
        return super().get_member(evaluation, name)

    def __repr__(self) -> str:
        return "<csv.reader object>"


class Writer(Members):
    """`csv.writer(...)` and `csv.DictWriter(...)`."""

    __slots__ = ("_native", "names")

    def __init__(self, native: Any, names: Any = None) -> None:
        self._native, self.names = native, names

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return a method as a function value."""
        methods: dict[str, Callable[..., Any]] = {"writerow": self._row, "writerows": self._rows}
        if self.names is not None:
            methods["writeheader"] = self._header
        if name not in methods:
            return super().get_member(evaluation, name)
        return BuiltinFunction(name, methods[name], evaluation)

    def _row(self, evaluation: Any, row: Any, /) -> Any:
        evaluation.step()
        if self.names is not None:
            return self._native.writerow({key: _plain(evaluation, value) for key, value in row.items()})
        return self._native.writerow([_plain(evaluation, value) for value in evaluation.iterate(row)])

    def _rows(self, evaluation: Any, rows: Any, /) -> None:
        for row in evaluation.iterate(rows):
            self._row(evaluation, row)

    def _header(self, evaluation: Any) -> Any:
        return self._native.writeheader()

    def __repr__(self) -> str:
        return "<csv.writer object>"


def _plain(evaluation: Any, value: Any) -> Any:
    """Return a value of a row; what is neither a text nor a number is written as `str` shows it."""
    return value if value is None or type(value) in (str, int, float, bool) else text(evaluation, value)


def _checked(function: str, options: dict[str, Any]) -> dict[str, Any]:
    for name in options.keys() - _OPTIONS:
        raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
    return options


def _reader(evaluation: Any, lines: Any, /, *dialect: Any, **options: Any) -> Reader:
    return Reader(csv.reader(evaluation.iterate(lines), *dialect, **_checked("reader", options)), evaluation)


def _dict_reader(
    evaluation: Any, f: Any, fieldnames: Any = None, restkey: Any = None, restval: Any = None, **options: Any
) -> Reader:
    names = None if fieldnames is None else evaluation.collect(fieldnames)
    options = _checked("DictReader", options)
    return Reader(csv.DictReader(evaluation.iterate(f), names, restkey, restval, **options), evaluation)


def _file(function: str, file: Any) -> Any:
    if not isinstance(file, TextFile):
        raise TypeError(f"{function}() writes to an io.StringIO here, not to {type(file).__name__}")
    return file


def _writer(evaluation: Any, file: Any, /, *dialect: Any, **options: Any) -> Writer:
    return Writer(csv.writer(_file("writer", file), *dialect, **_checked("writer", options)))


def _dict_writer(
    evaluation: Any, f: Any, fieldnames: Any, restval: Any = "", extrasaction: Any = "raise", **options: Any
) -> Writer:
    names = evaluation.collect(fieldnames)
    options = _checked("DictWriter", options)
    return Writer(csv.DictWriter(_file("DictWriter", f), names, restval, extrasaction, **options), names)


CSV: Final[dict[str, Any]] = {
    "DictReader": _dict_reader,
    "DictWriter": _dict_writer,
    "Error": Constant(csv.Error),
    "reader": _reader,
    "writer": _writer,
    **{name: Constant(getattr(csv, name)) for name in dir(csv) if name.startswith("QUOTE_")},
}
IO: Final[dict[str, Any]] = {"StringIO": TextFile}

"""A run as `app.runs.list()` gives it: the row of the store, which also answers to the keys of `app.runs.get()`.

The fields of a list line (`row["status"]`, `row["startTime"]`) cost nothing. Another key, such as `result` or `nodes`,
reads the run and its journal once, when it is first asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...errors import NotFound
from ...journal.protocol import RunRow
from ..presenters import run_lines

if TYPE_CHECKING:
    from ...values import Json
    from .queries import RunService


_ONLY_IN_LISTS = ("waiting", "errorMessage", "undoStatus")


class ListedRun(RunRow):
    """A row of a list of runs, with attributes of `RunRow` and the keys of `app.runs.get()`."""

    _service: RunService

    @classmethod
    def of(cls, row: RunRow, service: RunService) -> ListedRun:
        """Make a listed run of a row."""
        listed = cls(**{field.name: getattr(row, field.name) for field in dataclasses.fields(row)})
        object.__setattr__(listed, "_service", service)  # the row is frozen
        return listed

    @cached_property
    def _line(self) -> dict[str, Json]:
        return self._service.line(self)

    @cached_property
    def _whole(self) -> dict[str, Json]:
        whole = self._service.get(self.id)
        if whole is None:
            raise NotFound("run", self.id)
        return whole

    @cached_property
    def _more(self) -> dict[str, Json]:
        """The fields that only a list has: whether the run waits, its error, and how far it is undone."""
        return run_lines(self._service.context, [self])[0]

    def __getitem__(self, key: str) -> Any:
        if key in self._line:
            return self._line[key]
        return self._more[key] if key in _ONLY_IN_LISTS else self._whole[key]

    def __contains__(self, key: object) -> bool:
        return key in self._line or key in _ONLY_IN_LISTS or key in self._whole

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)

    def keys(self) -> Any:
        """Return the keys that `app.runs.get()` gives for this run, so that `dict(row)` holds the whole run."""
        return self._whole.keys()

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or a default if the run has no such key."""
        try:
            return self[key]
        except KeyError:
            return default


__all__ = ["ListedRun"]

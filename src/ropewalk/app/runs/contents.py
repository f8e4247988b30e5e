"""The content of a run: images, audio and other files that its values refer to by their SHA-256."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ...content import contents, parts_in
from ...errors import NotFound
from ...fast_dataclass import dataclass
from ...journal.protocol import Entry, Store
from ...values import Json
from ..recorded_run import require_run


class Runs(Protocol):
    """The runs of a store."""

    @property
    def store(self) -> Store:
        """The store that has them."""
        ...

    def history(self, run_id: str) -> list[Entry]:
        """Return everything recorded of a run."""
        ...


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one part of content, its media type, and its name where it has one."""

    data: bytes
    mime_type: str
    name: str | None = None


def content(runs: Runs, run_id: str, hash: str) -> Content:
    """Find the content that a value of the run refers to."""
    row = require_run(runs.store, run_id)
    for about in _with_parts(runs, run_id, [row.result, row.input]):
        if about.get("blob") == hash:
            data = contents.find(hash)
            if data is None:
                raise NotFound("content", hash, why="the run refers to it, but its bytes are no longer stored")
            name = about.get("name")
            mime = about.get("mimeType")
            return Content(data, str(mime or "application/octet-stream"), name if isinstance(name, str) else None)
    raise NotFound("content", hash, why=f"run {run_id!r} does not refer to it")


def _with_parts(runs: Runs, run_id: str, values: list[Json]) -> Iterator[dict[str, Json]]:
    for value in values:
        yield from parts_in(value)
    for entry in runs.history(run_id):
        yield from parts_in(entry.data)

"""Content of a run: its images, audio and embedded resources, by their SHA-256."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..content import contents, parts_in
from ..errors import NotFound
from ..frozen import dataclass
from ..values import Json

if TYPE_CHECKING:
    from .seen import Runs


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one part of content, its media type, and its name where it has one."""

    data: bytes
    mime_type: str
    name: str | None = None


def content(runs: Runs, run_id: str, hash: str) -> Content:
    """Find content that a value of the run refers to. Raises NotFound: no such run, or it refers to no such content,
    or the bytes are gone."""
    row = runs.row(run_id)
    if row is None:
        raise NotFound("run", run_id)
    for about in _parts(runs, run_id, [row.result, row.input]):
        if about.get("blob") == hash:
            data = contents.find(hash)
            if data is None:
                raise NotFound("content", hash, why="the run refers to it, but nothing has its bytes any more")
            name = about.get("name")
            mime = about.get("mimeType")
            return Content(data, str(mime or "application/octet-stream"), name if isinstance(name, str) else None)
    raise NotFound("content", hash, why=f"run {run_id!r} does not refer to it")


def _parts(runs: Runs, run_id: str, values: list[Json]) -> Iterator[dict[str, Json]]:
    for value in values:
        yield from parts_in(value)
    for entry in runs.history(run_id):
        yield from parts_in(entry.data)

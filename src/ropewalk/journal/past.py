"""What earlier owners recorded of a long run, read from its store page by page, in the order in which it was recorded.

A resumed run asks for its facts almost in that order, so a few pages are held at a time. Facts that are asked for in
another order are read one by one. Short runs have a plain dict instead.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final, Protocol

from .journal import Entry, Key

LONG: Final = 5_000
"""Entries of a run whose past is read page by page; one with fewer is read at once."""
PAGE: Final = 1_000
"""Entries that are read at once."""
KEPT_PAGES: Final = 8
_BITS: Final = 32
"""Bits of the filter for each key: about 3 of 100 absent keys are looked for in the store."""
_UNREAD: Final[Any] = object()


class EntrySource(Protocol):
    """Where the entries of one run are read from, on any thread."""

    remote: bool
    """Whether a read waits for a server."""

    def all_keys(self) -> Iterator[list[tuple[str, str, int]]]:
        """Path, kind and place in the order of every entry, in lists of bounded length, in any order."""
        ...

    def latest(self) -> float:
        """When the entry that started last was started."""
        ...

    def page(self, places: Iterable[int], /) -> list[Entry]:
        """The entries at these places, in order."""
        ...

    def find(self, key: Key, /) -> tuple[int, Entry] | None:
        """One entry and its place."""
        ...


class _Index:
    """The order of all entries, and a filter that knows most keys that are not among them: 12 bytes an entry."""

    def __init__(self, source: EntrySource) -> None:
        places, hashes = array("q"), array("q")
        for some in source.all_keys():
            places.extend([place for _, _, place in some])
            hashes.extend([hash((path, kind)) for path, kind, _ in some])
        self.order = array("q", sorted(places))
        self._filter = bytearray(1 << max(8, (len(hashes) * _BITS // 8).bit_length()))
        self._mask = len(self._filter) - 1
        filter, mask = self._filter, self._mask
        for one in hashes:
            filter[one >> 3 & mask] |= 1 << (one & 7)
        self.latest = source.latest()

    def may_hold(self, key: Key) -> bool:
        one = hash(key)
        return bool(self._filter[one >> 3 & self._mask] & 1 << (one & 7))


class PagedPast(MutableMapping[Key, Entry]):
    """See above. What is put in or removed changes this object only, never the store."""

    def __init__(self, source: EntrySource) -> None:
        self.source = source
        self._made: _Index | None = None
        self._held: dict[Key, Entry] = {}
        self._pages: deque[list[Key]] = deque()
        self._changed: dict[Key, Entry | None] = {}
        self._next = 0  # the place in the order behind the last page
        self._loading = asyncio.Lock()

    def prepare(self) -> PagedPast:
        """Read the keys now; else they are read when the first of them is asked for."""
        assert self._index is not None
        return self

    @property
    def held(self) -> int:
        """How many entries are in memory."""
        return len(self._held) + len(self._changed)

    @property
    def latest(self) -> float:
        """When the entry that started last was started."""
        return self._index.latest

    def paths(self) -> Iterator[list[Key]]:
        """Every key, in lists, in any order: their entries are not read."""
        last = self._index.order[-1]
        for some in self.source.all_keys():
            keys = [(path, kind) for path, kind, place in some if place <= last]
            yield [key for key in keys if key not in self._changed] if self._changed else keys
        yield [key for key, entry in self._changed.items() if entry is not None]

    async def load(self, key: Key) -> None:
        """Read what is needed to look `key` up, on another thread."""
        if self._known(key) is not _UNREAD:
            return
        async with self._loading:
            if self._known(key) is _UNREAD:
                self._keep(*await asyncio.to_thread(self._read, key))

    # --- as a mapping -----------------------------------------------------------------------

    def get(self, key: Key, default: Any = None) -> Any:
        entry = self._known(key)
        if entry is _UNREAD:
            some, then = self._read(key)
            self._keep(some, then)
            entry = next((one for one in some if (one.path, one.kind) == key), None)
        return default if entry is None else entry

    def __getitem__(self, key: Key) -> Entry:
        entry: Entry | None = self.get(key)
        if entry is None:
            raise KeyError(key)
        return entry

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and self.get(key) is not None

    def __setitem__(self, key: Key, entry: Entry) -> None:
        self._changed[key] = entry

    def __delitem__(self, key: Key) -> None:
        if key not in self:
            raise KeyError(key)
        self._changed[key] = None

    def pop(self, key: Key, default: Any = None) -> Any:
        """Remove a key, also one that the store no longer has; returns its entry as far as that is known."""
        entry = self._known(key)
        self._changed[key] = None
        return default if entry is None or entry is _UNREAD else entry

    def __len__(self) -> int:
        if not self._changed:
            return len(self._index.order)
        return sum(map(len, self.paths()))

    def __bool__(self) -> bool:
        return not self._changed or len(self._index.order) > len(self._changed) or any(True for _ in self)

    def __iter__(self) -> Iterator[Key]:
        order = self._index.order
        for first in range(0, len(order), PAGE):
            some = self.source.page(order[first : first + PAGE])
            self._keep(some, first + PAGE)
            for entry in some:
                key = (entry.path, entry.kind)
                if key not in self._changed:
                    yield key
        yield from [key for key, entry in self._changed.items() if entry is not None]

    # --- inside -----------------------------------------------------------------------------

    @property
    def _index(self) -> _Index:
        if self._made is None:
            self._made = _Index(self.source)
        return self._made

    def _known(self, key: Key) -> Any:
        """The entry, or None where there is none, as far as that is known without the store."""
        if self._changed and key in self._changed:
            return self._changed[key]
        entry = self._held.get(key)
        return entry or (_UNREAD if self._index.may_hold(key) else None)

    def _read(self, key: Key) -> tuple[list[Entry], int]:
        """The entry with this key, where there is one: with those after it if the last page ended near it."""
        found = self.source.find(key)
        place = self._place(found)
        if found is None or place is None:
            return [], self._next
        if abs(place - self._next) > PAGE:
            return [found[1]], place
        first = max(0, place - PAGE // 10)  # what ran at the same time may be recorded a little before
        return self.source.page(self._index.order[first : first + PAGE]), first + PAGE

    def _place(self, found: tuple[int, Entry] | None) -> int | None:
        """Which entry of the past this is; None for what this owner has recorded itself."""
        if found is None:
            return None
        order = self._index.order
        place = bisect_left(order, found[0])
        return place if place < len(order) and order[place] == found[0] else None

    def _keep(self, some: list[Entry], then: int) -> None:
        self._next = then
        if not some:
            return
        keys = [(entry.path, entry.kind) for entry in some]
        self._held.update(zip(keys, some, strict=True))
        self._pages.append(keys)
        while len(self._held) > KEPT_PAGES * PAGE or len(self._pages) > KEPT_PAGES * PAGE:
            for key in self._pages.popleft():
                self._held.pop(key, None)


def latest_start(past: Mapping[Key, Entry]) -> float:
    """When the entry that started last was started; 0 for no entries."""
    if isinstance(past, PagedPast):
        return past.latest
    return max((entry.started for entry in past.values()), default=0.0)


def keys_of(past: Mapping[Key, Entry]) -> Iterator[Iterable[Key]]:
    """All keys, in several collections, in any order."""
    if isinstance(past, PagedPast):
        yield from past.paths()
    else:
        yield past


async def load(past: Mapping[Key, Entry], key: Key) -> None:
    """Have `past` ready to say what it holds at this key, where that would hold up an event loop."""
    if isinstance(past, PagedPast) and past.source.remote:
        await past.load(key)

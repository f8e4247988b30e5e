"""The entries that earlier owners of a long run recorded, read from its store page by page.

A resumed run reads its entries almost in the order of recording, so a few pages are held at a time. Entries that are
read in another order come one by one. Short runs have a plain dict instead. A store provides the pages by implementing
`EntrySource`.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final, Protocol

from .protocol import Entry, Key

LONG: Final = 5_000
"""Number of entries above which the past of a run is read page by page."""
PAGE: Final = 1_000
"""Number of entries in a page."""
KEPT_PAGES: Final = 8
_BITS: Final = 32
"""Bits of the filter for each key. The store is read in vain for about 3 of 100 absent keys."""
_UNREAD: Final[Any] = object()


class EntrySource(Protocol):
    """Where the entries of one run are read from, on any thread."""

    remote: bool
    """Whether a read waits for a server."""

    def all_keys(self) -> Iterator[list[tuple[str, str, int]]]:
        """Read the keys of all entries."""
        ...

    def latest(self) -> float:
        """Read the latest start of an entry."""
        ...

    def page(self, places: Iterable[int], /) -> list[Entry]:
        """Read some entries."""
        ...

    def find(self, key: Key, /) -> tuple[int, Entry] | None:
        """Read one entry."""
        ...


class _Index:
    """The places of all entries in order, and a filter that recognizes most absent keys: 12 bytes an entry."""

    def __init__(self, source: EntrySource) -> None:
        places, hashes = array("q"), array("q")
        for some in source.all_keys():
            places.extend([place for _, _, place in some])
            hashes.extend([hash((path, kind)) for path, kind, _ in some])
        self.order = array("q", sorted(places))
        self._filter = bytearray(1 << max(8, (len(hashes) * _BITS // 8).bit_length()))
        self._mask = len(self._filter) - 1
        filter, mask = self._filter, self._mask
        for value in hashes:
            filter[value >> 3 & mask] |= 1 << (value & 7)
        self.latest = source.latest()

    def may_hold(self, key: Key) -> bool:
        value = hash(key)
        return bool(self._filter[value >> 3 & self._mask] & 1 << (value & 7))


class PagedPast(MutableMapping[Key, Entry]):
    """The entries of a long run by key."""

    # Adding or removing one changes this object only, never the store.

    def __init__(self, source: EntrySource) -> None:
        self.source = source
        self._built_index: _Index | None = None
        self._entries: dict[Key, Entry] = {}
        self._pages: deque[list[Key]] = deque()
        self._changed: dict[Key, Entry | None] = {}
        self._next = 0  # index in `order` behind the last page
        self._loading = asyncio.Lock()

    def prepare(self) -> PagedPast:
        """Read all keys now instead of at the first lookup."""
        assert self._index is not None
        return self

    @property
    def entries_in_memory(self) -> int:
        """Number of entries in memory."""
        return len(self._entries) + len(self._changed)

    @property
    def latest(self) -> float:
        """The latest start of an entry, in seconds since the epoch."""
        return self._index.latest

    def paths(self) -> Iterator[list[Key]]:
        """Iterate over all keys, in lists, in any order, without reading their entries."""
        last = self._index.order[-1]
        for some in self.source.all_keys():
            keys = [(path, kind) for path, kind, place in some if place <= last]
            yield [key for key in keys if key not in self._changed] if self._changed else keys
        yield [key for key, entry in self._changed.items() if entry is not None]

    async def load(self, key: Key) -> None:
        """Read what is needed to look `key` up, on another thread."""
        if self._look_up(key) is not _UNREAD:
            return
        async with self._loading:
            if self._look_up(key) is _UNREAD:
                self._keep(*await asyncio.to_thread(self._read, key))

    # --- as a mapping -----------------------------------------------------------------------

    def get(self, key: Key, default: Any = None) -> Any:
        """Return an entry; read its page now if it is not in memory."""
        entry = self._look_up(key)
        if entry is _UNREAD:
            page, following = self._read(key)
            self._keep(page, following)
            entry = next((item for item in page if (item.path, item.kind) == key), None)
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
        """Remove a key, even if the store no longer has it; return its entry if that is in memory."""
        entry = self._look_up(key)
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
            page = self.source.page(order[first : first + PAGE])
            self._keep(page, first + PAGE)
            for entry in page:
                key = (entry.path, entry.kind)
                if key not in self._changed:
                    yield key
        yield from [key for key, entry in self._changed.items() if entry is not None]

    # --- inside -----------------------------------------------------------------------------

    @property
    def _index(self) -> _Index:
        if self._built_index is None:
            self._built_index = _Index(self.source)
        return self._built_index

    def _look_up(self, key: Key) -> Any:
        """Return the entry, or None for an absent one; `_UNREAD` if only the store knows."""
        if self._changed and key in self._changed:
            return self._changed[key]
        entry = self._entries.get(key)
        return entry or (_UNREAD if self._index.may_hold(key) else None)

    def _read(self, key: Key) -> tuple[list[Entry], int]:
        """Return the entry with this key, with a whole page if the last page ended near it, and the index behind."""
        match = self.source.find(key)
        if match is None:
            return [], self._next
        place, entry = match
        index = self._index_of(place)
        if index is None:
            return [], self._next
        if abs(index - self._next) > PAGE:
            return [entry], index
        first = max(0, index - PAGE // 10)  # steps that ran at the same time may be recorded a little before
        return self.source.page(self._index.order[first : first + PAGE]), first + PAGE

    def _index_of(self, place: int) -> int | None:
        """Return the index of a place in `order`; None for an entry that this owner has recorded itself."""
        order = self._index.order
        index = bisect_left(order, place)
        return index if index < len(order) and order[index] == place else None

    def _keep(self, page: list[Entry], following: int) -> None:
        self._next = following
        if not page:
            return
        keys = [(entry.path, entry.kind) for entry in page]
        self._entries.update(zip(keys, page, strict=True))
        self._pages.append(keys)
        while len(self._entries) > KEPT_PAGES * PAGE or len(self._pages) > KEPT_PAGES * PAGE:
            for key in self._pages.popleft():
                self._entries.pop(key, None)


def latest_start(past: Mapping[Key, Entry]) -> float:
    """Return the latest start of an entry, in seconds since the epoch; 0 for no entries."""
    if isinstance(past, PagedPast):
        return past.latest
    return max((entry.started for entry in past.values()), default=0.0)


def keys_of(past: Mapping[Key, Entry]) -> Iterator[Iterable[Key]]:
    """Iterate over all keys, in several collections, in any order."""
    if isinstance(past, PagedPast):
        yield from past.paths()
    else:
        yield past


async def load(past: Mapping[Key, Entry], key: Key) -> None:
    """Read what a lookup of `key` needs in another thread, if the lookup would block the event loop."""
    if isinstance(past, PagedPast) and past.source.remote:
        await past.load(key)

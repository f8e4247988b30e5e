"""The index: which tools exist, and which backends can run each.

Safe for concurrent use: every change happens under one lock and replaces, never edits, what readers
hold. Listeners hear of changes in the order they happened. Refused: a second definition under an id
that is taken, and cursors of another search or another state of the index.
"""

from __future__ import annotations

import base64
import binascii
import builtins
import hashlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import orjson

from ..errors import InvalidCursor, InvalidTool, NotFound
from ..errors.given import wants
from ..frozen import dataclass
from ..values import closest
from .summary import NamespacePage, Searcher, SummaryPage, summary_of
from .tool import Tool, ToolBackend, check_backend

log = logging.getLogger("ropewalk.tools")
ChangeKind: TypeAlias = Literal["registered", "updated", "backend_removed", "tool_removed"]
_STAMP_BYTES: Final = 12
_NAMESPACES: Final = ["\0namespaces"]
"""Stands for the words of a search in cursors of lists of namespaces; no search has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of the index; `version` is the index's after it."""

    kind: ChangeKind
    tool_id: str
    backend: ToolBackend | None = None
    version: int


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a search; `next_cursor` is None on the last."""

    tools: tuple[Tool, ...]
    next_cursor: str | None = None


Listener: TypeAlias = Callable[[Change], Any]


class Index:
    """Tools by id, in the order of their ids. `version` grows with every change."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entries: dict[str, tuple[Tool, tuple[ToolBackend, ...]]] = {}
        self._handlers: dict[str, int] = {}  # how many backends there are of each local name
        self._sorted: tuple[int, tuple[Tool, ...]] = (-1, ())
        self._version = 0
        self._secret = os.urandom(16)
        self.searcher: Searcher | None = None
        """Finds the tools of a query in place of the search for words; None for that."""
        self._listeners: tuple[Listener, ...] = ()
        self._news: deque[Change] = deque()
        self._telling = threading.Lock()

    @property
    def version(self) -> int:
        """Changes whenever a tool, a backend or a handler does."""
        return self._version

    def get(self, tool_id: str, /) -> Tool | None:
        """The tool of this id, or None."""
        entry = self._found(tool_id)
        return entry[0] if entry is not None else None

    def backends(self, tool_id: str, /) -> list[ToolBackend]:
        """The backends of a tool in the order registered; none for an unknown id."""
        entry = self._found(tool_id)
        return list(entry[1]) if entry is not None else []

    def ids(self) -> list[str]:
        """Every tool id, sorted."""
        return [tool.id for tool in self._all()]

    def list(self, namespace: str | None = None) -> list[Tool]:
        """Every tool sorted by id, or those of one namespace."""
        return [tool for tool in self._all() if namespace is None or tool.namespace == namespace]

    def namespaces(self) -> builtins.list[str]:
        """The namespaces that have tools, sorted."""
        return sorted({tool.namespace for tool in self._all() if tool.namespace is not None})

    def list_namespaces(self, *, limit: int = 20, cursor: str | None = None) -> NamespacePage:
        """List the namespaces page by page, sorted; "" stands for the tools without one.

        Args:
            limit: Namespaces per page, 1 to 1000.
            cursor: The `next_cursor` of the page before.

        Raises:
            InvalidCursor: The cursor is of another list, or the index has changed since.
        """
        check_limit(limit)
        with self._lock:
            version, tools = self._version, self._all()
        start = self._open_cursor(cursor, version, _NAMESPACES) if cursor is not None else 0
        found = sorted({tool.namespace or "" for tool in tools})
        end = start + limit
        more = self._cursor(version, _NAMESPACES, end) if end < len(found) else None
        return NamespacePage(tuple(found[start:end]), more)

    def summaries(self, query: str = "", *, limit: int = 20, cursor: str | None = None) -> SummaryPage:
        """Search as `search` does, and give a short summary of each tool instead of its whole definition."""
        page = self.search(query, limit=limit, cursor=cursor)
        return SummaryPage(tuple(map(summary_of, page.tools)), page.next_cursor)

    def search(self, query: str = "", *, limit: int = 20, cursor: str | None = None) -> Page:
        """Tools whose id, description or tags hold every word of `query`, names first, page by page; with a
        `searcher` what that finds.

        `limit` is 1 to 1000 tools. A cursor from another query, or from before the index changed,
        raises InvalidCursor.
        """
        if not isinstance(query, str):
            raise wants("query", "a string", query)
        check_limit(limit)
        with self._lock:
            version, tools = self._version, self._all()
        words = query.lower().split()
        start = self._open_cursor(cursor, version, words) if cursor is not None else 0
        found = _matching(tools, words) if self.searcher is None else _found_by(self.searcher, query, tools)
        end = start + limit
        more = self._cursor(version, words, end) if end < len(found) else None
        return Page(tuple(found[start:end]), more)

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(Change)` after every change, in order; returns what takes it off again.

        It is called in a thread that is changing the index, mostly the one that made this change.
        What it raises is logged.
        """
        if not callable(listener):
            raise wants("listener", "a function", listener)
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def stop() -> None:
            with self._lock:
                self._listeners = tuple(known for known in self._listeners if known is not listener)

        return stop

    # --- changes: each public one takes the lock, does the work, and tells after letting go ------

    def put(self, tool: Tool, backend: ToolBackend | None) -> None:
        """Add a tool, or a backend to it: an equal backend is replaced, another is appended."""
        if not isinstance(tool, Tool):
            raise wants("tool", "a Tool", tool)
        if backend is not None:
            check_backend(backend, f"tool {tool.id!r}")
        with self._lock:
            self._put(tool, backend)
        self._tell()

    def remove_backend(self, tool_id: str, backend: ToolBackend) -> None:
        """Take one backend off a tool; without its last backend the tool goes too. NotFound if absent."""
        with self._lock:
            self._remove_backend(tool_id, backend)
        self._tell()

    def remove(self, tool_id: str) -> None:
        """Take a tool off with all its backends. NotFound if absent."""
        with self._lock:
            self._remove(tool_id)
        self._tell()

    def _put(self, tool: Tool, backend: ToolBackend | None) -> None:
        entry = self._entries.get(tool.id)
        if entry is not None and entry[0] != tool:
            raise InvalidTool(
                f"tool {tool.id!r} is registered with another definition (it differs in "
                f"{_differences(entry[0], tool)}); remove that one first, or use another id or version"
            )
        backends = entry[1] if entry is not None else ()
        if backend is not None and backend not in backends:
            backends = (*backends, backend)
            self._count(backend, 1)
        self._entries[tool.id] = (tool, backends)
        self._note("registered" if entry is None else "updated", tool.id, backend)

    def _replace(self, tool: Tool, backend: ToolBackend) -> None:
        """Give a tool another definition, for the owner of its only backend."""
        for old in self.backends(tool.id):
            self._count(old, -1)
        self._count(backend, 1)
        self._entries[tool.id] = (tool, (backend,))
        self._note("updated", tool.id, backend)

    def _remove_backend(self, tool_id: str, backend: ToolBackend) -> None:
        tool, backends = self._entry(tool_id)
        if backend not in backends:
            raise NotFound(f"backend of {tool_id}", str(backend))
        left = tuple(one for one in backends if one != backend)
        self._count(backend, -1)
        if left:
            self._entries[tool_id] = (tool, left)
        else:
            del self._entries[tool_id]
        self._note("backend_removed", tool_id, backend)
        if not left:
            self._note("tool_removed", tool_id, None)

    def _remove(self, tool_id: str) -> None:
        for backend in self._entry(tool_id)[1]:
            self._count(backend, -1)
            self._note("backend_removed", tool_id, backend)
        del self._entries[tool_id]
        self._note("tool_removed", tool_id, None)

    def _count(self, backend: ToolBackend, more: int) -> None:
        if backend.kind == "local" and backend.name is not None:
            left = self._handlers[backend.name] = self._handlers.get(backend.name, 0) + more
            if not left:
                del self._handlers[backend.name]

    def touch(self) -> None:
        """Note that something about how tools are run has changed, though no tool has."""
        with self._lock:
            self._version += 1

    def _entry(self, tool_id: str) -> tuple[Tool, tuple[ToolBackend, ...]]:
        entry = self._found(tool_id)
        if entry is None:
            raise NotFound("tool", tool_id, suggestion=closest(tool_id, self._entries))
        return entry

    def _found(self, tool_id: str) -> tuple[Tool, tuple[ToolBackend, ...]] | None:
        try:
            return self._entries.get(tool_id)
        except TypeError:  # no key at all, so no id
            return None

    def _note(self, kind: ChangeKind, tool_id: str, backend: ToolBackend | None) -> None:
        self._version += 1
        self._news.append(Change(kind=kind, tool_id=tool_id, backend=backend, version=self._version))

    def _tell(self) -> None:
        """Deliver what is new without holding the index; one thread at a time, so the order holds.

        Who finds another thread delivering leaves its news to that one, which looks again after
        letting go: nothing is left behind, and a listener may change the index.
        """
        while self._news and self._telling.acquire(blocking=False):
            try:
                while self._news:
                    change = self._news.popleft()
                    for listener in self._listeners:
                        _hand(listener, change)
            finally:
                self._telling.release()

    # --- reading ----------------------------------------------------------------------------

    def _all(self) -> tuple[Tool, ...]:
        version, tools = self._sorted
        if version == self._version:
            return tools
        with self._lock:
            tools = tuple(self._entries[tool_id][0] for tool_id in sorted(self._entries))
            self._sorted = (self._version, tools)
            return tools

    def _cursor(self, version: int, words: builtins.list[str], start: int) -> str:
        body = orjson.dumps([version, words, start])
        return base64.urlsafe_b64encode(self._stamp(body) + body).decode()

    def _open_cursor(self, cursor: str, version: int, words: builtins.list[str]) -> int:
        try:
            raw = base64.urlsafe_b64decode(cursor.encode())
        except (binascii.Error, ValueError, AttributeError) as error:
            raise InvalidCursor("the cursor is not one of ours; start from the first page") from error
        import hmac  # only where pages are turned

        stamp, body = raw[:_STAMP_BYTES], raw[_STAMP_BYTES:]
        if not hmac.compare_digest(stamp, self._stamp(body)):
            raise InvalidCursor("the cursor is not one of ours; start from the first page")
        made_at, made_for, start = orjson.loads(body)
        if made_for != words:
            raise InvalidCursor("the cursor belongs to another search; start from the first page")
        if made_at != version:
            raise InvalidCursor("the tools have changed since this page was made; start from the first page")
        return int(start)

    def _stamp(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._secret, digest_size=_STAMP_BYTES).digest()


def _hand(listener: Listener, change: Change) -> None:
    try:
        listener(change)
    except Exception:
        log.exception("a listener of the index raised")


def check_limit(limit: object) -> None:
    """Raise unless `limit` is a number of items that a page may have."""
    if not isinstance(limit, int):
        raise wants("limit", "an integer", limit)
    if not 1 <= limit <= 1000:
        raise ValueError(f"limit must be 1 to 1000, not {limit}")


def _matching(tools: Iterable[Tool], words: Sequence[str]) -> builtins.list[Tool]:
    """The tools that hold every word; those first whose ids do."""
    found = [tool for tool in tools if all(word in _text(tool) for word in words)]
    if words:
        found.sort(key=lambda tool: not all(word in tool.id.lower() for word in words))
    return found


def _found_by(searcher: Searcher, query: str, tools: Sequence[Tool]) -> builtins.list[Tool]:
    """What a searcher of the user's finds: tools of this index, each once."""
    known = {tool.id: tool for tool in tools}
    found: dict[str, Tool] = {}
    for one in searcher(query, tools):
        id = one if isinstance(one, str) else getattr(one, "id", None)
        if id not in known:
            raise NotFound("tool", str(id), why="the searcher found it, but it is not in the index")
        found[str(id)] = known[str(id)]
    return list(found.values())


def _text(tool: Tool) -> str:
    return f"{tool.id} {tool.description} {' '.join(tool.tags)}".lower()


def _differences(old: Tool, new: Tool) -> str:
    before, after = old.to_dict(), new.to_dict()
    return ", ".join(sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)))

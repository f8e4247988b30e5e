"""The index of tools and their backends.

An Index is safe for concurrent use: every change takes one lock and replaces what readers hold. Listeners
get the changes in order. It refuses a second definition under a registered id, and a cursor of another
search or of an earlier state of the index.
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

from ..argument_checks import wrong_type
from ..errors import InvalidCursor, InvalidTool, NotFound, ToolNotApproved, ToolNotFound
from ..fast_dataclass import dataclass
from ..values import did_you_mean
from .mcp.login_errors import Reason
from .reserved import why_reserved_is_missing
from .summaries import NamespacePage, Searcher, SummaryPage, summary_of
from .tool import Tool, ToolBackend, check_backend

log = logging.getLogger("ropewalk.tools")
ChangeKind: TypeAlias = Literal["registered", "updated", "backend_removed", "tool_removed"]
_SIGNATURE_BYTES: Final = 12
_NAMESPACES_QUERY: Final = ["\0namespaces"]
"""Replaces the words of a search in the cursors of `list_namespaces`; no real search has these words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of the index; `version` is the index's version after it."""

    kind: ChangeKind
    tool_id: str
    backend: ToolBackend | None = None
    version: int


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a search; `next_cursor` is None on the last page."""

    tools: tuple[Tool, ...]
    next_cursor: str | None = None


Listener: TypeAlias = Callable[[Change], Any]


class Index:
    """Tools by id, sorted by id, with the backends of each."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entries: dict[str, tuple[Tool, tuple[ToolBackend, ...]]] = {}
        self._aliases: dict[str, str] = {}  # the ids that aliases of tools mean
        self._handler_counts: dict[str, int] = {}  # number of backends per local name
        self._sorted_cache: tuple[int, tuple[Tool, ...]] = (-1, ())
        self._version = 0
        self._secret = os.urandom(16)
        self.searcher: Searcher | None = None
        """Finds the tools for a query; None searches for the words of the query."""
        self._listeners: tuple[Listener, ...] = ()
        self._changes: deque[Change] = deque()
        self._publishing = threading.Lock()

    @property
    def version(self) -> int:
        """A number that grows with every change of a tool, a backend or a handler."""
        return self._version

    def get(self, tool_id: str, /) -> Tool | None:
        """Return the tool with this id, or None.

        Args:
            tool_id: The id of the tool.

        Returns:
            The tool.
        """
        entry = self._lookup(tool_id)
        return entry[0] if entry is not None else None

    def backends(self, tool_id: str, /) -> list[ToolBackend]:
        """Return the backends of a tool in the order of registration; an empty list for an unknown id.

        Args:
            tool_id: The id of the tool.

        Returns:
            A copy of the list.
        """
        entry = self._lookup(tool_id)
        return list(entry[1]) if entry is not None else []

    def ids(self) -> list[str]:
        """Return every tool id, sorted.

        Returns:
            The ids.
        """
        return [tool.id for tool in self._sorted_tools()]

    def list(self, namespace: str | None = None) -> list[Tool]:
        """Return every tool, or those of one namespace, sorted by id.

        Args:
            namespace: The namespace; None for all tools.

        Returns:
            The tools.
        """
        return [tool for tool in self._sorted_tools() if namespace is None or tool.namespace == namespace]

    def namespaces(self) -> builtins.list[str]:
        """Return the namespaces that have tools, sorted; "" stands for the tools without one.

        Returns:
            The names.
        """
        return sorted({tool.namespace or "" for tool in self._sorted_tools()})

    def list_namespaces(self, *, limit: int = 20, cursor: str | None = None) -> NamespacePage:
        """List the namespaces page by page, sorted; "" stands for the tools without one.

        Args:
            limit: Namespaces per page, 1 to 1000.
            cursor: The `next_cursor` of the previous page.

        Returns:
            The page, with the cursor of the next one.

        Raises:
            InvalidCursor: The cursor belongs to another list, or the index has changed since.
        """
        check_limit(limit)
        with self._lock:
            version, tools = self._version, self._sorted_tools()
        start = self._read_cursor(cursor, version, _NAMESPACES_QUERY)
        end = start + limit
        names = sorted({tool.namespace or "" for tool in tools})
        next_cursor = self._make_cursor(version, _NAMESPACES_QUERY, end) if end < len(names) else None
        return NamespacePage(tuple(names[start:end]), next_cursor)

    def summaries(self, query: str = "", *, limit: int = 20, cursor: str | None = None) -> SummaryPage:
        """Search as `search` does, but return a short summary of each tool instead of its definition.

        Args:
            query: The words.
            limit: Tools per page, 1 to 1000.
            cursor: The `next_cursor` of the previous page.

        Returns:
            The page.
        """
        page = self.search(query, limit=limit, cursor=cursor)
        return SummaryPage(tuple(map(summary_of, page.tools)), page.next_cursor)

    def search(self, query: str = "", *, limit: int = 20, cursor: str | None = None) -> Page:
        """Return the tools whose id, description or tags contain every word of `query`, page by page.

        Tools with all words in their id come first. A `searcher` replaces this search.

        Args:
            query: The words; none match every tool.
            limit: Tools per page, 1 to 1000.
            cursor: The `next_cursor` of the previous page.

        Returns:
            The page, with the cursor of the next one.

        Raises:
            InvalidCursor: The cursor belongs to another query, or the index has changed since.
        """
        if not isinstance(query, str):
            raise wrong_type("query", "a string", query)
        check_limit(limit)
        with self._lock:
            version, tools = self._version, self._sorted_tools()
        words = query.lower().split()
        start = self._read_cursor(cursor, version, words)
        end = start + limit
        if self.searcher is None:
            matches = _search_words(tools, words)
        else:
            matches = _search_with(self.searcher, query, tools)
        next_cursor = self._make_cursor(version, words, end) if end < len(matches) else None
        return Page(tuple(matches[start:end]), next_cursor)

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every change, in order.

        Args:
            listener: Gets the Change. It runs in a thread that is changing the index, usually the one that made
                this change. Its exceptions are logged.

        Returns:
            A function that removes the listener.

        Raises:
            InvalidInput: The listener cannot be called.
        """
        if not callable(listener):
            raise wrong_type("listener", "a function", listener)
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def stop() -> None:
            with self._lock:
                self._listeners = tuple(known for known in self._listeners if known is not listener)

        return stop

    # --- changes: each public method works under the lock and publishes after releasing it -------

    def put(self, tool: Tool, backend: ToolBackend | None) -> None:
        """Add a tool, or append a backend to a known one. An equal backend is not added twice.

        Args:
            tool: The tool.
            backend: The backend to append, or None.

        Raises:
            InvalidTool: A tool with this id has another definition, or `backend` is not a ToolBackend.
        """
        if not isinstance(tool, Tool):
            raise wrong_type("tool", "a Tool", tool)
        if backend is not None:
            check_backend(backend, f"tool {tool.id!r}")
        with self._lock:
            self._put(tool, backend)
        self._publish()

    def remove_backend(self, tool_id: str, backend: ToolBackend) -> None:
        """Remove one backend of a tool, and the tool with its last backend.

        Args:
            tool_id: The id of the tool.
            backend: The backend.

        Raises:
            NotFound: The tool does not exist, or it does not have this backend.
        """
        with self._lock:
            self._remove_backend(tool_id, backend)
        self._publish()

    def remove(self, tool_id: str) -> None:
        """Remove a tool with all its backends.

        Args:
            tool_id: The id of the tool.

        Raises:
            NotFound: There is no such tool.
        """
        with self._lock:
            self._remove(tool_id)
        self._publish()

    def _put(self, tool: Tool, backend: ToolBackend | None) -> None:
        entry = self._entries.get(tool.id)
        if entry is not None and entry[0] != tool and _differing_keys(entry[0], tool) != "tags":
            raise InvalidTool(
                f"tool {tool.id!r} is registered with another definition (it differs in "
                f"{_differing_keys(entry[0], tool)}); remove that one first, or use another id or version"
            )
        backends = entry[1] if entry is not None else ()
        if backend is not None and backend not in backends:
            backends = (*backends, backend)
            self._count_handler(backend, 1)
        self._entries[tool.id] = (tool, backends)
        self._aliases.update(dict.fromkeys(tool.aliases, tool.id))
        self._record_change("registered" if entry is None else "updated", tool.id, backend)

    def _replace(self, tool: Tool, backend: ToolBackend) -> None:
        """Replace the definition of a tool whose only backend belongs to the caller."""
        for old in self.backends(tool.id):
            self._count_handler(old, -1)
        self._count_handler(backend, 1)
        self._entries[tool.id] = (tool, (backend,))
        self._record_change("updated", tool.id, backend)

    def _remove_backend(self, tool_id: str, backend: ToolBackend) -> None:
        tool, backends = self._entry(tool_id)
        tool_id = tool.id
        if backend not in backends:
            raise NotFound(f"backend of {tool_id}", str(backend))
        if len(backends) == 1:
            self._remove(tool_id)
            return
        self._count_handler(backend, -1)
        self._entries[tool_id] = (tool, tuple(other for other in backends if other != backend))
        self._record_change("backend_removed", tool_id, backend)

    def _remove(self, tool_id: str) -> None:
        tool, backends = self._entry(tool_id)
        tool_id = tool.id
        for backend in backends:
            self._count_handler(backend, -1)
            self._record_change("backend_removed", tool_id, backend)
        del self._entries[tool_id]
        for alias in tool.aliases:
            self._aliases.pop(alias, None)
        self._record_change("tool_removed", tool_id, None)

    def _count_handler(self, backend: ToolBackend, change: int) -> None:
        if backend.kind == "local" and backend.name is not None:
            count = self._handler_counts.get(backend.name, 0) + change
            self._handler_counts[backend.name] = count
            if not count:
                del self._handler_counts[backend.name]

    def touch(self) -> None:
        """Count a change in how tools are run, without a change of any tool."""
        with self._lock:
            self._version += 1

    def _entry(self, tool_id: str) -> tuple[Tool, tuple[ToolBackend, ...]]:
        entry = self._lookup(tool_id)
        if entry is None:
            raise NotFound("tool", tool_id, suggestion=did_you_mean(tool_id, self._entries))
        return entry

    def _lookup(self, tool_id: str) -> tuple[Tool, tuple[ToolBackend, ...]] | None:
        try:
            return self._entries.get(tool_id) or self._entries.get(self._aliases.get(tool_id, tool_id))
        except TypeError:  # an unhashable value is not an id
            return None

    def _record_change(self, kind: ChangeKind, tool_id: str, backend: ToolBackend | None) -> None:
        self._version += 1
        self._changes.append(Change(kind=kind, tool_id=tool_id, backend=backend, version=self._version))

    def _publish(self) -> None:
        """Deliver the queued changes without holding the index lock, so that a listener may change the index."""

        # One thread delivers at a time, which keeps the order. Any other thread leaves its changes to that one, which
        # looks again after the release: no change is left behind.
        while self._changes and self._publishing.acquire(blocking=False):
            try:
                while self._changes:
                    change = self._changes.popleft()
                    for listener in self._listeners:
                        _notify(listener, change)
            finally:
                self._publishing.release()

    # --- reading ----------------------------------------------------------------------------

    def _sorted_tools(self) -> tuple[Tool, ...]:
        version, tools = self._sorted_cache
        if version == self._version:
            return tools
        with self._lock:
            tools = tuple(self._entries[tool_id][0] for tool_id in sorted(self._entries))
            self._sorted_cache = (self._version, tools)
            return tools

    def _make_cursor(self, version: int, words: builtins.list[str], start: int) -> str:
        body = orjson.dumps([version, words, start])
        return base64.urlsafe_b64encode(self._sign(body) + body).decode()

    def _read_cursor(self, cursor: str | None, version: int, words: builtins.list[str]) -> int:
        """Return where the page of a cursor starts: 0 without a cursor."""
        if cursor is None:
            return 0
        try:
            raw = base64.urlsafe_b64decode(cursor.encode())
        except (binascii.Error, ValueError, AttributeError) as error:
            raise InvalidCursor("the cursor is not valid; start from the first page") from error
        import hmac  # few processes read a second page

        signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._sign(body)):
            raise InvalidCursor("the cursor is not valid; start from the first page")
        cursor_version, cursor_words, start = orjson.loads(body)
        if cursor_words != words:
            raise InvalidCursor("the cursor belongs to another search; start from the first page")
        if cursor_version != version:
            raise InvalidCursor("the tools have changed since this page was made; start from the first page")
        return int(start)

    def _sign(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._secret, digest_size=_SIGNATURE_BYTES).digest()


def _notify(listener: Listener, change: Change) -> None:
    try:
        listener(change)
    except Exception:
        log.exception("a listener of the index raised")


def check_limit(limit: object) -> None:
    """Raise InvalidInput unless `limit` is an integer, and ValueError unless it is 1 to 1000."""
    if not isinstance(limit, int):
        raise wrong_type("limit", "an integer", limit)
    if not 1 <= limit <= 1000:
        raise ValueError(f"limit must be 1 to 1000, not {limit}")


def _search_words(tools: Iterable[Tool], words: Sequence[str]) -> builtins.list[Tool]:
    """Return the tools that contain every word; those with all words in their id come first."""
    matches = [tool for tool in tools if all(word in _searchable_text(tool) for word in words)]
    if words:
        matches.sort(key=lambda tool: not all(word in tool.id.lower() for word in words))
    return matches


def _search_with(searcher: Searcher, query: str, tools: Sequence[Tool]) -> builtins.list[Tool]:
    """Return the tools that the user's searcher finds, each once; they must be in the index."""
    known = {tool.id: tool for tool in tools}
    matches: dict[str, Tool] = {}
    for match in searcher(query, tools):
        tool_id: Any = match if isinstance(match, str) else getattr(match, "id", None)
        tool = known.get(tool_id)
        if tool is None:
            raise NotFound("tool", str(tool_id), why="the searcher found it, but it is not in the index")
        matches[tool.id] = tool
    return list(matches.values())


def _searchable_text(tool: Tool) -> str:
    return f"{tool.id} {tool.description} {' '.join(tool.tags)}".lower()


def _differing_keys(old: Tool, new: Tool) -> str:
    before, after = old.to_dict(), new.to_dict()
    return ", ".join(sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)))


_MAX_COMPARED: Final = 2000


def tool_not_found(tool_id: str, index: Any) -> ToolNotFound:
    """Return the error for a tool that an index does not have."""

    # The message gives the reason: the tool is not approved, its server is not connected, or the id is unknown, with
    # the id that may have been meant.
    failures, refused = getattr(index, "failures", {}), getattr(index, "refused", {})
    if tool_id in refused:
        return ToolNotApproved(tool_id, "resolve", refused[tool_id])
    if tool_id in failures:
        return _unavailable(tool_id, failures[tool_id], failures[tool_id])
    failed = failures.get(tool_id.partition(":")[0])
    if failed is not None and ":" in tool_id:
        return _unavailable(tool_id, f"tool not found, and its server is not connected: {failed}", failed)
    broken = getattr(index, "broken", {})
    reason = broken.get(tool_id) or why_reserved_is_missing(tool_id, getattr(index, "ids", list)())
    if reason is not None:
        return ToolNotFound(tool_id, "resolve", reason)
    suggestion = _suggest_id(tool_id, index)
    return ToolNotFound(tool_id, "resolve", "tool not found" + (f"; did you mean {suggestion}?" if suggestion else ""))


def _unavailable(tool_id: str, message: str, reason: str) -> ToolNotFound:
    error = ToolNotFound(tool_id, "resolve", message)
    error.remedy = reason.remedy if isinstance(reason, Reason) else None
    return error


def _suggest_id(tool_id: str, index: Any) -> str | None:
    """Return a known id that may have been meant: the same name in a namespace, or a similar spelling."""
    list_ids = getattr(index, "ids", None)
    if list_ids is None:
        return None
    known: Iterable[str] = list_ids()
    for known_id in known:
        if known_id.endswith(f":{tool_id}") or f":{tool_id}:" in known_id:
            return known_id
    return did_you_mean(tool_id, list(known)[:_MAX_COMPARED])

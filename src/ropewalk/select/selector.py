"""The selector: holds an index of tools, answers requests, and learns which tool served which request.

A request passes through four steps: `read_options`, `read_request`, a strategy that scores the tools (`hybrid` or one
of `legacy`), and the shaping of the results. Wrong arguments raise InvalidInput or InvalidTool before anything changes.
To add a strategy, add its function to `legacy.STRATEGIES`.

Safe for concurrent use: one lock is held while a request is answered (about a millisecond) and while tools are added
or removed. Large batches release the lock between chunks, so that requests are answered meanwhile.

Strategies, index and vectors are imported where they are used: numpy and the word vectors load with the first tool.
Without the extra `select` there is neither, and LEGACY_HYBRID replaces HYBRID.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from ..argument_checks import require_type, wrong_type
from ..errors import ConfigError, InvalidInput, InvalidTool, InvalidValue, NotFound, Problem, install_command
from ..journal.tool_usage import ToolUse, UseStore
from ..notations.records import Record
from ..tools.vendor_tools import LISTS, read_tool_list
from ..values import Json, did_you_mean, gc_disabled
from .embedders import check_name, open_embedder
from .options import NoTools, Options, missing_libraries, read_options
from .phrases import PhraseBook
from .tool_card import Card, card_of
from .usage import Rate, Usage, use_of

if TYPE_CHECKING:
    from ..tools.index import Change
    from ..tools.tool import Tool
    from ..tools.toolbox import Toolbox
    from .embedding import Embedder, Vectors
    from .index import Index
    from .legacy import Intent
    from .query import Request
    from .word_index import WordIndex

_MODEL_STRATEGIES: Final = ("hybrid", "semantic", "legacy_hybrid")  # strategies that use an embedding model
log = logging.getLogger("ropewalk")
_CHUNK: Final = 100  # tools added under one lock


class SelectionResult(Record):
    """The answer to a request."""

    # Fields: success, query, strategy, results [{name, description, score, matches, category, inputSchema,
    # namespace?}], totalMatches, detectedIntent.


@cache
def _log_replacement() -> None:
    """Log once that HYBRID is not installed."""
    log.warning("tools are selected by the strategy legacy_hybrid; for hybrid: %s", install_command("select"))


def _has_list(entry: object) -> bool:
    return isinstance(entry, Mapping) and not LISTS.isdisjoint(entry)


def _cards(tools: object) -> list[Card]:
    """Read the cards of a list of tools; raise InvalidTool for a wrong tool or a duplicate name."""
    if isinstance(tools, Mapping) and _has_list(tools):
        tools = read_tool_list(tools)
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
        raise InvalidTool(f"the tools to select from must be a list, not {type(tools).__name__}")
    # An entry of Gemini's holds several tools.
    cards = [card_of(tool) for entry in tools for tool in (read_tool_list([entry]) if _has_list(entry) else [entry])]
    keys: set[str] = set()
    for card in cards:
        if card.key in keys:
            raise InvalidTool(f"two tools are called {card.key!r}; give them namespaces, or other names")
        keys.add(card.key)
    return cards


class Selector:
    """Finds the tools that a request needs.

    Args:
        tools: Tools, or definitions `{name, description, ...}`.
        embedder: An embedding model, or the name of one (`minilm`, `multilingual`, `MODULE:CLASS`), which is opened
            when it is first needed. Without one, built-in word vectors compare meanings.
        keeper: Opens the store of what is learnt; called when it is first needed.
        intents: Replaces the table of the INTENT strategy.
        learn: Whether past successes and failures count in the ranking.
        phrases: How people ask for the tools. By default those of well-known servers.

    Raises:
        InvalidTool: A tool is wrong, or two tools have one name.
        InvalidInput: The table of intents is wrong.
        ConfigError: `embedder` is neither an embedding model nor a name of one, or the extra `select` is missing.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Mapping[str, Any]] = (),
        *,
        embedder: Embedder | str | None = None,
        keeper: Callable[[], UseStore] | None = None,
        intents: Mapping[str, Intent] | None = None,
        learn: bool = True,
        past: Callable[[], Mapping[str, Rate]] = dict,
        open_embedder: Callable[[str], Embedder] = open_embedder,
        phrases: PhraseBook | None = None,
    ) -> None:
        self._past, self._open_embedder = past, open_embedder
        self._phrases = PhraseBook() if phrases is None else phrases
        self._lock = threading.RLock()
        self._loaded_index: WordIndex | None = None
        self._embedder = check_name(embedder) if isinstance(embedder, str) else embedder
        self._vectors = None if isinstance(embedder, str) else self._no_vectors()
        self._intents: Mapping[str, Intent] | None = None
        if intents is not None:
            from .legacy import table_of

            self._intents = table_of(intents)
        self._learn = learn
        self._usage = Usage(keeper)
        self._toolbox: Toolbox | None = None
        self._changed: dict[str, None] = {}  # ids of tools to look up again, in the order of their changes
        self.add_all(tools)

    def __len__(self) -> int:
        with self._lock:
            self._catch_up()
            return len(self._loaded_index) if self._loaded_index is not None else 0

    @property
    def _index(self) -> WordIndex:
        # An index loads the stemmer and the word vectors: wait until there is a tool.
        if self._loaded_index is None:
            if missing_libraries():
                from .word_index import PlainIndex

                self._loaded_index = PlainIndex()
            else:
                from .index import Index

                self._loaded_index = Index()
        return self._loaded_index

    def _no_vectors(self) -> Vectors | None:
        """Open the model and create an empty set of vectors, or return None without a model."""
        if self._embedder is None:
            return None
        if missing := missing_libraries():
            raise ConfigError(f"an embedding model needs {', '.join(missing)}: {install_command('select')}")
        from .embedding import Vectors

        if isinstance(self._embedder, str):
            self._embedder = self._open_embedder(self._embedder)
        return Vectors(self._embedder)

    # --- tools ---------------------------------------------------------------------------------

    def add(self, tool: Tool | Mapping[str, Any]) -> None:
        """Add a tool, or replace the one of the same id.

        Args:
            tool: A Tool, or a definition `{name, description, category?, inputSchema?, namespace?, tags?}`.

        Raises:
            InvalidTool: The tool is wrong.
        """
        self._add([card_of(tool)])

    def add_all(self, tools: Iterable[Tool | Mapping[str, Any]]) -> None:
        """Add many tools.

        Args:
            tools: Tools or definitions.

        Raises:
            InvalidTool: A tool is wrong, or two of them share name and namespace. No tool is added then.
        """
        self._add_in_chunks(_cards(tools))

    def _add_in_chunks(self, cards: list[Card]) -> None:
        for start in range(0, len(cards), _CHUNK):
            self._add(cards[start : start + _CHUNK])

    @gc_disabled  # almost every object of an index lives on, so a collection would find nothing
    def _add(self, cards: list[Card]) -> None:
        phrases = [self._phrases.phrases_of(card) for card in cards]
        cards = [replace(card, phrases=own) if own else card for card, own in zip(cards, phrases, strict=True)]
        with self._lock:
            if self._vectors is None and cards:
                self._vectors = self._no_vectors()  # the first tool opens the model
            if self._vectors is None or not cards:
                self._index.add(cards)
                return
            from .embedding import model_text

            # Ask the model first: if it fails, the index stays as it is.
            vectors = self._current_vectors()
            embedded = vectors.read([model_text(card) for card in cards])
            vectors.put(self._index.add(cards), embedded)

    def _current_vectors(self) -> Vectors:
        """Return the vectors of all tools, read again if the id of the model has changed."""
        assert self._vectors is not None
        if self._vectors.id != self._vectors.embedder.id:
            from .embedding import Vectors, model_text

            vectors = Vectors(self._vectors.embedder)
            slots = list(self._index.slots.values())
            if slots:
                cards = [self._index.cards[slot] for slot in slots]
                vectors.put(slots, vectors.read([model_text(card) for card in cards if card is not None]))
            self._vectors = vectors
        return self._vectors

    def remove(self, tool: str) -> bool:
        """Remove a tool by its id.

        Args:
            tool: Id of the tool.

        Returns:
            True if the selector had the tool.
        """
        require_type(str, tool=tool)
        with self._lock:
            return self._loaded_index is not None and self._remove(tool)

    def _remove(self, key: str) -> bool:
        slot = self._index.slots.get(key)
        if slot is not None and self._vectors is not None:
            self._vectors.drop(slot)
        return self._index.remove(key)

    def replace_all(self, tools: Iterable[Tool | Mapping[str, Any]]) -> None:
        """Replace all tools with these; keep what was learnt.

        Args:
            tools: Tools or definitions.

        Raises:
            InvalidTool: A tool is wrong, or two of them share name and namespace. The old tools stay then.
        """
        cards = _cards(tools)
        with self._lock:
            before = self._loaded_index, self._vectors
            self._loaded_index, self._vectors = None, None
            try:
                self._add_in_chunks(cards)
            except BaseException:  # for example, the model fails: restore the old tools
                self._loaded_index, self._vectors = before
                raise

    def follow(self, toolbox: Toolbox) -> None:
        """Add the tools of a toolbox and follow its changes; the next request reads what has changed.

        Args:
            toolbox: The toolbox.

        Raises:
            InvalidInput: The argument is not a toolbox.
        """
        if not callable(getattr(toolbox, "on_change", None)):
            raise wrong_type("toolbox", "a Toolbox", toolbox)
        with self._lock:
            self._toolbox = toolbox
            toolbox.on_change(self._note_change)
            self._changed.update(dict.fromkeys(toolbox.ids()))

    def _note_change(self, change: Change) -> None:
        self._changed[change.tool_id] = None

    def _catch_up(self) -> None:
        """Apply the changes of the toolbox to the index."""
        while self._changed:
            # Clear the notes before reading the tools: a change during the reading is noted again.
            keys = list(self._changed)
            for key in keys:
                del self._changed[key]
            try:
                while keys:
                    self._refresh(keys[:_CHUNK])
                    del keys[:_CHUNK]
            except BaseException:  # for example, the model fails: the next request tries again
                self._changed.update(dict.fromkeys(keys))
                raise

    def _refresh(self, keys: list[str]) -> None:
        """Bring the tools of these ids to their state in the toolbox."""
        cards: list[Card] = []
        for key in keys:
            tool = self._toolbox.get(key) if self._toolbox is not None else None
            if tool is not None:
                cards.append(card_of(tool))
            elif self._loaded_index is not None:
                self._remove(key)
        self._add(cards)

    # --- selecting ----------------------------------------------------------------------------

    def select(self, query: str, options: Mapping[str, Any] | None = None, **more: Any) -> SelectionResult:
        """Select the tools that a request needs, the best first.

        Args:
            query: The request. A blank one has no results.
            options: strategy, maxResults, threshold, context {recentTools}, excludeTools, allowTools, category,
                namespace.
            more: The same options as keywords.

        Returns:
            The tools with their scores and reasons, at most `maxResults`, and how many tools match.

        Raises:
            NoTools: The selector has no tools.
            InvalidInput: The query or options are wrong; lists every problem.
        """
        settings = read_options(query, options, more)
        if len(self) == 0:
            raise NoTools()
        if settings.strategy == "hybrid" and missing_libraries():
            _log_replacement()
            settings = replace(settings, strategy="legacy_hybrid")
        from .legacy import INTENTS, detect
        from .query import read_request

        request = read_request(query)
        intents = INTENTS if self._intents is None else self._intents
        intent = detect(request, intents)

        results: list[dict[str, Json]] = []
        total = 0
        if query.strip():
            results, total = self._rank(request, settings, intents, intent)
        return SelectionResult(
            {
                "success": True,
                "query": query,
                "strategy": settings.strategy,
                "results": results,
                "totalMatches": total,
                "detectedIntent": intent,
            }
        )

    def _rank(
        self, request: Request, settings: Options, intents: Mapping[str, Intent], intent: str | None
    ) -> tuple[list[dict[str, Json]], int]:
        """Return the results of a request, and the number of matching tools."""
        from .legacy import Question, select_legacy

        past = self._past() if self._learn else {}  # reads the store, so before the lock
        # The model embeds the request outside of the lock, so that others are answered meanwhile.
        use_model = self._vectors is not None and settings.strategy in _MODEL_STRATEGIES
        if use_model:
            with self._lock:
                vectors = self._current_vectors()
            vectors.query(request.text)
            if settings.strategy == "hybrid":
                vectors.scale  # noqa: B018 - the model measures it
        with self._lock:
            near = self._current_vectors().near(request.text, self._index.size) if use_model else None
            rates = self._usage.rates() if self._learn else {}
            if settings.strategy == "hybrid":
                from .hybrid import select_hybrid

                memory = self._usage.memory() if self._learn else None
                index = cast("Index", self._index)  # with the extra `select` there is no other
                if near is not None:
                    near = self._current_vectors().scale.convert(near)
                return select_hybrid(index, request, settings, near, memory, rates, past)
            question = Question(self._index, request, intents, intent, None if near is None else near.tolist())
            return select_legacy(question, settings, rates, past)

    # --- learning -----------------------------------------------------------------------------

    def record(self, query: str | None, tool: str, success: bool = True) -> None:
        """Record that a tool served a request, or failed it.

        Args:
            query: The request. None changes only the success rate of the tool.
            tool: The id of the tool.
            success: Whether the tool did what the request needed.

        Raises:
            InvalidInput: An argument has the wrong type.
            NotFound: The selector has no such tool.
        """
        problems: list[Problem] = []
        for name, value in (("query", "" if query is None else query), ("tool", tool)):
            if not isinstance(value, str):
                problems.append(Problem(path=name, message=f"must be a string, not {type(value).__name__}"))
        if not isinstance(success, bool):
            problems.append(Problem(path="success", message=f"must be true or false, not {success!r}"))
        if problems:
            raise InvalidInput(problems)
        with self._lock:
            if not self._has_tool(tool):
                raise self._tool_not_found(tool)
            self._usage.record(query, tool, success)

    def learn(self, query: str, outcomes: Mapping[str, bool], source: str | None = None) -> None:
        """Record how several tools did for one request; ignore tools that the selector does not have.

        Args:
            query: The request.
            outcomes: Whether each tool succeeded, by its id.
            source: The digest of the caller, for runs that end elsewhere. None: the current caller (`use_source`).
        """
        require_type(str, query=query)
        require_type(Mapping, outcomes=outcomes)
        require_type(bool, **{f"outcomes.{tool}": success for tool, success in outcomes.items()})
        with self._lock:
            for tool, success in outcomes.items():
                if self._has_tool(tool):
                    self._usage.record(query, tool, success, source)

    def _has_tool(self, tool: str) -> bool:
        if self._toolbox is not None and self._toolbox.get(tool) is not None:
            return True
        return self._loaded_index is not None and tool in self._loaded_index.slots

    def stats(self) -> dict[str, Rate]:
        """Return the success rate of every tool that was used, by its id.

        Returns:
            Rates by id, in the order of the ids.
        """
        with self._lock:
            return dict(sorted(self._usage.rates().items()))

    def learnt(self, tool: str | None = None) -> list[ToolUse]:
        """List the recorded requests of one tool, or of all tools, the newest first.

        Args:
            tool: Id of the tool; None for all.

        Returns:
            The uses.
        """
        require_type(str, tool="" if tool is None else tool)
        with self._lock:
            return self._usage.learnt(tool)

    def export_learnt(self) -> list[dict[str, Json]]:
        """Export all recorded requests as JSON for `import_learnt`.

        Returns:
            One object for each use.
        """
        return [
            {
                "tool": use.tool,
                "request": use.request,
                "successes": use.successes,
                "failures": use.failures,
                "at": use.at,
                "source": use.source,
            }
            for use in self.learnt()
        ]

    def import_learnt(self, uses: Iterable[Mapping[str, Any]]) -> int:
        """Import recorded requests.

        Args:
            uses: Items as `export_learnt` returns them, from this selector or another.

        Returns:
            The number of imported items.

        Raises:
            InvalidInput: An item is wrong; lists every problem, and nothing is imported.
        """
        if isinstance(uses, str | Mapping) or not isinstance(uses, Iterable):
            raise wrong_type("uses", "a list", uses)
        valid, problems = [], []
        for number, use in enumerate(uses):
            try:
                valid.append(use_of(use))
            except InvalidValue as error:
                path = f"uses[{number}].{error.place}".removesuffix(".")
                problems.append(Problem(path=path, message=error.message))
        if problems:
            raise InvalidInput(problems)
        with self._lock:
            return self._usage.take(valid)

    def forget(self, tool: str | None = None) -> int:
        """Delete what was learnt about one tool, or about all tools.

        Args:
            tool: Id of the tool; None for all.

        Returns:
            The number of deleted requests.

        Raises:
            NotFound: The selector has no such tool and has learnt nothing about it.
        """
        require_type(str, tool="" if tool is None else tool)
        with self._lock:
            if tool is not None and tool not in self._usage.rates() and not self._has_tool(tool):
                raise self._tool_not_found(tool, self._usage.rates())
            return self._usage.forget(tool)

    def _tool_not_found(self, tool: str, more: Iterable[str] = ()) -> NotFound:
        known: Iterable[str] = ()
        if self._toolbox is not None:
            known = self._toolbox.ids()
        elif self._loaded_index is not None:
            known = self._loaded_index.slots
        return NotFound("tool", tool, suggestion=did_you_mean(tool, [*known, *more]))

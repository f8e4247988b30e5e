"""The selector: tools come and go, requests are asked, and what was right is remembered.

Safe for concurrent use: one lock is held while an answer is worked out, a millisecond or so, and while a tool comes or
goes. Adding many lets others in between.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..dialects.records import Record
from ..errors import InvalidInput, InvalidTool, InvalidValue, NotFound, Problem
from ..errors.given import must_be, wants
from ..journal.use import ToolUse, UseStore
from ..uncollected import uncollected
from ..values import Json, closest
from .card import Card, card_of
from .options import NoTools, read_options
from .usage import Rate, Usage, use_of

if TYPE_CHECKING:
    import numpy as np

    from ..tools.index import Change
    from ..tools.tool import Tool
    from ..tools.toolbox import Toolbox
    from .documented import Intent
    from .embed import Embedder, Vectors
    from .index import Index
    from .request import Request

    Array = np.ndarray[Any, Any]

MEANT: Final = ("hybrid", "semantic", "legacy_hybrid")  # strategies that ask a model
_AT_ONCE: Final = 100  # tools added under one lock


class SelectionResult(Record):
    """success, query, strategy, results [{name, description, score, matches, category, inputSchema, namespace?}],
    totalMatches, detectedIntent."""


def _table(intents: object) -> Mapping[str, Intent]:
    from .documented import table_of

    return table_of(intents)


def _cards(tools: object) -> list[Card]:
    """The cards of a list of tools; InvalidTool for a wrong one, and for two of one name."""
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
        raise InvalidTool(f"tools to select from are a list of them, not {type(tools).__name__}")
    cards = [card_of(tool) for tool in tools]
    seen: set[str] = set()
    for card in cards:
        if card.key in seen:
            raise InvalidTool(f"two tools are called {card.key!r}; give them namespaces, or other names")
        seen.add(card.key)
    return cards


class Selector:
    """Finds the tools that a request needs. `tools` are Tools or definitions `{name, description, ...}`.

    `embedder` is a model (see `embed`); `keeper` gives the place where what is learnt is kept, opened when it is
    needed; `intents` replaces the table of the INTENT strategy; without `learn` nothing that was learnt counts.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Mapping[str, Any]] = (),
        *,
        embedder: Embedder | None = None,
        keeper: Callable[[], UseStore] | None = None,
        intents: Mapping[str, Intent] | None = None,
        learn: bool = True,
    ) -> None:
        self._lock = threading.RLock()
        self._made: Index | None = None
        self._embedder = embedder
        self._vectors = self._no_vectors()
        self._intents = _table(intents) if intents is not None else None
        self._learn = learn
        self._usage = Usage(keeper)
        self._toolbox: Toolbox | None = None
        self._changed: dict[str, None] = {}  # the ids of tools that came, went or changed, once each
        self.add_all(tools)

    def __len__(self) -> int:
        with self._lock:
            self._catch_up()
            return len(self._made) if self._made is not None else 0

    @property
    def _index(self) -> Index:
        if self._made is None:
            from .index import Index  # numpy, the stemmer and the word vectors: only where tools are selected

            self._made = Index()
        return self._made

    def _no_vectors(self) -> Vectors | None:
        """Those of a model for no tools yet; ConfigError for what is no model."""
        if self._embedder is None:
            return None
        from .embed import Vectors

        return Vectors(self._embedder)

    # --- which tools there are ----------------------------------------------------------------

    def add(self, tool: Tool | Mapping[str, Any]) -> None:
        """Add a tool, or replace the one of the same id."""
        self._add([card_of(tool)])

    def add_all(self, tools: Iterable[Tool | Mapping[str, Any]]) -> None:
        """Add many tools. Two of one name and namespace among them are an InvalidTool, and nothing is added."""
        cards = _cards(tools)
        for start in range(0, len(cards), _AT_ONCE):
            self._add(cards[start : start + _AT_ONCE])

    @uncollected  # most of what an index is made of stays
    def _add(self, cards: list[Card]) -> None:
        with self._lock:
            if self._vectors is None or not cards:
                self._index.add(cards)
                return
            from .embed import model_text

            vectors = self._current()
            known = vectors.read([model_text(card) for card in cards])  # if the model fails, nothing is added
            vectors.put(self._index.add(cards), known)

    def _current(self) -> Vectors:
        """The vectors of the tools under the model as it is now: under another id it is another one, and reads all."""
        assert self._vectors is not None
        if self._vectors.id != self._vectors.embedder.id:
            from .embed import Vectors, model_text

            fresh = Vectors(self._vectors.embedder)
            here = [(slot, card) for slot, card in enumerate(self._index.cards) if card is not None]
            if here:
                fresh.put([slot for slot, _ in here], fresh.read([model_text(card) for _, card in here]))
            self._vectors = fresh
        return self._vectors

    def _near(self, request: Request) -> Array | None:
        """How like each tool is to a request, by slot; None without a model."""
        return self._current().near(request.text, self._index.size) if self._vectors is not None else None

    def remove(self, tool: str) -> bool:
        """Take a tool out by its id; False when it is not there."""
        must_be(str, tool=tool)
        with self._lock:
            return self._made is not None and self._drop(tool)

    def _drop(self, key: str) -> bool:
        slot = self._index.slots.get(key)
        if slot is not None and self._vectors is not None:
            self._vectors.drop(slot)
        return self._index.remove(key)

    def replace_all(self, tools: Iterable[Tool | Mapping[str, Any]]) -> None:
        """Have exactly these tools. What was learnt stays."""
        cards = _cards(tools)
        with self._lock:
            before = self._made, self._vectors
            self._made, self._vectors = None, self._no_vectors()
            try:
                for start in range(0, len(cards), _AT_ONCE):
                    self._add(cards[start : start + _AT_ONCE])
            except BaseException:  # as where a model fails: what there was stays
                self._made, self._vectors = before
                raise

    def follow(self, toolbox: Toolbox) -> None:
        """Have the tools of a toolbox, now and whatever changes there. What changed is looked at when somebody asks."""
        if not callable(getattr(toolbox, "on_change", None)):
            raise wants("toolbox", "a Toolbox", toolbox)
        with self._lock:
            self._toolbox = toolbox
            toolbox.on_change(self._note)
            self._changed.update(dict.fromkeys(toolbox.ids()))

    def _note(self, change: Change) -> None:
        self._changed[change.tool_id] = None

    def _catch_up(self) -> None:
        """Bring the index up to what the toolbox holds now."""
        while self._changed:
            keys = list(self._changed)
            for key in keys:  # before they are looked at: what changes from now on is noted again
                del self._changed[key]
            try:
                while keys:
                    some = keys[:_AT_ONCE]
                    tools = [self._toolbox.get(key) if self._toolbox is not None else None for key in some]
                    for key, tool in zip(some, tools, strict=True):
                        if tool is None and self._made is not None:
                            self._drop(key)
                    self._add([card_of(tool) for tool in tools if tool is not None])
                    del keys[:_AT_ONCE]
            except BaseException:
                self._changed.update(dict.fromkeys(keys))  # looked at again by the next who asks
                raise

    # --- selecting ----------------------------------------------------------------------------

    def select(self, query: str, options: Mapping[str, Any] | None = None, **more: Any) -> SelectionResult:
        """The tools a request needs, the best first. Options as documented, in camelCase or as keywords: strategy,
        maxResults, threshold, context {recentTools}, excludeTools, allowTools, category, namespace.

        Raises NoTools before there are any, InvalidInput with everything that is wrong with query and options.
        """
        chosen = read_options(query, options, more)
        if len(self) == 0:
            raise NoTools()
        from . import answer  # with numpy and the rest, as in _index

        request, intent = answer.asked(query, self._intents)
        blank = not query.strip()
        if self._vectors is not None and chosen.strategy in MEANT and not blank:
            with self._lock:
                vectors = self._current()
            vectors.query(request.text)  # a model may take its time: others are answered meanwhile
        with self._lock:
            near = self._near(request) if chosen.strategy in MEANT and not blank else None
            rates = self._usage.rates() if self._learn else {}
            if blank:
                found: list[dict[str, Json]] = []
                total = 0
            elif chosen.strategy == "hybrid":
                memory = self._usage.memory() if self._learn else None
                found, total = answer.answered(self._index, request, chosen, near, memory, rates)
            else:
                found, total = answer.as_documented(self._index, request, chosen, near, self._intents, intent, rates)
        return SelectionResult(
            {
                "success": True,
                "query": query,
                "strategy": chosen.strategy,
                "results": found,
                "totalMatches": total,
                "detectedIntent": intent,
            }
        )

    # --- learning -----------------------------------------------------------------------------

    def record(self, query: str | None, tool: str, success: bool = True) -> None:
        """Remember that a tool served a request, or failed it; an unknown tool raises NotFound. Without a request
        only the tool's success rate learns from it."""
        problems = [
            Problem(path=name, message=f"must be a string, not {type(value).__name__}")
            for name, value in (("query", "" if query is None else query), ("tool", tool))
            if not isinstance(value, str)
        ]
        if not isinstance(success, bool):
            problems.append(Problem(path="success", message=f"must be true or false, not {success!r}"))
        if problems:
            raise InvalidInput(problems)
        with self._lock:
            if not self._knows(tool):
                raise self._no_such(tool)
            self._usage.record(query, tool, success)

    def learn(self, query: str, outcomes: Mapping[str, bool]) -> None:
        """Remember how several tools did for one request; those that are not here are left out."""
        must_be(str, query=query)
        must_be(Mapping, outcomes=outcomes)
        must_be(bool, **{f"outcomes.{tool}": success for tool, success in outcomes.items()})
        with self._lock:
            for tool, success in outcomes.items():
                if self._knows(tool):
                    self._usage.record(query, tool, success)

    def _knows(self, tool: str) -> bool:
        if self._toolbox is not None and self._toolbox.get(tool) is not None:
            return True
        return self._made is not None and tool in self._made.slots

    def stats(self) -> dict[str, Rate]:
        """How often each tool that was used succeeded."""
        with self._lock:
            return dict(sorted(self._usage.rates().items()))

    def learnt(self, tool: str | None = None) -> list[ToolUse]:
        """What is remembered: the requests of each tool, the newest first."""
        must_be(str, tool="" if tool is None else tool)
        with self._lock:
            return self._usage.learnt(tool)

    def export_learnt(self) -> list[dict[str, Json]]:
        """What is remembered, as JSON that `import_learnt` takes."""
        return [
            {"tool": u.tool, "request": u.request, "successes": u.successes, "failures": u.failures, "at": u.at}
            for u in self.learnt()
        ]

    def import_learnt(self, uses: Iterable[Mapping[str, Any]]) -> int:
        """Remember what was exported, here or elsewhere; gives how many. Raises InvalidInput with everything wrong."""
        if isinstance(uses, str | Mapping) or not isinstance(uses, Iterable):
            raise wants("uses", "a list", uses)
        taken, problems = [], []
        for number, use in enumerate(uses):
            try:
                taken.append(use_of(use))
            except InvalidValue as error:
                where = f"uses[{number}].{error.place}".removesuffix(".")
                problems.append(Problem(path=where, message=error.message))
        if problems:
            raise InvalidInput(problems)
        with self._lock:
            return self._usage.take(taken)

    def forget(self, tool: str | None = None) -> int:
        """Delete what was learnt of one tool, or all of it; gives how many requests went. A tool that there is not, and
        of which nothing was learnt, raises NotFound."""
        must_be(str, tool="" if tool is None else tool)
        with self._lock:
            if tool is not None and tool not in self._usage.rates() and not self._knows(tool):
                raise self._no_such(tool, self._usage.rates())
            return self._usage.forget(tool)

    def _no_such(self, tool: str, others: Iterable[str] = ()) -> NotFound:
        known = self._toolbox.ids() if self._toolbox is not None else self._made.slots if self._made else ()
        return NotFound("tool", tool, suggestion=closest(tool, [*known, *others]))

"""Selection in an app: find the tools that a request needs, and learn from their use."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ..config.settings import NO_EMBEDDER
from ..errors import ConfigError, StoreError
from ..journal.address import run_sync_in_thread
from ..values import Json
from .search import NEAR, first_exact

if TYPE_CHECKING:
    from ..config.settings import Config
    from ..journal.protocol import Store
    from ..tools.toolbox import Toolbox
    from .embedding import Embedder
    from .phrases import PhraseBook
    from .search import Results, Search
    from .selector import Selector
    from .usage import Rate

log = logging.getLogger("ropewalk")
MAX_AGE: Final = 60.0
"""Seconds for which the success rates of recorded runs are kept."""


class Selection:
    """The selector of an app, made when it is first needed, and what it learns from runs."""

    # `rates` reads from the journal how often each tool succeeded in runs, whatever these were for.

    def __init__(
        self,
        toolbox: Toolbox,
        store: Callable[[], Store],
        rates: Callable[[], Mapping[str, Rate]] = dict,
        config: Callable[[], Config | None] = lambda: None,
    ) -> None:
        """Select among the tools of a toolbox."""
        self._toolbox, self._store, self._rates, self._config = toolbox, store, rates, config
        self._past: tuple[float, Mapping[str, Rate]] = -MAX_AGE, {}
        self._model: Embedder | str = NO_EMBEDDER

    def set_model(self, model: Embedder | str) -> None:
        """Set the embedding model of selectors that are made from now on."""
        if isinstance(model, str) and model != NO_EMBEDDER:
            from .embedders import check_name

            check_name(model)
        self._model = model

    def check_model(self) -> None:
        """Raise ConfigError if the embedding model cannot be opened, as far as that is known without loading it."""
        if isinstance(self._model, str) and self._model != NO_EMBEDDER:
            from .embedders import check_importable

            check_importable(self._model, self._config())

    def open_model(self, name: str) -> Embedder:
        """Open a model by its name, for this project."""
        from .embedders import open_embedder

        self._model = model = open_embedder(name, self._config())  # the next selector has the same
        return model

    def new(self, tools: Iterable[Any] = (), **options: Any) -> Selector:
        """Return a selector over some tools, with the model of the app."""
        from .selector import Selector

        model: dict[str, Any] = {"embedder": self._model, "open_embedder": self.open_model}
        return Selector(tools, phrases=self._phrase_book(), **model, **options)

    def _phrase_book(self) -> PhraseBook:
        """Return the usage phrases of the project's tools; without them if their file is wrong."""
        from ..config.project import PHRASE_FILE
        from .phrases import PhraseBook, read_phrase_book

        config = self._config()
        if config is not None:
            try:
                return read_phrase_book(config.directory / PHRASE_FILE)
            except ConfigError as error:  # a selection needs no phrases
                log.error("tools are selected without the phrases of the project: %s", error)
        return PhraseBook()

    @cached_property
    def selector(self) -> Selector:
        """The selector over the tools that the toolbox has at the time."""
        selector = self.new(keeper=self._store, past=self._past_rates)
        selector.follow(self._toolbox)
        return selector

    def _past_rates(self) -> Mapping[str, Rate]:
        """Return the success rates in recorded runs, read again once they are old."""
        now = time.monotonic()
        if now >= self._past[0] + MAX_AGE:
            try:
                self._past = now, self._rates()
            except StoreError:  # a selection needs no store
                log.exception("the selector does not know how tools did in earlier runs")
                self._past = now, {}
        return self._past[1]

    def search(
        self,
        search: Search,
        among: Collection[str],
        names: Mapping[str, str] = MappingProxyType({}),
        threshold: float = NEAR,
    ) -> Results:
        """Return the best of some tools for the queries of a model; `names` are further names of these tools."""
        options: dict[str, Any] = {"allowTools": list(among), "threshold": threshold}
        ids = {**{id: id for id in among}, **names}

        def rank(query: str, limit: int) -> list[tuple[str, float]]:
            rows = self.selector.select(query, maxResults=limit, **options)["results"] if among else []
            return first_exact(query, ids, [(str(row["name"]), float(row["score"])) for row in rows])[:limit]

        return search.run(rank)

    async def learn(self, job: Any, result: Mapping[str, Json]) -> None:
        """Remember how the tools of a run did, if the run was given the request it is for."""

        # A run that was released to wait teaches nothing until it has ended.
        context = job.new.context or {}
        request = context.get("request")
        if request is None or result.get("status") == "waiting":
            return
        from .outcomes import tool_outcomes

        def learn_from_history() -> None:
            outcomes = tool_outcomes(job.flow, self._store().history(job.new.id), result)
            self.record(request, outcomes, context.get("source") or "")

        await run_sync_in_thread(self._store(), learn_from_history)

    def record(self, request: str, outcomes: Mapping[str, bool], source: str | None = None) -> None:
        """Teach the selector which tools answered a request."""
        try:
            self.selector.learn(request, outcomes, source)
        except StoreError:  # the calls are done; only what could be learnt from them is lost
            log.exception("the selector learnt nothing from a use of %s", ", ".join(outcomes))

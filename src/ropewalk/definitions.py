"""Definitions read, compiled and checked, each once: what an app knows before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from .check import Checked, check
from .config.limits import Limits
from .dialects import Compiled, notation_of
from .errors import InvalidFlow, Problem
from .fitting import Cards, check_cycles
from .frozen import dataclass
from .ir import Flow
from .journal import Definition
from .values import Json, digest

if TYPE_CHECKING:
    from pathlib import Path

    from .builder import Built, FlowBuilder

    Source: TypeAlias = Path | str | Mapping[str, Any] | Built | FlowBuilder

KEPT = 256  # compiled definitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A definition compiled: `document` is its normalised form, `file` where it was read from."""

    kind: str
    name: str
    document: dict[str, Json]
    flow: Flow
    fingerprint: str
    warnings: tuple[Problem, ...]
    compiled: Compiled
    file: Any = None


class Definitions:
    """Documents to flows. `cards` knows the tools there are, `limits` how large a definition may be."""

    def __init__(self, cards: Cards, limits: Limits) -> None:
        self.cards, self.limits = cards, limits
        self._loaded: dict[tuple[str, str], Loaded] = {}

    def load(self, source: Source) -> Loaded:
        """Read and compile a definition: a file, a directory, text, the document itself, or a flow
        written in Python.

        Raises InvalidFlow with every problem, each with its place in the file.
        """
        if isinstance(source, Mapping):
            return self.loaded(source)
        if not isinstance(source, (str, PathLike)):
            return self.built(source)
        from .source import Limits as DocumentLimits
        from .source import attach, load

        most = self.limits
        limits = DocumentLimits(size=most.file_size, nesting=most.nesting, aliases=most.aliases)
        document = load(source, limits=limits)
        try:
            return self.loaded(document.data, document)
        except InvalidFlow as exc:
            raise InvalidFlow(attach(exc.problems, document)) from None

    def loaded(self, document: Mapping[str, Any], file: Any = None) -> Loaded:
        """Compile a document, from the cache when it is one of before."""
        compiled = notation_of(document).compile(document)
        # Not of the id: a file without one gets another each time, and is the same definition.
        fingerprint = digest({key: value for key, value in compiled.document.items() if key != "id"})
        known = self._loaded.get((fingerprint, compiled.id))
        if known is not None and file is None:
            return known
        loaded = self._compiled(compiled, fingerprint, None if known is None else known.flow, file)
        return self._keep(loaded)

    def built(self, source: Built | FlowBuilder) -> Loaded:
        """A flow written in Python. Tools of its own that the toolbox does not know are registered."""
        if not hasattr(source, "done"):
            what = f"a definition is a file, its text, a document or a flow, not {type(source).__name__}"
            raise InvalidFlow([Problem(path="", message=what)])
        flow = source.done()
        toolbox = self.cards.toolbox
        for tool in flow.tools:
            if toolbox.get(tool.id) != tool:
                toolbox.register(tool)
        compiled = flow.compiled
        known = self._loaded.get((flow.fingerprint, compiled.id))
        return known if known is not None else self._keep(self._compiled(compiled, flow.fingerprint))

    def _compiled(self, compiled: Compiled, fingerprint: str, flow: Flow | None = None, file: Any = None) -> Loaded:
        return Loaded(
            kind=compiled.kind,
            name=compiled.name or compiled.id,
            document=compiled.document,
            flow=compiled.flow if flow is None else flow,
            fingerprint=fingerprint,
            warnings=compiled.warnings,
            compiled=compiled,
            file=file,
        )

    def _keep(self, loaded: Loaded) -> Loaded:
        if len(self._loaded) >= KEPT:
            del self._loaded[next(iter(self._loaded))]
        self._loaded[loaded.fingerprint, loaded.compiled.id] = loaded
        return loaded

    def stored(self, definition: Definition) -> Loaded:
        """A stored definition, compiled once per process."""
        known = self._loaded.get((definition.fingerprint, definition.id))
        return known if known is not None else self.loaded({**definition.document, "kind": definition.kind})

    def check(self, loaded: Loaded, *, unknown_tools: str = "warning") -> Checked:
        """Everything wrong with a definition and, as warnings, what is doubtful."""
        most = self.limits
        found = check(
            loaded.flow, self.cards, unknown_tools=unknown_tools, most_nodes=most.nodes, most_nesting=most.nesting
        )
        warnings = (*loaded.warnings, *found.warnings)
        problems = (*found.problems, *check_cycles(loaded.flow, self.cards.toolbox))
        if loaded.file is None:
            return Checked(problems=problems, warnings=warnings)
        from .source import attach

        return Checked(problems=tuple(attach(problems, loaded.file)), warnings=tuple(attach(warnings, loaded.file)))

    def ensure(self, loaded: Loaded, *, unknown_tools: str = "warning") -> None:
        """Raise InvalidFlow when the definition is wrong."""
        found = self.check(loaded, unknown_tools=unknown_tools)
        if found.problems:
            raise InvalidFlow(found.problems)

"""The registry of definitions: each is found, read, compiled and checked once, and every caller gets the same one.

`Definitions.get` returns what needs no store: files, texts, documents, flows in Python, and records of the store that
the caller has. `find` and `find_async` also look in the store. Equal documents share one compiled program, a file is
read again only after a change, and a check is repeated only after a change of the tools. Refused here: anything about
runs. The needs of single notations are in their hooks (`notations/project.py`).
"""

from __future__ import annotations

import hashlib
import marshal
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from os.path import abspath, isfile
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from weakref import ref

from ..check import UNKNOWN_TOOL, Checked, ToolCard, Tools, check
from ..config.settings import Limits
from ..errors import Action, InvalidFlow, NotFound, Problem, RunNotBegun, display_path
from ..ir import Flow
from ..journal.address import run_sync_in_thread
from ..journal.protocol import SCHEDULE, Definition, RunRow, Store
from ..notations.registry import NOTATIONS, Compiled, kind_of_file, merge_problems, notation_of
from ..values import digest, gc_disabled
from .preflight import Cards, called_by, check_cycles, lacking
from .prepared import Prepared

if TYPE_CHECKING:
    from pathlib import Path

    from .file_stamp import Stamp
    from .prepared import Source

K = TypeVar("K")
V = TypeVar("V")
MAX_CACHED: Final = 256  # definitions, and files, that are kept
MAX_FILES: Final = 2_000
_ANY_TOOLS: Final = -1  # in place of the version of a toolbox: no tool of it is called


class StoreLookup(NamedTuple):
    """How to find a definition in the store: the query, which blocks, and the function that prepares its answer."""

    ask_store: Callable[[], Any]
    prepare_answer: Callable[[Any], Prepared]


class PreparedFile(NamedTuple):
    """A definition, the state of its file when it was read, and the version of the toolbox."""

    path: Path
    stamp: Stamp
    version: int
    prepared: Prepared


class KeptVersion(NamedTuple):
    """The last good version of a file, used while the file is as it was when it was found wrong."""

    path: Path
    wrong: Stamp
    good: Source

    def is_in_use(self) -> bool:
        """Return True if the file is still the wrong one."""
        return self.wrong.still_fits(self.path)


class Definitions:
    """Prepares definitions: reads, compiles and checks each once."""

    def __init__(self, cards: Cards, limits: Limits, store: Callable[[], Store]) -> None:
        """Start with an empty registry."""
        self.cards, self.limits, self._open_store = cards, limits, store
        self.secrets: frozenset[str] = frozenset()  # the names that `$secret` may read
        cards.output_in = lambda directory: cards.output_of(self.get(directory))
        cards.problems_in = lambda directory: self.check(self.get(directory)).problems
        self._prepared: dict[tuple[str, str, str | None], Prepared] = {}
        self._documents: dict[tuple[bytes, int], Prepared] = {}
        self._files: dict[str, PreparedFile] = {}
        self.kept: dict[str, KeptVersion] = {}
        """The last good versions of files that are wrong, by path."""
        self.imports_code = True
        """Whether a flow in a Python file may be imported."""
        self._stored: dict[tuple[str, str, str, int], Prepared] = {}
        self._compiled: dict[bytes, tuple[Compiled, str]] = {}
        self._checked: dict[tuple[Any, ...], tuple[int, Any, Checked]] = {}

    # --- the ways to a definition; `App.load` and `App.load_async` delegate to the last two -----------------------

    def get(self, source: Source | Definition | RunRow, file: Any = None, root: str | None = None) -> Prepared:
        """Prepare a definition without asking the store: a file, text, document, flow in Python, or a stored record."""

        # `file` is the read file that a document comes from, `root` the directory of its files.
        if isinstance(source, Prepared):
            return source
        # What a file or a client's text holds is a document, also if it is a string that names a file.
        if file is not None or isinstance(source, Mapping):
            return self._of_document(source, file, root)
        if isinstance(source, (str, PathLike)):
            return self._of_file(source)
        if isinstance(source, Definition):
            return self._of_stored(source)
        if isinstance(source, RunRow):
            return self._of_run(source)
        return self._of_python(source)

    def find(self, source: Source) -> Prepared:
        """Prepare a definition as `get` does, or one of the store by its id or its object."""
        lookup = self._look_up(source)
        return lookup if isinstance(lookup, Prepared) else lookup.prepare_answer(lookup.ask_store())

    async def find_async(self, source: Source, *, connect: bool = False) -> Prepared:
        """Find a definition as `find` does without blocking the event loop; `connect` the servers of its tools, too."""
        await self.read_ahead(source)
        try:
            try:
                lookup = self._look_up(source)
            except InvalidFlow as error:
                await self._connect_unlisted(error)
                await self.read_ahead(source)
                lookup = self._look_up(source)
            if not isinstance(lookup, Prepared):
                answer = await run_sync_in_thread(self._open_store(), lookup.ask_store)
                lookup = lookup.prepare_answer(answer)
        except InvalidFlow as error:
            raise await self.with_tool_problems(error) if connect else error from None
        if connect:
            await self.cards.connect_tools(called_by(lookup.flow, self.cards.toolbox))
        return lookup

    async def read_ahead(self, document: Any) -> None:
        """Do what would block the event loop while a document is prepared, such as reading a program of a model."""
        if isinstance(document, Mapping) and "origin" in document:  # other documents have nothing to read
            with suppress(InvalidFlow):  # preparing it reports the reason
                await notation_of(document).hooks.read_ahead(document, self.cards)

    async def connecting(self, load: Callable[[], Awaitable[V]]) -> V:
        """Call a function that prepares a definition, again once the servers are connected whose tools it names."""
        try:
            return await load()
        except InvalidFlow as error:
            await self._connect_unlisted(error)
        return await load()

    async def _connect_unlisted(self, error: InvalidFlow) -> None:
        if not error.unlisted and not error.unknown:
            raise error
        await self.cards.connect_tools((*error.unlisted, *error.unknown))

    def _look_up(self, source: Source) -> Prepared | StoreLookup:
        """Prepare a definition that needs no store; for any other one, return how to ask the store for it."""
        if isinstance(source, Mapping) and "metadata" in source and "kind" not in source:
            from .lookup import stored_kind

            return StoreLookup(lambda: stored_kind(self._open_store(), source), partial(self._of_object, source))
        try:
            return self.get(source)
        except NotFound as exc:  # it may be the id of a stored definition
            missing = exc
        from .lookup import check_id, find_definition

        check_id(source, missing)
        return StoreLookup(lambda: find_definition(self._open_store(), source, missing), self.get)

    # --- where it comes from --------------------------------------------------------------------------------------

    def _of_object(self, source: Mapping[str, Any], kind: str | None) -> Prepared:
        """Prepare what `create` or `get` of a stored definition returned, if `kind` names what it is."""
        if kind is None:
            return self.get(source)
        return _as_stored(self.get({**source, "kind": kind}))

    def _of_stored(self, definition: Definition) -> Prepared:
        key = definition.kind, definition.id, definition.fingerprint, self.cards.toolbox.version
        prepared = self._stored.get(key)
        if prepared is None:
            document = NOTATIONS[definition.kind].hooks.restore({**definition.document, "kind": definition.kind})
            prepared = _as_stored(self.get(document))
            _remember(self._stored, key, prepared)
        return prepared

    def _of_run(self, row: RunRow) -> Prepared:
        """Prepare the definition that a run was started with, or upgraded to."""
        if row.kind == SCHEDULE:
            error = RunNotBegun(row.id, "it could not begin; its error says why")
            raise error.with_remedy(Action.START_SCHEDULED, name=row.name)
        started_with = row.context or {}
        prepared = self.get({**(row.document or {}), "kind": row.kind}, root=started_with.get("root"))
        if flow_files := started_with.get("flows"):
            self.cards.flow_files.update(flow_files)
            prepared = replace(prepared, flow_files=tuple(flow_files.items()))
        origin = started_with.get("file")
        return prepared if origin is None or prepared.file is not None else replace(prepared, origin=origin)

    def _of_file(self, source: str | PathLike[str]) -> Prepared:
        """Prepare a file, or the text of one; an unchanged file is not read again."""
        name = fspath(source)
        if self.kept and (kept := self.kept.get(abspath(name))) is not None and kept.is_in_use():
            return self.get(kept.good)
        if isinstance(source, PathLike) and ".py:" in name:
            from .python_file import NOT_IMPORTED, load_from_python, python_place

            # Only a path: texts may come from clients, who must not choose files to import.
            if (place := python_place(source)) is not None:
                if not self.imports_code:
                    message = f"{name} is a flow in Python, and was not imported, because no code of the project runs"
                    raise InvalidFlow([Problem(path="", message=message, keyword=NOT_IMPORTED)])
                flow = self._of_python(load_from_python(*place))
                return flow if flow.file is not None else replace(flow, origin=abspath(name))
        known, version = self._files.get(name), self.cards.toolbox.version  # plans mean the tools of the toolbox
        if known is not None and known.version == version and known.stamp.still_fits(known.path):
            return known.prepared
        if not isfile(name):
            return self._read(source, name)
        from pathlib import Path

        from .file_stamp import stamp_of

        path = Path(name)
        stamp = stamp_of(path)
        prepared = self._read(source, name)
        # Other files of an experience count, too, and nobody looks at their stamps.
        if stamp is not None and not prepared.compiled.local:
            _remember(self._files, name, PreparedFile(path, stamp, version, prepared), MAX_FILES)
        return prepared

    def _read(self, source: str | PathLike[str], name: str) -> Prepared:
        if name.endswith(".py") and isfile(name):
            from .python_file import describe_python_file

            raise InvalidFlow([describe_python_file(name)])
        from pathlib import Path

        from ..source.document import with_places
        from ..source.load import load
        from ..source.locations import Limits as DocumentLimits

        maximum = self.limits
        limits = DocumentLimits(size=maximum.file_size, nesting=maximum.nesting, aliases=maximum.aliases)
        document = load(source if isinstance(source, str) else Path(source), limits=limits)
        try:
            data = document.data
            if type(data) is dict and "kind" not in data and (kind := kind_of_file(document.file)) is not None:
                data = {**data, "kind": kind}
            return self._of_document(data, document, None)
        except InvalidFlow as exc:
            root, files = document.directory if exc.flow is not None else None, list[Problem]()
            if exc.flow is not None and root is not None:
                reported = {problem.path for problem in exc.problems}
                found = notation_of(data).hooks.check_files(exc.flow, root)
                files = [problem for problem in found if problem.path not in reported]
            error = InvalidFlow(with_places([*exc.problems, *files], document), exc.flow)
            error.file, error.kind = document, exc.kind
            error.unlisted, error.unknown = exc.unlisted, exc.unknown
            raise error from None

    @gc_disabled
    def _of_document(self, document: Any, file: Any, root: str | None) -> Prepared:
        key = _document_hash(document)
        # The same document with the same tools is the same definition, unless it has files or places of its own.
        known_as = (key, self.cards.toolbox.version) if key is not None and file is None and root is None else None
        if known_as is not None and (known := self._documents.get(known_as)) is not None:
            return known
        prepared = self._compile(document, file, root)
        if known_as is not None:
            _remember(self._documents, known_as, prepared)
        return prepared

    def _compile(self, document: Mapping[str, Any], file: Any, root: str | None) -> Prepared:
        directory = root if root is not None or file is None else getattr(file, "directory", None)
        notation = notation_of(document)
        flow_files: dict[str, str] = {}
        if file is not None and directory is not None and "./" in getattr(file, "text", ""):
            from .flow_references import FlowReferences  # few documents name files

            references = FlowReferences(directory, self.cards.directory)
            document, flow_files = references.replaced(document), references.files
            self.cards.flow_files.update(flow_files)  # also for a wrong document, whose other tools are checked
        document = notation.hooks.prepare(document, self.cards, directory)
        key = _document_hash(document)
        known = self._compiled.get(key) if key is not None else None
        if known is None:
            try:
                compiled = notation.hooks.compile(document, self.cards, notation.compile)
            except InvalidFlow as error:
                error.kind = notation.kind
                raise
            # The id does not count: the same definition may have another one in another file.
            fingerprint = digest({key: value for key, value in compiled.document.items() if key != "id"})
            known = compiled, fingerprint
            if key is not None:
                _remember(self._compiled, key, known)
        compiled, fingerprint = known
        # Only a definition whose tools may be files belongs to a directory. Any other one is the same wherever its file
        # is, so the directory of the file does not count.
        prepared = self._share(compiled, fingerprint, file, directory if compiled.local else root)
        return replace(prepared, flow_files=tuple(flow_files.items())) if flow_files else prepared

    def _share(self, compiled: Compiled, fingerprint: str, file: Any = None, root: str | None = None) -> Prepared:
        """Return the definition that equal documents share; one with places of its own shares the flow."""
        key = fingerprint, compiled.id, root
        known = self._prepared.get(key)
        if known is not None and file is None and known.file is None:
            return known
        prepared = Prepared(
            kind=compiled.kind,
            name=compiled.name or compiled.id,
            document=compiled.document,
            flow=compiled.flow if known is None else known.flow,
            fingerprint=fingerprint,
            warnings=compiled.warnings,
            compiled=compiled,
            file=file,
            root=root,
        )
        if known is None or known.file is not None:
            _remember(self._prepared, key, prepared)
        return prepared

    def _of_python(self, source: Any) -> Prepared:
        """Prepare a flow written in Python, and register its own tools that the toolbox does not have."""
        if not hasattr(source, "done") and not hasattr(source, "document_for"):
            what = f"a definition is a file, its text, a document, a flow or a plan, not {type(source).__name__}"
            raise InvalidFlow([Problem(path="", message=what)])
        is_plan, toolbox = hasattr(source, "document_for"), self.cards.toolbox
        flow = source if is_plan else source.done()
        known: tuple[Any, int, Prepared] | None = flow.known if is_plan else None
        if known is not None and known[0]() is self and known[1] == toolbox.version:
            return known[2]
        self._register_tools(flow.tools)
        if not is_plan:
            prepared = self._share(flow.compiled, flow.fingerprint)
            return prepared if flow.read_result is None else replace(prepared, read_result=flow.read_result)
        with source.program.located_problems():
            document = source.document_for(toolbox, self.cards.effects)
            prepared = self.get(document, source.program.as_document(document))
        placed: Prepared = source.program.with_places(prepared)
        prepared = replace(placed, read_result=source.read_result)
        source.known = ref(self), toolbox.version, prepared
        return prepared

    def _register_tools(self, tools: Iterable[Any]) -> None:
        for tool in tools:
            if self.cards.toolbox.get(tool.id) is None:
                self.cards.toolbox.register(tool)

    def may_read(self, file: str) -> bool:
        """Return True unless a recorded file is Python of which no code may run: from outside of the project."""
        if ".py:" not in file:
            return True
        from .python_file import python_place

        place, base = python_place(file), self.cards.directory
        if place is None:
            return True
        return self.imports_code and base is not None and place[0].resolve().is_relative_to(base.resolve())

    def register_recorded_tools(self, flow: Flow, origin: str) -> None:
        """Register the tools of the Python file that a run was started from, if the run calls one that is unknown."""
        toolbox = self.cards.toolbox
        if ".py:" not in origin or not self.may_read(origin):
            return
        if any(map(toolbox.is_missing, called_by(flow, toolbox))):
            from .python_file import load_from_python, python_place

            with suppress(NotFound):  # without the file, the check names the unknown tool
                for place in filter(None, (python_place(origin),)):
                    source = load_from_python(*place)
                    self._register_tools(source.done().tools if hasattr(source, "done") else source.tools)

    # --- what is known of it --------------------------------------------------------------------------------------

    def cards_for(self, prepared: Prepared) -> Tools:
        """Return what is known of the tools that a definition can call."""
        return NOTATIONS[prepared.kind].hooks.tools(self.cards, prepared.root)

    @gc_disabled
    def check(self, prepared: Prepared, *, unknown_tools: str = "warning", has_executor: bool = False) -> Checked:
        """Check a definition against the tools there are, again only after a change of these."""
        # Documents of one flow may differ in their warnings: `$$other` and `$other` are the same text.
        key = prepared.fingerprint, prepared.root, has_executor, prepared.warnings
        version = _ANY_TOOLS if has_executor else self.cards.toolbox.version
        known = self._checked.get(key)
        if known is not None and known[0] == version and (known[1] is prepared.file or not known[2].warnings):
            return known[2]
        checked = self._check(prepared, unknown_tools, has_executor)
        # A definition that is right whatever is expected of its tools. Files in a directory change without a notice.
        is_sure = not checked.problems and not any(item.keyword == UNKNOWN_TOOL for item in checked.warnings)
        if is_sure and not prepared.compiled.local:
            _remember(self._checked, key, (version, prepared.file, checked))
        return checked

    def _check(self, prepared: Prepared, unknown_tools: str, has_executor: bool) -> Checked:
        checked = self._check_graph(
            prepared.flow, _card_of_any_tool if has_executor else self.cards_for(prepared), unknown_tools
        )
        # The graph alone is not enough: an executor knows its tools, a toolbox can lack them.
        warnings = [*prepared.warnings, *checked.warnings]
        problems = [_at_declaration(problem, prepared.compiled.typed_at) for problem in checked.problems]
        if not has_executor:
            must_exist = unknown_tools == "problem"
            hooks = NOTATIONS[prepared.kind].hooks
            problems, warnings = hooks.check(prepared, self.cards, (problems, warnings), must_exist)
            problems = [*problems, *check_cycles(prepared.flow, self.cards.toolbox)]
            lost = lacking(prepared.flow, self.cards.toolbox)
            problems, warnings = ([*problems, *lost], warnings) if must_exist else (problems, [*warnings, *lost])
        if not problems and not warnings:
            return Checked(problems=(), warnings=())
        # Only problems need the places of the document, so a sound definition does not read its file again.
        from ..source.document import with_places

        located = self.with_file(prepared)
        file = None if located is None else located.file
        return Checked(problems=tuple(with_places(problems, file)), warnings=tuple(with_places(warnings, file)))

    def _check_graph(self, flow: Flow, cards: Callable[[str], ToolCard | None], unknown_tools: str) -> Checked:
        limits = self.limits
        return check(
            flow,
            cards,
            unknown_tools=unknown_tools,
            secrets=self.secrets,
            max_nodes=limits.nodes,
            max_nesting=limits.nesting,
        )

    def with_file(self, prepared: Prepared) -> Prepared | None:
        """Return a definition with the file that it was read from, if that still has the same content."""
        if prepared.file is not None:
            return prepared
        if prepared.origin is None or not self.may_read(prepared.origin):
            return None
        from pathlib import Path

        with suppress(InvalidFlow, NotFound):
            result = self.get(Path(display_path(Path(prepared.origin))))
            return result if result.file is not None and result.fingerprint == prepared.fingerprint else None
        return None

    async def with_tool_problems(self, error: InvalidFlow) -> InvalidFlow:
        """Add to an error what checking the compiled part of the document against the tools finds."""
        if error.flow is None:
            return error
        from ..source.document import with_places

        await self.cards.connect_tools(called_by(error.flow, self.cards.toolbox))
        directory = None if error.file is None else getattr(error.file, "directory", None)
        checked = self._check_graph(error.flow, NOTATIONS[error.kind].hooks.tools(self.cards, directory), "certain")
        known = set(error.problems)
        merged = merge_problems(error.problems, with_places(checked.problems, error.file))
        complete = InvalidFlow(merged, error.flow)
        # A mistake that is a problem of the document needs no warning of the check.
        warnings = merge_problems(error.problems, with_places(checked.warnings, error.file))
        complete.warnings = tuple(warning for warning in warnings if warning not in known)
        return complete

    def ensure(self, prepared: Prepared, *, unknown_tools: str = "warning", has_executor: bool = False) -> None:
        """Raise an error if `check` finds a problem."""
        checked = self.check(prepared, unknown_tools=unknown_tools, has_executor=has_executor)
        if checked.problems:
            raise InvalidFlow(checked.problems)


def _as_stored(prepared: Prepared) -> Prepared:
    """Return a definition as one that is stored under its own id."""
    id = prepared.compiled.id
    return prepared if prepared.stored_id == id else replace(prepared, stored_id=id)


def _document_hash(document: Any) -> bytes | None:
    """Return a fast hash that tells documents apart; None for one with values other than plain JSON."""
    try:
        # Unlike JSON, marshal distinguishes values that are not JSON. Version 2, because later ones write equal
        # documents in different ways, depending on shared objects.
        return hashlib.blake2b(marshal.dumps(document, 2), digest_size=16).digest()
    except ValueError:
        return None


def _remember(cache: dict[K, V], key: K, value: V, most: int = MAX_CACHED) -> None:
    """Add an entry to a cache, and remove the oldest one if it is full."""
    if len(cache) >= most:
        oldest, *_ = cache  # in one step, because other threads may add entries
        cache.pop(oldest, None)
    cache[key] = value


_NO_SCHEMAS: Final = ToolCard()


def _card_of_any_tool(tool_id: str) -> ToolCard:
    """Return the card of a tool of which nothing is known."""
    return _NO_SCHEMAS


def _at_declaration(problem: Problem, typed_at: str) -> Problem:
    """Move a problem of the type of the result to the place where the document declares that type."""
    ours = typed_at != "result" and re.match(r"result\b", problem.path)
    return replace(problem, path=typed_at) if ours else problem

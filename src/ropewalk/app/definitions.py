"""Definitions: read, compile and check each document once, and translate it to another notation.

Equal documents share one compiled program. Refused here: anything about runs. To support another source of
definitions, extend `Definitions.load`.
"""

from __future__ import annotations

import hashlib
import marshal
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from os.path import basename, isfile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..check import Checked, ToolCard, check
from ..config.settings import Limits
from ..errors import InvalidFlow, NotFound, Problem
from ..expr.ast import Obj, Ref
from ..ir import Flow, Graph, node_parts
from ..journal.address import run_sync_in_thread
from ..journal.protocol import Definition, Store
from ..notations.registry import Compiled, merge_problems, notation_of, write
from ..ops import calls_of
from ..values import digest, gc_disabled
from .preflight import Cards, LocalCards, check_cycles, lacking
from .prepared import Prepared

if TYPE_CHECKING:
    from ..builder.flow import Built, FlowBuilder
    from .plan_function import Plan
    from .prepared import Source

K = TypeVar("K")
V = TypeVar("V")
EXPERIENCE = ("experience.yaml", "experience.yml", "experience.json")
MAX_CACHED = 256  # number of compiled definitions


class StoreLookup(NamedTuple):
    """How to find a definition in the store: the query, which blocks, and the function that compiles its answer."""

    ask_store: Callable[[], Any]
    compile_answer: Callable[[Any], Prepared]


class Definitions:
    """Reads, compiles and checks definitions, each once."""

    def __init__(self, cards: Cards, limits: Limits, store: Callable[[], Store]) -> None:
        """Start with an empty cache."""
        self.cards, self.limits, self._open_store = cards, limits, store
        self.secrets: frozenset[str] = frozenset()  # the names that `$secret` may read
        self.effects: Mapping[str, str] = {}  # what tools do, where the project overrides their hints
        cards.load = self.load
        self._loaded: dict[tuple[str, str], Prepared] = {}
        self._stored: dict[tuple[str, str], Prepared] = {}
        self._compiled_documents: dict[bytes, tuple[Compiled, str]] = {}

    def load(self, source: Source) -> Prepared:
        """Read and compile a definition."""
        if isinstance(source, Prepared):
            return source
        if isinstance(source, Mapping):
            return self.compile_document(source)
        if not isinstance(source, (str, PathLike)):
            return self.load_python_flow(source)
        if isinstance(source, PathLike) and ".py:" in str(source):
            from .python_file import load_from_python, python_place

            # Only a path: texts may come from clients, who must not choose files to import.
            if (place := python_place(source)) is not None:
                return self.load_python_flow(load_from_python(*place))
        if str(source).endswith(".py") and isfile(source):
            from .python_file import describe_python_file

            raise InvalidFlow([Problem(path="", message=f"{source}: {describe_python_file(str(source))}")])
        from ..source.document import with_places
        from ..source.load import load
        from ..source.locations import Limits as DocumentLimits

        maximum = self.limits
        limits = DocumentLimits(size=maximum.file_size, nesting=maximum.nesting, aliases=maximum.aliases)
        document = load(source, limits=limits)
        try:
            data = document.data
            if type(data) is dict and "kind" not in data and basename(document.file) in EXPERIENCE:
                data = {**data, "kind": "experience"}  # known from the name of the file
            return self.compile_document(data, document)
        except InvalidFlow as exc:
            root = _directory_of(document) if exc.flow is not None else None
            files: Iterable[Problem] = ()
            if root is not None:
                from ..tools.directory.directory import check_files

                files = check_files(calls_of(exc.flow.body), root)
            reported = {problem.path for problem in exc.problems}
            more = [problem for problem in files if problem.path not in reported]
            error = InvalidFlow(with_places([*exc.problems, *more], document), exc.flow)
            error.file, error.unlisted = document, exc.unlisted
            raise error from None

    def find(self, source: Source) -> Prepared:
        """Read and compile a definition as `load` does, or find a stored one by its id or its object."""
        lookup = self._look_up(source)
        return lookup if isinstance(lookup, Prepared) else lookup.compile_answer(lookup.ask_store())

    async def prepare(self, document: Any) -> None:
        """Let a child process read a document that is a plan of a model, so that compiling it blocks no event loop."""
        if isinstance(document, Mapping) and document.get("origin") is not None and "code" in document:
            from .plan_readers import prepare  # only plans of models need it

            await prepare(document, self.cards, self.effects)

    async def find_async(self, source: Source) -> Prepared:
        """Find a definition as `find` does, without blocking the event loop while the store is queried."""
        await self.prepare(source)
        try:
            lookup = self._look_up(source)
        except InvalidFlow as error:
            await self._connect_unlisted(error)
            await self.prepare(source)
            lookup = self._look_up(source)
        if isinstance(lookup, Prepared):
            return lookup
        return lookup.compile_answer(await run_sync_in_thread(self._open_store(), lookup.ask_store))

    async def connecting(self, load: Callable[[], Awaitable[V]]) -> V:
        """Load a definition; if it is a plan that names tools of servers, connect these and load it again."""
        try:
            return await load()
        except InvalidFlow as error:
            await self._connect_unlisted(error)
        return await load()

    async def _connect_unlisted(self, error: InvalidFlow) -> None:
        if not error.unlisted:
            raise error
        await self.cards.toolbox.connect_for(error.unlisted)

    def _look_up(self, source: Source) -> Prepared | StoreLookup:
        """Load a definition that needs no store; for any other one, return how to ask the store for it."""
        if isinstance(source, Mapping) and "metadata" in source and "kind" not in source:
            from .lookup import stored_kind

            return StoreLookup(lambda: stored_kind(self._open_store(), source), partial(self._compile_object, source))
        try:
            return self.load(source)
        except NotFound as exc:  # it may be the id of a stored definition
            missing = exc
        from .lookup import check_id, find_definition

        check_id(source, missing)
        return StoreLookup(lambda: find_definition(self._open_store(), source, missing), self.load_stored)

    def _compile_object(self, source: Mapping[str, Any], kind: str | None) -> Prepared:
        """Compile what `create` or `get` of a stored definition returned, if `kind` names what it is."""
        if kind is None:
            return self.load(source)
        return self.mark_stored(self.compile_document({**source, "kind": kind}))

    @gc_disabled
    def compile_document(self, document: Mapping[str, Any], file: Any = None, root: str | None = None) -> Prepared:
        """Compile a document, or return it from the cache."""
        directory = root if root is not None or file is None else _directory_of(file)
        if directory is not None and "graph" in document:
            from .directories import with_files  # only experiences have files next to them

            document = with_files(document, directory)
        if isinstance(document, Mapping) and (document.get("kind") == "plan" or "code" in document):
            from .plan_readers import reader_of
            from .plan_tools import reading_plan, with_tools  # only plans name tools as Python does

            reader = reader_of(document)
            document = with_tools(document, self.cards.toolbox, reader, self.effects)
            with reading_plan(document, self.cards, reader):
                compiled, fingerprint = self._read(document, reader.compile)
        else:
            compiled, fingerprint = self._read(document)
        known = self._loaded.get((fingerprint, compiled.id))
        # Only a definition whose tools may be files belongs to a directory. Any other one is the same wherever its file
        # is, so the directory of the file does not count.
        root = directory if compiled.local else root
        # A definition from a file carries the places of that file: it is made again each time and shares only the flow.
        if known is not None and file is None and known.root == root:
            return known
        loaded = self._make_loaded(compiled, fingerprint, None if known is None else known.flow, file, root)
        return self._keep(loaded)

    def _read(
        self, document: Mapping[str, Any], compile: Callable[[Mapping[str, Any]], Compiled] | None = None
    ) -> tuple[Compiled, str]:
        """Return a compiled document and its fingerprint; equal documents are compiled once."""
        key = _document_hash(document)
        known = self._compiled_documents.get(key) if key is not None else None
        if known is not None:
            return known
        compiled = (compile or notation_of(document).compile)(document)
        # The id does not count: the same definition may have another one in another file.
        fingerprint = digest({key: value for key, value in compiled.document.items() if key != "id"})
        if key is not None:
            _remember(self._compiled_documents, key, (compiled, fingerprint))
        return compiled, fingerprint

    def with_concurrency(self, loaded: Prepared, concurrency: int) -> Prepared:
        """Return the definition with at most `concurrency` nodes running at once."""
        document: dict[str, Any] = {**loaded.document, "kind": loaded.kind}
        inside, *way = document, *loaded.compiled.at_once
        for key in way[:-1]:
            inside[key] = inside = dict(inside.get(key) or {})
        inside[way[-1]] = concurrency
        return self.compile_document(document, loaded.file, loaded.root)

    def load_python_flow(self, source: Built | FlowBuilder | Plan[..., Any]) -> Prepared:
        """Compile a flow written in Python, and register its own tools that the toolbox does not have."""
        if not hasattr(source, "done") and not hasattr(source, "document_for"):
            what = f"a definition is a file, its text, a document, a flow or a plan, not {type(source).__name__}"
            raise InvalidFlow([Problem(path="", message=what)])
        toolbox = self.cards.toolbox
        if hasattr(source, "document_for"):
            from .plan_tools import load_plan  # only plans name tools as Python does

            return load_plan(source, self)
        flow = source.done()
        for tool in flow.tools:
            if toolbox.get(tool.id) is None:
                toolbox.register(tool)
        compiled = flow.compiled
        known = self._loaded.get((flow.fingerprint, compiled.id))
        loaded = known if known is not None else self._keep(self._make_loaded(compiled, flow.fingerprint))
        return loaded if flow.read_result is None else replace(loaded, read_result=flow.read_result)

    def _make_loaded(
        self,
        compiled: Compiled,
        fingerprint: str,
        flow: Flow | None = None,
        file: Any = None,
        root: str | None = None,
    ) -> Prepared:
        return Prepared(
            kind=compiled.kind,
            name=compiled.name or compiled.id,
            document=compiled.document,
            flow=compiled.flow if flow is None else flow,
            fingerprint=fingerprint,
            warnings=compiled.warnings,
            compiled=compiled,
            file=file,
            root=root,
        )

    def _keep(self, loaded: Prepared) -> Prepared:
        _remember(self._loaded, (loaded.fingerprint, loaded.compiled.id), loaded)
        return loaded

    def load_stored(self, definition: Definition) -> Prepared:
        """Return a stored definition, compiled once per process."""
        known = self._stored.get((definition.fingerprint, definition.id))
        if known is not None:
            return known
        document = {**definition.document, "kind": definition.kind}
        if definition.kind == "plan":
            from .plan_readers import with_origin

            document = with_origin(document)  # models save plans; earlier versions did not record it
        return self.mark_stored(self.compile_document(document))

    def mark_stored(self, loaded: Prepared) -> Prepared:
        """Return the same definition as one that is stored under its own id."""
        key = loaded.fingerprint, loaded.compiled.id
        known = self._stored.get(key)
        if known is None:
            known = replace(loaded, stored_id=loaded.compiled.id)
            _remember(self._stored, key, known)
        return known

    def cards_for(self, loaded: Prepared) -> Cards | LocalCards:
        """Return what is known of the tools that a definition can call."""
        return LocalCards(self.cards, loaded.root) if loaded.compiled.local else self.cards

    @gc_disabled
    def check(self, loaded: Prepared, *, unknown_tools: str = "warning", has_executor: bool = False) -> Checked:
        """Check a definition against the tools there are."""
        limits = self.limits
        checked = check(
            loaded.flow,
            _card_of_any_tool if has_executor else self.cards_for(loaded),
            unknown_tools=unknown_tools,
            secrets=self.secrets,
            max_nodes=limits.nodes,
            max_nesting=limits.nesting,
        )
        # The graph alone is not enough: an executor knows its tools, a toolbox can lack them.
        warnings = [*loaded.warnings, *checked.warnings]
        problems = [_at_declaration(problem, loaded.compiled.typed_at) for problem in checked.problems]
        if loaded.kind == "plan" and not has_executor:
            from .plan_readers import reader_of
            from .plan_tools import with_types  # only plans have types of their own

            reader = reader_of(loaded.document)
            problems, warnings = with_types(loaded.document, self.cards, reader, problems, warnings)
        if not has_executor:
            must_exist = unknown_tools == "problem"
            problems += check_cycles(loaded.flow, self.cards.toolbox)
            (problems if must_exist else warnings).extend(lacking(loaded.flow, self.cards.toolbox))
            problems += self._check_directory(loaded, must_exist)
        if not problems and not warnings:
            return Checked(problems=(), warnings=())
        # Only problems need the places of the document, so a sound definition does not read its file again.
        from ..source.document import with_places

        file = loaded.file or self._origin(loaded)
        return Checked(problems=tuple(with_places(problems, file)), warnings=tuple(with_places(warnings, file)))

    def _check_directory(self, loaded: Prepared, must_exist: bool) -> Iterable[Problem]:
        """Check the files that are the tools of an experience; without a directory it has none."""
        if not loaded.compiled.local:
            return ()
        from ..tools.directory.directory import check_files, check_no_directory

        calls = calls_of(loaded.flow.body)
        if loaded.root is None:
            return check_no_directory(calls) if must_exist else ()
        return [*check_files(calls, loaded.root), *self._inside(loaded, loaded.root)]

    def _origin(self, loaded: Prepared) -> Any:
        """Return the file that a definition was read from, if it still has the same content."""
        if loaded.origin is None:
            return None
        from pathlib import Path

        from ..config.toml import display_path

        with suppress(InvalidFlow, NotFound):
            result = self.load(Path(display_path(Path(loaded.origin))))
            return result.file if result.fingerprint == loaded.fingerprint else None
        return None

    def _inside(self, loaded: Prepared, root: str) -> Iterator[Problem]:
        """Check the experiences in directories that this one runs."""
        from ..tools.directory.directory import directories_of

        for node, directory in directories_of(calls_of(loaded.flow.body), root):
            path = f"{node.meta.source}.impl"
            try:
                inside = self.check(self.load(directory)).problems
            except InvalidFlow as exc:
                inside = exc.problems
            except NotFound as exc:
                yield Problem(path=path, message=str(exc))
                continue
            for problem in inside:
                yield Problem(path=path, message=f"the definition that it names is wrong: {_placed(problem, root)}")

    async def load_and_connect(
        self, loading: Awaitable[Prepared], connect: Callable[[Flow], Awaitable[None]]
    ) -> Prepared:
        """Load a definition and connect the servers of its tools."""
        try:
            loaded = await loading
        except InvalidFlow as error:
            raise await self.add_tool_problems(error, connect) from None
        await connect(loaded.flow)
        return loaded

    async def add_tool_problems(self, error: InvalidFlow, connect: Callable[[Flow], Awaitable[None]]) -> InvalidFlow:
        """Add to an error what checking the compiled part of the document against the tools finds."""
        if error.flow is None:
            return error
        from ..source.document import with_places

        await connect(error.flow)
        directory = None if error.file is None else _directory_of(error.file)
        checked = check(
            error.flow,
            LocalCards(self.cards, directory),
            unknown_tools="certain",
            secrets=self.secrets,
            max_nodes=self.limits.nodes,
            max_nesting=self.limits.nesting,
        )
        known = set(error.problems)
        merged = merge_problems(error.problems, with_places(checked.problems, error.file))
        complete = InvalidFlow(merged, error.flow)
        # A mistake that is a problem of the document needs no warning of the check.
        warnings = merge_problems(error.problems, with_places(checked.warnings, error.file))
        complete.warnings = tuple(warning for warning in warnings if warning not in known)
        return complete

    def ensure(self, loaded: Prepared, *, unknown_tools: str = "warning", has_executor: bool = False) -> None:
        """Raise an error if `check` finds a problem."""
        checked = self.check(loaded, unknown_tools=unknown_tools, has_executor=has_executor)
        if checked.problems:
            raise InvalidFlow(checked.problems)


def _document_hash(document: Any) -> bytes | None:
    """Return a fast hash that tells documents apart; None for one with values other than plain JSON."""
    try:
        # Unlike JSON, marshal distinguishes values that are not JSON. Version 2, because later ones write equal
        # documents in different ways, depending on shared objects.
        return hashlib.blake2b(marshal.dumps(document, 2), digest_size=16).digest()
    except ValueError:
        return None


def _remember(cache: dict[K, V], key: K, value: V) -> None:
    """Add an entry to a cache, and remove the oldest one if it is full."""
    if len(cache) >= MAX_CACHED:
        oldest, *_ = cache  # in one step, because other threads may add entries
        cache.pop(oldest, None)
    cache[key] = value


def places(loaded: Prepared) -> dict[str, str]:
    """Return `file:line` of every node of a file by its id, without ids that occur twice."""
    if loaded.file is None:
        return {}
    result: dict[str, str] = {}
    twice = set()
    for path, source in node_sources(loaded.flow.body, ""):
        id = path.rpartition("/")[2]
        if id in result:
            twice.add(id)
        if source:
            result[id] = f"{loaded.file.file}:{loaded.file.locate(source).line}"
    return {id: place for id, place in result.items() if id not in twice}


def node_sources(body: Graph, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each node, made of ids, and its place in the document."""
    for node in body.nodes:
        yield f"{path}{node.id}", node.meta.source
        for _, part in node_parts(node):
            if isinstance(part, Graph):
                yield from node_sources(part, f"{path}{node.id}/")


_NO_SCHEMAS = ToolCard()


def _card_of_any_tool(tool_id: str) -> ToolCard:
    """Return the card of a tool of which nothing is known."""
    return _NO_SCHEMAS


def _at_declaration(problem: Problem, typed_at: str) -> Problem:
    """Move a problem of the type of the result to the place where the document declares that type."""
    ours = typed_at != "result" and re.match(r"result\b", problem.path)
    return replace(problem, path=typed_at) if ours else problem


def _directory_of(file: Any) -> str | None:
    """Return the directory of a document; None for one that was given as text."""
    from os import path

    return path.dirname(path.realpath(file.file)) if path.isfile(file.file) else None


def _placed(problem: Problem, root: str) -> str:
    """Render a problem of another document, followed by its place there."""
    from os import path

    at = problem.place
    return str(problem) if at is None else f"{problem} ({path.relpath(at.file, root)}:{at.line}:{at.column})"


def converted(loaded: Prepared, kind: str, cards: Cards, allow_loss: bool = False) -> Any:
    """Return the definition in another notation."""
    from ..notations.writing import ConvertedDocument  # other work does without the writers

    if loaded.kind == kind:
        own = {"kind": kind, **loaded.document}
        return ConvertedDocument(own) if allow_loss else own
    losses: list[Problem] = []
    document = write(_with_value(loaded), kind, losses, lambda tool: getattr(cards(tool), "output_schema", None))
    result = tuple(_at_nodes(losses, loaded))
    if not allow_loss:
        if result:
            raise InvalidFlow(result)
        return document
    created = ConvertedDocument(document)
    created.losses = result
    return created


def _with_value(loaded: Prepared) -> Flow:
    """Return the flow, whose result is the value of its notation: that of an experience is its final state."""
    flow = loaded.flow
    if loaded.compiled.value_from != "state":
        return flow
    state = Obj(tuple((name, Ref("state", (name,))) for name in flow.state))
    return replace(flow, body=replace(flow.body, result=state))


def _at_nodes(problems: Iterable[Problem], loaded: Prepared) -> list[Problem]:
    """Move the losses that a writer reports to the places of their nodes in the file."""
    sources = dict(node_sources(loaded.flow.body, ""))
    hidden = _hidden_fields(loaded.flow.body)
    result = []
    for problem in problems:
        way = problem.path
        while way and way not in sources:
            way = way.rpartition(".")[0]
        reported = problem if loaded.kind == "flow" else _unwrapped(problem, hidden)
        there = loaded.file is not None and (way in sources or reported.path in loaded.file.data)
        at = loaded.file.locate(sources.get(way) or reported.path, reported.column) if there else None
        result.append(reported if at is None else replace(reported, place=at))
    return result


def _hidden_fields(body: Graph) -> dict[str, str]:
    """Return the fields that hidden nodes stand for ("mode" of the label "mode: loop"), by id."""
    labels = ((node.id, node.meta.labels.get("hidden", "")) for node in body.nodes if node.meta.hidden)
    return {id: label.partition(":")[0] for id, label in labels if label}


def _unwrapped(problem: Problem, hidden: Mapping[str, str]) -> Problem:
    """Name the field that a hidden node stands for in place of the node, and what is inside it without it."""
    id = re.split(r"[./]", problem.path, maxsplit=1)[0]
    field = hidden.get(id)
    if field is None:
        return problem
    path = problem.path[len(id) + 1 :] or field
    return replace(problem, path=path, message=problem.message.removeprefix(f"{field}: "))

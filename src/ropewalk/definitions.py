"""Definitions read, compiled and checked, each once: what an app knows before anything runs."""

from __future__ import annotations

import hashlib
import marshal
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from os.path import basename, isdir, isfile
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from .check import UNKNOWN_TOOL, Checked, check, unknown_tool
from .config.limits import Limits
from .dialects import Compiled, is_test, notation_of
from .errors import InvalidFlow, NotFound, Problem
from .errors.collected import MOST_PROBLEMS
from .fitting import Cards, LocalCards, check_cycles, is_local, lacking
from .frozen import dataclass
from .ir import Flow, Graph, node_parts
from .journal import Definition
from .ops import calls_of
from .uncollected import uncollected
from .values import Json, digest

if TYPE_CHECKING:
    from pathlib import Path

    from .builder import Built, FlowBuilder

    Source: TypeAlias = "Path | str | Mapping[str, Any] | Built | FlowBuilder | Loaded"

K = TypeVar("K")
V = TypeVar("V")
EXPERIENCE = ("experience.yaml", "experience.yml", "experience.json")
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
    root: str | None = None
    """The directory whose files its tools may be."""
    origin: str | None = None
    """Where a definition was read from that is given without its file, as that of a run is."""
    stored_id: str | None = None
    """The id of a stored definition, whose runs are counted."""

    @property
    def definition_id(self) -> str | None:
        """The id or the directory under which the runs of this definition are listed; None for a document or file."""
        return self.stored_id or self.root


class Definitions:
    """Documents to flows. `cards` knows the tools there are, `limits` how large a definition may be."""

    def __init__(self, cards: Cards, limits: Limits) -> None:
        self.cards, self.limits = cards, limits
        self.secrets: frozenset[str] = frozenset()  # the names that `$secret` may read
        cards.load = self.load
        self._loaded: dict[tuple[str, str], Loaded] = {}
        self._stored: dict[tuple[str, str], Loaded] = {}
        self._said: dict[bytes, tuple[Compiled, str]] = {}
        self._tests: dict[Path, tuple[Any, bool]] = {}

    def load(self, source: Source) -> Loaded:
        """Read and compile a definition: a file, a directory, text, the document itself, or a flow
        written in Python; one that is loaded is given back.

        Raises InvalidFlow with every problem, each with its place in the file.
        """
        if isinstance(source, Loaded):
            return source
        if isinstance(source, Mapping):
            return self.loaded(source)
        if not isinstance(source, (str, PathLike)):
            return self.built(source)
        if str(source).endswith(".py") and isfile(source):
            said = "a Python file is no document: run its flow from Python, app.run(f), or write it as one, "
            raise InvalidFlow([Problem(path="", message=f"{source}: {said}json.dump(f.done().document, file)")])
        from .source import Limits as DocumentLimits
        from .source import attach, load

        most = self.limits
        limits = DocumentLimits(size=most.file_size, nesting=most.nesting, aliases=most.aliases)
        document = load(source, limits=limits)
        try:
            data = document.data
            if type(data) is dict and "kind" not in data and basename(document.file) in EXPERIENCE:
                data = {**data, "kind": "experience"}  # the file's name says so, whatever is missing in it
            return self.loaded(data, document)
        except InvalidFlow as exc:
            root = _directory_of(document) if exc.flow is not None else None
            files: Iterable[Problem] = ()
            if root is not None:
                from .tools.beside import check_files

                files = check_files(calls_of(exc.flow.body), root)
            told = {problem.path for problem in exc.problems}
            more = [problem for problem in files if problem.path not in told]
            error = InvalidFlow(attach([*exc.problems, *more], document), exc.flow)
            error.file = document
            raise error from None

    def is_test(self, file: Path) -> bool:
        """Whether a file is a recorded test, read once until it changes; what cannot be read is none, and `load` says
        why. A directory is none."""
        from .config.flow_files import stamp
        from .source import load

        now = stamp(file)
        known = self._tests.get(file)
        if known is not None and known[0] == now:
            return known[1]
        found = False
        if not isdir(file):
            with suppress(InvalidFlow, NotFound):
                found = is_test(load(file).data)
        self._tests[file] = now, found
        return found

    @uncollected
    def loaded(self, document: Mapping[str, Any], file: Any = None, root: str | None = None) -> Loaded:
        """Compile a document, from the cache when it is one of before. `root` is the directory it came from,
        which the `file` says too."""
        directory = root if root is not None or file is None else _directory_of(file)
        if directory is not None:
            from .prompt_files import with_files  # only experiences have files beside them

            document = with_files(document, directory)
        compiled, fingerprint = self._read(document)
        known = self._loaded.get((fingerprint, compiled.id))
        root = directory if compiled.local else root
        if known is not None and file is None and known.root == root:
            return known
        loaded = self._compiled(compiled, fingerprint, None if known is None else known.flow, file, root)
        return self._keep(loaded)

    def _read(self, document: Mapping[str, Any]) -> tuple[Compiled, str]:
        """What a document says, and its fingerprint; from the cache when one of the same words was read before."""
        words = _words(document)
        known = self._said.get(words) if words is not None else None
        if known is not None:
            return known
        compiled = notation_of(document).compile(document)
        # Not of the id: the same definition may have another in another file.
        fingerprint = digest({key: value for key, value in compiled.document.items() if key != "id"})
        if words is not None:
            _kept(self._said, words, (compiled, fingerprint))
        return compiled, fingerprint

    def limited(self, loaded: Loaded, concurrency: int) -> Loaded:
        """The same definition with at most so many nodes at once."""
        document: dict[str, Any] = {**loaded.document, "kind": loaded.kind}
        inside, *way = document, *loaded.compiled.at_once
        for key in way[:-1]:
            inside[key] = inside = dict(inside.get(key) or {})
        inside[way[-1]] = concurrency
        return self.loaded(document, loaded.file, loaded.root)

    def built(self, source: Built | FlowBuilder) -> Loaded:
        """A flow written in Python. Tools of its own that the toolbox does not know are registered."""
        if not hasattr(source, "done"):
            what = f"a definition is a file, its text, a document or what `flow(...)` made, not {type(source).__name__}"
            raise InvalidFlow([Problem(path="", message=what)])
        flow = source.done()
        toolbox = self.cards.toolbox
        for tool in flow.tools:
            if toolbox.get(tool.id) is None:
                toolbox.register(tool)
        compiled = flow.compiled
        known = self._loaded.get((flow.fingerprint, compiled.id))
        return known if known is not None else self._keep(self._compiled(compiled, flow.fingerprint))

    def _compiled(
        self,
        compiled: Compiled,
        fingerprint: str,
        flow: Flow | None = None,
        file: Any = None,
        root: str | None = None,
    ) -> Loaded:
        return Loaded(
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

    def _keep(self, loaded: Loaded) -> Loaded:
        _kept(self._loaded, (loaded.fingerprint, loaded.compiled.id), loaded)
        return loaded

    def stored(self, definition: Definition) -> Loaded:
        """Return a stored definition, compiled once per process."""
        known = self._stored.get((definition.fingerprint, definition.id))
        if known is not None:
            return known
        return self.of_stored(self.loaded({**definition.document, "kind": definition.kind}))

    def of_stored(self, loaded: Loaded) -> Loaded:
        """Return the same definition as one that is stored under its own id."""
        key = loaded.fingerprint, loaded.compiled.id
        known = self._stored.get(key)
        if known is None:
            known = replace(loaded, stored_id=loaded.compiled.id)
            _kept(self._stored, key, known)
        return known

    def cards_for(self, loaded: Loaded) -> Cards | LocalCards:
        """What is known of the tools that a definition may name."""
        return LocalCards(self.cards, loaded.root) if loaded.compiled.local else self.cards

    @uncollected
    def check(self, loaded: Loaded, *, unknown_tools: str = "warning") -> Checked:
        """Everything wrong with a definition and, as warnings, what is doubtful."""
        most, local = self.limits, loaded.compiled.local
        cards = self.cards_for(loaded)
        sizes = {"most_nodes": most.nodes, "most_nesting": most.nesting}
        found = check(loaded.flow, cards, unknown_tools=unknown_tools, secrets=self.secrets, **sizes)
        absent = lacking(loaded.flow, self.cards.toolbox)
        refused = unknown_tools == "problem"
        warnings = (*loaded.warnings, *found.warnings, *(() if refused else absent))
        problems = (
            *(_named(p, loaded.compiled.typed_at) for p in found.problems),
            *check_cycles(loaded.flow, self.cards.toolbox),
            *(absent if refused else ()),
        )
        if local and loaded.root is not None:
            from .tools.beside import check_files

            problems += (*check_files(calls_of(loaded.flow.body), loaded.root), *self._inside(loaded, loaded.root))
        elif local and unknown_tools == "problem":
            from .tools.beside import homeless

            problems += tuple(homeless(calls_of(loaded.flow.body)))
        if not problems and not warnings:
            return Checked(problems=(), warnings=())
        from .source import attach

        file = loaded.file or self._origin(loaded)
        return Checked(problems=tuple(attach(problems, file)), warnings=tuple(attach(warnings, file)))

    def _origin(self, loaded: Loaded) -> Any:
        """The file that a definition was read from, if that is still there and says the same."""
        if loaded.origin is None:
            return None
        from pathlib import Path

        from .config.table import named

        with suppress(InvalidFlow, NotFound):
            found = self.load(Path(named(Path(loaded.origin))))
            return found.file if found.fingerprint == loaded.fingerprint else None
        return None

    def _inside(self, loaded: Loaded, root: str) -> Iterator[Problem]:
        """What is wrong with the experiences in directories that this one runs."""
        from .tools.beside import directories_of

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
                yield Problem(path=path, message=f"what it names is wrong: {_placed(problem, root)}")

    async def connected(self, loading: Awaitable[Loaded], connect: Callable[[Flow], Awaitable[None]]) -> Loaded:
        """Load a definition and connect the servers of its tools; problems of its tools are part of an InvalidFlow."""
        try:
            loaded = await loading
        except InvalidFlow as error:
            raise await self.with_tools(error, connect) from None
        await connect(loaded.flow)
        return loaded

    async def with_tools(self, error: InvalidFlow, connect: Callable[[Flow], Awaitable[None]]) -> InvalidFlow:
        """The error of a document with what is wrong with the tools of what could be made of it."""
        if error.flow is None:
            return error
        from .source import attach

        await connect(error.flow)
        told = {problem.path for problem in error.problems}
        problems: list[Problem] = []
        warnings: list[Problem] = []
        for node in calls_of(error.flow.body):
            if len(problems) + len(warnings) >= MOST_PROBLEMS:
                break
            path = ".".join(filter(None, (node.meta.source, node.meta.labels.get("tool", "tool"))))
            tool = node.op.tool
            if tool and path not in told and not is_local(tool) and self.cards(tool) is None:
                message, near, certain = unknown_tool(tool, self.cards)
                problem = Problem(path=path, message=message, suggestion=near, keyword=UNKNOWN_TOOL)
                (problems if certain else warnings).append(problem)
        found = InvalidFlow([*error.problems, *attach(problems, error.file)], error.flow)
        found.warnings = tuple(attach(warnings, error.file))
        return found

    def ensure(self, loaded: Loaded, *, unknown_tools: str = "warning") -> None:
        """Raise InvalidFlow when the definition is wrong."""
        found = self.check(loaded, unknown_tools=unknown_tools)
        if found.problems:
            raise InvalidFlow(found.problems)


def _words(document: Any) -> bytes | None:
    """What tells a document from others, in a few microseconds; None for one that is not of plain values, which is read
    each time."""
    try:
        # Unlike JSON, it also tells kinds of values that are no JSON; later versions write equal documents in several
        # ways, depending on what they share.
        return hashlib.blake2b(marshal.dumps(document, 2), digest_size=16).digest()
    except ValueError:
        return None


def _kept(cache: dict[K, V], key: K, value: V) -> None:
    """Keep it, and of too many not what was kept first."""
    if len(cache) >= KEPT:
        oldest, *_ = cache  # in one step, since other threads may keep something, too
        cache.pop(oldest, None)
    cache[key] = value


def places(loaded: Loaded) -> dict[str, str]:
    """`file:line` of every node of a file by its id; those of one id are left out."""
    if loaded.file is None:
        return {}
    found: dict[str, str] = {}
    twice = set()
    for path, source in node_sources(loaded.flow.body, ""):
        id = path.rpartition("/")[2]
        if id in found:
            twice.add(id)
        if source:
            found[id] = f"{loaded.file.file}:{loaded.file.locate(source).line}"
    return {id: place for id, place in found.items() if id not in twice}


def node_sources(body: Graph, path: str) -> Iterator[tuple[str, str]]:
    """The path of each node by ids, and its place in the document."""
    for node in body.nodes:
        yield f"{path}{node.id}", node.meta.source
        for _, part in node_parts(node):
            if isinstance(part, Graph):
                yield from node_sources(part, f"{path}{node.id}/")


def _named(problem: Problem, typed_at: str) -> Problem:
    """What does not fit the type of the result, told where the document declares it."""
    ours = typed_at != "result" and re.match(r"result\b", problem.path)
    return replace(problem, path=typed_at) if ours else problem


def _directory_of(file: Any) -> str | None:
    """Where a document stands; None for one that was given as text."""
    from os import path

    return path.dirname(path.realpath(file.file)) if path.isfile(file.file) else None


def _placed(problem: Problem, root: str) -> str:
    """A problem of another document, and behind it where that is: the line begins with one's own."""
    from os import path

    at = problem.place
    return str(problem) if at is None else f"{problem} ({path.relpath(at.file, root)}:{at.line}:{at.column})"

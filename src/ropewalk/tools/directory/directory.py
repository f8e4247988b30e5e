"""The tools of a directory: its modules, datasets and programs, next to the tools of the app.

A `DirectoryCaller` takes the place of a Runner: `impl:./tools/x.py` is a module, `dataset:` reads
the source that its arguments name, `cli-agent:` runs a program; every other id is bound by the
caller underneath. Paths are checked again here, whatever a check before the run has said. To add a
kind of tool, put the function that binds its ids into `kinds`, under the part before their first
colon. To add a language of modules, put the function that calls one of its files into `languages`,
and its suffix into `paths.MODULES`.

`check_files`, `check_no_directory` and `directories_of` check a definition without importing or
running anything. They take nodes whose op is a Call. The path of a problem is the node's, with the
document's name of the field.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...errors import ExecutionFailed, Problem
from ...expr.ast import Lit, Obj
from ...values import fresh
from ..backends.cli_agent import PREFIX, CliAgents
from ..backends.route import Args, OnProgress, Route
from ..bound_call import DEFAULT_TIMEOUT, Bound, Rules, bind_route
from ..module_result import checked
from ..reserved import LOCAL
from ..snapshots import Snapshot
from .dataset import Datasets, source_problem
from .imports import FileStamp, file_stamp, reload_if_changed
from .javascript import NodeProcesses
from .paths import Impl, PathError, find, find_impl, outline_problem
from .python import PythonModule

Bind: TypeAlias = Callable[[str], Any]
CallModule: TypeAlias = Callable[[Args, str | None], Awaitable[Any]]
"""Calls a module with arguments and the key of the call."""


class DirectoryCaller:
    """Calls the tools of one directory, and through `base` every other tool.

    Call `began` when a run begins, and await `ended` when it has ended.

    Args:
        base: The caller of all other tools.
        root: The directory.
        env: Environment variables that its modules may see, in `args["_env"]` and in the environment of Node.js.
        timeout: Seconds per call; None means that of `base`.
    """

    def __init__(
        self, base: Any, root: Path | str, *, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> None:
        self.base = base
        self.root = Path(root).resolve()
        self.kinds: dict[str, Bind] = {
            "impl": self._bind_module,
            "dataset": self._bind_dataset,
            PREFIX: self._bind_program,
        }
        self.languages: dict[str, Callable[[Impl], CallModule]] = {
            "python": self._python_call,
            "javascript": self._javascript_call,
        }
        self._env = dict(env or {})
        self._datasets = Datasets(self.root, getattr(base, "index", None))
        self._programs = CliAgents(self.root, self._env)
        self._node = NodeProcesses(self.root, self._env)
        self._rules = Rules(timeout=getattr(base, "timeout", DEFAULT_TIMEOUT) if timeout is None else timeout)
        self._files: dict[Path, FileStamp | None] = {}
        self._bound: dict[str, Any] = {}
        self._base_version: Any = None
        self._version = 0

    @property
    def version(self) -> int:
        """A number that changes with the version of `base`, and when a bound module has changed."""
        changed = any(file_stamp(file) != mark for file, mark in self._files.items())
        if reload_if_changed(self.root) or changed or self._base_version != self.base.version:
            self._base_version = self.base.version
            self._files.clear()
            self._bound.clear()
            self._version += 1
        return self._version

    def bind(self, tool_id: str) -> Any:
        """Return a tool that is ready to be called.

        Raises:
            ToolError: The tool does not exist.
        """
        kind, colon, _ = tool_id.partition(":")
        bind = self.kinds.get(kind) if colon else None
        if bind is None:
            return self.base.bind(tool_id)
        bound = self._bound.get(tool_id)
        if bound is None:
            bound = self._bound[tool_id] = bind(tool_id)
        return bound

    def began(self, run_id: str) -> None:
        """Note that a run has begun to execute."""
        self._node.began(run_id)

    async def ended(self, run_id: str) -> None:
        """Release what is kept for a run: its Node.js process."""
        await self._node.ended(run_id)

    async def close(self) -> None:
        """Release everything; calls in progress fail."""
        await self._node.close()

    def _bind_module(self, tool_id: str) -> Bound:
        path = tool_id.partition(":")[2]
        try:
            impl = find_impl(self.root, path)
        except PathError as error:
            # Watch the missing file, so that the tool is bound again once it is there.
            for file in (self.root / path, self.root / path.rpartition(":")[0]):
                self._files[file] = file_stamp(file)
            raise ExecutionFailed(tool_id, "resolve", error) from error
        self._files[impl.file] = file_stamp(impl.file)
        call = self.languages[impl.language](impl)

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await call(args, key)

        route = Route(send=send, normalise=lambda result: (checked(result, impl.display), None), strict=True)
        return bind_route(tool_id, None, None, route, self._rules)

    def _python_call(self, impl: Impl) -> CallModule:
        module = PythonModule(self.root, impl)
        return lambda args, key: module.call(self._python_args(args))

    def _javascript_call(self, impl: Impl) -> CallModule:
        return lambda args, key: self._node.call(impl, {**args, "_env": self._env} if self._env else args, key)

    def _bind_dataset(self, tool_id: str) -> Bound:
        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await self._datasets.read(args.get("source"))

        route = Route(send=send, normalise=lambda rows: (rows, None), strict=True, repeatable=True)  # it only reads
        return bind_route(tool_id, None, None, route, self._rules)

    def _bind_program(self, tool_id: str) -> Bound:
        provider = tool_id.partition(":")[2]

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await self._programs.ask(provider, args)

        # The node says how long the program may take: minutes are usual.
        route = Route(send=send, normalise=lambda answer: (answer, None), strict=True, timeout=math.inf)
        return bind_route(tool_id, None, None, route, Rules(timeout=math.inf))

    def _python_args(self, args: Args) -> Args:
        """Copy the arguments for a Python function, which may change them."""
        copies: Args = {}
        for name, value in args.items():
            # Many calls share the state: it is copied only where it is changed.
            is_snapshot = name in _SHARED_ARGS and type(value) is dict
            copies[name] = Snapshot(value) if is_snapshot else fresh(value)
        if self._env:
            copies["_env"] = dict(self._env)
        return copies


_SHARED_ARGS: Final = frozenset(("_state", "_edge_inputs"))


def check_files(nodes: Iterable[Any], root: str) -> Iterator[Problem]:
    """Yield a problem for each file or directory that a node names and may not have."""

    # Nothing is imported.
    for node in nodes:
        kind, _, path = node.op.tool.partition(":")
        field: str = "impl"
        message: str | None = None
        if kind == "impl":
            message = _module_problem(Path(root), path) if path else None  # a missing one is reported elsewhere
        elif kind == "experience":
            message = _experience_problem(root, path)
        elif kind == "cli-agent":
            field = "workdir"
            message = _workdir_problem(node, Path(root))
        elif kind == "dataset":
            source = _literals(node.op.args).get("source")
            problem = source_problem(Path(root), source)
            if problem is not None:
                key, message = problem
                field = f"source.{key}"
        if message is not None:
            yield Problem(path=f"{node.meta.source}.{field}", message=message)


def _module_problem(root: Path, path: str) -> str | None:
    try:
        impl = find_impl(root, path)
    except PathError as error:
        return str(error)
    return outline_problem(root, impl) if impl.language == "python" else None


def _experience_problem(root: str, path: str) -> str | None:
    try:
        directory = find(Path(root), path, directory=True)
    except PathError as error:
        return str(error)
    if directory == Path(root).resolve():
        return "an experience cannot run itself; name a directory inside its own"
    return None


def _workdir_problem(node: Any, root: Path) -> str | None:
    workdir = _literals(node.op.args).get("workdir")
    if workdir is None:
        return None
    try:
        find(root, workdir, directory=True)
    except PathError as error:
        return str(error)
    return None


def _literals(args: Any) -> dict[str, Any]:
    """Return the arguments of a node by name, as far as they are literals; those that are computed are None."""
    values = _literal(args)
    return values if isinstance(values, dict) else {}


def _literal(expr: Any) -> Any:
    if isinstance(expr, Obj):
        return {key: _literal(inner) for key, inner in expr.fields}
    return expr.value if isinstance(expr, Lit) else None


def directories_of(nodes: Iterable[Any], root: str) -> Iterator[tuple[Any, Path]]:
    """Yield each node that runs the experience of another directory, with that directory, if it is there."""
    for node in nodes:
        kind, _, path = node.op.tool.partition(":")
        if kind == "experience" and _experience_problem(root, path) is None:
            yield node, find(Path(root), path, directory=True)


def check_no_directory(nodes: Iterable[Any]) -> Iterator[Problem]:
    """Yield a problem for each node that needs a directory, for a definition that came from none."""
    for node in nodes:
        if node.op.tool.startswith(LOCAL):
            field = node.meta.labels.get("tool", "tool")
            action = "starts a program" if node.op.tool.startswith("cli-agent:") else "names a file"
            message = f"{action}, but this definition does not come from a directory; run it from its file"
            yield Problem(path=f"{node.meta.source}.{field}", message=message)

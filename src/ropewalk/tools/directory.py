"""The tools of a directory: its modules and its datasets, beside the tools of the app.

A DirectoryCaller stands where a Runner would: `impl:./tools/x.py` is a module, `dataset:` reads what its arguments
name, `cli-agent:` runs a program, every other id is bound by the caller underneath. To add a kind of tool, put the
function that binds its ids into `kinds`, under what stands before their first colon; to add a language of modules,
what calls one of its files into `languages`, and its suffix into `inside.MODULES`. Paths are looked at again here,
whatever a check has said.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import ExecutionFailed
from ..values import Json, fresh
from .bound import DEFAULT_TIMEOUT, Bound, Rules, bind_route
from .cli_agent import PREFIX, CliAgents
from .dataset import Datasets
from .delta import checked
from .imports import Mark, mark_of, renewed
from .inside import Impl, WrongPath, find_impl
from .javascript import NodeProcesses
from .module import PythonModule
from .route import Args, OnProgress, Route
from .snapshot import Snapshot

Bind: TypeAlias = Callable[[str], Any]
CallModule: TypeAlias = Callable[[Args, str | None], Awaitable[Any]]
"""Calls a module with arguments and the key of the call."""
ModuleOf: TypeAlias = Callable[[Impl], CallModule]


class DirectoryCaller:
    """Calls the modules and datasets of one directory, and through `base` every other tool.

    `env` holds the environment variables that its modules may see (`args["_env"]`, and the environment of Node.js).
    `timeout` is in seconds per call, that of `base` unless given. `ended` is to be awaited when a run has ended.
    """

    def __init__(
        self, base: Any, root: Path | str, *, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> None:
        self.base, self.root = base, Path(root).resolve()
        self.kinds: dict[str, Bind] = {
            "impl": self._impl,
            "dataset": self._dataset,
            PREFIX: self._cli_agent,
        }
        self.languages: dict[str, Callable[[Impl], CallModule]] = {
            "python": self._python,
            "javascript": self._javascript,
        }
        self._env = dict(env or {})
        self._datasets = Datasets(self.root, getattr(base, "index", None))
        self._programs = CliAgents(self.root, self._env)
        self._node = NodeProcesses(self.root, self._env)
        self._rules = Rules(timeout=getattr(base, "timeout", DEFAULT_TIMEOUT) if timeout is None else timeout)
        self._files: dict[Path, Mark | None] = {}
        self._bound: dict[str, Any] = {}
        self._seen: Any = None
        self._version = 0

    @property
    def version(self) -> int:
        """Changes when the caller underneath does, and when a module that was bound has changed."""
        changed = any(mark_of(file) != mark for file, mark in self._files.items())
        if renewed(self.root) or changed or self._seen != self.base.version:
            self._seen = self.base.version
            self._files.clear()
            self._bound.clear()
            self._version += 1
        return self._version

    def bind(self, tool_id: str) -> Any:
        """A tool ready to be called; ToolError for one that is not there."""
        bind = self.kinds.get(tool_id.partition(":")[0]) if ":" in tool_id else None
        if bind is None:
            return self.base.bind(tool_id)
        found = self._bound.get(tool_id)
        if found is None:
            found = self._bound[tool_id] = bind(tool_id)
        return found

    def began(self, run_id: str) -> None:
        """A run has begun to execute."""
        self._node.began(run_id)

    async def ended(self, run_id: str) -> None:
        """Let go of what is kept for a run: its Node.js process."""
        await self._node.ended(run_id)

    async def close(self) -> None:
        """Let go of everything; calls under way fail."""
        await self._node.close()

    def _impl(self, tool_id: str) -> Bound:
        text = tool_id.partition(":")[2]
        try:
            impl = find_impl(self.root, text)
        except WrongPath as wrong:
            named = self.root / text.rpartition(":")[0]
            for path in (self.root / text, named):
                self._files[path] = mark_of(path)  # once it is there, this is another answer
            raise ExecutionFailed(tool_id, "resolve", wrong) from wrong
        self._files[impl.file] = mark_of(impl.file)
        return self._module(tool_id, impl)

    def _module(self, tool_id: str, impl: Impl) -> Bound:
        call = self.languages[impl.language](impl)

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await call(args, key)

        route = Route(send=send, normalise=lambda raw: (checked(raw, impl.shown), None), strict=True)
        return bind_route(tool_id, None, None, route, self._rules)

    def _python(self, impl: Impl) -> CallModule:
        module = PythonModule(self.root, impl)
        return lambda args, key: module.call(self._given(args))

    def _javascript(self, impl: Impl) -> CallModule:
        return lambda args, key: self._node.call(impl, {**args, "_env": self._env} if self._env else args, key)

    def _dataset(self, tool_id: str) -> Bound:
        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await self._datasets.read(args.get("source"))

        route = Route(send=send, normalise=lambda rows: (rows, None), strict=True, repeatable=True)  # it only reads
        return bind_route(tool_id, None, None, route, self._rules)

    def _cli_agent(self, tool_id: str) -> Bound:
        provider = tool_id.partition(":")[2]

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await self._programs.ask(provider, args)

        # The node says how long the program may take: minutes are usual.
        route = Route(send=send, normalise=lambda answer: (answer, None), strict=True, timeout=math.inf)
        return bind_route(tool_id, None, None, route, Rules(timeout=math.inf))

    def _given(self, args: Args) -> Args:
        """The arguments as a Python function gets them: its own to change."""
        given = {key: _own(value) if key in _SHARED else fresh(value) for key, value in args.items()}
        if self._env:
            given["_env"] = dict(self._env)
        return given


_SHARED = frozenset(("_state", "_edge_inputs"))


def _own(value: Json) -> Json:
    return Snapshot(value) if type(value) is dict else fresh(value)

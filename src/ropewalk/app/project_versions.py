"""The versions of a project that a server has open: the present one, and earlier ones that requests or runs still use.

Each version is an app of its own, with the tools and settings of its time. All share one store and one engine, so runs
of any version are listed, followed and stopped alike. A request, or whatever else starts runs, takes the present
version with `use`. Code that keeps something of a version, such as its schedules, takes each new one with `follow`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ..errors import Problem
from .current import as_current

if TYPE_CHECKING:
    from ..notations.records import Outcome
    from .app import App
    from .context import Context

_POLL: Final = 0.2  # seconds between two looks at the runs of an earlier version


class ProjectVersions:
    """The versions of one project; `app` is the present one."""

    # The caller closes the first app, which owns the store; `close` closes the others.

    def __init__(self, app: App) -> None:
        self.app = app
        self.problems: tuple[Problem, ...] = ()
        """What is wrong with the files of the project, if `is_checked`."""
        self.is_checked = False
        """Whether somebody checks each change of the project's files, and keeps the last good version of wrong ones."""
        self._first = app
        self._uses: Counter[App] = Counter()
        self._followers: list[Callable[[App], None]] = []
        self._retiring: dict[App, asyncio.Task[None]] = {}

    @property
    def context(self) -> Context:
        """The services of the present version."""
        return self.app.context

    async def resume(self, run_id: str, *, park: bool = False) -> Outcome:
        """Resume a run with the present version."""
        with self.use() as app:
            return await app.resume(run_id, park=park)

    @contextmanager
    def use(self, version: App | None = None) -> Iterator[App]:
        """Give a version to a block, by default the present one, and keep it open until the block and its runs end."""
        app = version or self.app
        self._uses[app] += 1
        try:
            with as_current(app):
                yield app
        finally:
            self._uses[app] -= 1

    def follow(self, follower: Callable[[App], None]) -> None:
        """Call a function with the present version, and with each later one."""
        self._followers.append(follower)
        follower(self.app)

    def replace(self, app: App) -> None:
        """Make an app the present version; the earlier one is closed once nothing uses it."""
        earlier, self.app = self.app, app
        app.context.borrow(earlier.context)
        if app.jobs.flow_tools is not None and earlier.jobs.flow_tools is not None:
            app.jobs.flow_tools.succeed(earlier.jobs.flow_tools)
        for follower in self._followers:
            follower(app)
        self._retiring[earlier] = asyncio.create_task(self._retire(earlier))

    async def _retire(self, app: App) -> None:
        # A run may outlive its request. Which version a run belongs to is not recorded, so every run counts that is in
        # progress when the last request ends.
        live, runs = app.engine.live, None
        while True:
            if not self._uses[app]:
                runs = list(live.items()) if runs is None else runs
                if not any(live.get(id) is run for id, run in runs):
                    break
            await asyncio.sleep(_POLL)
        await self._close_version(app)
        app.engine.forget_programs()
        del self._retiring[app], self._uses[app]

    async def _close_version(self, app: App) -> None:
        """Close an earlier version; the store stays open."""
        if app is self._first:
            await app.jobs.close()
            await app.context.close_model_and_tools()
        else:
            await app.close()

    async def close(self) -> None:
        """Close every version but the first one."""
        for task in self._retiring.values():
            task.cancel()
        await asyncio.gather(*self._retiring.values(), return_exceptions=True)
        for app in {*self._retiring, self.app} - {self._first}:
            await app.close()
        self._retiring.clear()

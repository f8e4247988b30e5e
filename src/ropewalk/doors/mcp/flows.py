"""Flows as tools: those in files, and the chains and compositions of the store.

A call is a run like any other, in the same store. The same idempotency key gives the same run, so that a client
that asks again after a crash gets the result of before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...config.flow_files import flow_files, stamp
from ...engine.flowtool import tool_name, value_of
from ...errors import FlowFailed, InvalidFlow, NotFound
from ...events import Event
from ...expr import TRANSFORMS
from ...ir import bodies
from ...source import render
from ...stored import STORED
from ...told import problems_of
from ...values import Json, digest
from .answers import failed, flow_failed, given
from .execution import Execute, executed
from .offer import Asked, Offered

if TYPE_CHECKING:
    from ...app import App
    from ...definitions import Loaded

log = logging.getLogger("ropewalk.mcp.server")


class Flows:
    """The flows of an app: `places` are files, directories and globs beside `home`; with `stored` also the store's."""

    def __init__(self, app: App, places: Iterable[str], home: Path, *, stored: bool = True) -> None:
        self._app, self._places, self._home, self._stored = app, tuple(places), home, stored
        self._known: dict[Path, tuple[Any, Loaded | None]] = {}
        self._told: set[tuple[str, Path]] = set()
        self.broken: dict[str, str] = {}
        """Why a file, by its path, or a stored definition is not offered."""

    def version(self) -> Any:
        """Which there are, and of when."""
        files = tuple((str(file), stamp(file)) for file in self._files())
        stored = tuple((d.kind, d.id, d.fingerprint) for d in self._definitions())
        return files, stored, self._app.toolbox.version, len(TRANSFORMS)

    def offered(self) -> Iterator[Offered]:
        """One tool per flow; one that is no sound flow here is left out, and `broken` says why."""
        own: dict[str, tuple[Path, set[str]]] = {}
        for file in self._files():
            loaded = self._loaded(file)
            if loaded is not None:
                own.setdefault(tool_name(loaded.name), (file, set()))[1].add(loaded.fingerprint)
                yield self._offer(f"file:{file}", loaded, self._of_file(loaded), own=True)
        for definition in self._definitions():
            loaded = self._of_the_store(definition)
            if loaded is None:
                continue
            same = own.get(tool_name(loaded.name))
            if same is not None and loaded.fingerprint in same[1]:
                continue  # the very same one
            id = f"{definition.kind}:{definition.id}"
            if same is not None and (id, same[0]) not in self._told:
                self._told.add((id, same[0]))
                said = "the file keeps the name, the stored one has a digest behind it (`stored = false` leaves it out)"
                log.warning("%s %r of the store differs from %s: %s", definition.kind, loaded.name, same[0], said)
            yield self._offer(id, loaded, self._of_store(definition))

    async def connect(self) -> None:
        """Reach the servers whose tools the flows call: the schema of a result may be theirs."""
        flows = [loaded.flow for file in self._files() if (loaded := self._loaded(file)) is not None]
        await asyncio.gather(*map(self._app.connect_for, flows))

    async def reach(self, name: str) -> None:
        """Nothing: a flow is there without any server."""

    # --- which there are

    def _files(self) -> list[Path]:
        return flow_files(self._home, self._places, self._app.definitions.is_test)

    def _definitions(self) -> list[Any]:
        if not self._stored:
            return []
        return [definition for kind in STORED for definition in self._app.store.list_definitions(kind)]

    def _loaded(self, file: Path) -> Loaded | None:
        now = stamp(file), self._app.toolbox.version, len(TRANSFORMS)
        known = self._known.get(file)
        if known is not None and known[0] == now:
            return known[1]

        def load() -> Loaded:
            found = self._app.load(file)
            self._app.ensure(found)
            return found

        loaded = self._sound(str(file), load)
        self._known[file] = (now, loaded)
        return loaded

    def _of_the_store(self, definition: Any) -> Loaded | None:
        """It was sound when it was stored; a transform that it uses may be registered later here, or elsewhere only."""
        name = f"{definition.kind} {definition.id!r} of the store"
        return self._sound(name, lambda: self._app.definitions.stored(definition))

    def _sound(self, name: str, load: Callable[[], Loaded]) -> Loaded | None:
        """What `load` gives, where it can be offered."""
        before = self.broken.pop(name, None)
        try:
            return load()
        except (InvalidFlow, NotFound) as error:
            self.broken[name] = why = "\n".join(map(render, problems_of(error))) or str(error)
            if why != before:  # it is looked at again whenever tools or transforms change
                log.warning("%s is not offered:%s%s", name, "\n" if "\n" in why else " ", why)
            return None

    # --- how they are called

    def _of_file(self, loaded: Loaded) -> Execute:
        async def execute(args: dict[str, Json], run_id: str, on_event: Callable[[Event], None]) -> Any:
            known = self._app.store.get_run(run_id)
            if known is not None and known.status == "waiting":
                return await self._app.resume(run_id, on_event=on_event, park=True)
            return await self._app.run(loaded, args, run_id=run_id, on_event=on_event, park=True)

        return execute

    def _of_store(self, definition: Any) -> Execute:
        service: Any = self._app.chains.core if definition.kind == "chain" else self._app.compositions.core

        async def execute(args: dict[str, Json], run_id: str, on_event: Callable[[Event], None]) -> Any:
            known = self._app.store.get_run(run_id)
            if known is not None and known.status == "waiting":
                return await self._app.resume(run_id, on_event=on_event, park=True)
            job = await service.job(definition.id, {"input": args, "executionId": run_id}, None, on_event)
            job.park = True
            return await service.told(job, await self._app.engine.run(job))

        return execute

    def _offer(self, id: str, loaded: Loaded, execute: Execute, *, own: bool = False) -> Offered:
        tool = self._app.as_tool(loaded)
        # How often the nodes of a block run, nobody knows before.
        counted = not any(bodies(node) for node in loaded.flow.body.nodes)

        async def call(args: dict[str, Json], asked: Asked) -> Any:
            run_id = None if asked.key is None else f"mcp-{digest([id, asked.key])}"
            result, paths = await executed(self._app, execute, args, run_id, asked, counted=counted)
            if result.get("status") == "waiting":
                return _waits(result, named=asked.key is not None)
            about = {"runId": result.get("executionId"), "status": result.get("status")}
            try:
                value = value_of(result, loaded.kind)
            except FlowFailed as error:
                return flow_failed(error, paths)
            return given(value, tool.output_schema, about=about, note=_missed(result))

        return Offered(
            id=id,
            wanted=tool_name(loaded.name),
            description=tool.description.strip() or f"Runs the {loaded.kind} {loaded.name!r}.",
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            call=call,
            own=own,
        )


def _waits(result: dict[str, Any], *, named: bool) -> Any:
    """There is no result yet, and it is not for the client to wait: it may take days. Only a call that is `named` by
    its key can be made again for the same run."""
    run_id, listed = result.get("executionId"), result.get("waitingFor") or []
    asks = ", ".join(str(one.get("approval") or one.get("event")) for one in listed)
    how = "answer with `ropewalk runs approve` or `runs send`; "
    if named:
        how += "the same call under the same key then has the result"
    else:
        how += f"`ropewalk resume {run_id}` then goes on with it and prints the result; a new call starts a new run"
    about = {"kind": "Waiting", "runId": run_id, "status": "waiting", "waitingFor": listed}
    return failed(f"no result yet: run {run_id} waits for {asks or 'an event'}; {how}", about)


def _missed(result: dict[str, Any]) -> str:
    """What failed in a run that reached its end all the same."""
    if result.get("status") != "partial":
        return ""
    said = [
        f"{e.get('nodeId') or e.get('node') or e.get('path')}: {e.get('message')}" for e in result.get("errors") or ()
    ]
    return "\n".join(["the run is partial; what failed:", *said])

"""One Node.js process with tool modules in it: its start, its calls, its end.

`node/host.mjs` is the other side and describes the frames between them. What many calls share (the fields of the
state) is sent once and named by a handle from then on. A call that is given up is followed by a question: a process
that does not answer is held by a module and is killed, with an error for every other call under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import socket
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

import orjson

from ..values import Json
from .child import Child, harmless, inherited, start
from .delta import ModuleFailed
from .inside import Impl
from .raw import MAX_TEXT, RawResult, UnusableResult, bounded

log = logging.getLogger("ropewalk.modules")

HOST: Final = Path(__file__).with_name("node") / "host.mjs"
OLDEST: Final = 18
INSTALL: Final = "install it from https://nodejs.org or with a package manager (apt install nodejs, brew install node)"
SHARED: Final = ("_state", "_edge_inputs")
_START: Final = 30.0  # seconds until a process that gives no sign of life is given up
_PATIENCE: Final = 1.0  # seconds that a process may take to answer whether it is held
_HURRY: Final = 0.3  # the same where it is to end
_LAST_OUTPUT: Final = 10.0  # seconds that the output of a process which ends is waited for
_MOST_LENT: Final = 512  # values kept on the other side, and their size in bytes
_MOST_LENT_BYTES: Final = 200_000_000
_LONGEST_LINE: Final = 10_000
INEXACT: Final = "holds an integer beyond 2^53, which JavaScript would round; pass it as text"
_Frame = tuple[dict[str, Any], bytes]


class NodeProcess:
    """A running process. `call` may be used by many tasks at once; `stop` leaves nothing behind."""

    def __init__(self, child: Child, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lines: Lines) -> None:
        self._child, self._reader, self._writer, self._lines = child, reader, writer, lines
        self._waiting: dict[int, tuple[asyncio.Future[Any], str]] = {}
        self._lent = Lent()
        self._ids = count(1)
        self._over = ""  # why it cannot be used any more
        self._question: asyncio.Task[None] | None = None
        self._answered = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, root: Path, env: Mapping[str, str], run: str, shown: str) -> NodeProcess:
        """Start Node.js and wait until it is ready; ModuleFailed, with the module it is for, says why it is not."""
        environment = {**inherited(), **env}
        path = environment.get("PATH")
        node = shutil.which("node", path=path) or shutil.which("nodejs", path=path)
        if node is None:
            said = f"{shown} needs Node.js {OLDEST} or newer, and there is no `node` on the PATH: {INSTALL}"
            raise ModuleFailed(said, retryable=False)
        lines = Lines(run)
        ours, theirs = socket.socketpair()
        child: Child | None = None
        try:
            with theirs:
                argv = [node, str(HOST), str(theirs.fileno()), str(root)]
                child = await start(argv, environment, passed=[theirs.fileno()], heard=lines.heard)
            process = cls(child, *await asyncio.open_unix_connection(sock=ours, limit=2**22), lines)
        except BaseException as error:
            ours.close()
            if child is not None:
                await child.stop()
            if isinstance(error, (OSError, ValueError)):
                raise ModuleFailed(f"{shown}: Node.js ({node}) cannot be started: {error}") from error
            raise
        try:
            await process._greeted(node, shown)
        except BaseException:
            await process.stop()
            raise
        process._listener = asyncio.create_task(process._listen(), name=f"ropewalk Node.js of {run}")
        return process

    async def _greeted(self, node: str, shown: str) -> None:
        try:
            async with asyncio.timeout(_START):
                head, _ = await self._frame()
        except TimeoutError as error:
            raise ModuleFailed(f"{shown}: Node.js ({node}) was not ready within {_START:g} s") from error
        except (EOFError, OSError, ValueError) as error:
            raise ModuleFailed(f"{shown}: Node.js ({node}) {await self._ending()}") from error
        if head["op"] == "old":
            said = f"{shown} needs Node.js {OLDEST} or newer; {node} is {head['node']}: {INSTALL}"
            raise ModuleFailed(said, retryable=False)

    async def usable(self) -> bool:
        """Whether calls can be sent; where that is being found out, the answer is waited for."""
        if self._question is not None:
            await asyncio.shield(self._question)
        if self._reader.at_eof() and self._listener is not None:
            await asyncio.shield(self._listener)  # it is finding out how the process ended
        return not self._over

    async def call(self, impl: Impl, args: dict[str, Any]) -> Any:
        """Call the default export of a module; ModuleFailed says what went wrong, naming the file."""
        number = next(self._ids)
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        head: dict[str, Any] = {"op": "call", "id": number, "file": str(impl.file), "shown": impl.shown}
        head["lent"], plain = {}, {}
        for name, value in args.items():
            if name in SHARED and type(value) is dict:
                head["lent"][name] = {field: self._lend(inner) for field, inner in value.items()}
            else:
                plain[name] = value
        for name, value in plain.items():
            if not exact(value):
                raise ModuleFailed(f"{impl.shown}: {name} {INEXACT}", retryable=False)
        self._waiting[number] = done, impl.shown
        try:
            self._send(head, orjson.dumps(plain))
            if gone := self._lent.surplus():
                self._send({"op": "drop", "handles": gone})
            with contextlib.suppress(ConnectionError):  # it has ended: the future says so
                await self._writer.drain()
            return await done
        except asyncio.CancelledError:
            self._ask(impl.shown)
            raise
        finally:
            del self._waiting[number]

    async def stop(self) -> None:
        """End the process and its whole group."""
        over, self._over = self._over, self._over or "was ended with its run"
        held = False
        try:
            if not over:
                self._send({"op": "end"})  # it sends first what it has printed, and goes
                # After a call that was given up, as when the run is stopped, it may be held: it gets less time.
                held = not await self._child.heard_out(_HURRY if self._question else _PATIENCE, _LAST_OUTPUT)
                if held:
                    self._lines.cut()
        finally:
            self._writer.close()
            await self._ended(held)

    async def _ended(self, held: bool) -> None:
        try:
            await self._child.stop(hurried=held)
        finally:
            tasks = [task for task in (self._listener, self._question) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._fail_all()
            self._lines.end()

    def kill(self) -> None:
        """End it now, from any thread."""
        self._over = self._over or "was killed"
        self._child.kill()

    # --- sending ------------------------------------------------------------------------------

    def _send(self, head: dict[str, Any], body: bytes = b"") -> None:
        written = orjson.dumps(head)
        self._writer.write(len(written).to_bytes(4, "big") + len(body).to_bytes(4, "big") + written)
        if body:
            self._writer.write(body)

    def _lend(self, value: Json) -> dict[str, Json]:
        if type(value) is not dict and type(value) is not list:
            return {"value": value, "exact": exact(value)}
        handle, body = self._lent.handle(value)
        if body is not None:
            self._send({"op": "value", "handle": handle, "exact": exact(value)}, body)
        return {"handle": handle}

    # --- receiving ----------------------------------------------------------------------------

    async def _frame(self) -> _Frame:
        lengths = await self._reader.readexactly(8)
        head, body = int.from_bytes(lengths[:4], "big"), int.from_bytes(lengths[4:], "big")
        return orjson.loads(await self._reader.readexactly(head)), await self._reader.readexactly(body)

    async def _listen(self) -> None:
        """Hand the answers out until the process ends; then say so to every call that waits."""
        try:
            while True:
                head, body = await self._frame()
                if type(head) is not dict:
                    raise ValueError("it is no object")
                if head["op"] == "pong":
                    self._answered.set()
                elif head["op"] == "over":
                    self._over = self._over or harmless(head["text"])
                elif head["id"] in self._waiting:
                    self._settle(head, body)
        except (EOFError, OSError):
            said = await self._ending()
        except (ValueError, KeyError, TypeError) as error:
            said = f"sent what is no answer ({error})"
        self._over = self._over or said
        self._child.kill()
        self._fail_all()

    def _settle(self, head: dict[str, Any], body: bytes) -> None:
        done, shown = self._waiting[head["id"]]
        if done.done():
            return
        if head["op"] == "failed":
            done.set_exception(_failure(head))
            return
        try:
            done.set_result(orjson.loads(body))
        except orjson.JSONDecodeError as error:
            received = RawResult(False, text=bounded(body[:MAX_TEXT].decode("utf-8", "replace")))
            done.set_exception(UnusableResult(f"{shown}: its result cannot be kept: {error}", received))

    def _fail_all(self) -> None:
        for done, shown in self._waiting.values():
            if not done.done():
                done.set_exception(ModuleFailed(f"{shown}: the Node.js process of this run ended: {self._over}"))
                done.exception()  # retrieved: whoever waited may be gone

    async def _ending(self) -> str:
        ended = await self._child.last_words() or "closed its connection"
        said = harmless(self._child.stderr_tail()).strip()
        return f"{ended}; its output ends with:\n{said}" if said else ended

    # --- is it held? --------------------------------------------------------------------------

    def _ask(self, shown: str) -> None:
        if self._question is None and not self._over:
            self._question = asyncio.create_task(self._find_out(shown), name="ropewalk Node.js: held?")

    async def _find_out(self, shown: str) -> None:
        self._answered.clear()
        self._send({"op": "ping"})
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._answered.wait()
        except TimeoutError:
            self._over = self._over or f"{shown} was given up and held it, so that it was killed"
            self._child.kill()
            self._fail_all()
        self._question = None


def _failure(head: Mapping[str, Any]) -> Exception:
    """The failure of a call; of a tool that ran, with the result that was rejected."""
    text = harmless(head["text"])
    if isinstance(head.get("result"), str):
        return UnusableResult(text, RawResult(False, text=bounded(harmless(head["result"]))))
    return ModuleFailed(text, retryable=head["retryable"])


def exact(value: Json) -> bool:
    """Whether JavaScript, whose numbers are doubles, reads every integer in it as it is."""
    try:
        orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:
        return False
    return True


class Lent:
    """Values that the other side holds, by identity; those used longest ago are let go of."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Json, int, int]] = OrderedDict()
        self._handles = count(1)
        self._size = 0

    def handle(self, value: Json) -> tuple[int, bytes | None]:
        """The handle of a value, and its text when it has to be sent first."""
        known = self._known.get(id(value))
        if known is not None:
            self._known.move_to_end(id(value))
            return known[1], None
        body, handle = orjson.dumps(value), next(self._handles)
        self._known[id(value)] = value, handle, len(body)  # kept alive here, so that no id comes twice
        self._size += len(body)
        return handle, body

    def surplus(self) -> list[int]:
        """Handles that are not used any more from now on."""
        return list(self._shrunk())

    def _shrunk(self) -> Iterator[int]:
        while len(self._known) > _MOST_LENT or (self._size > _MOST_LENT_BYTES and len(self._known) > 1):
            _, (_, handle, size) = self._known.popitem(last=False)
            self._size -= size
            yield handle


class Lines:
    """What a process prints, as lines of the log `ropewalk.modules`."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._rest: dict[int, bytes] = {1: b"", 2: b""}
        self._left_out: dict[int, int] = {1: 0, 2: 0}  # bytes of the line that are not in `_rest`

    def heard(self, fd: int, data: bytes) -> None:
        """Take a piece of the output of descriptor 1 or 2."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._grow(fd, piece)
            self._write(fd)
        self._grow(fd, rest)

    def cut(self) -> None:
        """The process did not end in time: what it printed last may not have come."""
        self._log(2, "... what was printed last may be missing: the process was killed while it was busy")

    def end(self) -> None:
        """No more will come."""
        for fd, line in self._rest.items():
            if line:
                self._write(fd)

    def _grow(self, fd: int, piece: bytes) -> None:
        room = _LONGEST_LINE - len(self._rest[fd])
        self._rest[fd] += piece[:room]
        self._left_out[fd] += max(0, len(piece) - room)

    def _write(self, fd: int) -> None:
        text, left_out = harmless(self._rest[fd].decode(errors="replace")), self._left_out[fd]
        self._rest[fd], self._left_out[fd] = b"", 0
        self._log(fd, f"{text} ... ({left_out:,} more bytes of this line are left out)" if left_out else text)

    def _log(self, fd: int, text: str) -> None:
        where = {"run_id": self._run, "line": text, "stream": "stdout" if fd == 1 else "stderr"}
        log.info("%s: %s", self._run, text, extra=where)

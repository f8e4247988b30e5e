"""JavaScript tool modules: one warm Node.js process per run, started at the first call.

A call belongs to the live run whose id is the longest prefix of its idempotency key (an id may
contain slashes). A call of no live run uses the process named by the part of its key before the
first slash. The process ends with the run. It runs with the user's rights: it can be killed, has a
clean environment and a time limit, but it is not a sandbox.

- `NodeProcess`: one process; `node/host.mjs` is the other side and describes the frames between
  them. Values that many calls share (the fields of the state) are sent once and then named by a
  handle. After a call is cancelled, the process must answer a ping. If it does not, a module blocks
  it: it is killed, and every other call in progress gets an error.
- `NodeProcesses`: the processes of a directory, by run.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import logging
import shutil
import socket
from collections import OrderedDict
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

import orjson

from ...errors import StackTrace
from ...values import Json
from ..child_process import Child, inherited_environment, start, without_control_characters
from ..module_result import ModuleFailed
from ..output import Output, current_output
from ..printed_end import printed_end
from ..raw_result import MAX_TEXT, RawResult, UnusableResult, bounded
from .paths import Impl, find

log = logging.getLogger("ropewalk.modules")

_HOST: Final = Path(__file__).with_name("node") / "host.mjs"
_MIN_VERSION: Final = 18  # of Node.js
_INSTALL: Final = "install it from https://nodejs.org or with a package manager (apt install nodejs, brew install node)"
_SHARED_ARGS: Final = ("_state", "_edge_inputs")  # many calls of a run have the same values in them
_START_TIMEOUT: Final = 30.0  # seconds for a process to become ready
_PING_TIMEOUT: Final = 1.0  # seconds for a process to show that no module blocks it
_SHORT_PING_TIMEOUT: Final = 0.3  # the same, for a process that may be blocked and is to end
_LAST_OUTPUT_TIMEOUT: Final = 10.0  # seconds to wait for the output of a process that ends
_MAX_SENT_VALUES: Final = 512  # that the other side keeps
_MAX_SENT_BYTES: Final = 200_000_000
_MAX_PRINTED: Final = 4_000  # characters of what it printed, in an error
_MAX_LINE: Final = 10_000  # bytes
_INEXACT_INTEGER: Final = "contains an integer beyond 2^53, which JavaScript would round; pass it as text"
_Frame = tuple[dict[str, Any], bytes]


class NodeProcess:
    """A running Node.js process."""

    # Many tasks may use `call` at once; `stop` leaves nothing behind.

    def __init__(
        self, child: Child, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, output: OutputLog
    ) -> None:
        self._child = child
        self._reader = reader
        self._writer = writer
        self._output = output
        self._waiting: dict[int, tuple[asyncio.Future[Any], str]] = {}  # by call: its future, the name of its file
        self._sent = SentValues()
        self._ids = count(1)
        self._end_reason = ""  # why the process cannot be used any more
        self._ping: asyncio.Task[None] | None = None
        self._pong = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, root: Path, env: Mapping[str, str], run: str, display: str) -> NodeProcess:
        """Start Node.js and wait until it is ready."""
        environment = {**inherited_environment(), **env}
        path = environment.get("PATH")
        node = shutil.which("node", path=path) or shutil.which("nodejs", path=path)
        if node is None:
            message = f"{display} needs Node.js {_MIN_VERSION} or newer, but `node` is not on the PATH; {_INSTALL}"
            raise ModuleFailed(message, retryable=False)

        # Frames go over a socket of their own: standard output belongs to the modules.
        output = OutputLog(run)
        our_end, child_end = socket.socketpair()
        child: Child | None = None
        try:
            with child_end:
                argv = [node, str(_HOST), str(child_end.fileno()), str(root)]
                child = await start(argv, environment, pass_fds=[child_end.fileno()], on_output=output.add)
            reader, writer = await asyncio.open_unix_connection(sock=our_end, limit=2**22)
        except BaseException as error:
            our_end.close()
            if child is not None:
                await child.stop()
            if isinstance(error, (OSError, ValueError)):
                raise ModuleFailed(f"{display}: could not start Node.js ({node}): {error}") from error
            raise

        process = cls(child, reader, writer, output)
        try:
            await process._wait_ready(node, display)
        except BaseException:
            await process.stop()
            raise
        process._listener = asyncio.create_task(process._listen(), name=f"ropewalk Node.js of {run}")
        return process

    async def _wait_ready(self, node: str, display: str) -> None:
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                head, _ = await self._read_frame()
        except TimeoutError as error:
            raise ModuleFailed(f"{display}: Node.js ({node}) was not ready within {_START_TIMEOUT:g} s") from error
        except (EOFError, OSError, ValueError) as error:
            raise ModuleFailed(f"{display}: Node.js ({node}) {await self._describe_end()}") from error
        if head["op"] == "old":
            message = f"{display} needs Node.js {_MIN_VERSION} or newer; {node} is {head['node']}; {_INSTALL}"
            raise ModuleFailed(message, retryable=False)

    async def is_usable(self) -> bool:
        """Return True if calls can be sent."""

        # Wait for the answer to a ping, or for the end to be explained.
        if self._ping is not None:
            await asyncio.shield(self._ping)
        if self._reader.at_eof() and self._listener is not None:
            await asyncio.shield(self._listener)
        return not self._end_reason

    async def call(self, impl: Impl, args: dict[str, Any]) -> Any:
        """Call the default export of a module and return its parsed result."""
        # Values shared by many calls go by handle, all others with the call.
        shared: dict[str, Json] = {}
        plain: dict[str, Json] = {}
        for name, value in args.items():
            if name in _SHARED_ARGS and type(value) is dict:
                shared[name] = {field: self._send_value(inner) for field, inner in value.items()}
            else:
                plain[name] = value
        for name, value in plain.items():
            if not _is_exact(value):
                raise ModuleFailed(f"{impl.display}: {name} {_INEXACT_INTEGER}", retryable=False)

        number = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future, impl.display
        if (output := current_output()) is not None:
            self._output.outputs[number] = output
        try:
            head = {"op": "call", "id": number, "file": str(impl.file), "shown": impl.display, "lent": shared}
            self._send(head, orjson.dumps(plain))
            dropped = self._sent.drop_oldest()
            if dropped:
                self._send({"op": "drop", "handles": dropped})
            with contextlib.suppress(ConnectionError):  # it has ended: the future says so
                await self._writer.drain()
            return await future
        except asyncio.CancelledError:
            self._start_ping(impl.display)
            raise
        finally:
            del self._waiting[number]
            self._output.outputs.pop(number, None)

    async def stop(self) -> None:
        """End the process and its whole group."""
        has_ended = bool(self._end_reason)
        self._end_reason = self._end_reason or "was ended with its run"
        is_blocked = False
        try:
            if not has_ended:
                self._send({"op": "end"})  # it first sends what it has printed, and exits
                # After a cancelled call, as when the run is stopped, a module may block it: it gets less time.
                patience = _SHORT_PING_TIMEOUT if self._ping else _PING_TIMEOUT
                is_blocked = not await self._child.wait_for_output(patience, _LAST_OUTPUT_TIMEOUT)
                if is_blocked:
                    self._output.warn_incomplete()
        finally:
            self._writer.close()
            await self._stop_child(is_blocked)

    async def _stop_child(self, is_blocked: bool) -> None:
        try:
            await self._child.stop(hurried=is_blocked)
        finally:
            tasks = [task for task in (self._listener, self._ping) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._fail_calls()
            self._output.close()

    def kill(self) -> None:
        """Kill the process at once, from any thread."""
        self._end_reason = self._end_reason or "was killed"
        self._child.kill()

    # --- sending ------------------------------------------------------------------------------

    def _send(self, head: dict[str, Any], body: bytes = b"") -> None:
        head_bytes = orjson.dumps(head)
        lengths = len(head_bytes).to_bytes(4, "big") + len(body).to_bytes(4, "big")
        self._writer.write(lengths + head_bytes)
        if body:
            self._writer.write(body)

    def _send_value(self, value: Json) -> dict[str, Json]:
        """Return how a call names a value: an object or array by its handle, any other as it is."""
        if type(value) is not dict and type(value) is not list:
            return {"value": value, "exact": _is_exact(value)}
        handle, body = self._sent.handle(value)
        if body is not None:
            self._send({"op": "value", "handle": handle, "exact": _is_exact(value)}, body)
        return {"handle": handle}

    # --- receiving ----------------------------------------------------------------------------

    async def _read_frame(self) -> _Frame:
        lengths = await self._reader.readexactly(8)
        head = await self._reader.readexactly(int.from_bytes(lengths[:4], "big"))
        body = await self._reader.readexactly(int.from_bytes(lengths[4:], "big"))
        return orjson.loads(head), body

    async def _listen(self) -> None:
        """Hand out the answers until the process ends; then fail every call that waits."""
        try:
            while True:
                head, body = await self._read_frame()
                if type(head) is not dict:
                    raise ValueError("it is not an object")
                if head["op"] == "pong":
                    self._pong.set()
                elif head["op"] == "over":
                    self._end_reason = self._end_reason or without_control_characters(head["text"])
                elif head["id"] in self._waiting:
                    self._finish_call(head, body)
        except (EOFError, OSError):
            reason = await self._describe_end()
        except (ValueError, KeyError, TypeError) as error:
            reason = f"sent an invalid message ({error})"
        self._end_reason = self._end_reason or reason
        self._child.kill()
        self._fail_calls()

    def _finish_call(self, head: dict[str, Any], body: bytes) -> None:
        future, display = self._waiting[head["id"]]
        if future.done():
            return
        if head["op"] == "failed":
            future.set_exception(_failure(head))
            return
        try:
            future.set_result(orjson.loads(body))
        except orjson.JSONDecodeError as error:
            received = RawResult(False, text=bounded(body[:MAX_TEXT].decode("utf-8", "replace")))
            future.set_exception(UnusableResult(f"{display}: its result is not usable: {error}", received))

    def _fail_calls(self) -> None:
        for future, display in self._waiting.values():
            if not future.done():
                message = f"{display}: the Node.js process of this run ended: {self._end_reason}"
                future.set_exception(ModuleFailed(message))
                future.exception()  # retrieved: the caller may be gone

    async def _describe_end(self) -> str:
        end = await self._child.describe_end() or "closed its connection"
        stderr = printed_end(without_control_characters(self._child.stderr_tail()).strip(), _MAX_PRINTED)
        return f"{end}; its output ends with:\n{stderr}" if stderr else end

    # --- does a module block it? --------------------------------------------------------------

    def _start_ping(self, display: str) -> None:
        if self._ping is None and not self._end_reason:
            self._ping = asyncio.create_task(self._check_blocked(display), name="ropewalk Node.js: held?")

    async def _check_blocked(self, display: str) -> None:
        """Kill a process that does not answer a ping."""
        self._pong.clear()
        self._send({"op": "ping"})
        try:
            async with asyncio.timeout(_PING_TIMEOUT):
                await self._pong.wait()
        except TimeoutError:
            self._end_reason = self._end_reason or f"{display} was cancelled and blocked it, so it was killed"
            self._child.kill()
            self._fail_calls()
        self._ping = None


def _failure(head: Mapping[str, Any]) -> Exception:
    """Return the failure of a call; with the rejected result, if the module gave one."""
    text = without_control_characters(head["text"])
    if isinstance(head.get("result"), str):
        return UnusableResult(text, RawResult(False, text=bounded(without_control_characters(head["result"]))))
    failure = ModuleFailed(text, retryable=head["retryable"])
    failure.trace = _trace(head)
    return failure


def _trace(head: Mapping[str, Any]) -> StackTrace | None:
    at, stack = head.get("at"), head.get("stack")
    if not isinstance(stack, str):
        return None
    return StackTrace(at if isinstance(at, str) else None, without_control_characters(stack))


def _is_exact(value: Json) -> bool:
    """Return True if JavaScript, whose numbers are doubles, reads every integer of a value exactly."""
    try:
        orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:
        return False
    return True


class SentValues:
    """The values that the other side holds, by identity, least recently used first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, tuple[Json, int, int]] = OrderedDict()  # by id(): value, handle, bytes
        self._handles = count(1)
        self._size = 0  # bytes

    def handle(self, value: Json) -> tuple[int, bytes | None]:
        """Return the handle of a value, and its JSON text if it must be sent first."""
        entry = self._entries.get(id(value))
        if entry is not None:
            self._entries.move_to_end(id(value))
            return entry[1], None
        body = orjson.dumps(value)
        handle = next(self._handles)
        # The entry keeps the value alive, so that no other gets its id().
        self._entries[id(value)] = value, handle, len(body)
        self._size += len(body)
        return handle, body

    def drop_oldest(self) -> list[int]:
        """Forget values until the rest is within the limits; return their handles."""
        dropped = []
        while len(self._entries) > _MAX_SENT_VALUES or (self._size > _MAX_SENT_BYTES and len(self._entries) > 1):
            _, (_, handle, size) = self._entries.popitem(last=False)
            self._size -= size
            dropped.append(handle)
        return dropped


class OutputLog:
    """Writes what a process prints to the log `ropewalk.modules`, line by line."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._decoders = {fd: codecs.getincrementaldecoder("utf-8")("replace") for fd in (1, 2)}
        self.outputs: dict[int, Output] = {}  # of the steps whose calls are in progress
        self._rest: dict[int, bytes] = {1: b"", 2: b""}  # the beginning of an unfinished line, by file descriptor
        self._left_out: dict[int, int] = {1: 0, 2: 0}  # bytes of that line that are not in `_rest`

    def add(self, fd: int, data: bytes) -> None:
        """Take a piece of the output of file descriptor 1 or 2; it is of every step whose call is in progress."""
        text = self._decoders[fd].decode(data)
        for output in self.outputs.values():
            output.write("stdout" if fd == 1 else "stderr", text)
        *line_ends, rest = data.split(b"\n")
        for piece in line_ends:
            self._extend(fd, piece)
            self._end_line(fd)
        self._extend(fd, rest)

    def warn_incomplete(self) -> None:
        """Log that the last output may be missing, because the process was killed."""
        self._log(2, "... the last output may be missing, because the process was killed while it was busy")

    def close(self) -> None:
        """Log unfinished lines."""
        for fd, line in self._rest.items():
            if line:
                self._end_line(fd)

    def _extend(self, fd: int, piece: bytes) -> None:
        room = _MAX_LINE - len(self._rest[fd])
        self._rest[fd] += piece[:room]
        self._left_out[fd] += max(0, len(piece) - room)

    def _end_line(self, fd: int) -> None:
        text = without_control_characters(self._rest[fd].decode(errors="replace"))
        left_out = self._left_out[fd]
        self._rest[fd] = b""
        self._left_out[fd] = 0
        if left_out:
            text += f" ... ({left_out:,} more bytes of this line are left out)"
        self._log(fd, text)

    def _log(self, fd: int, text: str) -> None:
        extra = {
            "run_id": self._run,
            "line": text,
            "stream": "stdout" if fd == 1 else "stderr",
            "in_step": bool(self.outputs),
        }
        log.info("%s: %s", self._run, text, extra=extra)


class NodeProcesses:
    """The Node.js processes of a directory, by run."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self._root = root
        self._env = env
        self._starts: dict[str, asyncio.Task[NodeProcess]] = {}
        self._live_runs: set[str] = set()

    async def call(self, impl: Impl, args: dict[str, Any], key: str | None) -> Any:
        """Call the default export of a module in the process of its run."""
        find(self._root, impl.display)  # Node.js reads the file by its path: check again where it leads
        run = self._run_of(key or "")
        while True:
            process = await self._process(run, impl.display)
            if await process.is_usable():
                return await process.call(impl, args)
            await self._discard(run, process)

    def began(self, run_id: str) -> None:
        """Note that a run has begun; its process starts with its first call."""
        self._live_runs.add(run_id)

    async def ended(self, run_id: str) -> None:
        """End the process of a run, if there is one."""
        self._live_runs.discard(run_id)
        start_task = self._starts.pop(run_id, None)
        if start_task is not None:
            await _stop(start_task)

    async def close(self) -> None:
        """End all processes."""
        start_tasks, self._starts = list(self._starts.values()), {}
        await asyncio.gather(*map(_stop, start_tasks))

    def _run_of(self, key: str) -> str:
        run = key
        while run and run not in self._live_runs:
            run = run.rpartition("/")[0]
        return run or key.partition("/")[0]

    async def _process(self, run: str, display: str) -> NodeProcess:
        """Return the process of a run; concurrent calls share one start."""
        loop = asyncio.get_running_loop()
        start_task = self._starts.get(run)
        if start_task is None or start_task.get_loop() is not loop:
            start_task = loop.create_task(NodeProcess.start(self._root, self._env, run, display))
            self._starts[run] = start_task
        try:
            return await asyncio.shield(start_task)
        except BaseException:
            if start_task.done() and self._starts.get(run) is start_task:
                del self._starts[run]
            raise

    async def _discard(self, run: str, process: NodeProcess) -> None:
        start_task = self._starts.get(run)
        if start_task is not None and start_task.done() and start_task.result() is process:
            del self._starts[run]
        await process.stop()


async def _stop(start_task: asyncio.Task[NodeProcess]) -> None:
    if start_task.get_loop() is not asyncio.get_running_loop():
        # Its loop is closed, or runs without us: all we can do is to kill the process.
        if start_task.done() and not start_task.cancelled() and start_task.exception() is None:
            start_task.result().kill()
        return
    start_task.cancel()  # has no effect on a start that is complete
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await (await start_task).stop()

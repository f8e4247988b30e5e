"""Start Python programs without paying for their imports.

A server process imports Ropewalk once and forks a child for every program that a test starts. The child is a true
process: it has its own pid, working directory, environment, streams, signals and exit code, and `kill -9` ends it.
Only the imports and the end of the interpreter are saved, which are most of the time of a short command.

`Popen` and `run` are those of `subprocess`, for the same arguments. What a forked process cannot reproduce starts in
the ordinary way: options of the interpreter (`-X`, `-c`, `-W`), other values of variables that Python reads when it
starts, `preexec_fn`, `pass_fds`, `ropewalk test`, and every program that is not Python of this environment. Tests of
start-up, of missing packages and of closed streams use `subprocess` itself.

`programs()` is a directory for the PATH of shell scripts and for the commands of MCP servers: its `python` and
`ropewalk` are small processes that have the server fork the program, pass signals on to it, and end as it ends. These
programs import `ropewalk` themselves, as code that uses a module without importing it must fail.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import marshal
import os
import pkgutil
import re
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
_STARTUP_VARIABLES = ("PYTHON", "LC_", "LANG", "LD_")
_OBEYED = _NO_BYTECODE, _UNBUFFERED = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
_DEFAULT_LOCALE = "C.UTF-8"
_INNER_IMPORT = re.compile(r"^[ \t]+(?:from|import) ([A-Za-z_][\w.]*)(?: import .*)?$", re.MULTILINE)
_LAZY = (
    "cyclopts.help", "docstring_parser", "rich.panel", "anthropic.resources.messages", "anthropic.resources.beta",
    "mcp.server.stdio", "mcp_server_git.server", "mcp_server_time.server",
)  # fmt: skip
_LARGE_PAGE, _MADV_HUGEPAGE, _MADV_COLLAPSE = 2 << 20, 14, 25  # Linux on most machines; elsewhere they do nothing
_HEADER = 8  # bytes: the length of a request
_START_NEW_SESSION = 5  # its place among the last arguments of _execute_child, in Python 3.11 to 3.14


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, whose child is forked by the server where the program is Python of this environment."""

    _status_fd: int | None = None

    def _execute_child(  # type: ignore[override]
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: bool, pass_fds: Any, cwd: Any, env: Any,
        startupinfo: Any, creationflags: Any, shell: bool,
        p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int, *rest: Any,
    ) -> None:  # fmt: skip
        program = None if shell or executable or preexec_fn or pass_fds else program_of(args, env)
        if program is None:
            super()._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *rest,
            )  # fmt: skip
            return
        request = {
            "words": program,
            "cwd": os.fspath(cwd) if cwd is not None else os.getcwd(),
            "env": dict(os.environ if env is None else env),
            "session": bool(rest[_START_NEW_SESSION]),
        }
        fds = [p2cread if p2cread != -1 else 0, c2pwrite if c2pwrite != -1 else 1, errwrite if errwrite != -1 else 2]
        self.pid, self._status_fd = _server().start(request, fds)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _internal_poll(self, *args: Any, **kwargs: Any) -> int | None:
        if self._status_fd is None:
            return super()._internal_poll(*args, **kwargs)  # type: ignore[misc, no-any-return]
        if self.returncode is None and self._ended_within(0):
            self._read_status()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._status_fd is None:
            return super()._wait(timeout=timeout)  # type: ignore[misc, no-any-return]
        if self.returncode is None:
            if not self._ended_within(timeout):
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            self._read_status()
        return self.returncode

    def _ended_within(self, seconds: float | None) -> bool:
        assert self._status_fd is not None
        poller = select.poll()
        poller.register(self._status_fd, select.POLLIN | select.POLLHUP)
        return bool(poller.poll(None if seconds is None else max(0, seconds * 1000)))

    def _read_status(self) -> None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is not None:
                return
            assert self._status_fd is not None
            answer = os.read(self._status_fd, 16)
            os.close(self._status_fd)
            self.returncode = os.waitstatus_to_exitcode(int(answer)) if answer else -signal.SIGKILL


def run(
    args: Any, *, input: Any = None, capture_output: bool = False, timeout: float | None = None, check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """`subprocess.run`, with a forked child where that is possible."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Popen(args, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
    done: subprocess.CompletedProcess[Any] = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def programs() -> Path:
    """The directory of a `python`, a `python3` and a `ropewalk` that the server forks."""
    return _server().folder if sys.platform.startswith("linux") else Path(sys.executable).parent


def program(name: str) -> str:
    """The path of one of the `programs()`."""
    return str(programs() / name)


def program_of(args: Any, env: Mapping[str, str] | None) -> list[str] | None:
    """The words of a program that the server can start: a script, or `-m` and a module; else None."""
    if isinstance(args, (str, bytes, os.PathLike)) or not sys.platform.startswith("linux"):
        return None
    words = [os.fspath(word) for word in args]
    if words[0] == sys.executable and len(words) > 1:
        words = words[1:]
        if words[0].startswith("-") and not (words[0] == "-m" and len(words) > 1):
            return None
    elif words[0] != COMMAND or words[1:2] == ["test"]:  # which sets the clocks before it imports the engine
        return None
    if env is not None and _startup_variables(env) != _startup_variables(os.environ):
        return None
    return words


def _startup_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python has read when it starts, but for those that `become` obeys.

    Python uses the locale C.UTF-8 also where none is named.
    """
    return {
        name: value
        for name, value in env.items()
        if name.startswith(_STARTUP_VARIABLES) and name not in _OBEYED and value != _DEFAULT_LOCALE
    }


# --- the test process's side ----------------------------------------------------------------------------------------


class _Server:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._variables = _startup_variables(os.environ)
        ours, theirs = socket.socketpair()
        self._socket = ours
        self.folder = Path(tempfile.mkdtemp(prefix="forked"))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.folder / "socket"))
        listener.listen(64)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), str(listener.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno(), listener.fileno()],
            cwd="/",
            start_new_session=True,
        )
        theirs.close()
        listener.close()
        self._write_programs()
        atexit.register(self.close)

    def _write_programs(self) -> None:
        programs = {"python": sys.executable, "python3": sys.executable, "ropewalk": COMMAND}
        servers = Path(sys.executable).parent.glob("mcp-server-*")  # the MCP servers of documents
        programs |= {path.name: str(path) for path in servers}
        startup = tuple(prefix.encode() for prefix in _STARTUP_VARIABLES)
        variables = {name.encode(): os.fsencode(value) for name, value in self._variables.items()}
        obeyed = tuple(name.encode() for name in _OBEYED)
        arguments = (str(self.folder / "socket"), programs, startup, obeyed, variables)
        body = Path(__file__).with_name("fork_client.py").read_text("utf-8")
        for name in programs:
            path = self.folder / name
            path.write_text(f"#!{sys.executable} -IS\n{body}\n\nmain{arguments!r}\n", "utf-8")
            path.chmod(0o755)

    def start(self, request: dict[str, Any], streams: list[int]) -> tuple[int, int]:
        """Fork a child; give its pid and the descriptor on which its wait status will arrive."""
        status, theirs = os.pipe()
        try:
            data = json.dumps(request).encode()
            with self._lock:
                self._socket.sendmsg(
                    [len(data).to_bytes(_HEADER, "big")],
                    [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [*streams, theirs]))],
                )
                self._socket.sendall(data)
                answer = self._socket.recv(_HEADER, socket.MSG_WAITALL)
        finally:
            os.close(theirs)
        if len(answer) < _HEADER:
            raise RuntimeError("the fork server died")
        pid = int.from_bytes(answer, "big")
        if pid == 0:
            os.close(status)
            raise FileNotFoundError(2, "No such file or directory", request["cwd"])
        return pid, status

    def close(self) -> None:
        self._socket.close()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


_servers: dict[int, _Server] = {}


def _server() -> _Server:
    """The server of this process; made when it is first needed."""
    if os.getpid() not in _servers:
        _servers[os.getpid()] = _Server()
    return _servers[os.getpid()]


# --- the server's side ----------------------------------------------------------------------------------------------


def serve(connection: socket.socket, listener: socket.socket) -> None:
    """Fork a child per request until the connection ends."""
    preload()
    children = _Children()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts with &
    signal.set_wakeup_fd(wake_write)

    def fork(request: dict[str, Any], streams: list[int], status: int) -> int:
        pid = os.fork() if os.path.isdir(request["cwd"]) else 0
        if pid == 0 and os.path.isdir(request["cwd"]):
            signal.set_wakeup_fd(-1)
            connection.close()
            listener.close()
            for fd in (wake_read, wake_write, status, *children.status.values()):
                os.close(fd)
            become(request, streams)  # ends the process
        for fd in streams:
            os.close(fd)
        return pid

    while True:
        ready, _, _ = select.select([connection, listener, wake_read, *children.callers], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
            children.reap()
        for fd in children.callers.keys() & ready:
            children.kill(fd)
        if listener in ready:
            caller, _ = listener.accept()
            received = _receive(caller)
            if received is not None:
                request = marshal.loads(received[0])
                pid = fork(request, received[1], caller.fileno())
                caller.sendall(pid.to_bytes(_HEADER, "big"))
                children.add(pid, caller.detach(), is_caller=True)
        if connection in ready:
            received = _receive(connection)
            if received is None:
                return
            *streams, status = received[1]
            pid = fork(json.loads(received[0]), streams, status)
            if pid == 0:
                os.close(status)
            else:
                children.add(pid, status)
            connection.sendall(pid.to_bytes(_HEADER, "big"))


def _receive(connection: socket.socket) -> tuple[bytes, list[int]] | None:
    """One request and its descriptors; None at the end of the connection."""
    header, fds, _, _ = socket.recv_fds(connection, _HEADER, 4)
    if len(header) < _HEADER:
        return None
    return connection.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL), fds


class _Children:
    """The forked processes, and the descriptors on which their ends are awaited."""

    def __init__(self) -> None:
        self.status: dict[int, int] = {}
        self.callers: dict[int, int] = {}  # the pid by the descriptor of a program of `programs()`

    def add(self, pid: int, status: int, *, is_caller: bool = False) -> None:
        self.status[pid] = status
        if is_caller:
            self.callers[status] = pid

    def kill(self, caller: int) -> None:
        """Kill the child of a caller that was killed itself, with what the child has started."""
        pid = self.callers.pop(caller)
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)

    def reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                status = self.status.pop(ended[0], None)
                if status is not None:
                    self.callers.pop(status, None)
                    with contextlib.suppress(BrokenPipeError):
                        os.write(status, str(ended[1]).encode())
                    os.close(status)


def preload() -> None:
    """Import everything a command may import. A package that is not installed is left for the child to miss."""
    import ropewalk

    for module in pkgutil.walk_packages(ropewalk.__path__, "ropewalk."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in (*_imported_when_needed(Path(ropewalk.__path__[0])), *_LAZY):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with contextlib.suppress(ImportError):
        importlib.import_module("authorities").share()
    _parse_every_command()
    if threading.active_count() != 1:
        raise RuntimeError(f"an import started a thread: {threading.enumerate()}")
    gc.collect()
    gc.freeze()
    _collapse_pages()


def _parse_every_command() -> None:
    """Fill the caches of the command line's parser, which every command would fill again."""
    from cyclopts import CycloptsError

    from ropewalk.doors.cli.commands import COMMANDS, program

    for command in COMMANDS:
        with contextlib.suppress(CycloptsError):  # most lack arguments
            program().parse_args(command.split(), exit_on_error=False, print_error=False)


def _collapse_pages() -> None:
    """Ask Linux for large pages: a fork, and the end of its child, take time for each page."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, _, _, file, *name = line.split()
        if access == "rw-p" and file == "0" and name in ([], ["[heap]"]):
            start, end = (int(address, 16) for address in addresses.split("-"))
            start, end = -(-start // _LARGE_PAGE) * _LARGE_PAGE, end // _LARGE_PAGE * _LARGE_PAGE
            for advice in (_MADV_HUGEPAGE, _MADV_COLLAPSE) if start < end else ():
                madvise(start, end - start, advice)


def _imported_when_needed(package: Path) -> list[str]:
    """Modules that functions of Ropewalk import when they are called: SDKs take a second each."""
    found = {name for path in package.rglob("*.py") for name in _INNER_IMPORT.findall(path.read_text("utf-8"))}
    return sorted(name for name in found if name.partition(".")[0] != "ropewalk")


def become(request: dict[str, Any], streams: list[int]) -> NoReturn:
    """Turn this forked process into the program of a request, and end with it."""
    code: Any = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if request["session"]:
            os.setsid()
        # The streams may have the numbers 0 to 2 in another order: move them out of the way first.
        for number, fd in enumerate([os.dup(fd) for fd in streams]):
            os.dup2(fd, number)
            os.close(fd)
        for fd in streams:
            if fd > 2:
                os.close(fd)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        time.tzset()
        sys.dont_write_bytecode = bool(os.environ.get(_NO_BYTECODE))
        for number in request.get("ignored", ()):
            signal.signal(number, signal.SIG_IGN)
        _open_streams()
        if "python" in request:
            sys.executable = request["python"]
            if request["words"][0] != COMMAND:
                _forget_package()
        code = _execute(request["words"])
    except SystemExit as exc:
        code = exc.code
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = None
        _end_by_interrupt()
    except BaseException:  # noqa: BLE001 - shown as the interpreter would show it
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    _exit(code)


def _exit(code: Any) -> NoReturn:
    """End as `sys.exit(code)` does at the top of a program, but leave the memory to the system.

    To tear down every imported module costs more than most commands, as it copies each page that the server shares
    with its children.
    """
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    number = (code or 0) & 0xFF
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError) as error:
            if stream is sys.stdout:
                number = 120
                with contextlib.suppress(OSError, ValueError):
                    print(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}", file=sys.stderr)
    os._exit(number)


def _execute(words: list[str]) -> Any:
    if words[0] == COMMAND:
        from ropewalk.doors.cli.main import main

        sys.argv = words
        sys.path[0] = str(Path(COMMAND).parent)
        return main()
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path[0] = ""
        sys.modules["__main__"] = program = types.ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), program.__dict__)
        return None
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return None
    sys.argv = words
    sys.path[0] = str(Path(words[0]).resolve().parent)
    runpy.run_path(words[0], run_name="__main__")
    return None


def _forget_package() -> None:
    """Have the program import Ropewalk itself: a module that it forgets to import must be missing."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ropewalk"]:
        del sys.modules[name]


def _end_by_interrupt() -> None:
    """End as Python ends after a KeyboardInterrupt that nobody caught: by the signal itself."""
    threading._shutdown()  # type: ignore[attr-defined]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def _open_streams() -> None:
    """Create the standard streams again, as the interpreter does at its start.

    The server's streams know whether its own descriptors are terminals; the child's are others.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
        unbuffered = number > 0 and bool(os.environ.get(_UNBUFFERED))
        buffered: Any = raw if unbuffered else io.BufferedWriter(raw) if number else io.BufferedReader(raw)
        stream = io.TextIOWrapper(
            buffered,
            encoding=old.encoding,
            errors=old.errors,
            newline="\n" if number else None,
            line_buffering=not unbuffered and (number == 2 or raw.isatty()),
            write_through=unbuffered,
        )
        stream.mode = "r" if number == 0 else "w"  # type: ignore[attr-defined]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as made, socket.socket(fileno=int(sys.argv[2])) as made_listener:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        serve(made, made_listener)

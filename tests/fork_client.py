"""The body of the programs in `fork_server.programs()`: ask the fork server to be the program, and end as it ends.

The first line and the four constants below are written in front of it. It imports only what is built into Python, as
it starts for every command of a shell script.
"""

import _signal
import _socket
import marshal
import posix
import sys

_FORWARDED = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGUSR1, _signal.SIGUSR2)


def main(socket_path, programs, startup, obeyed, variables):
    name = sys.argv[0].rpartition("/")[2]
    program = programs[name]
    environment = posix.environ
    is_python = name.startswith("python")
    words = sys.argv[1:] if is_python else [program, *sys.argv[1:]]
    own = {key: value for key, value in environment.items() if key.startswith(startup) and key not in obeyed}
    own = {key: value for key, value in own.items() if value != b"C.UTF-8"}
    if (is_python and not _is_reproducible(words)) or words[1:2] == ["test"] or own != variables:
        posix.execv(program, [program, *sys.argv[1:]])
    server = _socket.socket(_socket.AF_UNIX)
    try:
        server.connect(socket_path)
    except OSError:  # the tests are over
        posix.execv(program, [program, *sys.argv[1:]])
    # A shell has what it starts with & ignore the interrupt.
    ignored = [number for number in _FORWARDED if _signal.getsignal(number) == _signal.SIG_IGN]
    request = marshal.dumps(
        {
            "words": words,
            "cwd": posix.getcwd(),
            "env": {_text(key): _text(value) for key, value in environment.items()},
            "session": True,
            "ignored": ignored,
            "python": sys.argv[0].removesuffix(name) + "python",
        }
    )
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    server.sendmsg([len(request).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    server.sendall(request)
    posix.closerange(0, 3)
    pid = int.from_bytes(server.recv(8, _socket.MSG_WAITALL), "big")
    for number in set(_FORWARDED).difference(ignored):
        _signal.signal(number, lambda number, _: posix.kill(pid, number))
    _end(server.recv(16))


def _is_reproducible(words):
    """A script, `-m` and a module, or `-c` and code."""
    return bool(words) and (not words[0].startswith("-") or (words[0] in ("-c", "-m") and len(words) > 1))


def _text(value):
    return value.decode("utf-8", "surrogateescape")


def _end(answer):
    status = int(answer) if answer else _signal.SIGKILL
    if posix.WIFSIGNALED(status):
        number = posix.WTERMSIG(status)
        if number not in (_signal.SIGKILL, _signal.SIGSTOP):
            _signal.signal(number, _signal.SIG_DFL)
        posix.kill(posix.getpid(), number)
    posix._exit(posix.WEXITSTATUS(status))

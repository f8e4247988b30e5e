"""A forked child behaves as one that `subprocess` starts: the same script in both, the same facts."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fork_server
import ropewalk
from patience import wait_until

FACTS = """
import json, os, signal, sys
print(json.dumps({
    "name": __name__, "argv": sys.argv, "cwd": os.getcwd(), "env": os.environ.get("WORD"), "path": sys.path[0],
    "input": sys.stdin.read(), "terminals": [os.isatty(n) for n in range(3)], "session": os.getsid(0) == os.getpid(),
    "encodings": [(s.encoding, s.errors, s.line_buffering) for s in (sys.stdin, sys.stdout, sys.stderr)],
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "children": signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL,
    "descriptors": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) > 2)[:-1],
}))
sys.stderr.write("done")
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "facts.py"
    path.write_text(FACTS)
    return path


@pytest.mark.parametrize("code", ["0", "3", "256"])
@pytest.mark.parametrize("session", [False, True])
def test_a_script_sees_the_same_process(script: Path, tmp_path: Path, code: str, session: bool) -> None:
    def started(run: Any) -> tuple[int, str, str]:
        done = run(
            [sys.executable, str(script), "a", ""], input="in", capture_output=True, text=True, cwd=tmp_path,
            env={**os.environ, "WORD": "x", "CODE": code}, start_new_session=session, timeout=60,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    assert started(fork_server.run) == started(subprocess.run)


@pytest.mark.parametrize(
    "body", ["raise SystemExit('why')", "1 / 0", "import os; os._exit(7)", "import os; os.kill(os.getpid(), 11)"]
)
def test_every_way_to_end_gives_the_same_code(tmp_path: Path, body: str) -> None:
    path = tmp_path / "end.py"
    path.write_text(body)
    codes = [
        run([sys.executable, str(path)], capture_output=True).returncode for run in (fork_server.run, subprocess.run)
    ]
    assert codes[0] == codes[1] != 0


LAST_WORDS = """
import atexit, sys, threading, time
atexit.register(print, "at the exit")
threading.Thread(target=lambda: (time.sleep(0.2), print("the thread"))).start()
sys.stdout.write("the program, ")
"""


def test_threads_exit_functions_and_buffers_come_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "last_words.py"
    path.write_text(LAST_WORDS)
    outputs = [
        run([sys.executable, str(path)], capture_output=True, text=True).stdout
        for run in (fork_server.run, subprocess.run)
    ]
    assert outputs[0] == outputs[1] == "the program, the thread\nat the exit\n"


def test_output_that_cannot_be_written_gives_the_same_code(tmp_path: Path) -> None:
    path = tmp_path / "full.py"
    path.write_text("print('a')")
    codes = []
    for run in (fork_server.run, subprocess.run):
        with open("/dev/full", "w") as full:
            codes.append(run([sys.executable, str(path)], stdout=full, stderr=subprocess.DEVNULL).returncode)
    assert codes[0] == codes[1] != 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_the_child(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "wait.py"
    path.write_text("import time\nprint('here', flush=True)\ntime.sleep(60)")
    with fork_server.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n"
        assert child.poll() is None
        child.send_signal(number)
        assert child.wait(50) == -number
        assert child.poll() == -number


def test_a_terminal_is_one(script: Path) -> None:
    master, slave = pty.openpty()
    child = fork_server.Popen([sys.executable, str(script)], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    assert child.wait(50) == 0
    assert b'"terminals": [false, true, true]' in os.read(master, 4096)
    os.close(master)


def test_a_missing_directory_is_an_error(script: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fork_server.run([sys.executable, str(script)], cwd=tmp_path / "gone")


RANDOM = """
import random, uuid
from ropewalk.engine.engine import new_run_id
print(random.random(), uuid.uuid4(), new_run_id())
"""


def test_random_numbers_differ_between_children(tmp_path: Path) -> None:
    path = tmp_path / "random_id.py"
    path.write_text(RANDOM)
    seen = {fork_server.run([sys.executable, str(path)], capture_output=True, text=True).stdout for _ in range(8)}
    assert len({word for line in seen for word in line.split()}) == 24


def words_of(how: str, script: Path) -> list[str]:
    return [how, script.read_text()] if how == "-c" else [str(script)]


@pytest.mark.parametrize("how", ["file", "-c"])
def test_a_program_on_the_path_of_a_shell_sees_the_same_process(script: Path, tmp_path: Path, how: str) -> None:
    """But for its place: it leads a session of its own, so that `kill -9` reaches what it has started."""

    def started(python: object) -> tuple[dict[str, Any], str, int]:
        done = subprocess.run(
            [str(python), *words_of(how, script), "a", ""], input="in", capture_output=True, text=True, cwd=tmp_path,
            env={**os.environ, "WORD": "x", "CODE": "3"}, timeout=60,
        )  # fmt: skip
        facts = json.loads(done.stdout)
        facts.pop("session")
        return facts, done.stderr, done.returncode

    assert started(fork_server.program("python")) == started(sys.executable)


def test_a_program_on_the_path_must_import_what_it_uses() -> None:
    code = "import ropewalk; print(hasattr(ropewalk, 'engine'), ropewalk.App.__name__)"
    runs = [
        subprocess.run([str(python), "-c", code], capture_output=True, text=True).stdout
        for python in (fork_server.program("python"), sys.executable)
    ]
    assert runs[0] == runs[1] != ""


def test_a_shell_finds_the_programs_and_what_they_start_in_turn(tmp_path: Path) -> None:
    inner = "import os, subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'exit(5)']))"
    code = f'python -c "{inner}"; echo $?; ropewalk --version; echo "print(1)" | python -; python -X dev -c "print(2)"'
    env = {**os.environ, "PATH": f"{fork_server.programs()}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True)
    code, version, *others = done.stdout.splitlines()
    assert (code, version.split()[-1], others, done.stderr) == ("5", ropewalk.__version__, ["1", "2"], "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_the_process_behind_a_program(tmp_path: Path, number: signal.Signals) -> None:
    code = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    words = [fork_server.program("python"), "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        assert pid != child.pid
        child.send_signal(number)
        assert child.wait(50) == -number
        assert child.stdout.read() == ""  # ends when the process behind it has ended
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))  # until the server has reaped it


@pytest.mark.parametrize("words", [["-c", "1"], ["-X", "dev", "x.py"], ["sh", "-c", "true"]])
def test_other_programs_start_in_the_ordinary_way(words: list[str]) -> None:
    command = words if words[0] == "sh" else [sys.executable, *words]
    assert fork_server.program_of(command, None) is None
    assert fork_server.program_of([sys.executable, "x.py"], {**os.environ, "PYTHONUTF8": "1"}) is None

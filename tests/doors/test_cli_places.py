"""Places that are not what they seem: a directory that is gone, a project's file that is none, names that are paths."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk.app.app import App
from ropewalk.config.modules import import_tools
from ropewalk.config.project import find_config_file, flow_files, read_config
from ropewalk.errors import ConfigError, RopewalkError, StoreError
from ropewalk.journal.address import file_of, open_store
from ropewalk.source.document import render_problem
from ropewalk.source.load import load
from tiers import sampled

COMMAND = Path(sys.executable).with_name("ropewalk")


@pytest.mark.skipif(os.name == "nt", reason="a directory that is somebody's cannot be deleted there")
@pytest.mark.parametrize(
    "words", sampled("faults", ["run ../shout.yaml", "runs ls", "validate ../shout.yaml", "doctor", "tools ls"], 2)
)
def test_a_working_directory_that_is_gone_is_told(project: Any, words: str) -> None:
    gone = project.home / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", f"rmdir '{gone}' && '{COMMAND}' {words}"],
        cwd=gone, env=project.env(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    said = "error: the working directory was deleted; change to one that exists"
    assert (done.returncode, done.stderr.splitlines()) == (2, [said])


@pytest.mark.skipif(os.name == "nt", reason="there is no /dev there")
def test_a_file_to_write_may_be_a_link_or_what_is_open(project: Any) -> None:
    real, link, words = project.home / "real.yaml", project.home / "link.yaml", ["convert", "shout.yaml", "--to"]
    real.write_text("x")
    real.chmod(0o640)
    link.symlink_to(real)
    assert project(*words, "flow", "-o", "link.yaml").code == project(*words, "chain", "-o", "real.yaml").code == 0
    assert (link.is_symlink(), real.stat().st_mode & 0o777, "kind: chain" in link.read_text()) == (True, 0o640, True)
    said = ["sh", "-c", f"'{COMMAND}' {' '.join(words)} flow -o /dev/stderr 2> open.yaml"]
    done = subprocess.run(said, cwd=project.home, env=project.env(), capture_output=True, text=True, timeout=300)
    assert (done.returncode, "kind: flow" in (project.home / "open.yaml").read_text()) == (0, True)


LONG = "x" * 300


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("validate", LONG), 3, f"{LONG}:1:1: cannot be read: File name too long"),
        (("run", "shout.yaml", "--input", f"@{LONG}"), 2, f"{LONG}:1:1: cannot be read: File name too long"),
        (("run", "shout.yaml", "-C", LONG), 2, f"error: {LONG}: File name too long"),
        (("test", LONG), 2, f"error: {LONG}: File name too long"),
    ],
)
def test_a_path_that_the_system_refuses_is_told(project: Any, words: tuple[str, ...], code: int, said: str) -> None:
    done = project(*words)
    assert (done.code, done.err.splitlines()[-1]) == (code, said)
    assert "Traceback" not in done.err


def test_a_flow_whose_path_the_system_refuses_is_left_to_whoever_reads_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    assert flow_files(tmp_path, [LONG, "*.yaml"]) == [tmp_path / LONG, tmp_path / "a.yaml"]


def test_a_file_where_the_directory_of_the_store_belongs_is_no_internal_error(tmp_path: Path) -> None:
    (tmp_path / ".ropewalk").touch()
    env = {name: value for name, value in os.environ.items() if name != "ROPEWALK_STORE"}
    done = fork_server.run(
        [str(COMMAND), "runs", "ls"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "no runs\n")
    assert "there is no store at" in done.stderr
    assert "no ropewalk.toml here or in a parent directory; to make a project: ropewalk new DIR" in done.stderr
    (tmp_path / "c.json").write_text(
        '{"kind": "chain", "name": "c", "nodes": [{"id": "a", "type": "delay", "delay": 1}]}'
    )
    done = fork_server.run(
        [str(COMMAND), "run", "c.json"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert "a file of that name is in its place; move it away" in done.stderr
    done = fork_server.run([str(COMMAND), "doctor"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert (done.returncode, "it is not a directory" in done.stdout) == (1, True)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may enter every directory")
def test_a_definition_in_a_directory_that_may_not_be_entered_is_told(project: Any) -> None:
    (project.home / "theirs").mkdir(mode=0o000)
    done = project("validate", "theirs/chain.yaml")
    assert (done.code, done.err.splitlines()[-1]) == (3, "theirs/chain.yaml:1:1: cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("name", "right"),
    [("../p2/mytools", "mytools"), ("", "mytools"), ("tools/more.py", "more"), (".beside", "mytools")],
)
def test_what_is_no_name_of_a_module_is_told_with_one(tmp_path: Path, name: str, right: str) -> None:
    (tmp_path / "ropewalk.toml").write_text(f"[tools]\nmodules = [{name!r}]\n")
    with pytest.raises(ConfigError) as caught:
        import_tools(read_config(tmp_path, environ={}))
    assert caught.value.place is not None
    assert caught.value.place.line == 2
    assert f"{name!r} is not the name of a module; write a name such as {right!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_tools.py", "there is no module 'own_tools.py'; did you mean own_tools?"),
        ("sub/own_tools.py", "'sub/own_tools.py' is a file; its module is 'sub.own_tools'"),
    ],
)
def test_the_file_of_a_module_is_told_with_its_module(tmp_path: Path, name: str, said: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("raise RuntimeError('imported')\n")
    (tmp_path / "ropewalk.toml").write_text(f"[tools]\nmodules = [{name!r}]\n")
    with pytest.raises(ConfigError) as caught:
        import_tools(read_config(tmp_path, environ={}))
    assert said in str(caught.value)


def test_a_module_of_a_name_too_long_for_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "ropewalk.toml").write_text(f"[tools]\nmodules = [{'a' * 300!r}]\n")
    with pytest.raises(ConfigError, match="there is no module 'aaa"):
        import_tools(read_config(tmp_path, environ={}))


def test_a_projects_file_that_is_no_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "ropewalk.toml"
    file.mkdir()
    with pytest.raises(ConfigError, match="must be a file; it is a directory"):
        find_config_file(tmp_path)
    file.rmdir()
    file.symlink_to(file)
    with pytest.raises(ConfigError, match="must be a file; it is a link that leads to itself"):
        read_config(tmp_path, environ={})


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))  # an absolute one may be too long


STRANGE: dict[str, Callable[[Path], object]] = {
    "a directory": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": a_socket,
    "a link that leads to itself": lambda path: path.symlink_to(path),
    "a link that leads nowhere": lambda path: path.symlink_to("nowhere"),
    "a device": lambda path: path.symlink_to("/dev/zero"),
}
"""What may stand where a file is meant."""
CHAIN = 'kind: chain\nname: c\nnodes: [{id: a, type: delay, delay: "$input"}]\n'


def ropewalk(project: Any, *words: str) -> tuple[int, str]:
    done = fork_server.run(
        [str(COMMAND), *words], cwd=project.home, env=project.env(), capture_output=True, text=True, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.skipif(os.name == "nt", reason="there are no pipes and sockets with names there")
@pytest.mark.parametrize("what", STRANGE)
@pytest.mark.parametrize("name", ["ropewalk.toml", ".mcp.json", "servers.json", "ropewalk.lock"])
def test_what_is_no_file_is_told_where_one_of_the_project_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "servers.json":
        Path("ropewalk.toml").write_text(f'[mcp]\nfile = "{name}"\n')
    STRANGE[what](Path(name))
    if name in (".mcp.json", "servers.json"):
        app = App.open(tmp_path, store="memory")  # a file of another program stops nothing
        assert app.toolbox.failures == {name: f"{name} must be a file; it is {what}"}
        return
    with pytest.raises(ConfigError, match=f"^{name} must be a file; it is {what}$"):
        App.open(tmp_path, store="memory")


@pytest.mark.skipif(os.name == "nt", reason="there are no pipes and sockets with names there")
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("a directory", "no experience.yaml in the directory '{}'"),
        ("a pipe", "{}:1:1: cannot be read: it is a pipe that nobody writes to"),
        ("a socket", "{}:1:1: cannot be read: it is a socket"),
        ("a link that leads to itself", "no file '{}': it is a link that leads to itself"),
        ("a link that leads nowhere", "no file '{}': it is a link that leads nowhere"),
        ("a device", "{}:1:1: larger than"),
    ],
)
def test_what_is_no_file_is_told_where_a_document_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    STRANGE[what](Path("c.yaml"))
    with pytest.raises(RopewalkError) as caught:
        load(Path("c.yaml"))
    shown = "\n".join(map(render_problem, getattr(caught.value, "problems", ()))) or str(caught.value)
    assert shown.startswith(said.format("c.yaml"))


@pytest.mark.skipif(os.name == "nt", reason="there are no pipes with names there")
def test_pipes_that_nobody_writes_to_hold_no_command_up(project: Any) -> None:
    os.mkfifo(project.home / "pipe")
    (project.home / "c.yaml").write_text(CHAIN)
    for words in (["run", "pipe"], ["validate", "pipe"], ["run", "c.yaml", "--input", "@pipe"]):
        code, told = ropewalk(project, *words)
        assert "pipe:1:1: cannot be read: it is a pipe that nobody writes to" in told
        assert code in (2, 3)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="pipes have no paths there")
def test_a_document_may_come_through_a_pipe_in_pieces() -> None:
    """As from `ropewalk run <(make-chain)`: whoever writes is there, and may not have begun."""
    ours, theirs = os.pipe()

    def write() -> None:
        for piece in (CHAIN[:9].encode(), CHAIN[9:].encode()):
            os.write(theirs, piece)
        os.close(theirs)

    writer = threading.Timer(0.05, write)
    writer.start()
    try:
        assert load(Path(f"/dev/fd/{ours}")).data["name"] == "c"
    finally:
        writer.join()
        os.close(ours)


@pytest.mark.parametrize(
    "address", ["sqlite:///:memory:", ":memory:", "file:x.db?mode=ro", "sqlite:///file:x.db", "MEMORY", "Memory"]
)
def test_what_sqlite_reads_as_an_address_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="valid addresses: memory"):
        open_store(address)
    assert file_of(address) is None
    (tmp_path / "ropewalk.toml").write_text(f"[store]\nurl = {address!r}\n")
    with pytest.raises(StoreError, match="valid addresses: memory"):
        open_store(read_config(tmp_path, environ={}).store)
    assert os.listdir(tmp_path) == ["ropewalk.toml"]

"""The live display, on a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import fork_server

pytestmark = pytest.mark.process

COMMAND = str(Path(sys.executable).with_name("ropewalk"))


def on_terminal(project, *words, stop_when=None, columns=100):
    """Run with standard error and output on a pty; returns exit code and everything shown."""
    master, slave = pty.openpty()
    child = fork_server.Popen(
        [COMMAND, *words],
        cwd=project.home,
        env=project.env({"COLUMNS": str(columns), "LINES": "40"}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that ^C is a signal, as at a desk
    )
    os.close(slave)
    shown = b""
    pressed = False
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the other end is closed: Linux says so with EIO
            break
        if not chunk:
            break
        shown += chunk
        if stop_when is not None and not pressed and stop_when():
            os.write(master, b"\x03")
            pressed = True
    os.close(master)
    return child.wait(timeout=300), shown.decode("utf-8", "replace")


def plain(shown):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "")


def test_a_terminal_shows_the_run_live_and_the_result_after(project):
    project.write(
        "c.yaml",
        "kind: chain\nname: c\nmode: parallel\nnodes:\n"
        "  - {id: quick, type: tool, tool: add, params: {a: 1}}\n"
        "  - {id: slow, type: tool, tool: hang, params: {seconds: 0.5}}\n",
    )
    code, shown = on_terminal(project, "run", "c.yaml")
    assert code == 0, shown
    assert "\x1b[" in shown
    text = plain(shown)
    assert "… slow" in text  # it was seen running
    assert "✓ quick" in text
    assert "2/2" in text
    assert text.index("2/2") < text.index("result: ")


def test_ctrl_c_on_a_terminal_stops_the_run_and_says_so(project):
    project.write("c.yaml", "kind: chain\nname: c\ntimeout: 20000\nnodes: [{id: w, type: tool, tool: hang}]\n")
    code, shown = on_terminal(project, "run", "c.yaml", stop_when=(project.home / "hanging").exists)
    assert code == 130, plain(shown)[-500:]
    assert "stopped" in plain(shown)
    assert "Traceback" not in shown
    assert shown.count("\x1b[?25h") >= shown.count("\x1b[?25l") > 0  # the cursor is back


@pytest.mark.campaign("sizes")
def test_ten_thousand_nodes_cost_the_display_little(project, scale):
    count = scale(2_000, 9_000)
    nodes = [
        {"id": f"n{i}", "type": "transform", "transform": {"type": "pick", "config": {"fields": []}}, "input": {}}
        for i in range(count)
    ]
    project.write(
        "big.json", json.dumps({"kind": "chain", "name": "big", "mode": "parallel", "timeout": 60000, "nodes": nodes})
    )
    code, shown = on_terminal(project, "run", "big.json", "--store", "memory")
    assert code == 0, plain(shown)[-2000:]
    assert f"{count:,}/{count:,}" in plain(shown)
    assert len(shown.split("results:")[0]) < 100_000


def test_a_dumb_terminal_gets_plain_lines(project):
    env = dict(project.env(), TERM="dumb")
    master, slave = pty.openpty()
    done = fork_server.run(
        [COMMAND, "run", "shout.yaml", "--input", '{"text": "a"}'],
        cwd=Path(project.home),
        env=env,
        stdout=subprocess.PIPE,
        stderr=slave,
        check=False,
    )
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert done.returncode == 0
    assert "✓ up" in shown
    assert "\x1b" not in shown

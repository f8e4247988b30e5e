"""Whether a process is alive, dead, or out of sight."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

from ropewalk.journal.lease import Owner, judge, me, started


def test_this_process_is_alive_and_itself() -> None:
    assert judge(me()) == "live"
    assert me().pid == os.getpid()
    assert Owner.load(me().dump()) == me()
    assert str(me()).endswith(f"(pid {os.getpid()})")


def test_nobody_is_dead() -> None:
    assert judge(None) == "dead"


def test_process_that_ended_is_dead_even_before_its_parent_looks() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = dataclasses.replace(me(), pid=process.pid, started=started(process.pid) or "")
    assert judge(owner) == "live"
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # It is a zombie now.
    assert judge(owner) == "dead"
    process.communicate()
    assert judge(owner) == "dead"


def test_pid_that_was_given_to_another_process_is_dead() -> None:
    assert judge(dataclasses.replace(me(), started="1")) == "dead"


def test_owner_from_before_the_machine_started_anew_is_dead() -> None:
    assert judge(dataclasses.replace(me(), boot="another")) == "dead"


def test_owner_out_of_sight_is_unknown() -> None:
    assert judge(dataclasses.replace(me(), host="faraway")) == "unknown"
    assert judge(dataclasses.replace(me(), space="pid:[1]")) == "unknown"

"""What ends the process groups of our children when we cannot: a small process that reads a pipe of ours and, at its
end, also after SIGKILL, kills every group that is still on its list.

There is one for the whole of our process, started with the first child. It is a shell: in memory within some
milliseconds, and small. It has a session of its own, no descriptor of ours but its end of the pipe, and ends with us.
child.py puts every child on the list.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import subprocess
from subprocess import DEVNULL
from threading import RLock
from typing import Final

log = logging.getLogger("ropewalk.tools")

# Nothing but what POSIX has built into the shell. `+ 12` puts a group on the list, `- 12` takes it off.
_SCRIPT: Final = """# ropewalk: kills what a process of Ropewalk leaves behind
trap '' HUP INT TERM
groups=' '
while read -r what group; do
  case $what in
    +) groups="$groups$group " ;;
    -) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class Watcher:
    """The process, started when it is needed and again when it has died. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = RLock()  # `remove` may come from the garbage collector, in the middle of `add`
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None

    def add(self, group: int) -> None:
        """Have the group killed at our end."""
        with self._lock:
            self._groups.add(group)
            if not self._told(f"+ {group}\n"):
                self._begin()

    def remove(self, group: int) -> None:
        """The group has gone: its number may become another's."""
        with self._lock:
            if group in self._groups:
                self._groups.discard(group)
                self._told(f"- {group}\n")

    def end(self) -> None:
        """Our end: what is on the list is killed."""
        with self._lock:
            self._close()

    def forget(self) -> None:
        """We are a forked copy: neither the children nor their watcher are ours."""
        if self._process is not None:
            self._process.returncode = 0  # not to be waited for
        pipe = self._pipe
        self.__init__()  # type: ignore[misc]  # also the lock, which a thread that is not here may hold
        if pipe is not None:
            os.close(pipe)  # or it would not end before the copy does

    def _told(self, line: str) -> bool:
        try:
            return self._pipe is not None and os.write(self._pipe, line.encode()) == len(line)
        except OSError:  # it has died, or does not read
            return False

    def _begin(self) -> None:
        if self._process is not None:
            self._process.kill()  # one that lives and does not read would take the end of its pipe for ours
        self._close()
        try:
            theirs, self._pipe = os.pipe()
            with open(theirs, "rb") as stdin:
                os.set_blocking(self._pipe, False)
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _SCRIPT], stdin=stdin, stdout=DEVNULL, stderr=DEVNULL, env={}, cwd="/",
                    start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            log.warning("nothing watches over child processes (%s): they may outlive us if we are killed", error)
        self._told("".join(f"+ {group}\n" for group in tuple(self._groups)))

    def _close(self) -> None:
        pipe, self._pipe = self._pipe, None
        process, self._process = self._process, None
        if pipe is not None:
            os.close(pipe)
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)


WATCHER: Final = Watcher()
atexit.register(WATCHER.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WATCHER.forget)

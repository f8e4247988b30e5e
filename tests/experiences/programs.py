"""Stand-ins for the programs `claude`, `codex` and `gemini`, in a folder to be put first on PATH.

Each appends what it was called with to `calls.jsonl` in its folder and then does what its script says:
`gives` (text for its output), `fails` (an exit code), `sleeps` (seconds; it starts a child that sleeps too),
`floods` (bytes to write).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from patience import wait_until

_BODY = """#!{python}
import json, os, subprocess, sys, time
home = {home!r}
script = json.loads(open(os.path.join(home, {name!r} + ".json")).read())
with open(os.path.join(home, "calls.jsonl"), "a") as file:
    known = {{key: os.environ.get(key) for key in ("TOKEN", "SECRET")}}
    file.write(json.dumps({{"name": {name!r}, "args": sys.argv[1:], "cwd": os.getcwd(), "env": known}}) + "\\n")
if "sleeps" in script:
    child = subprocess.Popen(["sleep", str(script["sleeps"])])
    with open(os.path.join(home, "pids"), "w") as file:
        file.write(f"{{os.getpid()}} {{child.pid}}")
    time.sleep(script["sleeps"])
if "floods" in script:
    sys.stdout.write("x" * script["floods"])
sys.stdout.write(script.get("gives", ""))
if "fails" in script:
    sys.stderr.write("no \\x1b[31mlogin\\n")
    sys.exit(script["fails"])
"""


class Programs:
    """The folder of the stand-ins."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)

    def set(self, name: str, **script: Any) -> None:
        """Install a program that follows a script."""
        (self.home / f"{name}.json").write_text(json.dumps(script), "utf-8")
        program = self.home / name
        program.write_text(_BODY.format(python=sys.executable, home=str(self.home), name=name), "utf-8")
        program.chmod(0o755)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What the programs were called with, in order."""
        file = self.home / "calls.jsonl"
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []

    def wait_for_pids(self) -> None:
        """Wait until a program sleeps, and its child too."""
        file = self.home / "pids"
        wait_until(lambda: file.exists() and len(file.read_text("utf-8").split()) == 2)

    def alive(self) -> list[int]:
        """The processes of the last program that slept which are still running."""
        found = []
        for pid in map(int, (self.home / "pids").read_text("utf-8").split()):
            try:
                state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state not in "ZX" and os.getpgid(pid) != os.getpgid(0):
                found.append(pid)
        return found

"""Kills a run with SIGKILL half-way, resumes it, and counts what has been shipped.

python examples/resume/show.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def ropewalk(*args: str) -> list[str]:
    return [str(Path(sys.executable).with_name("ropewalk")), *args]


def shipped(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "shipped.log")
        env = {**os.environ, "SHIPPED": str(log), "ROPEWALK_STORE": f"sqlite:///{folder}/runs.db"}
        first = subprocess.Popen(ropewalk("run", "orders.yaml", "--json"), env=env, cwd=HERE, stdout=subprocess.DEVNULL)
        while len(shipped(log)) < 4 and first.poll() is None:
            time.sleep(0.01)
        first.kill()
        first.wait()
        print(f"killed after {len(shipped(log))} orders: {shipped(log)}")

        def ask(*args: str) -> Any:
            """The answer of one command, which prints one JSON value."""
            done = subprocess.run(ropewalk(*args, "--json"), env=env, cwd=HERE, stdout=subprocess.PIPE, check=True)
            return json.loads(done.stdout)

        run = ask("runs", "ls")[0]["runId"]
        print(f"resuming run {run}")
        result = ask("resume", run)

        processes = [one["process"] for one in result["result"]["each"]]
        print(f"status {result['status']}; the result holds the work of {len(set(processes))} processes")
        # Only the order in mid-flight when the process died may be there twice; what was recorded never is.
        print(f"shipped: {shipped(log)}")


if __name__ == "__main__":
    main()

"""Run tests many times under load, and print those that fail, how often, and the first failure of each.

    python scripts/steady.py tests/workers                      50 rounds beside `stress-ng --cpu 4`
    python scripts/steady.py tests/engine --times 5 --load 0    5 rounds, without load

Options that it does not know go to pytest. The exit code is 1 if a test failed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

_LINES = 40  # of each failure: its end, which has the assertion or the place that hung


@dataclass
class Unsteady:
    """A test that failed in some round."""

    first_failure: str
    times: int = 0


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tests", nargs="+", help="files, folders or node ids of tests")
    parser.add_argument("--times", type=int, default=50, help="number of rounds (default: 50)")
    parser.add_argument("--load", type=int, default=4, help="busy processes of stress-ng (default: 4; 0 for none)")
    options, of_pytest = parser.parse_known_args(argv)
    load = _start_load(options.load)
    failing: dict[str, Unsteady] = {}
    try:
        for number in range(1, options.times + 1):
            failures = _run_once([*options.tests, *of_pytest])
            print(f"round {number} of {options.times}: {len(failures)} failed", flush=True)
            for test, failure in failures.items():
                failing.setdefault(test, Unsteady(failure)).times += 1
    finally:
        if load is not None:
            load.terminate()
            load.wait()
    for test, unsteady in sorted(failing.items(), key=lambda entry: -entry[1].times):
        print(f"{test} failed {unsteady.times} of {options.times} times; at first:")
        print(*(f"    {line}" for line in unsteady.first_failure.splitlines()[-_LINES:]), sep="\n")
    print(f"{len(failing)} tests failed in {options.times} rounds")
    return 1 if failing else 0


def _start_load(processes: int) -> subprocess.Popen[bytes] | None:
    """Start stress-ng with this many busy processes, or say why there is no load."""
    if processes == 0:
        return None
    if shutil.which("stress-ng") is None:
        print("stress-ng is not installed: the tests run without load; install the package stress-ng, or use --load 0")
        return None
    return subprocess.Popen(["stress-ng", "--quiet", "--cpu", str(processes)])


def _run_once(arguments: list[str]) -> dict[str, str]:
    """Run pytest once and return the failure of each test that failed."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.xml")
        options = ["-q", "--tb=short", f"--junitxml={results}", "-o", "junit_family=xunit1"]
        done = subprocess.run([sys.executable, "-m", "pytest", *options, *arguments], capture_output=True, text=True)
        if done.returncode not in (0, 1) or not results.exists():
            return {"pytest": done.stdout + done.stderr}
        found = {}
        for case in ElementTree.parse(results).iter("testcase"):
            for failure in (*case.findall("failure"), *case.findall("error")):
                found.setdefault(_node_id(case), failure.text or "")
        return found


def _node_id(case: ElementTree.Element) -> str:
    file, name = case.get("file", ""), case.get("name", "")
    classes = case.get("classname", "").split(".")[len(Path(file).parts) :]
    return "::".join([file, *classes, name])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

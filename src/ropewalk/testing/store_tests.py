"""Run the conformance tests on a store that you wrote.

They are the tests that Ropewalk's own stores pass (`tests/conformance`). In an installed package they are in the folder
`conformance` next to this file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ..errors import ConfigError

_NEED_BUILT_IN_TABLES = ("test_store_fencing.py",)  # they read the tables of SQLite and Postgres directly


def conformance_folder() -> Path:
    """Return the folder of the conformance tests."""
    here = Path(__file__).resolve()
    for folder in (here.parent / "conformance", here.parents[3] / "tests" / "conformance"):
        if (folder / "stores.py").is_file():
            return folder
    raise ConfigError(
        "the conformance tests of stores are not installed; install Ropewalk from its wheel or a checkout"
    )


def check_store(factory: str, *words: str, cwd: Path | str | None = None) -> str:
    """Run the conformance tests on a store; they need pytest.

    Args:
        factory: `module:function`. The function gets the Path of an empty directory and returns a new store.
        words: More words for pytest, such as `-x` or `-k signals`.
        cwd: The directory from which the module is imported; default: the working directory.

    Returns:
        The output of pytest.

    Raises:
        ConfigError: The factory is not of that form.
        AssertionError: The store fails a test; the message is the output of pytest.
    """
    module, colon, function = factory.partition(":") if isinstance(factory, str) else ("", "", "")
    if not (module and colon and function):
        raise ConfigError(f"factory must have the form module:function, not {factory!r}")
    folder, directory = conformance_folder(), os.fspath(cwd or Path.cwd())
    with tempfile.TemporaryDirectory() as scratch:
        settings = Path(scratch, "pytest.ini")  # otherwise pytest would use the settings of the surrounding project
        settings.write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-q", "-c", str(settings), "--rootdir", str(folder)]
        command += ["-p", "no:cacheprovider", f"--basetemp={scratch}/stores", *words, str(folder)]
        command += [f"--ignore={folder / name}" for name in _NEED_BUILT_IN_TABLES]
        path = os.pathsep.join([directory, *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "ROPEWALK_STORE_FACTORY": factory, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""}
        process = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    output = process.stdout + process.stderr
    if process.returncode != 0:
        raise AssertionError(output)
    return output

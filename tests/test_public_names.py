"""The names of the package root: few, lazy, and each one there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ropewalk

MOST_NAMES = 34
PROMISED = [
    "App",
    "ChainStep",
    "ComposableToolBuilder",
    "UnresolvedReference",
    "RopewalkError",
    "Runner",
    "StepResult",
    "Tool",
    "ToolExecutionResult",
    "Toolbox",
]
PROMISED += ["parse_tool_id", "tool", "toolchain"]


def in_a_fresh_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_root_exports_at_most_thirty_four_names() -> None:
    assert 0 < len(ropewalk.__all__) <= MOST_NAMES
    assert len(set(ropewalk.__all__)) == len(ropewalk.__all__)


@pytest.mark.parametrize("name", sorted({*PROMISED, *getattr(ropewalk, "__all__", ())}))
def test_every_exported_name_is_there(name: str) -> None:
    assert name in ropewalk.__all__
    assert getattr(ropewalk, name) is not None
    assert name in dir(ropewalk)


def test_importing_the_root_loads_none_of_the_rooms_above_the_errors() -> None:
    code = "import sys, ropewalk; print(*(m for m in sys.modules if m.startswith('ropewalk.')))"
    assert set(in_a_fresh_process(code).split()) <= {"ropewalk.errors", "ropewalk.values"}


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="Runnner"):
        _ = ropewalk.Runnner


def test_every_name_is_imported_with_a_star() -> None:
    code = "from ropewalk import *; import ropewalk; print(set(ropewalk.__all__) - set(globals()))"
    assert in_a_fresh_process(code).strip() == "set()"


def test_the_package_declares_that_it_is_typed_and_which_version_it_is() -> None:
    from importlib.metadata import version
    from importlib.resources import files

    assert files("ropewalk").joinpath("py.typed").is_file()
    assert ropewalk.__version__ == version("ropewalk")

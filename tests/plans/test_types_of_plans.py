"""The examples of the pages about Python are sound for mypy, and give no warning when they run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from type_checker import mypy

DOCS = Path(__file__).parents[2] / "docs"
TYPED = """
from reports import Report, overspenders
from ropewalk import App

async def main(app: App) -> list[Report]:
    reveal_type((await app.run(overspenders, {"department": "x"})).value)
    reveal_type(await overspenders("x"))
    await overspenders(3)
    await overspenders("x", quartr="Q1")
    return (await app.run(overspenders)).value
"""


def files_of(page: str, folder: Path) -> list[str]:
    """Write the files that a page makes, and return their names."""
    text = (DOCS / page).read_text()
    files = re.findall(r"^cat > (\w+\.py) <<'END'\n(.*?)^END$", text, re.MULTILINE | re.DOTALL)
    for name, code in files:
        (folder / name).write_text(code)
    return [name for name, _ in files]


@pytest.mark.process
@pytest.mark.timeout(600)
def test_the_examples_are_typed(tmp_path: Path) -> None:
    files = [*files_of("python-functions.md", tmp_path), *files_of("fastapi.md", tmp_path)]
    (tmp_path / "typed.py").rename(tmp_path / "model.py")
    (tmp_path / "check.py").write_text(TYPED)
    files = [file if file != "typed.py" else "model.py" for file in files if file != "wrong.py"]
    assert {"reports.py", "use.py", "plain.py", "shop.py"} <= set(files)
    report = mypy(tmp_path, *files, "wrong.py", "check.py")
    errors = [line for line in report.splitlines() if ": error:" in line]
    assert any('wrong.py:7: error: Unexpected keyword argument "departmnt"' in line for line in errors)
    places = {line.partition(": error: ")[0] for line in errors}
    assert places == {"wrong.py:7", "check.py:8", "check.py:9"}, report
    assert report.count('Revealed type is "builtins.list[') + report.count('Revealed type is "list[') == 2, report


def test_the_examples_give_no_warning(tmp_path: Path) -> None:
    files_of("python-functions.md", tmp_path)
    for name in ("use.py", "plain.py", "typed.py"):
        command = [sys.executable, "-W", "error", name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, done.stderr) == (0, "")

"""docs/reliability-faults.md lists each fault with its test: they are there."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_the_tests_that_the_document_names_are_there() -> None:
    named = set(re.findall(r"`(tests/\S+\.py)`", (PROJECT / "docs" / "reliability-faults.md").read_text()))
    assert len(named) > 15
    assert not {name for name in named if not (PROJECT / name).is_file()}
    ours = {f"tests/faults/{file.name}" for file in Path(__file__).parent.glob("test_*.py")} - {
        "tests/faults/test_listed.py"
    }
    assert ours <= named

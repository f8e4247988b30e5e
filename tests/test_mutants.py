"""The list of mutants fits the code: each can be applied, and its tests exist. `scripts/mutants.py` runs them."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path

PATH = Path(__file__).parent.parent / "scripts" / "mutants.py"
spec = importlib.util.spec_from_file_location("mutants", PATH)
assert spec is not None
assert spec.loader is not None
mutants = importlib.util.module_from_spec(spec)
sys.modules["mutants"] = mutants
spec.loader.exec_module(mutants)


def test_every_mutant_can_be_applied() -> None:
    problems = {mutant.id: problem for mutant in mutants.read() if (problem := mutant.problem()) is not None}
    assert not problems


def test_ids_differ() -> None:
    counted = Counter(mutant.id for mutant in mutants.read())
    assert [id for id, count in counted.items() if count > 1] == []

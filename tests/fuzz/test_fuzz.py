"""The fuzzers with fixed seeds, as many cases as CI has time for. For longer: `python tests/fuzz/run.py --help`."""

from __future__ import annotations

import pytest

from .run import FUZZERS, fuzz

CASES = {"expressions": 4000, "documents": 700, "costs": 6}


def test_every_fuzzer_has_its_number_of_cases() -> None:
    assert set(CASES) == set(FUZZERS)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", sorted(FUZZERS))
def test_nothing_is_found(name: str, seed: int) -> None:
    count, found = fuzz(name, seed, seconds=600, most=CASES[name])
    assert list(map(str, found.values())) == []
    assert count == CASES[name]


def test_the_same_seed_gives_the_same_cases() -> None:
    from random import Random

    from .documents import Documents
    from .expressions import Expressions

    for made in (lambda: Expressions(Random(5)).text(), lambda: Documents(Random(5)).document()):
        assert made() == made()

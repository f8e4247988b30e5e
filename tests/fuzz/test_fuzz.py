"""The fuzzers, with as many cases as their slice or the campaign has. `tests/fuzz/run.py` runs them alone."""

from __future__ import annotations

import pytest

from tiers import Scale

from .run import FUZZERS, fuzz

CASES = {"expressions": (1500, 40_000), "documents": (250, 7000), "costs": (2, 60)}


def test_every_fuzzer_has_its_number_of_cases() -> None:
    assert set(CASES) == set(FUZZERS)


@pytest.mark.campaign("fuzz")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(FUZZERS))
def test_nothing_is_found(name: str, scale: Scale, seed: int) -> None:
    most = scale(*CASES[name])
    count, found = fuzz(name, seed, seconds=3600, most=most)
    assert list(map(str, found.values())) == []
    assert count == most


def test_the_same_seed_gives_the_same_cases() -> None:
    from random import Random

    from .documents import Documents
    from .expressions import Expressions

    for made in (lambda: Expressions(Random(5)).text(), lambda: Documents(Random(5)).document()):
        assert made() == made()

"""A crew of workers for each test, gone afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .crew import STEPS, Crew


@pytest.fixture
def crew(tmp_path: Path, postgres_url: str) -> Iterator[Callable[..., Crew]]:
    made: list[Crew] = []

    def start(chain: str = STEPS, settings: str = "") -> Crew:
        made.append(Crew(tmp_path / f"project{len(made)}", postgres_url, chain, settings))
        return made[-1]

    yield start
    for one in made:
        one.dismiss()

"""Every test of this folder that asks for a `store` runs once on each, or on the one that an outsider tests.

`ropewalk.testing.check_store` sets ROPEWALK_STORE_FACTORY to `module:function`, which makes that store of a directory.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from stores import STORES

from ropewalk.journal.protocol import Store

FACTORY = os.environ.get("ROPEWALK_STORE_FACTORY")
if FACTORY is not None:
    module, _, function = FACTORY.partition(":")
    STORES.clear()
    STORES[function] = getattr(importlib.import_module(module), function)


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    where = request.getfixturevalue("postgres_url") if request.param == "postgres" else tmp_path
    made = STORES[request.param](where)
    yield made
    made.close()

"""The garbage collector is off while a definition is made, and on again afterwards, whatever happens."""

from __future__ import annotations

import gc

import pytest

from ropewalk.app import App
from ropewalk.uncollected import uncollected


@uncollected
def works(fails: bool = False) -> bool:
    if fails:
        raise ValueError("no")
    return gc.isenabled()


def test_it_is_off_inside_and_on_again_after_failures_too() -> None:
    assert works() is False
    with pytest.raises(ValueError, match="no"):
        works(True)
    assert gc.isenabled()


def test_who_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        assert works() is False
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_it_is_on_when_a_definition_is_loaded_and_checked() -> None:
    app = App("memory")
    app.check(app.load({"kind": "chain", "nodes": [{"id": "a", "type": "delay", "delay": 1}]}))
    assert gc.isenabled()

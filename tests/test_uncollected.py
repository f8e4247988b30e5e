"""The garbage collector is off while a definition is made, and on again afterwards, whatever happens."""

from __future__ import annotations

import asyncio
import gc

import pytest

from ropewalk.app.app import App
from ropewalk.values import gc_disabled, gc_disabled_until_next_tick, gc_relaxed


@gc_disabled
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


def test_it_is_off_until_the_loop_has_control_again() -> None:
    async def turns() -> list[bool]:
        gc_disabled_until_next_tick(asyncio.get_running_loop())
        before = gc.isenabled()
        await asyncio.sleep(0)
        return [before, gc.isenabled()]

    assert asyncio.run(turns()) == [False, True]


def test_for_a_turn_too_who_has_switched_it_off_finds_it_off() -> None:
    async def turns() -> bool:
        gc_disabled_until_next_tick(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return gc.isenabled()

    gc.disable()
    try:
        assert asyncio.run(turns()) is False
    finally:
        gc.enable()


def test_it_comes_seldom_and_as_often_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with gc_relaxed():
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before

"""`app.selector` and the documented functions: kept current with a toolbox whose servers come and go."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import tracemalloc

import pytest
from registry import TOOLS, definition, names

from ropewalk import toolchain
from ropewalk.app.app import App
from ropewalk.errors import InvalidTool
from ropewalk.select.legacy import Intent
from ropewalk.select.options import NoTools
from ropewalk.tools.definition import Definition
from ropewalk.tools.tool import Tool, tool
from tiers import Scale
from tools.mcp_lab import forked, python


@tool
def get_weather(city: str) -> str:
    """Current weather for a city."""
    return city


def listed(name: str, description: str) -> Definition:
    return Definition(name=name, description=description, input_schema={"type": "object"})


def test_the_selector_of_an_app_has_the_tools_the_toolbox_has_now() -> None:
    """SELECT-APP-1"""
    app = App("memory")
    with pytest.raises(NoTools):
        app.selector.select("weather")
    app.toolbox.register(get_weather)
    assert names(app.selector.select("weather in Rome")) == ["get_weather"]
    app.toolbox.add_mcp("cats", python("odd.py"))
    app.toolbox.take_tools("cats", [listed("feed", "Feed the cat."), listed("weather", "Weather for cats.")])
    assert names(app.selector.select("feed the cat"))[0] == "cats:feed"
    assert names(app.selector.select("weather for a cat", namespace="cats", threshold=0))[0] == "cats:weather"
    app.toolbox.take_tools("cats", [listed("weather", "Paint the walls.")])
    assert "cats:feed" not in names(app.selector.select("feed the cat", threshold=0))
    assert names(app.selector.select("paint walls"))[0] == "cats:weather"
    app.toolbox.take_tools("cats", [])
    assert "cats:weather" not in names(app.selector.select("paint walls", threshold=0))
    assert len(app.selector) == 1


def test_tools_of_a_server_are_selected_once_it_is_connected() -> None:
    """SELECT-APP-1"""

    async def case() -> None:
        async with App("memory", tools=[get_weather]) as app:
            app.toolbox.add_mcp("odd", forked("odd.py"))
            assert names(app.selector.select("echo a text", namespace="odd", threshold=0)) == []
            await app.connect()
            assert "odd:echo" in names(app.selector.select("echo a text", namespace="odd", threshold=0))

    asyncio.run(case())


def test_a_toolbox_that_changes_while_it_is_searched() -> None:
    """SELECT-INDEX-2"""
    app = App("memory", tools=[get_weather])
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            app.toolbox.take_tools("cats", [listed(f"cat_{n}", f"Cat {n} {number}.") for n in range(number % 9)])

    app.toolbox.add_mcp("cats", python("odd.py"))
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(50):
            assert names(app.selector.select("weather in a city"))[0] == "get_weather"
    finally:
        stop.set()
        thread.join()
    app.toolbox.take_tools("cats", [])
    assert len(app.selector) == 1


@pytest.mark.campaign("sizes")
def test_a_toolbox_that_changes_while_nobody_asks_costs_no_memory(scale: Scale) -> None:
    """SELECT-INDEX-2"""
    app = App("memory", tools=[get_weather])
    app.toolbox.add_mcp("cats", python("odd.py"))
    assert len(app.selector) == 1

    def change(times: int) -> None:
        for number in range(times):
            app.toolbox.take_tools("cats", [listed("feed", f"Feed the cat {number % 2} times.")])
            app.toolbox.take_tools("cats", [])

    def held() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        change(1000)
        before, times = held(), scale(4_000, 10_000)
        change(times)
        assert held() - before < 8 * times  # a reference for each change takes 16 bytes; other threads take some, too
    finally:
        tracemalloc.stop()
    assert names(app.selector.select("weather in Rome")) == ["get_weather"]


def test_the_documented_functions_take_intents_of_ones_own() -> None:
    """SELECT-INTENT-2"""
    toolchain.configure(App("memory"))
    table = {"cook": Intent(("bake",), ("oven",))}
    toolchain.initialize_selector([*TOOLS, definition("preheat_oven", "Make it hot.")], intents=table)
    found = toolchain.select_tools(query="bake a cake", options={"strategy": "intent"})
    assert (found.detected_intent, names(found)) == ("cook", ["preheat_oven"])


def test_the_documented_functions_select() -> None:
    """SELECT-FN-1"""
    toolchain.configure(App("memory"))
    with pytest.raises(NoTools):
        toolchain.select_tools("weather")
    toolchain.initialize_selector([*TOOLS, Tool("feed_cat", "Feed the cat.", {"type": "object"})])
    assert names(toolchain.select_tools("weather in Rome", {"maxResults": 1})) == ["get_weather"]
    assert names(toolchain.select_tools("feed my cat"))[0] == "feed_cat"
    toolchain.initialize_selector([definition("only", "Weather forecast.")])
    assert names(toolchain.select_tools("weather forecast")) == ["only"]
    with pytest.raises(InvalidTool):
        toolchain.initialize_selector([{"description": "nameless"}])
    assert names(toolchain.select_tools("weather forecast")) == ["only"]
    toolchain.configure(App("memory", tools=[get_weather]))
    assert names(toolchain.select_tools("weather in Rome")) == ["get_weather"]


def test_nothing_of_it_is_loaded_before_it_is_used() -> None:
    """SELECT-LAZY-1"""
    code = "import sys, ropewalk.toolchain, ropewalk.doors.cli; from ropewalk import App; App('memory').selector;"
    code += "print([m for m in ('numpy', 'Stemmer', 'rapidfuzz', 'onnxruntime') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

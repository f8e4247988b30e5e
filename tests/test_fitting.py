"""The tools of a toolbox as the check sees them."""

from __future__ import annotations

from typing import Any

from ropewalk.app.app import App
from ropewalk.app.preflight import Cards
from ropewalk.tools.tool import Tool
from ropewalk.tools.toolbox import Toolbox

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


def made(schema: Any) -> Tool:
    return Tool("say", "", schema)


def test_a_tool_keeps_its_card_while_others_come_and_go() -> None:
    box = Toolbox()
    box.register(made(TEXT), lambda text: text)
    cards = Cards(box)
    card = cards("say")
    assert card is not None
    seen = card.takes
    box.register(Tool("other", "", TEXT), lambda text: text)
    assert cards("say") is card
    assert card.takes is seen
    assert cards("absent") is None


def test_another_tool_under_the_same_id_has_a_card_of_its_own() -> None:
    app = App("memory")
    app.toolbox.register(made(TEXT), lambda text: text)
    loaded = app.load({"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "say", "params": {"text": "x"}}]})
    assert app.check(loaded).problems == ()
    app.toolbox.remove("say")
    app.toolbox.register(made(NUMBER), lambda number: number)
    assert "required argument 'number'" in str(app.check(loaded).problems[0])
    app.toolbox.remove("say")
    assert app.check(loaded, unknown_tools="problem").problems != ()

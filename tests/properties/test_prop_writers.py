"""Whatever a notation's writer accepts does there what it does as a flow."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import assume, event, given, note
from hypothesis import strategies as st

from properties.test_prop_chain_write import Here, Maker, played
from ropewalk import flow
from ropewalk.builder.flow import Built
from ropewalk.errors import InvalidFlow
from ropewalk.notations.registry import NOTATIONS
from ropewalk.source.load import dump
from tiers import examples

RESULT = {"composition": "data", "composite": "result"}


class Plain(Maker):
    """Flows that less can hold: calls and values in a line, choices and calls per item, fallbacks."""

    def node(self, here: Here) -> tuple[Any, ...]:
        self.count += 1
        kinds = ["call"] * 4 + ["value"] * 2 + (["when", "each", "select", "fold"] if here.depth < 1 else [])
        return tuple(getattr(self, f"_{self.one(*kinds)}")(here))

    def options(self, here: Here, *, fails: bool = False) -> Any:
        return self.f.options(fallback=self.one(None, {"a": 1})) if self.often(2) else self.f

    def _value(self, here: Here) -> Any:
        return [self.f.value(self.value(here))]

    def _each(self, here: Here) -> Any:
        width = self.one(1, 2)
        return [self.f.for_each([1, "$x", None], lambda item: self.f.call("mix", v=[item]), concurrency=width)]

    def _select(self, here: Here) -> Any:
        return [self.f.select([1, 2, 3], lambda item: self.f.call("is_two", v=item), concurrency=2)]

    def _fold(self, here: Here) -> Any:
        return [self.f.fold([1, 2], lambda so_far, item: self.f.call("mix", v=so_far, w=item), self.value(here, 0))]


class Calls(Plain):
    """Flows that composite tools and experiences can hold: calls, and for experiences calls per item."""

    def node(self, here: Here) -> tuple[Any, ...]:
        self.count += 1
        if self.often(2):
            return (self.f.options(when=self.test(here)).call("mix", v=self.value(here)),)
        return (self.f.call(self.one("mix", "echo", "list"), v=self.value(here)),)


@st.composite
def flows_for(draw: Any, maker: type[Plain], *, whole: bool) -> Built:
    f = flow("made")
    made = maker.__new__(maker)
    made.draw, made.f, made.count, made.state = draw, f, 0, f.input.s  # type: ignore[assignment]
    sees = made.body(Here())
    if not whole:
        f.result(sees[-1])
    return f.done()


FLOWS = [("composition", Plain), ("composite", Calls), ("experience", Calls)]


@pytest.mark.parametrize(("kind", "maker"), FLOWS, ids=[kind for kind, _ in FLOWS])
@examples(80)
@given(data=st.data())
def test_what_is_accepted_does_the_same(kind: str, maker: type[Plain], data: Any) -> None:
    built = data.draw(flows_for(maker, whole=kind == "experience"))
    try:
        document = built.export(kind)
    except InvalidFlow as refused:
        event(str(refused.problems[0].message))
        assume(False)
    note(dump(document))
    notation = NOTATIONS[kind]
    assert notation.write is not None
    assert notation.write(notation.compile(document).flow) == document
    as_flow, as_document = asyncio.run(_both(built, document))
    assert as_document["status"] == as_flow["status"]
    assert as_document["calls"] == as_flow["calls"]
    assert [_path(p, kind) for p, _ in as_document["journal"]] == [_path(p, "flow") for p, _ in as_flow["journal"]]
    if as_flow["status"] == "completed" and kind in RESULT:
        assert as_document[RESULT[kind]] == as_flow["result"]


def _path(text: str, kind: str) -> str:
    """What is called per item has a name in Python, and none in a composition."""
    if kind == "flow":
        return re.sub(r"((?:for_each|select|fold)(?:_\d+)?\[\d+\])/\w+$", r"\1", text)
    return re.sub(r"(\[\d+\])/[\w.]+\.(?:call|round)$", r"\1", text)


async def _both(built: Built, document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return await played(built), await played(document)

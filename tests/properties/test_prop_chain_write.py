"""Any flow that chains can hold does as a chain what it does as a flow, whatever it is made of."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from properties.made_flows import FLAKY, answer
from ropewalk import flow
from ropewalk.app.app import App
from ropewalk.builder.flow import Built, FlowBuilder
from ropewalk.builder.refs import Ref
from ropewalk.notations.chain.render import compile_document as compile_chain
from ropewalk.notations.chain.write import ChainWriter
from ropewalk.source.load import dump
from ropewalk.values import canonical
from tiers import examples

TEXTS = ("", "$5", "${x}", "a $${b}", "$input.n", "plain")


@dataclass(frozen=True)
class Here:
    """What can be read, and whether failures may end the run: not where nodes run side by side."""

    sees: tuple[Ref[Any], ...] = ()
    depth: int = 0
    alone: bool = True
    dag: bool = False


class Maker:
    """Writes one flow with the builder."""

    def __init__(self, draw: Any, f: FlowBuilder) -> None:
        self.draw, self.f, self.count = draw, f, 0
        self.state = f.state("s", initial=draw(st.sampled_from([0, None])))

    def one(self, *of: Any) -> Any:
        return self.draw(st.sampled_from(of))

    def often(self, tenths: int) -> bool:
        return self.draw(st.integers(0, 9)) >= 10 - tenths

    def body(self, here: Here) -> tuple[Ref[Any], ...]:
        """Some nodes, one after another; what can be read after them."""
        for _ in range(self.draw(st.integers(1, 3))):
            here = replace(here, sees=(*here.sees, *self.node(here)))
        return here.sees

    def inner(self, here: Here, *more: Ref[Any]) -> Any:
        """What the function of a body does: nodes, then one of them or something computed."""
        sees = self.body(Here((*here.sees, *more), here.depth + 1, alone=here.alone))
        return self.value(replace(here, sees=sees)) if self.often(4) else sees[-1]

    def node(self, here: Here) -> tuple[Ref[Any], ...]:
        self.count += 1
        kinds = ["call"] * 4 + ["value", "sleep"]
        if here.depth < 2 and self.count < 9:
            kinds += ["when", "each", "loop", "parallel", "block"]
        return tuple(getattr(self, f"_{self.one(*kinds)}")(here))

    def options(self, here: Here, *, fails: bool = False) -> Any:
        given: dict[str, Any] = {}
        if self.often(2):
            given["attempts"] = self.one(2, 3)
        if self.often(3) or (fails and not here.alone):
            given["fallback"] = self.one(None, 7, [1], lambda error: {"why": error.message})
        elif self.often(2) and not here.dag:
            given["reported"] = True
        if self.often(3) and (here.alone or not fails):
            given["into"] = self.state
        if self.often(2) and not ("attempts" in given and "into" in given):
            given["when"] = self.test(here)
        return self.f.options(**given)

    def _call(self, here: Here) -> Any:
        tool = self.one("mix", "mix", "echo", "list", "none", "bad", *(FLAKY if here.alone else ()))
        given = {"v": self.value(here)} if self.often(8) else {}
        return [self.options(here, fails=tool == "bad" or tool in FLAKY).call(tool, **given)]

    def _value(self, here: Here) -> Any:
        return [self.f.value(self.value(here)) if self.often(7) else self.f.set(self.state, self.value(here))]

    def _sleep(self, here: Here) -> Any:
        return [self.f.sleep(0)]

    def _when(self, here: Here) -> Any:
        then, otherwise = (lambda: self.inner(here)), self.one(5, "$5", None)
        if self.often(3):
            return [self.f.cases((self.test(here), 1), (self.test(here), then), otherwise=lambda: self.inner(here))]
        return [self.f.when(self.test(here), then, otherwise)]

    def _each(self, here: Here) -> Any:
        width = self.one(1, 2, 3)
        sees = here.sees if width == 1 else tuple(ref for ref in here.sees if repr(ref) != "$round")  # which is refused
        inside = replace(here, sees=sees, alone=here.alone and width == 1, dag=False)
        items = self.one([1, 2, 3], [0], [], ["$x", [4]])
        over = self.f.value([self.value(here), *items]) if self.often(4) and here.alone else items
        return [self.f.for_each(over, lambda item, index: self.inner(inside, item, index), concurrency=width)]

    def _loop(self, here: Here) -> Any:
        inside = replace(here, dag=False)
        tests: dict[str, Any] = {}
        if self.often(4):
            tests["until"] = lambda last: last == self.one(0, 1, 2)
        return [self.f.loop(lambda round: self.inner(inside, round), limit=self.one(1, 2, 3), **tests)]

    def _parallel(self, here: Here) -> Any:
        with self.f.parallel(limit=self.one(None, 1, 2)) as block:
            inside = replace(here, depth=here.depth + 1, alone=False, dag=False)
            made = [ref for _ in range(self.draw(st.integers(1, 3))) for ref in self.node(inside)]
        return [block, *made]

    def _block(self, here: Here) -> Any:
        with self.f.options(fallback=self.one(None, 3)).block() as block:
            self.body(replace(here, depth=here.depth + 1, alone=True, dag=False))
        return [block]

    def value(self, here: Here, depth: int = 2) -> Any:
        seen = self.one(*here.sees) if here.sees else self.f.input.n
        simple = self.one(1, None, True, 0.5, *TEXTS, seen, seen, seen, self.f.input.n, self.state)
        if not depth or self.often(4):
            return simple
        a, b = self.value(here, depth - 1), self.value(here, depth - 1)
        return self.one(
            [a, b], {"a": a, "b-c": b}, f"<{seen}>", f"{seen}${{x}}", seen == b, seen.coalesce(a, 1),
            (seen != 1).choose(a, b), (seen == 1) & (self.f.input.n == 2) | ~(seen == b),
            self.f.input.odd["a key"].output[0],
            self.f.input.rows.filter(lambda row: row == a).map(lambda row, i: [row, i]).map(lambda pair: [pair, b]),
        )  # fmt: skip

    def test(self, here: Here) -> Any:
        seen = self.one(*here.sees) if here.sees else self.f.input.n
        return self.one(seen == self.one(0, 1, 2), seen != self.one(0, 1), self.f.input.n == 2)


@st.composite
def built_flows(draw: Any) -> Built:
    f = flow("made")
    maker = Maker(draw, f)
    dag = maker.often(3)
    if dag:
        f.settings(parallel=True, limit=maker.one(None, 1, 2, 8))
    sees = maker.body(Here(alone=not dag, dag=dag))
    if maker.often(6):
        f.result(maker.value(Here(sees)))
    return f.done()


async def played(source: Any) -> dict[str, Any]:
    calls: list[Any] = []
    failed: Counter[bytes] = Counter()

    async def tools(name: str, params: dict[str, Any]) -> Any:
        calls.append((name, params))
        key = canonical([name, params])
        if name == "is_two":
            return params["v"] == 2
        try:
            return answer(name, params, failed[key])
        except RuntimeError:
            failed[key] += 1
            raise

    async with App("memory") as app:
        outcome = (await app.run(source, {"n": 2, "rows": [1, None, "$5"]}, executor=tools)).to_dict()
        facts = app.store.history(outcome["runId"])
    return {
        "status": outcome["status"],
        "result": outcome.get("result"),
        "data": outcome.get("data"),
        "state": outcome.get("state", outcome.get("variables", {})),
        "errors": sorted((e["tool"] or "", e["message"], e.get("attempts")) for e in outcome["errors"]),
        "calls": sorted(calls, key=repr),
        "journal": sorted((_path(e.path), repr(e.data)) for e in facts if e.kind == "call"),
    }


RENAMED = [
    (r"(block(?:_\d+)?)\[0\]/", r"\1/"),  # a block is a branch that is always taken
    (r"(when(?:_\d+)?)\[else\]/\1_else\[0\]/", r"\1[1]/"),  # of more than two branches, each is in the one before
    (r"(when(?:_\d+)?)\[else\]/\1_else\[else\]/", r"\1[else]/"),
]


def _path(text: str) -> str:
    for pattern, replacement in RENAMED:
        text = re.sub(pattern, replacement, text)
    return text


@examples(150)
@given(built_flows())
def test_a_flow_does_the_same_as_a_chain(built: Built) -> None:
    document = built.export("chain")
    note(dump(document))
    as_flow, as_chain = asyncio.run(_both(built, document))
    for outcome in (as_flow, as_chain):
        del outcome["data"]
        if outcome["status"] not in ("completed", "partial"):
            del outcome["result"]
    [block, *others] = built.flow.body.nodes
    if not others and block.id not in [node["id"] for node in document["nodes"]]:
        inside = f"{block.id}/"  # a block that is the whole flow became the chain's mode
        as_flow["journal"] = sorted((path.removeprefix(inside), data) for path, data in as_flow["journal"])
    assert as_flow == as_chain


async def _both(built: Built, document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return await played(built), await played(document)


@examples(80)
@given(built_flows())
def test_a_chain_that_was_written_is_written_the_same_again(built: Built) -> None:
    document = ChainWriter.write(built.flow)
    note(dump(document))
    assert ChainWriter.write(compile_chain(document).flow) == document

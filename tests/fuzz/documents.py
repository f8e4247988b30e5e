"""Documents at random: those of the tests and the examples, with values, keys and letters changed.

Whatever is read is refused with Ropewalk's own errors, or can be drawn, planned, written, read again and run.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from ropewalk import App
from ropewalk.app.preview import preview
from ropewalk.config.settings import Limits
from ropewalk.draw import draw, graph_data
from ropewalk.errors import RopewalkError
from ropewalk.source.load import dump, load
from ropewalk.testing import ScriptedModel
from ropewalk.tools.tool import Tool

from .expressions import Expressions
from .judging import Finding, alarm, foreign, judged

PROJECT: Final = Path(__file__).parents[2]
KINDS: Final = ("chain", "composition", "composite", "experience", "agent")
TEXTS: Final = (
    "", " ", "\0", "\ud800", "a" * 5000, "../x", "./t.py", "$$", "${", "}", "$input.", "$output.a-b.c", "{{x}}", "a.b",
    "a:b", ":", "ropewalk:agent", "impl:./x.py", "dataset:", "\u202e", "é", "NaN", "1e5", "P1D", "2020-01-01",
    "* * * * *", "parallel", "__proto__", "<script>", "a\nb", "%s", "^(a+)+$", "(?=a)", "[", "#/$defs/x", "#", "tool",
    "loop", "condition", "all", "any", "abort", "continue", "skip", "$secret.HOME",
)  # fmt: skip
SCALARS: Final = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.0, -0.0, 0.5, 1e308, 1e-320, float("inf"),
    float("nan"), [], {}, [[]], {"": 1}, {"a": {}}, ["a", "a"], ["x"], 5, {"x": 5},
)  # fmt: skip
LETTERS: Final = (
    "&a ", "*a ", "!!python/object:os.system ", "<<: ", "\t", "\n", "- ", ": ", "? ", "{", "[", "}", "]", '"', "'",
    "|\n", ">\n", "#", "%", "\ufeff", "\x85", "\u2028", "\0", "---\n", "...\n", "~", "0x", "1_000",
)  # fmt: skip
MOST_NESTING: Final = Limits().nesting
INPUTS: Final = (None, {}, {"q": "x", "rows": [{"a": 1}], "items": [1, 2]})


@cache
def corpus() -> tuple[dict[str, Any], ...]:
    """Every document of the tests' cases, of the equivalence tests and of the examples."""
    found: list[dict[str, Any]] = []
    files = [*sorted((PROJECT / "tests/cases").glob("*/*.yaml")), PROJECT / "tests/equivalence/programs.yaml"]
    for file in files:
        for case in load(file).data or []:
            for kind in KINDS:
                if isinstance(case, dict) and isinstance(case.get(kind), dict):
                    more = {"name": "x", "version": "0.1.0"} if kind == "experience" else {}
                    found.append({"kind": kind, **more, **case[kind]})
    for file in sorted((PROJECT / "examples").glob("**/*.yaml")):
        data = load(file).data
        if isinstance(data, dict):
            found.append(data if "kind" in data else {"kind": "experience", **data})
    return tuple(found)


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document: what holds it, and the key."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        holder = todo.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            found.append((holder, key))
            todo.append(holder[key])
    return found


class Documents:
    """Makes documents: most are nearly right."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.expressions = Expressions(rng)
        self.keys = sorted({str(key) for doc in corpus() for holder, key in spots(doc) if isinstance(holder, dict)})

    def document(self) -> Any:
        """One document, as an object or as text."""
        doc = copy.deepcopy(self.rng.choice(corpus()))
        for _ in range(self.rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            places = spots(doc)
            if places:
                self._change(*self.rng.choice(places), places)
        return self._text(doc) if self.rng.random() < 0.3 else doc

    def _change(self, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
        rng = self.rng
        kind = rng.choices(("value", "delete", "rename", "add", "copy", "repeat", "swap", "letter"),
                           (40, 10, 8, 10, 10, 6, 5, 6))[0]  # fmt: skip
        if kind == "delete":
            del holder[key]
        elif kind == "rename" and isinstance(holder, dict):
            holder[rng.choice(self.keys) if rng.random() < 0.8 else self._word()[:40]] = holder.pop(key)
        elif kind == "add" and isinstance(holder, dict):
            holder[rng.choice(self.keys)] = self._value(0)
        elif kind == "copy":
            other, at = rng.choice(spots(rng.choice(corpus())))
            holder[key] = copy.deepcopy(other[at])
        elif kind == "repeat" and isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
        elif kind == "swap":
            other, at = rng.choice(places)
            holder[key], other[at] = copy.deepcopy(other[at]), copy.deepcopy(holder[key])
        elif kind == "letter" and isinstance(holder[key], str) and holder[key]:
            text = holder[key]
            at = rng.randrange(len(text))
            holder[key] = text[:at] + rng.choice((*"${}[].\"'()\0é ", "")) + text[at + rng.randint(0, 2) :]
        else:
            holder[key] = self._value(0)

    def _value(self, depth: int) -> Any:
        roll = self.rng.random()
        if depth < 3 and roll < 0.12:
            return [self._value(depth + 1) for _ in range(self.rng.randint(0, 4))]
        if depth < 3 and roll < 0.24:
            return {self._word()[:30]: self._value(depth + 1) for _ in range(self.rng.randint(0, 4))}
        if roll < 0.25:
            return self._deep(self.rng.choice((10, 63, 64, 65, 300)))
        return copy.deepcopy(self.rng.choice(SCALARS)) if roll < 0.7 else self._word()

    def _deep(self, depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value] if self.rng.random() < 0.5 else {"a": value}
        return value

    def _word(self) -> str:
        roll, made = self.rng.random(), self.expressions.text()
        if roll < 0.3:
            return made
        if roll < 0.45:
            return "$" + made.lstrip("$")
        return f"a ${{{made}}} b" if roll < 0.6 else self.rng.choice(TEXTS)

    def _text(self, doc: Any) -> str:
        try:
            text = json.dumps(doc) if self.rng.random() < 0.5 else yaml.safe_dump(doc, allow_unicode=True)
        except (yaml.YAMLError, UnicodeError, RecursionError):
            return "kind: chain\nnodes: []\n"
        for _ in range(self.rng.choice((0, 0, 1, 2, 5))):
            at = self.rng.randrange(len(text) + 1)
            text = text[:at] + self.rng.choice(LETTERS) + text[at + self.rng.randint(0, 3) :]
        return f"{text}\n" if text.lstrip()[:1] in ("{", "[") else f"# a document\n{text}"


def echoing(id: str) -> Tool:
    """A tool of this id that gives back what it is given."""

    async def echo(**given: Any) -> Any:
        return given

    namespace, _, name = id.rpartition(":")
    return Tool(name, "Gives back what it is given.", {"type": "object"}, namespace=namespace or None, handler=echo)


def tools() -> list[Tool]:
    """Those that the corpus calls by names which can be registered."""
    found = {str(h[k]) for doc in corpus() for h, k in spots(doc) if k == "tool" and isinstance(h[k], str)}
    made = []
    for id in sorted(found):
        try:
            made.append(echoing(id))
        except RopewalkError:
            continue
    return made


def _depth(value: Any) -> int:
    """How deep a document is nested."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(_depth, inside), default=0)


class Judge:
    """Loads, draws, writes, reads again and runs documents in one app."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.app = App("memory", tools=tools(), timeout=2, secrets=["HOME"], model=ScriptedModel(*["done"] * 9))
        self.loop = asyncio.new_event_loop()

    def close(self) -> None:
        """Close the app and its loop."""
        self.loop.run_until_complete(self.app.close())
        self.loop.close()

    def judge(self, doc: Any) -> Iterator[Finding]:
        """What is wrong with how a document is treated."""
        case = doc if isinstance(doc, str) else json.dumps(doc, default=repr)
        loaded, finding = judged("load", case, lambda: self._load(doc), RopewalkError)
        if finding is not None:
            yield finding
        if loaded is None:
            return
        flow = loaded.flow
        for what, run in (
            ("check", lambda: self.app.check(loaded)), ("graph", lambda: graph_data(flow)),
            ("svg", lambda: draw(flow, "svg")), ("mermaid", lambda: draw(flow, "mermaid")),
            ("text", lambda: draw(flow, "text")),
            ("preview", partial(self._preview, loaded)),
            ("convert", lambda: self.app.convert(loaded, self.rng.choice(KINDS), allow_loss=True)),
        ):  # fmt: skip
            _, finding = judged(what, case, run, RopewalkError)
            if finding is not None:
                yield finding
        yield from self._read_again(case, loaded)
        yield from self._run(case, loaded)

    def _load(self, doc: Any) -> Any:
        try:
            return self.app.load(doc)
        except RopewalkError as error:
            str(error), [str(problem) for problem in getattr(error, "problems", ())]
            raise

    def _preview(self, loaded: Any) -> None:
        if not self.app.check(loaded).problems:
            preview(self.app.context, loaded, ())

    def _read_again(self, case: str, loaded: Any) -> Iterator[Finding]:
        """What was read, written down as JSON and as YAML, is the same definition."""
        document = {**loaded.document, "kind": loaded.kind}
        for what, text in (("JSON", json.dumps(document)), ("YAML", dump(document))):
            if _depth(document) > MOST_NESTING:  # which is refused in texts
                continue
            again, finding = judged(
                f"read as {what}", case, lambda text=text: self.app.load(f"{text}\n"), RopewalkError
            )
            if finding is not None or again is None or again.fingerprint != loaded.fingerprint:
                yield finding or Finding(f"{what} of what was read is another definition", "?", case)

    def _run(self, case: str, loaded: Any) -> Iterator[Finding]:
        async def once() -> None:
            try:
                await asyncio.wait_for(self.app.run(loaded, copy.deepcopy(self.rng.choice(INPUTS))), 1.5)
            except (RopewalkError, TimeoutError):
                return

        try:
            with alarm():
                self.loop.run_until_complete(once())
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the finding
            yield foreign("run", error, case)


def cases(rng: Random) -> Iterator[Iterator[Finding]]:
    """Judge one document after another, without end."""
    made, judge = Documents(rng), Judge(rng)
    try:
        while True:
            yield judge.judge(made.document())
    finally:
        judge.close()

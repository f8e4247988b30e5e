"""The module `re` of plans gives what Python's gives, or is refused."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from ropewalk.expr.python.values import Refused
from ropewalk.plans.messages import Ended, Reading
from ropewalk.plans.program import Program

from .oracle import differences, run_plan


def evaluate(code: str, **values: Any) -> Any:
    """Return what a program returns."""
    machine, [end] = Program(f"import re\nreturn {code}", {}, values).start(values, 1, lambda clock: Reading(0))
    machine.close()
    assert isinstance(end, Ended)
    if end.status != "completed":
        raise Refused(end.message)
    return json.loads(end.result)


def test_a_match_lives_across_a_call() -> None:
    code = r"""
import re
text = "id=12 name=ann id=7"
first = re.search(r"id=(\d+)", text)
item = await get_item(int(first.group(1)))
word = re.compile(r"(?P<key>\w+)=(?P<value>\w+)", re.IGNORECASE)
pairs = [m.groupdict() for m in word.finditer(text)]
await save(key="x")
return [item.id, first.span(), first[0], pairs, word.sub(r"\2=\1", text), re.split(r"\s+", text),
        re.findall(r"id=(\d+)", text), re.sub("[aeiou]", lambda m: m.group().upper(), text), bool(re.match("x", text))]
"""
    assert "refused" not in run_plan(code, {})
    assert differences(code) == []


ENDLESS = [r"(a*)*", r"(a+b?)+(?=c)", r"(\w+\s?)+(?=!)", r"((?:aa|a)|b?)*\bc", r"(.*)(.*)(.*)(.*)(.*)(?=x)"]


@pytest.mark.parametrize("pattern", ENDLESS)
def test_patterns_that_may_take_long_are_refused(pattern: str) -> None:
    with pytest.raises(Refused, match="may take too long"):
        evaluate("bool(re.search(pattern, 'aab'))", pattern=pattern)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        (r"re.findall(r'\w+', 'é ß')", ["é", "ß"]),
        (r"bool(re.search('b$', 'b\n'))", True),
        ("re.sub('x*', '-', 'axb')", "-a--b-"),
        (r"re.sub(r'(?<=\d)(?=(?:\d{3})+$)', ',', '1234567')", "1,234,567"),
        (r"re.findall(r'(\w)\1', 'aabcc')", ["a", "c"]),
        (r"re.split(r'(?x) \s* , # a comma', 'a ,b')", ["a", "b"]),
        (r"re.findall(r'(?i)straße|i', 'STRAßE İ')", ["STRAßE", "İ"]),
        (r"re.findall(r'\bä\w*', 'äh bä ä1')", ["äh", "ä1"]),
    ],
)
def test_what_one_engine_lacks_the_other_finds(code: str, wanted: Any) -> None:
    assert evaluate(code) == wanted


def test_a_long_text_is_searched_by_the_engine_that_is_linear() -> None:
    text = "é" * 50_000 + "!"
    assert evaluate(r"re.findall(r'\w+!', text)", text=text) == [text]
    with pytest.raises(Refused, match="50,001 characters"):
        evaluate(r"re.findall(r'\b\w+!', text)", text=text)


PARTS = [
    "a",
    "b",
    "[ab]",
    "[^a]",
    ".",
    r"\d",
    r"\s",
    r"\w",
    r"\b",
    "(a|b)",
    "(ab)?",
    "a+",
    "b*?",
    "[a-c]{1,2}",
    "$",
    "^",
    r"\W",
    r"[\w.-]+",
    r"[^\S\n]",
    r"(\w)\1",
    "(?=b)",
    "(?<!a)",
]
FUNCTIONS = ["findall", "split", "search", "match", "fullmatch"]


@pytest.mark.parametrize("seed", range(8))
def test_random_patterns_give_what_python_gives(seed: int) -> None:
    chance = random.Random(seed)
    equal = 0
    for _ in range(250):
        pattern = "".join(chance.choices(PARTS, k=chance.randint(1, 4)))
        text = "".join(chance.choices("aabbcé1 \n\x0b\x1c_ß中\xa0", k=chance.randint(0, 9)))
        name = chance.choice(FUNCTIONS)
        found = getattr(re, name)(pattern, text)
        wanted = [list(one) if isinstance(one, tuple) else one for one in found] if isinstance(found, list) else found
        if isinstance(found, re.Match):
            wanted = [list(found.span(number)) for number in range(re.compile(pattern).groups + 1)]
        code = f"re.{name}(pattern, text)"
        if not isinstance(found, list):
            code = f"(lambda m: [list(m.span(n)) for n in range(len(m.groups()) + 1)] if m else None)({code})"
        else:
            code = f"[list(one) if isinstance(one, tuple) else one for one in {code}]"
        try:
            result = evaluate(code, pattern=pattern, text=text)
        except Refused:
            continue
        equal += 1
        assert result == wanted, (name, pattern, text)
    assert equal > 240

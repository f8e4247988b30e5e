"""The module `re` of plans gives what Python's gives, or is refused."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from ropewalk.expr.python.piece import EXIT, compile_piece
from ropewalk.expr.python.values import Refused

from .oracle import differences, run_plan


def evaluate(code: str, **values: Any) -> Any:
    """Return what a piece returns."""
    piece = compile_piece(f"import re\nreturn {code}", tuple(values), (), False, (), frozenset(values))
    return piece(values)[EXIT]["v"]


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


REFUSED = [r"(?=a)b", r"(a)\1", r"(?<!a)b", r"(a*)*", "a++", "a{,2}", "[[:alpha:]]", r"[\S]", "(?x)a b", "(a"]


@pytest.mark.parametrize("pattern", REFUSED)
def test_patterns_of_python_alone_are_refused(pattern: str) -> None:
    with pytest.raises(Refused):
        evaluate("bool(re.search(pattern, 'aab'))", pattern=pattern)


@pytest.mark.parametrize(
    "code", [r"re.findall(r'\w+', 'é')", r"bool(re.search('b$', 'b\n'))", "re.sub('x*', '-', 'axb')"]
)
def test_texts_on_which_engines_differ_are_refused(code: str) -> None:
    with pytest.raises(Refused):
        evaluate(code)


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
]
FUNCTIONS = ["findall", "split", "search", "match", "fullmatch"]


@pytest.mark.parametrize("seed", range(8))
def test_random_patterns_give_what_python_gives(seed: int) -> None:
    chance = random.Random(seed)
    equal = 0
    for _ in range(250):
        pattern = "".join(chance.choices(PARTS, k=chance.randint(1, 4)))
        text = "".join(chance.choices("aabbc1 \n\x0b\x1c_", k=chance.randint(0, 9)))
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
    assert equal > 80

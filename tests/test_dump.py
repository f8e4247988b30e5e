"""Documents written as text are read back as the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.source.load import dump, load

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
WORDS = st.sampled_from(
    ["yes", "on", "no", "0o14", "0x1F", "1e3", "1_000", "~", "null", "Null", "", " a", "a ", "- a", "a: b", "#x",
     "a #b", "2026-01-01", "1:20", ".inf", ".nan", "=", "<<", "a\nb", "a\n\n b\n", "\n", "*x", "&x", "!x", "${a}", "$x",
     "'",
     '"', "\x85", "\u2028", "\ufeff", "a\n\u2028b", "x " * 80, "x y\n" * 3]
)  # fmt: skip
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | WORDS, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize("form", ["yaml", "json"])
@given(value=VALUES)
def test_what_is_dumped_is_loaded_as_the_same(form: str, value: Any) -> None:
    document = {"kind": "x", "value": value}
    read = load(dump(document, form), form=form).data
    assert read == document
    assert repr(read) == repr(document)  # 1.0 is not 1


HIDDEN = "\u202e\u2066\u200e\x9b\x7f\x85\u2028\U000e0041"


@pytest.mark.parametrize("form", ["yaml", "json"])
@given(value=st.dictionaries(st.text(alphabet="ab\u200d é" + HIDDEN), st.text(alphabet="ab\u200d é" + HIDDEN)))
def test_no_invisible_character_is_written_as_itself(form: str, value: Any) -> None:
    text = dump(value, form)
    assert set(HIDDEN).isdisjoint(text)
    assert load(text, form=form).data == value


def test_it_is_laid_out_for_people() -> None:
    document = {"kind": "chain", "nodes": [{"id": "a", "until": "$prev > 3", "text": "one\ntwo\n", "é": "on"}]}
    assert dump(document) == (
        "kind: chain\nnodes:\n- id: a\n  until: $prev > 3\n  text: |\n    one\n    two\n  é: 'on'\n"
    )

"""Secrets are taken out of texts and values: the longest first, overlapping ones whole, in every spelling."""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ropewalk.redaction import Redaction

A, B = "tok-12345", "tok-12345-extended-PRIVATE"
ODD = 'p"a/ß s\\s\nw+rd&é'


def of(*secrets: str) -> Redaction:
    return Redaction({secret: f"$secret.{name}" for secret, name in zip(secrets, "ABCDEF", strict=False)})


@pytest.mark.parametrize("secrets", [(A, B), (B, A)])
def test_the_longest_secret_goes_first_whichever_was_read_first(secrets: tuple[str, str]) -> None:
    marks = {A: "$secret.A", B: "$secret.B"}
    redaction = Redaction({secret: marks[secret] for secret in secrets})
    assert redaction.text(f"{B}, {A}.") == "$secret.B, $secret.A."
    assert redaction.value({B: [A, {"x": f"Bearer {B}"}, 1, None]}) == {
        "$secret.B": ["$secret.A", {"x": "Bearer $secret.B"}, 1, None]
    }


def test_secrets_that_overlap_leave_no_part_behind() -> None:
    assert of("abc-def", "def-ghi").text("<abc-def-ghi>") == "<$secret.A$secret.B>"
    assert of("aba").text("<ababa>") == "<$secret.A>"


def test_a_mark_holds_no_secret() -> None:
    assert Redaction({"secret": "$secret.KEY"}).text("my secret") == "my ***"
    assert Redaction({"KEY": "$secret.KEY"}).text("a KEY") == "a ***"
    assert Redaction({"KEY": "$secret.KEY", "*": "$secret.STAR"}).text("a KEY, a *") == "a , a $secret.STAR"


def test_a_mark_and_what_is_beside_it_spell_no_secret() -> None:
    redaction = Redaction({"tok-1": "$secret.A", "x$secret.A": "$secret.B"})
    assert not redaction.has_secret(redaction.text("xtok-1"))


@pytest.mark.parametrize(
    "spelled",
    [
        ODD, json.dumps(ODD), json.dumps(ODD, ensure_ascii=False), json.dumps(json.dumps({"x": ODD})),
        json.dumps(json.dumps(json.dumps([ODD]), ensure_ascii=False), ensure_ascii=False), quote(ODD), quote_plus(ODD),
        quote(ODD, safe=""), re.sub("%..", lambda hex: hex[0].lower(), quote(ODD)), repr(ODD), repr([ODD, "it's"]),
        str({"x": ODD + "'"}),
    ],
)  # fmt: skip
def test_a_secret_is_found_as_tools_spell_it(spelled: str) -> None:
    redacted = of(ODD).text(f"<{spelled}>")
    assert "$secret.A" in redacted
    assert not {"s\\s", "w+rd", "w%2Brd", "ß", "%C3%9F"} & {redacted[i : i + n] for n in range(1, 8)
                                                          for i in range(len(redacted))}  # fmt: skip


@given(before=st.binary(max_size=20), secret=st.text(min_size=6, max_size=30), after=st.binary(max_size=20))
def test_a_secret_is_found_in_base64_at_any_place(before: bytes, secret: str, after: bytes) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(before + secret.encode() + after).decode()
        redacted = of(secret).text(whole)
        assert "$secret.A" in redacted or "***" in redacted
        # What is left decodes to what was around it, give or take the letters that are shared.
        assert len(redacted.replace("$secret.A", "").replace("***", "")) <= (len(before) + len(after)) * 4 / 3 + 4


def test_a_secret_that_was_cut_off_is_found() -> None:
    key = "-----BEGIN KEY-----MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
    redaction = Redaction({key: "$secret.PEM", A: "$secret.A", B: "$secret.B"})
    assert redaction.text(f"{key[:40]}… is not of type integer") == "$secret.PEM… is not of type integer"
    assert redaction.text(f"not {key[:30]}") == "not $secret.PEM"
    assert redaction.text(f"{B[:14]}… and {B[:20]}...") == "$secret.B… and $secret.B..."
    assert redaction.text("-----BEGIN KEY-----other") == "-----BEGIN KEY-----other"


@given(
    secrets=st.lists(st.text('ab$*sec."\\', min_size=1, max_size=7), min_size=1, max_size=4, unique=True),
    parts=st.lists(st.integers(0, 12), max_size=10),
)
def test_no_secret_is_ever_left(secrets: list[str], parts: list[int]) -> None:
    words = [*secrets, *"ab$*sec.", "secret"]
    text = "".join(words[i % len(words)] for i in parts)
    redaction = of(*secrets)
    redacted = redaction.text(text)
    assert not any(secret in redacted for secret in secrets)
    assert redaction.text(redacted) == redacted


@given(st.recursive(st.text(max_size=8) | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(
    st.text(max_size=8), inner), max_leaves=8))  # fmt: skip
def test_a_value_without_secrets_is_given_back(value: object) -> None:
    assume("tok-" not in repr(value))
    assert of(A, B).value(value) == value

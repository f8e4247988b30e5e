"""Where a problem is, whatever the keys on the way to it are called."""

from __future__ import annotations

import pytest

from ropewalk.source import load

TEXT = "a:\n  b c:\n    d: 1\n  $x: 1\n  it's: 1\n  \\: 1\n"


@pytest.mark.parametrize(
    ("path", "line"),
    [("a['b c'].d", 3), ('a["b c"].d', 3), ("a['$x']", 4), ('a["it\'s"]', 5), ("a['\\\\']", 6), ("a['none']", 1)],
)
def test_a_key_in_quotes_of_either_kind_is_found(path: str, line: int) -> None:
    assert load(TEXT, name="c.yaml").locate(path).line == line

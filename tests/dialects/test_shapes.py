"""Documents without a kind: which notation reads them, also where they are not what it needs."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.errors import InvalidFlow
from ropewalk.notations.registry import notation_of

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "x", "nodes": {"a": {"type": "tool"}}}, "nodes: must be a list of nodes, not an object"),
    ({"name": "x", "nodes": None}, "nodes: must be"),
    ({"name": "x", "version": "0.1.0", "state": {"schema": {}}, "graph": []}, "graph: must be an object, not a list"),
    ({"name": "x", "steps": []}, "steps belong to a composite tool; add kind: composite"),
    ({"name": "x"}, "cannot recognise this definition; add kind: agent"),
]


@pytest.mark.parametrize(("document", "said"), WRONG)
def test_what_is_wrong_is_told_by_the_notation_that_is_meant(document: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidFlow) as refused:
        notation_of(document).compile(document)
    assert str(refused.value.problems[0]).startswith(said)

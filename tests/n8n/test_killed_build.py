"""A build that was killed goes on: no finished turn of the model and no answer of n8n-mcp is paid for again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from claude.judged import check
from claude.wire import StandIn, calls
from tiers import sampled

from .conftest import Lab
from .script import BROKEN, FOUND, RELINK, TASK, URL, WORDS, mended, say

pytestmark = pytest.mark.node
USAGE = {"usage": {"input_tokens": 100, "output_tokens": 10}}
TURNS = [
    calls(("search_nodes", {"query": "slack", "limit": 3}), **USAGE),
    {"content": say(FOUND), **USAGE},
    calls(("validate_node_minimal", {"nodeType": "nodes-base.httpRequest", "config": {}}), **USAGE),
    {"content": say(BROKEN), **USAGE},
    {"content": mended(URL, *RELINK), **USAGE},
    {"content": WORDS, **USAGE},
]
ENDED = f"True|1|{100 * len(TURNS)}|2|{WORDS}\n"
WHENS = ("tool_started", "configuration", "tool_finished", "validation-1", "documentation")


@pytest.fixture(scope="module")
def _stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    stand = StandIn(tmp_path_factory.mktemp("aimock"))
    yield stand
    stand.close()


@pytest.fixture
def api(_stand_in: StandIn) -> Iterator[StandIn]:
    _stand_in.reset()
    _stand_in.answer(*TURNS)
    yield _stand_in
    for body in _stand_in.bodies:
        check(body)


def build(child: Callable[..., Popen[str]], lab: Lab, api: StandIn, when: str = "") -> tuple[int, str]:
    process = child(lab.home, api.url, lab.script, TASK, when)
    said, _ = process.communicate(timeout=300)
    return process.returncode, said


def sent(lab: Lab) -> list[str]:
    """The calls that n8n-mcp was sent so far, by all processes."""
    found = []
    for line in Path(lab.home, "sent").read_text().splitlines():
        message = json.loads(line)
        if message.get("method") == "tools/call":
            found.append(json.dumps([message["params"]["name"], message["params"]["arguments"]], sort_keys=True))
    return sorted(found)


@pytest.mark.parametrize("when", sampled("recovery", WHENS, 1))
def test_a_build_killed_anywhere_goes_on_and_asks_nothing_again(
    lab: Lab, api: StandIn, child: Callable[..., Popen[str]], when: str
) -> None:
    code, said = build(child, lab, api, when)
    assert (code, said) == (-9, "")
    assert sent(lab)
    assert api.bodies
    assert build(child, lab, api) == (0, ENDED)
    assert len(api.bodies) == len(TURNS)
    assert len(sent(lab)) - len(set(sent(lab))) <= (1 if when.startswith("tool") else 0)  # the one that was under way


def test_what_has_ended_is_not_built_again(lab: Lab, api: StandIn, child: Callable[..., Popen[str]]) -> None:
    first = build(child, lab, api)
    before = sent(lab)
    assert first == build(child, lab, api) == (0, ENDED)
    assert len(set(before)) == len(before) > 10
    assert (len(api.bodies), sent(lab)) == (len(TURNS), before)

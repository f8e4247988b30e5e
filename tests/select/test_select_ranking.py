"""What brings one tool before another that has the same words."""

from __future__ import annotations

from typing import Any

from ropewalk.select.selector import Selector


def _tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties},
    }


def _filler() -> list[dict[str, Any]]:
    words = ["lantern", "harbour", "violin", "meadow", "copper", "saddle", "orchard", "pebble", "canvas", "thimble"]
    return [_tool(f"{verb}_{word}", f"{verb} a {word}", size="how big") for word in words for verb in ("paint", "sell")]


def _first(selector: Selector, request: str) -> str:
    return str(selector.select(request, threshold=0).results[0]["name"])


def test_parameters_that_repeat_what_the_name_says_are_worth_nothing_more() -> None:
    tools = [
        _tool("alpha_scan", "Check the security of a system"),
        _tool("omega_scan", "Check the security of a system", system="The one whose security to check"),
    ]
    selector = Selector([*tools, *_filler()])
    assert _first(selector, "Check the system for security.") == "alpha_scan"  # equals stand by name
    told = selector.select("Check the system for security.", threshold=0).results[1]
    assert told["name"] == "omega_scan"
    assert "only in parameters" not in told["matches"]["features"]


def test_words_that_parameters_run_together_are_those_of_the_name() -> None:
    tools = [
        _tool("disk_size", "Retrieve the disk size of a machine.", disk_type="", machine=""),
        {"name": "disk_type", "description": "Retrieve the type of disk that is built in."},
    ]
    found = Selector([*tools, *_filler()]).select("Retrieve the disk type.", threshold=0).results
    assert [one["name"] for one in found[:2]] == ["disk_type", "disk_size"]
    assert found[1]["matches"]["terms"]["disk"]["fields"][:2] == ["name", "description"]
    assert found[1]["matches"]["terms"]["type"]["fields"] == ["parameters"]


def test_a_word_that_only_parameters_have_tells_tools_apart() -> None:
    tools = [
        _tool("book_a", "Book a room", guests="How many come"),
        _tool("book_b", "Book a room", breakfast="Whether there is breakfast"),
    ]
    selector = Selector([*tools, *_filler()])
    assert _first(selector, "book a room with breakfast") == "book_b"
    assert _first(selector, "book a room for three guests") == "book_a"


def test_what_a_tool_says_besides_speaks_against_it() -> None:
    tools = [
        _tool("rightsLaws", "Retrieve information on human rights laws"),
        _tool("rightsReports", "Retrieve information about human rights reports"),
        _tool("rightsInfo", "Retrieve information related to human rights"),
    ]
    assert _first(Selector([*tools, *_filler()]), "Provide me with information about human rights.") == "rightsInfo"


def test_how_much_a_tool_says_follows_the_registry() -> None:
    """Rarity is that of the tools there are now: what was worked out for a ranking before does not stay."""
    tools = [_tool("zorkReader", "Read a zork from the shelf"), _tool("zorkWriter", "Write a zork to the shelf")]
    changed = Selector([*tools, *_filler()])
    assert _first(changed, "read the zork") == "zorkReader"
    more = [_tool(f"reader{n}", f"Read the {word} shelf aloud", page="which") for n, word in enumerate("abcdefgh")]
    for tool in more:
        changed.add(tool)
    changed.remove("zorkWriter")
    fresh = Selector([tools[0], *_filler(), *more])
    both = [
        [(r["name"], r["score"], r["matches"]["features"]) for r in s.select("read the zork", threshold=0).results]
        for s in (changed, fresh)
    ]
    assert both[0] == both[1]

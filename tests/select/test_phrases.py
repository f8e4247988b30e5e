"""Usage phrases: a tool is found by how people ask for it, and nobody else's words count less for that."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk import App, tool
from ropewalk.errors import ConfigError
from ropewalk.select.candidates import Candidates
from ropewalk.select.features import FEATURE_NAMES, measure_features
from ropewalk.select.index import Index
from ropewalk.select.phrase_index import PhraseIndex
from ropewalk.select.phrase_rules import idioms, phrases_by_rules
from ropewalk.select.phrases import Entry, PhraseBook, description_hash, phrase_file_text, read_phrase_book
from ropewalk.select.query import read_request
from ropewalk.select.reading import Reading
from ropewalk.select.selector import Selector
from ropewalk.select.tool_card import Card, card_of

TOOLS: list[dict[str, Any]] = [
    {"name": "create_event", "description": "Create an event.", "namespace": "cal"},
    {"name": "list_events", "description": "List events of a calendar.", "namespace": "cal"},
    {"name": "forecast", "description": "Weather data for coordinates.", "namespace": "met"},
    {"name": "post_message", "description": "Send a message to a channel.", "namespace": "chat"},
    {"name": "archive_channel", "description": "Archive a channel.", "namespace": "chat"},
]
PHRASES = {
    "cal:create_event": ["pencil me in for lunch", "block an hour of my afternoon"],
    "met:forecast": ["do i need an umbrella", "should i take a jacket"],
    "chat:archive_channel": ["nobody talks there any more, close it"],
}


def book(phrases: dict[str, list[str]], tools: list[dict[str, Any]] = TOOLS) -> PhraseBook:
    descriptions = {card_of(one).key: one["description"] for one in tools}
    return PhraseBook({key: Entry(description_hash(descriptions[key]), tuple(some)) for key, some in phrases.items()})


def best(selector: Selector, request: str) -> str:
    return str(selector.select(request, threshold=0).results[0]["name"])


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("pencil me in with Ada for lunch tomorrow", "cal:create_event"),
        ("Will I need an umbrella in Bergen?", "met:forecast"),
        ("nobody has talked there for a year, please close it", "chat:archive_channel"),
    ],
)
def test_a_tool_is_found_by_its_phrases(request_: str, name: str) -> None:
    assert best(Selector(TOOLS, phrases=book(PHRASES)), request_) == name


def test_phrases_for_another_description_do_not_count() -> None:
    changed = [{**one, "description": "Tides."} if one["name"] == "forecast" else one for one in TOOLS]
    before, after = (Selector(tools, phrases=book(PHRASES)) for tools in (TOOLS, changed))
    asked = "should i take a jacket"
    assert best(before, asked) == "met:forecast"
    parts = {one["name"]: one["matches"]["features"] for one in after.select(asked, threshold=0).results}
    assert "phrases" not in parts["met:forecast"]


def test_phrases_change_no_feature_of_other_tools() -> None:
    requests = [*(phrase for some in PHRASES.values() for phrase in some), "send a message", "which events are there"]

    def features(phrases: dict[str, list[str]]) -> list[np.ndarray]:
        index = Index()
        known = book(phrases)
        cards = [card_of(one) for one in TOOLS]
        slots = index.add(
            [Card(*(getattr(card, name) for name in Card.__slots__[:-1]), known.phrases_of(card)) for card in cards]
        )
        others = np.array([slot for slot, card in zip(slots, cards, strict=True) if card.key not in PHRASES])
        found = []
        for request in requests:
            candidates = Candidates(index, Reading(index, read_request(request)))
            candidates.find(None, 64)
            found.append(measure_features(candidates, others))
        return found

    own = [n for n, name in enumerate(FEATURE_NAMES) if "best" not in name]
    for with_phrases, without in zip(features(PHRASES), features({}), strict=True):
        assert (with_phrases[:, :, own] == without[:, :, own]).all()


def test_an_index_that_has_changed_measures_as_a_new_one() -> None:
    rng = random.Random(11)
    words = [
        "book",
        "block",
        "pencil",
        "lunch",
        "umbrella",
        "rain",
        "jacket",
        "close",
        "talk",
        "send",
        "move",
        "list",
        "find",
        "cancel",
        "plan",
    ]
    index, kept, phrases = Index(), PhraseIndex(), dict[int, list[str]]()
    index.add([card_of(one) for one in TOOLS])
    for _ in range(300):
        slot = rng.randrange(40)
        if rng.random() < 0.4:
            kept.drop(slot)
            phrases.pop(slot, None)
        else:
            phrases[slot] = [" ".join(rng.sample(words, 3)) for _ in range(rng.randrange(1, 12))]
            kept.put(slot, phrases[slot])
    new = PhraseIndex()
    for slot, some in phrases.items():
        new.put(slot, some)
    assert len(kept) == len(new) == len(phrases)
    slots = np.arange(40)
    for _ in range(20):
        reading = Reading(index, read_request(" ".join(rng.sample(words, 4))))
        np.testing.assert_allclose(kept.measure(reading, slots), new.measure(reading, slots), atol=1e-6)
        assert set(kept.likest(reading, 50).tolist()) == set(new.likest(reading, 50).tolist())


def test_a_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "ropewalk.phrases"
    assert read_phrase_book(path).entries == {}
    written = book({**PHRASES, "cal:list_events": ["was steht an? 予定は"]})
    path.write_text(phrase_file_text(written))
    assert read_phrase_book(path).entries == written.entries


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "1:2: cannot be read as a file of phrases"),
        ("[]", "tools: must be an object of tools by id"),
        ('{"tools": {"a": 1}}', "tools.a.description: must be the hash of a description"),
        ('{"tools": {"a": {"description": "x", "phrases": [1]}}}', "tools.a.phrases: must be a list of strings"),
        (json.dumps({"tools": {"a": {"description": "x", "phrases": ["p"] * 11}}}), "at most 10 phrases"),
        (json.dumps({"tools": {"a": {"description": "x", "phrases": ["p" * 201]}}}), "at most 200 characters"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "ropewalk.phrases"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_phrase_book(path)
    assert says in str(refused.value)
    assert "ropewalk.phrases" in str(refused.value)


def test_an_app_with_a_wrong_file_selects_without_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "ropewalk.toml").write_text("")
    (tmp_path / "ropewalk.phrases").write_text("{")

    @tool
    def forecast(place: str) -> str:
        """Weather data for coordinates."""
        return place

    with_file = App.open(tmp_path, store="memory")
    with_file.toolbox.register(forecast)
    assert best(with_file.selector, "weather data") == "forecast"
    assert "without the phrases of the project" in caplog.text


def test_an_app_reads_the_file_of_its_project(tmp_path: Path) -> None:
    (tmp_path / "ropewalk.toml").write_text("")
    entry = {"description": description_hash("Weather data for coordinates."), "phrases": ["do i need an umbrella"]}
    (tmp_path / "ropewalk.phrases").write_text(json.dumps({"tools": {"forecast": entry}}))
    app = App.open(tmp_path, store="memory")
    for one in TOOLS:
        app.toolbox.register(tool(lambda: None, name=one["name"], description=one["description"]))
    assert best(app.selector, "do I need my umbrella today?") == "forecast"


def test_tools_of_well_known_servers_have_phrases() -> None:
    described = "Shows changes in the working directory that are not yet staged"
    diff = {"name": "git_diff_unstaged", "description": described, "namespace": "anything"}
    assert 6 <= len(PhraseBook().phrases_of(card_of(diff))) <= 10
    assert PhraseBook().phrases_of(card_of({**diff, "description": "Shows changes"})) == ()


# --- phrases by rules ------------------------------------------------------------------------------


def by_rules(name: str, description: str = "") -> tuple[str, ...]:
    return phrases_by_rules(card_of({"name": name, "description": description}))


def test_rules_tell_the_senses_of_one_thing_apart() -> None:
    create, delete = set(by_rules("create_issue")), set(by_rules("deleteIssue"))
    assert "file a bug" in create
    assert delete
    assert not create & delete


def test_a_word_of_the_description_alone_is_not_what_a_tool_is_about() -> None:
    assert by_rules("create_zorblax", "Create a zorblax. An issue may follow.") == by_rules("create_zorblax")


def test_a_tool_that_no_line_is_for_gets_no_phrases() -> None:
    assert by_rules("zorblax", "Zorblaxes the quux.") == ()


def test_rules_write_at_most_ten_different_phrases() -> None:
    table = idioms()
    for idiom in table.by_object:
        for stems in idiom.objects:
            phrases = by_rules("_".join([idiom.sense.name.lower(), *sorted(stems)]))
            assert len(phrases) <= 10
            assert len(set(phrases)) == len(phrases)


def test_every_line_of_the_table_says_something() -> None:
    table = idioms()
    assert len(table.by_object) > 500
    assert len(table.by_verb) > 100
    every = [*(idiom.phrases for idiom in table.by_object), *table.by_verb.values()]
    assert all(phrases and all(1 <= len(phrase.split()) <= 8 for phrase in phrases) for phrases in every)

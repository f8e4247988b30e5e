"""Requests and tools of every kind: nothing breaks, and what can be found is."""

from __future__ import annotations

import time

import pytest
from registry import TOOLS, definition, names

from ropewalk.select.options import SelectionStrategy
from ropewalk.select.query import read_request
from ropewalk.select.selector import Selector
from ropewalk.select.text import normalised, words

ODD = {
    "empty": "",
    "blank": " \n\t ",
    "100 kB": "please get the weather forecast for the city of Paris and then " * 1600,
    "one long word": "x" * 100_000,
    "Chinese": "查询北京的天气",
    "Arabic": "ما هو الطقس في القاهرة؟",
    "emoji": "🌧️☂️🤷‍♀️",
    "stop words": "what is it that you do",
    "signs": "?!… --- ((([[[{{{",
    "lone surrogate": "weather \ud800 in Rome",
    "NUL": "weather\0 in Rome",
    "markup": "<script>alert('weather')</script>",
    "quotes": '"' * 3000,
    "a long one of signs": "? " * 4000,
    "a long one of dots": "." * 6001,
    "digits": "1234567890 " * 500,
    "code": "SELECT * FROM users WHERE name = 'x'; DROP TABLE users",
}


@pytest.fixture(scope="module")
def selector() -> Selector:
    return Selector(TOOLS)


@pytest.mark.parametrize("strategy", list(SelectionStrategy))
@pytest.mark.parametrize("name", list(ODD))
def test_any_text_is_a_request(selector: Selector, name: str, strategy: SelectionStrategy) -> None:
    """SELECT-INPUT-1"""
    result = selector.select(ODD[name], strategy=strategy)
    assert result.success
    if name in ("empty", "blank", "signs", "quotes", "a long one of signs", "a long one of dots"):
        assert result.results == []


def test_a_long_request_is_still_understood(selector: Selector) -> None:
    """SELECT-INPUT-1"""
    assert names(selector.select(ODD["100 kB"]))[0] == "get_weather"


def test_tools_in_other_scripts_are_found() -> None:
    """SELECT-INPUT-2"""
    selector = Selector(
        [
            *TOOLS,
            definition("tianqi", "查询某个城市的天气预报"),
            definition("taqs", "معرفة حالة الطقس في أي مدينة"),
            definition("pogoda", "Прогноз погоды для любого города"),
            definition("cafe", "Encontrar una cafetería"),
        ]
    )
    assert names(selector.select("北京天气怎么样", threshold=0))[0] == "tianqi"
    assert names(selector.select("الطقس في القاهرة", threshold=0))[0] == "taqs"
    assert names(selector.select("прогноз погоды на завтра", threshold=0))[0] == "pogoda"
    assert names(selector.select("CAFETERIA", threshold=0))[0] == "cafe"


def test_tools_with_little_and_with_much_to_say() -> None:
    """SELECT-INPUT-3"""
    many = definition("configure", "Set everything.", *(f"option_{n}" for n in range(500)))
    selector = Selector([*TOOLS, many, {"name": "bare_thing"}, {"name": "🤖"}, definition("x", "")])
    assert names(selector.select("configure option 499 of everything"))[0] == "configure"
    assert names(selector.select("bare thing"))[0] == "bare_thing"
    assert len(selector) == len(TOOLS) + 4


def test_schemas_of_any_shape_are_read() -> None:
    deep: dict[str, object] = {"type": "string", "description": "the bottom"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"inner": deep}}
    odd = {
        "properties": {
            "a": True,
            "b": {"enum": [1, None, "weekly"]},
            "c": {"items": {"properties": {"deep_field": {}}}},
        }
    }
    selector = Selector([{"name": "deep", "inputSchema": deep}, {"name": "odd", "inputSchema": odd}])
    assert names(selector.select("weekly deep field", threshold=0))[0] == "odd"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getHTTPResponse2", ["get", "http", "respons", "2", "gethttpresponse2"]),
        ("air_quality-forecast", ["air", "qualiti", "airqual", "forecast"]),
        ("Café ﬁles", ["cafe", "file"]),
        ("don't", ["dont"]),
        ("天气预报", ["天气", "气预", "预报"]),
        ("URLs and IDs", ["url", "and", "id"]),
        ("ÜBER", ["uber"]),
    ],
)
def test_words_are_split_and_stemmed(text: str, expected: list[str]) -> None:
    """SELECT-TEXT-1"""
    assert [word.stem for word in words(normalised(text))] == expected


def test_a_request_is_read_word_by_word() -> None:
    """SELECT-TEXT-2"""
    request = read_request(
        'I want to send "Quarterly Report" to ann@example.org, id 9Ku6M5Ej, and also book a hotel room in Rome.'
    )
    weight = {term.plain: term.weight for term in request.terms}
    assert weight["send"] == weight["hotel"] == 1
    assert weight["quarterly"] < 0.5
    assert weight["ann"] < 0.3
    assert not {"ku", "ej", "m"} & set(weight)
    assert weight["want"] < 0.5
    assert request.clauses >= 2
    sending = next(term for term in request.terms if term.plain == "send").clauses
    assert not sending & next(term for term in request.terms if term.plain == "hotel").clauses


@pytest.mark.parametrize("sign", [".", ";?", "\n", " ", "\t", ", ", "a-"])
def test_a_run_of_signs_is_looked_at_once_not_from_each_of_them(sign: str) -> None:
    began = time.process_time()
    for n in range(60):
        read_request(f"mail ann@x.org: find it {sign * (5_900 // len(sign))}and then send the weather to bob {n}")
    assert time.process_time() - began < 3, "it took half a second each where every sign of a run began a search"


def test_misspelt_words_are_understood(selector: Selector) -> None:
    """SELECT-TYPO-1"""
    for query, tool in (
        ("wheather forcast", "get_weather"),
        ("create an invocie for the custmoer", "create_invoice"),
        ("tranlsate this sentence", "translate_text"),
        ("reserve a table in a restuarant", "book_table"),
    ):
        assert names(selector.select(query, threshold=0))[0] == tool, query


@pytest.mark.parametrize("asked", ["email late", "late for the email lately", "an email ate"])
def test_a_word_is_no_ending_of_the_one_before_it(asked: str) -> None:
    selector = Selector([definition("create_contact", "Create a contact.", "email"), *TOOLS])
    found = selector.select(asked, threshold=0).results
    contact = next(one for one in found if one["name"] == "create_contact")
    assert list(contact["matches"]["terms"]) == ["email"]


def test_words_that_are_one_to_a_tool_are_found_apart() -> None:
    selector = Selector([definition("play_playlist", "Start a list of songs."), *TOOLS])
    found = selector.select("start my play list", threshold=0).results
    assert found[0]["name"] == "play_playlist"
    assert found[0]["matches"]["terms"]["play"]["likeness"] == 1.0


def test_a_known_word_is_never_taken_for_a_misspelt_one() -> None:
    """SELECT-TYPO-1"""
    selector = Selector([definition("shear", "Shorten hedges."), *TOOLS])
    assert selector.select("hedgs", threshold=0).results[0]["matches"]["terms"]
    found = selector.select("sheer wedges", threshold=0).results  # English words, though near to those of a tool
    assert not any({"sheer", "wedges"} & set(one["matches"]["terms"]) for one in found)

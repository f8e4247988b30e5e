"""A text is parsed once: an unchanged file is not parsed at every run, and a changed one always is."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow
from ropewalk.source.load import _MAX_PARSED, _parsed, load
from ropewalk.source.locations import Limits

CHAIN = "kind: chain\nname: c\nnodes:\n  - {{id: a, type: transform, input: '{}'}}\n"


def parses(work: Callable[[], Any]) -> int:
    """How often a YAML text is parsed meanwhile."""
    count = 0

    def profile(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        code = frame.f_code
        count += event == "call" and (code.co_qualname, Path(code.co_filename).name) == ("read", "yaml_reader.py")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_an_unchanged_file_is_parsed_once_over_all_runs(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(CHAIN.format("${1 + 41}") + f"# {tmp_path}\n")  # which no other test has parsed
    app = App("memory")

    def runs() -> None:
        for _ in range(3):
            assert asyncio.run(app.run(file))["results"] == {"a": 42}

    assert parses(runs) == 1
    assert parses(lambda: App("memory").load(file)) == 0


def test_a_change_that_leaves_time_size_and_inode_alone_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(CHAIN.format("${1}"))
    before = file.stat()
    app = App("memory")
    for number in (1, 2, 3, 2):
        with file.open("r+") as opened:
            opened.write(CHAIN.format(f"${{{number}}}"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        now = file.stat()
        assert (now.st_mtime_ns, now.st_size, now.st_ino) == (before.st_mtime_ns, before.st_size, before.st_ino)
        assert asyncio.run(app.run(file))["results"] == {"a": number}


def test_what_one_reader_does_to_the_data_is_nothing_to_the_next() -> None:
    text = "a: [1, {b: 2}]\nc: &x {d: 3}\ne: *x\n"
    expected = {"a": [1, {"b": 2}], "c": {"d": 3}, "e": {"d": 3}}
    for _ in range(3):
        document = load(text)
        data: Any = document.data
        assert data == expected
        assert (document.locate("c.d").line, document.locate("a[1].b").column) == (2, 12)
        data["a"][1]["b"] = "changed"
        data["e"]["d"] = "changed"


def test_a_text_is_read_by_the_limits_and_the_form_that_are_given() -> None:
    text = '{"a": {"b": {"c": 1}}}'
    assert load(text).data == load(text, form="yaml").data
    with pytest.raises(InvalidFlow):
        load(text, limits=Limits(nesting=2))
    with pytest.raises(InvalidFlow):
        load('{"a": 1, "a": 2}', form="json")
    assert load('{"a": 1, "a": 2}', form="json", limits=Limits(repeats=True)).data == {"a": 2}
    with pytest.raises(InvalidFlow):
        load('{"a": 1, "a": 2}', form="json")


def test_what_is_kept_is_bounded() -> None:
    for number in range(20):
        text = f"- {number}\n- " + "x" * 900_000
        assert load(text, form="yaml").data == [number, "x" * 900_000]
    kept = sum(len(text) + len(data) for (_, _, text), data in _parsed._data.items())
    assert kept == _parsed._size <= _MAX_PARSED
    large = "- " + "y" * _MAX_PARSED
    load(large, form="yaml", limits=Limits(size=2 * _MAX_PARSED))
    assert all(len(text) < _MAX_PARSED for _, _, text in _parsed._data)

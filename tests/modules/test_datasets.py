"""Datasets: what each source gives, and what is told of those that give nothing."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.lab import every_way, flow, lit, node, obj
from modules.folder import call, caller, refused, written
from ropewalk.errors import ToolError, ToolTimeout
from ropewalk.expr.ast import Ref
from ropewalk.ir import Graph
from ropewalk.ops import Call
from ropewalk.tools.directory import dataset
from ropewalk.tools.directory import dataset as query
from ropewalk.tools.directory.dataset import source_problem
from ropewalk.tools.runner import Runner
from ropewalk.tools.toolbox import Toolbox
from tools.conftest import Lab, lab
from tools.mcp_lab import forked

__all__ = ["lab"]


async def rows(root: Path, source: Any, files: dict[str, str] | None = None, **options: Any) -> Any:
    return await call(caller(root, files, **options), "dataset:", {"source": source})


async def wrong(root: Path, source: Any, files: dict[str, str] | None = None, **options: Any) -> str:
    return await refused(caller(root, files, **options), "dataset:", {"source": source})


# --- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "given"),
    [
        ("x.csv", "a,b\n1,x\n2,y\n", [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]),
        ("x.csv", "a,b\r\n1,x\r\n", [{"a": "1", "b": "x"}]),
        ("x.csv", "\ufeffa,b\n1,x", [{"a": "1", "b": "x"}]),
        ("x.csv", 'a,"b, c"\n"1 ""quoted""","two\nlines"\n', [{"a": '1 "quoted"', "b, c": "two\nlines"}]),
        ("x.csv", 'a,b\n"x\r\ny",\n', [{"a": "x\r\ny", "b": ""}]),
        ("x.csv", "a\n\n1\n\n", [{"a": "1"}]),
        ("x.csv", "a,b\n", []),
        ("x.csv", "ä,b\nü,😀\n", [{"ä": "ü", "b": "😀"}]),
        ("x.csv", "a,b\n007,1e5\nnull,true\n", [{"a": "007", "b": "1e5"}, {"a": "null", "b": "true"}]),
        ("x.json", '[{"a": 1.5}, null]', [{"a": 1.5}, None]),
        ("x.json", '\ufeff{"a": [true]}', {"a": [True]}),
        ("x.jsonl", '{"a": 1}\n\n[2]\n"\u2028"', [{"a": 1}, [2], "\u2028"]),
        ("x.ndjson", '{"a": 1}\r\n{"a": 2}\r\n', [{"a": 1}, {"a": 2}]),
        ("x.jsonl", "", []),
    ],
)
async def test_a_file_gives_its_rows(tmp_path: Path, name: str, text: str, given: Any) -> None:
    """DATASET-1"""
    (tmp_path / name).write_bytes(text.encode())
    assert await rows(tmp_path, {"file": f"./{name}"}) == given


async def test_the_format_may_be_said(tmp_path: Path) -> None:
    files = {"rows.txt": "a\n1\n", "rows.csv": '{"a": 1}'}
    assert await rows(tmp_path, {"file": "rows.txt", "format": "csv"}, files) == [{"a": "1"}]
    assert await rows(tmp_path, {"file": "rows.csv", "format": "json"}) == {"a": 1}


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("x.csv", b"a,b\n1,2\n3\n", "x.csv:3: this row has 1 field, the header has 2"),
        ("x.csv", b'a,b\n"1\n\n2",2\n1,2,3\n', "x.csv:5: this row has 3 fields, the header has 2"),
        ("x.csv", b"a,a\n1,2\n", "x.csv:1: two columns are named 'a'"),
        ("x.csv", b"\n\na,,c\n", "x.csv:3: column 2 has no name"),
        ("x.csv", b'a\n"open\n', "x.csv:2: unexpected end of data"),
        ("x.csv", b'a\n"x"y\n', "x.csv:2: ',' expected after '\"'"),
        ("x.csv", b"", "x.csv: no header row"),
        ("x.csv", b"\n \n"[:1], "x.csv: no header row"),
        ("x.csv", b"a\nx\xff\n", "x.csv:2: this is not UTF-8"),
        ("x.csv", b"a\nx\0y\n", "x.csv"),
        ("x.csv", "a\n1\n".encode("utf-16"), "x.csv:1: this is not UTF-8"),
        ("x.json", b'{"a": 1,\n "b": }', "x.json:2:7: "),
        ("x.json", b"[NaN]", "x.json:1:2: "),
        ("x.json", b"", "x.json:1:1: "),
        ("x.json", b"[" * 5000, "x.json: nested deeper than 200"),
        ("x.json", b"[" * 300 + b"]" * 300, "nested deeper than 200"),
        ("x.json", b"[12345678901234567890]", "x.json[0]: integer past 64 bits"),
        ("x.jsonl", b'{"a": 1}\n{"a": \n', "x.jsonl:2:7: "),
        ("x.txt", b"a", "x.txt: the name does not show the format; set format to csv, json or jsonl"),
    ],
)
async def test_a_file_that_is_wrong_is_told_with_its_line(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    """DATASET-1"""
    (tmp_path / name).write_bytes(data)
    told = await wrong(tmp_path, {"file": name})
    assert told.startswith(said) or said in told
    assert told.startswith(name)


async def test_files_outside_are_not_read(tmp_path: Path) -> None:
    """DATASET-5"""
    root = written(tmp_path, {"secret.csv": "a\n1\n", "home/x.csv": "a\n1\n"}) / "home"
    (root / "link.csv").symlink_to(tmp_path / "secret.csv")
    for path, said in {
        "../secret.csv": "'..' is not allowed",
        str(tmp_path / "secret.csv"): "is an absolute path",
        "link.csv": "link.csv is a link that leads out of the directory",
        "y.csv": "there is no file y.csv; did you mean x.csv?",
    }.items():
        for key in ("file", "sqlite"):
            source = {key: path, **({"query": "SELECT 1"} if key == "sqlite" else {})}
            assert said in await wrong(root, source)
            assert source_problem(root, source) is not None
            assert said in source_problem(root, source)[1]  # type: ignore[index]


def test_a_source_is_checked_without_being_read(tmp_path: Path) -> None:
    root = written(tmp_path, {"x.csv": "not, read\n\n", "x.txt": ""})
    assert source_problem(root, {"file": "x.csv"}) is None
    assert source_problem(root, {"file": {"ref": "dynamic"}}) is None
    assert source_problem(root, "$input.source") is None
    assert source_problem(root, {"http": "http://127.0.0.1:1/"}) is None
    assert source_problem(root, {"file": "x.csv", "format": "cvs"}) == (
        "format", "x.csv: unknown format 'cvs'; use csv, json, jsonl; did you mean csv?"
    )  # fmt: skip
    found = source_problem(root, {"file": "x.txt"})
    assert found is not None
    assert found[0] == "file"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, "a dataset needs exactly one of file, sqlite, http, mcp-resource"),
        ({}, "a dataset needs exactly one of"),
        ({"file": "a", "http": "b"}, "a dataset needs exactly one of"),
        ({"file": ["a"]}, "file must be a string, not ['a']"),
        ({"file": "x.csv", "sheet": "1"}, "unknown key 'sheet' next to file"),
        ({"sqlite": "x.db"}, "a sqlite source needs a query"),
        ({"mcp-resource": "x://y"}, "an mcp-resource source needs a server"),
        ({"mcp-resource": "x://y", "server": "s"}, "x://y: there is no MCP server 's'; none is configured"),
        ({"http": "file:///etc/passwd"}, "is not an http or https URL"),
    ],
)
async def test_a_source_that_is_none_is_told_so(tmp_path: Path, source: Any, said: str) -> None:
    assert said in await wrong(tmp_path, source)


async def test_ten_megabytes_are_read_and_what_is_over_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DATASET-5"""
    line = "x" * 98
    (tmp_path / "x.csv").write_text("a\n" + f"{line}\n" * 100_000)
    found = await rows(tmp_path, {"file": "x.csv"})
    assert len(found) == 100_000
    monkeypatch.setattr(dataset, "MAX_BYTES", 1_000_000)
    assert await wrong(tmp_path, {"file": "x.csv"}) == "x.csv has 9,900,002 bytes; the limit is 1,000,000 bytes"


# --- SQLite ----------------------------------------------------------------------------------------


@pytest.fixture
def base(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "x.db") as made:
        made.execute("CREATE TABLE t (n INTEGER, r REAL, s TEXT, b BLOB)")
        made.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [(1, 1.5, "x", None), (2, None, "y", b"1")])
    made.close()
    return tmp_path


async def test_a_query_gives_its_rows(base: Path) -> None:
    source = {"sqlite": "./x.db", "query": "SELECT n, r, upper(s) AS s FROM t ORDER BY n"}
    assert await rows(base, source) == [{"n": 1, "r": 1.5, "s": "X"}, {"n": 2, "r": None, "s": "Y"}]
    assert await rows(base, {"sqlite": "x.db", "query": "SELECT n FROM t WHERE 0"}) == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM missing", "x.db: no such table: missing"),
        ("SELECT", "x.db: incomplete input"),
        ("SELECT b FROM t", "x.db: column b contains a blob; select hex(b)"),
        ("SELECT n, n FROM t", "x.db: two columns of the query are named 'n'"),
        ("SELECT 9e999 AS n", "x.db[0].n: inf is not JSON"),
        ("DELETE FROM t", "x.db: the query may only read this file"),
        ("DROP TABLE t", "may only read"),
        ("CREATE TABLE u (x)", "may only read"),
        ("PRAGMA writable_schema = 1", "may only read"),
        ("ATTACH '{outside}' AS o", "may only read"),
        ("VACUUM INTO '{outside}.copy'", "x.db: "),
        ("SELECT load_extension('{outside}')", "x.db: "),
        ("SELECT 1 AS a; SELECT 2 AS a", "x.db: the query has several statements"),
        ("SELECT 1 AS a; DELETE FROM t", "x.db: "),
    ],
)
async def test_a_query_that_is_wrong_or_does_more_than_read_is_refused(
    base: Path, tmp_path_factory: pytest.TempPathFactory, sql: str, said: str
) -> None:
    """DATASET-2"""
    outside = tmp_path_factory.mktemp("outside") / "other.db"
    with sqlite3.connect(outside) as made:
        made.execute("CREATE TABLE o (x)")
    made.close()
    before = (base / "x.db").read_bytes()
    assert said in await wrong(base, {"sqlite": "x.db", "query": sql.format(outside=outside)})
    assert (base / "x.db").read_bytes() == before
    assert [file.name for file in outside.parent.iterdir()] == ["other.db"]


async def test_a_file_that_is_no_database_is_told_so(tmp_path: Path) -> None:
    said = await wrong(tmp_path, {"sqlite": "x.db", "query": "SELECT 1 FROM t"}, {"x.db": "not a database" * 100})
    assert said == "x.db: file is not a database"


async def test_a_query_without_end_is_stopped_at_its_time(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = asyncio.Event()
    loop, real = asyncio.get_running_loop(), query.Query.rows

    def watched(self: query.Query) -> Any:
        try:
            return real(self)
        finally:
            loop.call_soon_threadsafe(ended.set)

    monkeypatch.setattr(query.Query, "rows", watched)
    endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) AS n FROM c"
    tools = caller(base, timeout=0.3)
    with pytest.raises(ToolTimeout):
        await call(tools, "dataset:", {"source": {"sqlite": "x.db", "query": endless}})
    await ended.wait()


async def test_rows_past_the_limit_are_refused(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MAX_BYTES", 1000)
    many = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"
    assert "x.db: the rows have more than 1,000 bytes" in await wrong(base, {"sqlite": "x.db", "query": many})


# --- HTTP ------------------------------------------------------------------------------------------


async def test_an_address_gives_its_rows(tmp_path: Path, lab: Lab) -> None:
    """DATASET-3"""
    lab.on("/rows", [{"a": 1}])
    lab.on("/rows.csv", b"a\n1\n", kind="text/plain")
    lab.on("/typed", b"a\n2\n", kind="text/csv; charset=utf-8")
    lab.on("/lines", b'{"a": 1}\n{"a": 2}\n', kind="application/octet-stream")
    assert await rows(tmp_path, {"http": f"{lab.url}/rows"}) == [{"a": 1}]
    assert await rows(tmp_path, {"http": f"{lab.url}/rows.csv?x=1"}) == [{"a": "1"}]
    assert await rows(tmp_path, {"http": f"{lab.url}/typed"}) == [{"a": "2"}]
    assert await rows(tmp_path, {"http": f"{lab.url}/lines", "format": "jsonl"}) == [{"a": 1}, {"a": 2}]


async def test_an_address_that_gives_none_is_told_with_its_reason(
    tmp_path: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.on("/gone", {"error": "not here"}, status=404)
    lab.on("/busy", b"later", status=503)
    lab.on("/moved", b"", status=302, Location="http://127.0.0.1:1/")
    lab.on("/bad", b"{", kind="application/json")
    lab.on("/what", b"?", kind="application/octet-stream")
    assert "/gone: HTTP 404" in await wrong(tmp_path, {"http": f"{lab.url}/gone"})
    assert "redirects are not followed" in await wrong(tmp_path, {"http": f"{lab.url}/moved"})
    assert "/bad:1:2: " in await wrong(tmp_path, {"http": f"{lab.url}/bad"})
    assert "does not show the format" in await wrong(tmp_path, {"http": f"{lab.url}/what"})
    assert "ConnectError" in await wrong(tmp_path, {"http": "http://127.0.0.1:1/"})
    with pytest.raises(ToolError) as caught:
        await rows(tmp_path, {"http": f"{lab.url}/busy"})
    assert caught.value.retryable
    with pytest.raises(ToolError) as caught:
        await rows(tmp_path, {"http": f"{lab.url}/gone"})
    assert not caught.value.retryable


# --- resources of MCP servers --------------------------------------------------------------------------


@pytest.fixture
def box() -> Iterator[Toolbox]:
    return Toolbox(mcp={"odd": forked("odd.py")})


async def test_a_resource_gives_its_rows_or_its_text(tmp_path: Path, box: Toolbox) -> None:
    """DATASET-4"""
    tools = caller(tmp_path, base=Runner(box))

    async def read(uri: str, **more: str) -> Any:
        return await call(tools, "dataset:", {"source": {"mcp-resource": uri, "server": "odd", **more}})

    async def told(uri: str, server: str = "odd") -> str:
        return await refused(tools, "dataset:", {"source": {"mcp-resource": uri, "server": server}})

    try:
        assert await read("shelf://rows.csv") == [{"a": "1", "b": "2"}]
        assert await read("shelf://rows") == [{"a": 1}]
        assert await read("shelf://note") == "some text"
        assert await read("shelf://two") == ["one", 2]
        assert await read("shelf://none") == []
        assert "shelf://bad:1:2: " in await told("shelf://bad")
        assert "shelf://picture: the resource is binary" in await told("shelf://picture")
        assert "shelf://nothing: MCP server 'odd': no resource shelf://nothing" in await told("shelf://nothing")
        assert "did you mean 'odd'?" in await told("shelf://note", "odds")
        with pytest.raises(TimeoutError, match=r"resource 'shelf://slow' gave no answer within 0\.2 s"):
            await box.mcp.read_resource("odd", "shelf://slow", timeout=0.2)
        assert await read("shelf://note") == "some text"
    finally:
        await box.close()


# --- in a run --------------------------------------------------------------------------------------


@every_way
async def test_a_dataset_is_a_node_of_a_run(tmp_path: Path, way: Any) -> None:
    tools = caller(tmp_path, {"rows.csv": "a\n1\n"})
    step = node(
        "load",
        Call(tool="dataset:", args=obj(source=lit({"file": "rows.csv"}))),
        writes=obj(rows=Ref("out", ("load",))),
    )
    body = Graph(nodes=(step,), ordered=True, result=Ref("state", ("rows",)))
    assert (await way(flow(body, state={"rows": []}), tools))["value"] == [{"a": "1"}]
    (tmp_path / "rows.csv").write_text(json.dumps([1]))
    ended = await way(flow(body, state={"rows": []}), tools)
    assert ended["value"] == []
    (tmp_path / "rows.csv").unlink()
    ended = await way(flow(body, state={"rows": []}), tools)
    assert ended["error"] == "NodeFailed: load: there is no file rows.csv"

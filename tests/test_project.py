"""From a `ropewalk.toml` to an app: what was written reaches the part it is for."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ropewalk.app.app import App
from ropewalk.errors import ConfigError, InvalidFlow

ODD = Path(__file__).parent / "mcp_servers" / "odd.py"


def project(directory: Path, text: str) -> Path:
    (directory / "ropewalk.toml").write_text(text, encoding="utf-8")
    return directory


def test_a_variable_that_reads_like_another_reaches_the_server_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTER", "${INNER}")
    monkeypatch.setenv("INNER", "secret")
    where = project(
        tmp_path,
        f"""
[mcp.odd]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(ODD))}]
env = {{REGION = "${{OUTER}}"}}
connect_timeout = 20
mode = "legacy"
""",
    )

    async def case() -> Any:
        async with App.open(where, store="memory") as app:
            await app.connect()
            assert app.toolbox.failures == {}
            config = app.toolbox.mcp._link("odd").config
            assert (config.connect_timeout, config.mode) == (20, "legacy")
            return await app.call_tool("odd:environment")

    assert asyncio.run(case())["REGION"] == "${INNER}"


def test_a_server_that_cannot_be_used_is_named_and_stops_no_other(tmp_path: Path) -> None:
    where = project(
        tmp_path,
        """
[mcp.web]
url = "http://127.0.0.1:1/mcp"
[mcp.ftp]
url = "ftp://127.0.0.1/mcp"
[mcp.mixed]
command = "x"
headers = {A = "b"}
""",
    )
    app = App.open(where, store="memory")
    assert set(app.toolbox.failures) == {"ftp", "mixed"}
    assert "headers cannot be combined with command" in app.toolbox.failures["mixed"]
    assert app.toolbox.mcp.names == ["web"]


@pytest.mark.parametrize(("said", "level"), [("", 1), ("sync = 'normal'", 1), ("sync = 'full'", 2)])
def test_how_safely_the_store_writes_is_as_configured(tmp_path: Path, said: str, level: int) -> None:
    app = App.open(project(tmp_path, f"[store]\nurl = 'runs.db'\n{said}\n"))
    assert app.store._writer.run(lambda connection: connection.pragma("synchronous")) == level
    app.store.close()


SMALL = """
kind: chain
name: &name small
description: *name
nodes:
  - {id: one, type: delay, delay: 0}
  - {id: two, type: loop, maxIterations: 1, nodes: [{id: leaf, type: delay, delay: 0}]}
"""


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ("nodes = 2", "more than 2 nodes"),
        ("nesting = 4", "nested deeper than 4"),
        ("file_size = 100", "larger than 100 bytes"),
        ("aliases = 1", None),
        ("nodes = 3\nnesting = 6\nfile_size = 200", None),
    ],
)
def test_the_limits_of_the_configuration_hold_for_every_definition(
    tmp_path: Path, limit: str, says: str | None
) -> None:
    (tmp_path / "chain.yaml").write_text(SMALL)
    app = App.open(project(tmp_path, f"[limits]\n{limit}\n"), store="memory")

    def found() -> str:
        try:
            return "\n".join(map(str, app.check(app.load(tmp_path / "chain.yaml")).problems))
        except InvalidFlow as error:
            return str(error)

    assert says in found() if says else found() == ""


def test_more_aliases_than_allowed_are_refused_and_the_tool_timeout_is_as_configured(tmp_path: Path) -> None:
    app = App.open(project(tmp_path, "[limits]\naliases = 1\ntool_timeout = 2.5\n"), store="memory")
    with pytest.raises(InvalidFlow, match="more than 1 aliases"):
        app.load("a: &a 1\nb: *a\nc: *a\n")
    assert app.runner._rules.timeout == 2.5


def test_regions_of_a_definition_without_a_text_are_counted_too(tmp_path: Path) -> None:
    app = App.open(project(tmp_path, "[limits]\nnesting = 2\n"), store="memory")
    inner = {"id": "c", "type": "delay", "delay": 0}
    for id in "ba":
        inner = {"id": id, "type": "loop", "maxIterations": 1, "nodes": [inner]}
    with pytest.raises(InvalidFlow, match="nested deeper than 2"):
        app.chains.core.create_chain({"nodes": [inner]})


def test_two_tools_of_one_name_in_modules_are_told_at_the_line_of_the_second(tmp_path: Path) -> None:
    one = "from ropewalk import tool\n\n\n@tool\ndef f(x: {}) -> int:\n    return 1\n"
    (tmp_path / "rw_first_f.py").write_text(one.format("int"), encoding="utf-8")
    (tmp_path / "rw_second_f.py").write_text("import json\n" + one.format("str"), encoding="utf-8")
    where = project(tmp_path, '[tools]\nmodules = ["rw_first_f", "rw_second_f"]\n')
    with pytest.raises(ConfigError, match=r"rw_second_f\.py:5:1: tool 'f' is registered with another definition"):
        App.open(where, store="memory")


DOCUMENT = """openapi: 3.0.0
info: {title: t, version: "1"}
servers: [{url: "http://127.0.0.1:9/{part}", variables: {part: {default: a}}}]
paths: {/a: {get: {operationId: one, responses: {"200": {description: ok}}}}}
"""
REMOTE = "http://127.0.0.1:9/x.yaml"
SETTINGS = [
    ("providers", 'openapi = "a.yaml"\ninclude = [\n "one",\n "nope",\n]', 5),
    ("providers", 'openapi = "a.yaml"\nexclude = ["nope"]', 3),
    ("providers", 'openapi = "a.yaml"\nread_only = ["nope"]', 3),
    ("providers", 'openapi = "a.yaml"\nrename = {nope = "x"}', 3),
    ("providers", 'openapi = "a.yaml"\nrename = {one = "x y"}', 3),
    ("providers", 'openapi = "a.yaml"\n[providers.s.rename]\nnope = "x"', 4),
    ("providers", 'openapi = "a.yaml"\nserver_variables = {nope = "x"}', 3),
    ("providers", 'openapi = "a.yaml"\ncredentials = {nope = "x"}', 3),
    ("providers", 'timeout = 3\nopenapi = "gone.yaml"', 3),
    ("providers", f'timeout = 3\nopenapi = "{REMOTE}"', 3),
    ("providers", 'openapi = "a.yaml"\nurl = "odd"', 3),
    ("providers", 'url = "http://x"\nheaders = {"a b" = "x"}', 3),
    ("providers", 'url = "http://x"\ntools = [{name = "a b"}]', 3),
    ("providers", 'url = "http://x"\nheaders = {A = "${NOT_SET}"}', 3),
    ("mcp", 'timeout = 3\nurl = "odd"', 3),
    ("mcp", 'timeout = 3\nurl = "http://127.0.0.1:9/"', 3),
    ("mcp", 'timeout = 3\ncommand = "/no/such/program"', 3),
    ("mcp", 'url = "http://x"\nauth = "odd"', 3),
    ("mcp", 'command = "x"\nenv = {"A=B" = "x"}', 3),
    ("mcp", 'command = "x"\nheaders = {A = "x"}', 3),
    ("mcp", 'command = "x"\nargs = ["${NOT_SET}"]', 3),
    ("backends", 'kind = "odd"', 1),
]


async def reasons(where: Path) -> dict[str, str]:
    async with App.open(where, store="memory") as app:
        await app.connect()
        return dict(app.toolbox.failures)


@pytest.mark.parametrize(("section", "text", "line"), SETTINGS)
def test_each_wrong_setting_of_a_source_begins_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, text: str, line: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(DOCUMENT, encoding="utf-8")
    project(tmp_path, f"[{section}.s]\n{text}\n")
    [reason] = asyncio.run(reasons(tmp_path)).values()
    assert reason.startswith(f"ropewalk.toml:{line}:"), reason
    assert "x y" not in text or "\n" not in reason, "a line may hold a secret"


@pytest.mark.parametrize(
    "server",
    [
        {"url": "odd"},
        {"url": "http://127.0.0.1:9/"},
        {"command": "/no/such/program"},
        {"command": "x", "args": ["${NOT_SET}"]},
        {"command": "x", "disabledTools": "a,b"},
        {"url": "http://x", "headers": {"a b": "x"}},
    ],
)
@pytest.mark.parametrize("is_agreed", [True, False])
def test_each_wrong_setting_of_a_servers_file_begins_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: dict[str, Any], is_agreed: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROPEWALK_TRUST", "all" if is_agreed else "")
    text = json.dumps({"mcpServers": {"s": server}}, indent=1)
    (tmp_path / ".mcp.json").write_text(text, encoding="utf-8")
    [reason] = asyncio.run(reasons(tmp_path)).values()
    *_, key = server
    line = next(n for n, line in enumerate(text.splitlines(), 1) if f'"{key}"' in line)
    assert reason.startswith((f".mcp.json:{line}:", f".mcp.json:{line + 1}:") if is_agreed else ".mcp.json:"), reason

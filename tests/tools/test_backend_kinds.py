"""A kind of backend is registered in one place, and works from a document, ropewalk.toml, the CLI and a worker."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fork_server
from ropewalk import App, Tool, ToolBackend, Toolbox
from ropewalk.config.project import read_config
from ropewalk.errors import ConfigError, ExecutionFailed, InvalidTool, NotFound
from ropewalk.tools.backends import kinds
from ropewalk.tools.backends.kinds import BackendKind, backend_kind, register_backend, registered_kinds
from ropewalk.tools.runner import Runner, select_backend
from ropewalk.tools.tool import RunResult, backend_from_dict, backend_to_dict

PROJECT = Path(__file__).parents[2]
ECHO = '''
"""A kind of backend in one file: it gives back what it gets, in the words of its settings."""

from ropewalk.tools.backends.kinds import BackendKind, register_backend
from ropewalk.tools.tool import Tool

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class Echo:
    def __init__(self, name, settings):
        self.greeting = settings.get("greeting", "")

    def tools(self):
        return [Tool("say", "Give the text back.", TEXT), Tool("fail", "Fail.", TEXT)]

    def call_tool(self, tool_name, args, *, key=None):
        if tool_name == "fail":
            raise ValueError("nobody is there")
        return {"said": self.greeting + args["text"], "has_key": key is not None}


register_backend(
    BackendKind(
        name="echo",
        summary="Gives back what it gets.",
        open=Echo,
        settings={
            "type": "object",
            "properties": {"greeting": {"type": "string"}},
            "additionalProperties": False,
        },
        annotations={"readOnlyHint": True},
    )
)
'''
TOML = '[tools]\nmodules = ["echo_backend"]\n[backends.parrot]\nkind = "echo"\ngreeting = "Hello, "\n'
CHAIN = {
    "kind": "chain",
    "name": "greet",
    "nodes": [{"id": "greet", "type": "tool", "tool": "parrot:say", "params": {"text": "${input.who}"}}],
}


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """The kinds as they were."""
    before = dict(kinds._kinds)
    yield
    kinds._kinds.clear()
    kinds._kinds.update(before)
    sys.modules.pop("echo_backend", None)


class Source:
    """A source whose tools are given, and fetched if `later`."""

    def __init__(self, *tools: Tool) -> None:
        self.listed, self.calls, self.closed = tools, list[Any](), False

    def tools(self) -> Any:
        return self.listed

    async def call_tool(self, tool_name: str, args: dict[str, Any], *, timeout: float | None = None) -> Any:
        self.calls.append((tool_name, args, timeout))
        return args

    async def close(self) -> None:
        self.closed = True


class Fetched(Source):
    async def tools(self) -> Any:
        await asyncio.sleep(0)
        if not self.listed:
            raise ConnectionError("nobody answers")
        return self.listed


def kind_of(source: Source, name: str = "pigeon", **more: Any) -> BackendKind:
    return register_backend(BackendKind(name=name, summary="By pigeon.", open=lambda n, s: source, **more))


def project(folder: Path, toml: str = TOML) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "echo_backend.py").write_text(ECHO)
    (folder / "ropewalk.toml").write_text(toml)
    (folder / "greet.json").write_text(json.dumps(CHAIN))
    return folder


def test_a_document_uses_a_backend_that_one_file_adds(tmp_path: Path) -> None:
    async def greet() -> Any:
        async with App.open(project(tmp_path), store="memory") as app:
            assert app.toolbox.failures == {}
            tool = app.toolbox.get("parrot:say")
            assert tool is not None
            assert not tool.has_side_effects, "the kind's annotations count"
            outcome = await app.run(tmp_path / "greet.json", {"who": "Ada"})
            return outcome.to_dict()["results"]

    assert asyncio.run(greet()) == {"greet": {"said": "Hello, Ada", "has_key": True}}


def test_the_command_line_lists_calls_and_checks_it(tmp_path: Path) -> None:
    folder = project(tmp_path)

    def ropewalk(*words: str) -> tuple[int, str]:
        done = fork_server.run(
            [sys.executable, "-m", "ropewalk", *words], cwd=folder, capture_output=True, text=True, timeout=60
        )
        return done.returncode, done.stdout + done.stderr

    assert "parrot:say" in ropewalk("tools", "ls")[1]
    code, said = ropewalk("tools", "call", "parrot:say", "text=Bob")
    assert code == 0
    assert "Hello, Bob" in said
    code, said = ropewalk("run", "greet.json", "--input", '{"who": "Cy"}', "--store", "memory")
    assert code == 0
    assert "Hello, Cy" in said
    (folder / "ropewalk.toml").write_text(TOML.replace('"Hello, "', "5"))
    code, said = ropewalk("doctor")
    assert code != 0
    assert "backend parrot" in said
    assert "ropewalk.toml:5:1: backends.parrot.greeting" in said, said


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ("[backends.x]\n", 'ropewalk.toml:1:2: [backends.x] kind: must be text, such as kind = "shell"'),
        ("[backends.x]\nkind = 5\n", "ropewalk.toml:2:1: [backends.x] kind: must be text"),
        ("[backends]\nx = 1\n", "backends.x must be a table"),
        ('[backends.x]\nkind = "echo"\nenabled = 1\n', "enabled: must be true or false"),
        ('[mcp.x]\ncommand = "x"\n[backends.x]\nkind = "echo"\n', "has the name of [mcp.x]"),
    ],
)
def test_tables_that_are_wrong_are_refused_with_their_line(tmp_path: Path, toml: str, complaint: str) -> None:
    (tmp_path / "ropewalk.toml").write_text(toml)
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("toml", "failure"),
    [
        ('[backends.x]\nkind = "ecko"\n', "backend kind 'ecko' is not one of local, provider, mcp, echo; did you mean"),
        ('[backends.x]\nkind = "mcp"\n', "a mcp backend is configured in [mcp], not in [backends.x]"),
        ('[backends.x]\nkind = "echo"\nvoice = "low"\n', "ropewalk.toml:5:1: backends.x.voice"),
        (
            '[backends.x]\nkind = "echo"\ngreeting = "${UNSET_GREETING}"\n',
            "ropewalk.toml:5:1: environment variable UNSET_GREETING is not set",
        ),
    ],
)
def test_one_that_cannot_be_opened_stops_no_other(tmp_path: Path, toml: str, failure: str) -> None:
    both = '[tools]\nmodules = ["echo_backend"]\n' + toml + '[backends.parrot]\nkind = "echo"\n'
    app = App.open(project(tmp_path, both), store="memory")
    assert failure in app.toolbox.failures["x"]
    with pytest.raises(NotFound, match="no tool 'x:say': x cannot be used: "):
        asyncio.run(app.toolbox.find("x:say"))
    assert app.toolbox.get("parrot:say") is not None


def test_variables_are_filled_in_and_disabled_tables_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREETING", "Moin ")
    toml = '[backends.a]\nkind = "echo"\ngreeting = "${GREETING}"\n[backends.b]\nkind = "echo"\nenabled = false\n'
    (tmp_path / "ropewalk.toml").write_text(toml)
    config = read_config(tmp_path)
    assert {name: source.settings for name, source in config.backends.items()} == {"a": {"greeting": "Moin "}}


def test_only_the_sources_with_the_prefixes_of_the_tools_are_asked() -> None:
    near, far = Fetched(Tool("fly", "Fly.", {"type": "object"})), Fetched()
    kind_of(near)
    kind_of(far, "owl")

    async def fly() -> None:
        async with Toolbox() as toolbox:
            toolbox.add_source("pigeon", "loft")
            toolbox.add_source("owl", "barn")
            await toolbox.connect_for(["loft:fly", "unknown:x", "fly"])
            assert toolbox.is_listed("loft")
            assert toolbox.failures == {}
            await toolbox.connect_for(["barn:x"])
            assert toolbox.failures == {"barn": "nobody answers"}

    asyncio.run(fly())


def test_tools_that_are_fetched_come_when_the_toolbox_connects() -> None:
    source = Fetched(Tool("fly", "Fly.", {"type": "object"}, annotations={"timeout": 5}))
    kind_of(source)

    async def fly() -> None:
        async with Toolbox() as toolbox:
            toolbox.add_source("pigeon", "loft")
            assert toolbox.is_missing("loft:fly")
            assert not toolbox.is_listed("loft")
            assert "loft" in toolbox.spaces
            await toolbox.connect()
            result = await Runner(toolbox).run("loft:fly", {"to": "Rome"})
            assert toolbox.is_listed("loft")
            assert result.structured == {"to": "Rome"}
            assert result.backend == ToolBackend("pigeon", source="loft", tool_id="fly")
            assert source.calls == [("fly", {"to": "Rome"}, 5)]
            assert RunResult.from_dict(result.to_dict()).backend == result.backend

    async def lost() -> None:
        kind_of(Fetched(), "owl")
        async with Toolbox() as toolbox:
            toolbox.add_source("owl", "barn")
            await toolbox.connect()
            assert toolbox.failures == {"barn": "nobody answers"}

    asyncio.run(fly())
    asyncio.run(lost())
    assert source.closed


def test_a_failure_names_the_kind() -> None:
    class Broken(Source):
        async def call_tool(self, tool_name: str, args: dict[str, Any], **_: Any) -> Any:
            raise OSError("the pigeon is lost")

    kind_of(Broken(Tool("fly", "Fly.", {"type": "object"})))
    toolbox = Toolbox()
    toolbox.add_source("pigeon", "loft")
    with pytest.raises(ExecutionFailed, match=r"loft:fly \[[a-z]+\]: the pigeon is lost"):
        asyncio.run(Runner(toolbox).run("loft:fly", {}))


def test_hints_of_a_kind_that_is_not_trusted_do_not_count() -> None:
    claims = {"readOnlyHint": True, "destructiveHint": True}
    kind_of(Source(Tool("fly", "Fly.", {"type": "object"}, annotations=claims)), trusts_hints=False)
    toolbox = Toolbox()
    toolbox.add_source("pigeon", "loft")
    tool = toolbox.get("loft:fly")
    assert tool is not None
    assert tool.annotations == {"destructiveHint": True}
    assert tool.has_side_effects


def test_runs_that_workers_cannot_make_are_refused() -> None:
    from ropewalk.app.preflight import check_workers_can_call

    kind_of(Source(Tool("say", "Say.", {"type": "object"})), reopened_by_workers=False)
    app = App("memory")
    app.toolbox.add_source("pigeon", "parrot")
    app.context.distributed, loaded = True, app.load(CHAIN)
    flow = loaded.flow
    with pytest.raises(ConfigError, match="workers cannot call parrot:say: a pigeon backend exists only"):
        asyncio.run(app.jobs.prepare(loaded))
    app.toolbox.register(Tool("say", "Say.", {"type": "object"}, namespace="parrot"), lambda **args: args)
    check_workers_can_call(flow, app.toolbox)


@pytest.mark.parametrize("kind", ["local", "provider", "mcp", "pigeon"])
def test_each_kind_is_preferred_written_and_read_by_its_registration(kind: str) -> None:
    kind_of(Source())
    known = backend_kind(kind)
    backend = ToolBackend(kind, **dict.fromkeys(known.fields.values(), "x"))
    assert backend_from_dict(backend_to_dict(backend)) == backend
    assert backend_to_dict(backend) == {"kind": kind, kind: dict.fromkeys(known.fields, "x")}
    for needed in known.required:
        with pytest.raises(InvalidTool, match=f"a {kind} backend needs {needed}"):
            ToolBackend(kind, **{a: "x" for a in known.fields.values() if a != needed})
    fields = dict.fromkeys(("name", "server_name", "provider_id", "tool_id", "source"), "x")
    others = [ToolBackend(other, **fields) for other in registered_kinds()]
    assert select_backend([*reversed(others)]).kind == "local"


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("pigeon", "needs a BackendKind, not str"),
        (BackendKind(name="Pigeon", summary="", open=Source), "the name must have 1 to 64 characters"),
        (BackendKind(name="mcp", summary="", open=Source), "'mcp' is built in"),
        (BackendKind(name="pigeon", summary=""), "needs `open`"),
    ],
)
def test_kinds_that_cannot_be_registered_are_refused(kind: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        register_backend(kind)


@pytest.mark.parametrize(
    ("opened", "complaint"),
    [
        (object(), "has no method tools"),
        (SimpleNamespace(tools=list), "has no method call_tool"),
        (Source("fly"), "its tools must be Tools, not str"),  # type: ignore[arg-type]
    ],
)
def test_what_a_kind_opens_must_be_a_source(opened: Any, complaint: str) -> None:
    kind_of(opened)
    with pytest.raises((ConfigError, InvalidTool), match=re.escape(complaint)):
        Toolbox().add_source("pigeon", "loft")


def test_an_installed_package_names_its_kind_as_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raven_backend.py").write_text(
        ECHO.replace("register_backend(\n", "KIND = (\n").replace('"echo"', '"raven"')
    )
    info = tmp_path / "raven_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: raven-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ropewalk.backends]\nraven = raven_backend:KIND\n")
    monkeypatch.syspath_prepend(tmp_path)
    toolbox = Toolbox()
    toolbox.add_source("raven", "tower", {"greeting": "Caw "})
    result = asyncio.run(Runner(toolbox).run("tower:say", {"text": "now"}))
    assert result.structured == {"said": "Caw now", "has_key": False}


def test_the_page_about_tools_has_a_row_for_each_built_in_kind() -> None:
    text = (PROJECT / "docs" / "toolbox-reference.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| `\[(\w+)", text, re.MULTILINE)
    built_in = [kind for kind in map(backend_kind, registered_kinds()) if kind.is_built_in]
    assert rows == [(kind.name, kind.summary, kind.section) for kind in built_in]


def test_a_worker_opens_the_backend_again(tmp_path: Path, postgres_url: str) -> None:
    from workers.crew import Crew

    crew = Crew(tmp_path / "project", postgres_url, settings='[backends.parrot]\nkind = "echo"\ngreeting = "Hello, "\n')
    try:
        tools = crew.folder / "tools.py"
        tools.write_text(tools.read_text() + "\nimport echo_backend\n")
        (crew.folder / "echo_backend.py").write_text(ECHO)
        crew.hire()
        run_id = crew.submit(crew.write("greet.json", json.dumps(CHAIN)), input={"who": "Dee"})
        assert crew.until_ended(run_id) == "completed"
        row = crew.row(run_id)
        assert row is not None
        assert "Hello, Dee" in json.dumps(row.result)
    finally:
        crew.dismiss()

"""A server uses changed files in the next run. Runs in progress keep theirs, and a wrong file its last good version."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from patience import BOUND, until
from ropewalk import App
from ropewalk.app.project_versions import ProjectVersions
from ropewalk.app.reload import Reload, Reloader
from ropewalk.doors.cli import dev
from ropewalk.doors.cli.dev import matters
from ropewalk.doors.http.flow_files import FlowFiles
from ropewalk.doors.http.site import make_site
from ropewalk.tools.source import Source

pytestmark = [pytest.mark.process, pytest.mark.anyio]

CONFIG = '[tools]\nmodules = ["reload_words"]\n'
WORDS = """
from parts import helper
from ropewalk import tool

@tool
def say(text: str) -> str:
    '''Say a word.'''
    return f"{helper.WORD} {text}"
"""
SAY = {"id": "say", "type": "tool", "tool": "say", "params": {"text": "x"}}
PLAN = """
from ropewalk import plan, tool

@tool
def double(n: int) -> int:
    '''Double a number.'''
    return 2 * n

@plan
async def twice(n: int) -> int:
    return await double(n=n)
"""


def chain(*nodes: Any, **fields: Any) -> str:
    return json.dumps({"kind": "chain", "name": "talk", "mode": "sequential", "nodes": nodes or [SAY], **fields})


FILES = {"ropewalk.toml": CONFIG, "parts/helper.py": 'WORD = "old"', "reload_words.py": WORDS, "talk.json": chain()}
EMPTY: Mapping[str, str] = {}


class Project:
    """A project in a folder, and a server in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, "memory"
        self.client: Any = None
        self.late: list[Reload] = []
        self.reloader: Any = None
        self.versions: Any = None

    def write(self, files: Mapping[str, str | None]) -> list[Path]:
        """Write files by their names, and delete those without content."""
        for name, content in files.items():
            if content is None:
                (self.folder / name).unlink()
            else:
                (self.folder / name).parent.mkdir(exist_ok=True)
                (self.folder / name).write_text(content)
        return [self.folder / name for name in files]

    async def change(self, files: Mapping[str, str | None]) -> Reload:
        """Change files and report the change."""
        reload: Reload = await self.reloader.reload(self.write(files))
        return reload

    @asynccontextmanager
    async def served(self, files: Mapping[str, str] = EMPTY) -> AsyncIterator[Project]:
        self.write({**FILES, **files})
        async with App.open(self.folder, store=self.store) as app:
            self.versions = ProjectVersions(app)
            open_again = lambda: App.open(self.folder, store=self.store)  # noqa: E731
            self.reloader = Reloader(self.versions, open_again, on_late=self.late.append)
            files_of = lambda app: FlowFiles(app, self.folder)  # noqa: E731
            transport = httpx2.ASGITransport(make_site(self.versions, None, files_of=files_of))
            try:
                async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as self.client:
                    await self.reloader.start()
                    yield self
            finally:
                await self.versions.close()

    async def run(self, id: str = "talk.json", **fields: Any) -> Any:
        """Run a definition of the project, and return its result, or the error."""
        body = {"definition": {"kind": "file", "id": id}, "wait": 60, **fields}
        answer = (await self.client.post("/api/runs", json=body)).json()
        return answer.get("result", answer)

    async def say(self) -> Any:
        """Return what the tool of the project says in a new run."""
        return (await self.run(document=json.loads(chain()), definition=None))["say"]

    async def listed(self) -> tuple[list[str], list[str]]:
        """Return the ids of the listed definitions, and the problems as `file:line`."""
        answer = (await self.client.get("/api/definitions")).json()
        problems = [f"{each['file']}:{each['line']}" for each in answer["problems"]]
        return [each["id"] for each in answer["definitions"]], problems


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterable[Project]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = set(sys.modules)
    yield Project(tmp_path)
    for name in set(sys.modules) & {"reload_words", "parts", "parts.helper"} - before:
        del sys.modules[name]


ASK = {"id": "ask", "type": "wait", "approval": "Go on?"}
EVENT = {"id": "ask", "type": "wait", "event": "go"}


@pytest.mark.parametrize(
    ("wait", "answer"), [(ASK, ("approve", {})), (EVENT, ("send", {"event": "go"}))], ids=["approval", "event"]
)
@pytest.mark.parametrize("changed", ["parts/helper.py", "reload_words.py"])
async def test_a_run_in_progress_keeps_its_tools(project: Project, wait: Any, answer: Any, changed: str) -> None:
    new = {"parts/helper.py": 'WORD = "new"', "reload_words.py": WORDS.replace("{helper.WORD}", "new")}[changed]
    async with project.served({"talk.json": chain(wait, SAY)}):
        await project.client.post("/api/runs", json={"definition": {"kind": "file", "id": "talk.json"}, "runId": "r"})
        reload = await project.change({changed: new})
        assert reload.changed == [changed]
        assert not reload.problems
        assert await project.say() == "new x"
        verb, body = answer
        await project.client.post(f"/api/runs/r/{verb}", json=body)
        await until(lambda: project.versions.app.runs.row("r").status == "completed")
        assert (await project.client.get("/api/runs/r")).json()["result"]["say"] == "old x"


async def test_an_earlier_version_is_closed_and_forgotten_when_its_last_run_has_ended(project: Project) -> None:
    project.store = "runs.db"  # a store in memory keeps the objects of its runs
    async with project.served({"talk.json": chain(ASK, SAY)}):
        closed = asyncio.Event()

        class Closing(Source):
            async def close(self) -> None:
                closed.set()

        await project.change({"parts/helper.py": 'WORD = "second"'})
        second = weakref.ref(project.versions.app)
        second().toolbox._sources += (Closing(),)
        await project.client.post("/api/runs", json={"definition": {"kind": "file", "id": "talk.json"}, "runId": "r"})
        await project.change({"parts/helper.py": 'WORD = "third"'})
        assert await project.say() == "third x"
        assert not closed.is_set()
        await project.client.post("/api/runs/r/approve", json={})
        await closed.wait()
        await until(lambda: gc.collect() >= 0 and second() is None)


@pytest.mark.parametrize(
    ("name", "wrong", "place"),
    [
        ("reload_words.py", WORDS + "\ndef broken(:\n", "reload_words.py:10"),
        ("reload_words.py", "from ropewalk import nothing_of_this_name\n", "reload_words.py:1"),
        ("parts/helper.py", "\n1 / 0\n", "parts/helper.py:2"),
        ("ropewalk.toml", CONFIG + "module = 1\n", "ropewalk.toml:3"),
        ("ropewalk.toml", CONFIG + "[limits\n", "ropewalk.toml:3"),
        ("ropewalk.toml", CONFIG + '[schedules.s]\nflow = "talk.json"\ncron = "61 * * * *"\n', "ropewalk.toml:5"),
        ("talk.json", '{\n"kind": "chain",,', "talk.json:2"),
        ("talk.json", chain({**SAY, "tool": "shout"}).replace('"nodes"', '\n"nodes"'), "talk.json:2"),
    ],
)
async def test_a_wrong_file_is_shown_and_its_last_good_version_stays(
    project: Project, name: str, wrong: str, place: str
) -> None:
    async with project.served():
        right = (project.folder / name).read_text()
        reload = await project.change({name: wrong})
        assert not reload.changed
        assert await project.listed() == (["talk.json"], [place])
        assert (await project.run())["say"] == "old x"
        reload = await project.change({name: right})
        assert await project.listed() == (["talk.json"], [])
        assert (await project.run())["say"] == "old x"
        # Mended in another way: the change counts.
        await project.change({name: wrong})
        await project.change({name: right, "parts/helper.py": 'WORD = "mended"'})
        assert (await project.run())["say"] == "mended x"
        assert (await project.listed())[1] == []


async def test_a_server_that_does_not_reload_lists_the_same_problems(project: Project) -> None:
    wrong = {
        "a.json": chain({**SAY, "tool": "shout"}), "b.yaml": "kind: chain\nnodes: [", "right.json": chain(),
        "c.json": chain({**SAY, "params": {"text": "$output.gone"}}), "notes.json": "[1]",
        "ropewalk.toml": CONFIG + '[schedules.s]\nflow = "talk.json"\ncron = "61 * * * *"\n',
    }  # fmt: skip
    async with project.served(wrong):
        reloaded = (await project.client.get("/api/definitions")).json()
        assert len(reloaded["problems"]) == 4
        transport = httpx2.ASGITransport(project.versions.app.asgi())
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as served:
            found = (await served.get("/api/definitions")).json()
            assert (reloaded.pop("keepsGood"), found.pop("keepsGood")) == (True, False)
            assert found == reloaded
            project.write({"b.yaml": chain(), "d.json": "{"})
            problems = (await served.get("/api/definitions")).json()["problems"]
            assert [each["file"] for each in problems] == ["ropewalk.toml", "a.json", "c.json"]


async def test_definitions_come_change_and_go(project: Project) -> None:
    async with project.served():
        reload = await project.change({"second.json": chain(), "compose.yaml": "services: {}", "notes.json": "[1]"})
        assert (reload.added, reload.problems) == (["second.json"], [])
        assert (await project.listed())[0] == ["second.json", "talk.json"]
        reload = await project.change({"second.json": chain({**SAY, "params": {"text": "y"}})})
        assert (reload.changed, reload.added) == (["second.json"], [])
        assert (await project.run("second.json"))["say"] == "old y"
        assert (await project.change({"second.json": "{"})).problems
        assert (await project.change({"second.json": None})).removed == ["second.json"]
        assert await project.listed() == (["talk.json"], [])
        assert (await project.run("second.json"))["error"]["kind"] == "NotFound"


async def test_a_deleted_module_and_a_deleted_configuration_are_errors(project: Project) -> None:
    async with project.served():
        await project.change({"reload_words.py": None})
        assert (await project.listed())[1] == ["ropewalk.toml:2"]
        assert await project.say() == "old x"
        await project.change({"ropewalk.toml": None})
        assert await project.say() == "old x"
        await project.change({"reload_words.py": WORDS, "ropewalk.toml": CONFIG, "parts/helper.py": 'WORD = "back"'})
        assert (await project.listed())[1] == []
        assert await project.say() == "back x"


async def test_after_a_failed_import_tools_still_import_the_modules_of_their_version(project: Project) -> None:
    late = WORDS.replace("from parts import helper\n", "").replace(
        "    return", "    from parts import helper\n    return"
    )
    async with project.served({"reload_words.py": late}):
        assert await project.say() == "old x"
        broken = {"parts/helper.py": 'WORD = "new"', "reload_words.py": "from parts import helper\n1 / 0\n" + late}
        assert (await project.change(broken)).problems
        assert await project.say() == "old x"
        await project.change({"reload_words.py": late})
        assert await project.say() == "new x"


async def test_flows_in_python_keep_their_last_good_version_with_their_own_tools(project: Project) -> None:
    async with project.served({"sums.py": PLAN}):
        assert await project.run("sums.py:twice", input={"n": 4}) == 8
        await project.change({"sums.py": PLAN.replace("2 * n", "3 * n")})
        assert await project.run("sums.py:twice", input={"n": 4}) == 12
        await project.change({"sums.py": PLAN + "\n)"})
        assert await project.listed() == (["talk.json", "sums.py:twice"], ["sums.py:13"])
        await project.change(
            {"parts/helper.py": 'WORD = "new"'}
        )  # a new version, whose toolbox lacks the tools of the flow
        assert await project.run("sums.py:twice", input={"n": 4}) == 12
        await project.change({"sums.py": PLAN})
        assert await project.listed() == (["talk.json", "sums.py:twice"], [])
        assert await project.run("sums.py:twice", input={"n": 4}) == 8


async def test_a_flow_that_another_one_calls_keeps_its_last_good_version(project: Project) -> None:
    outer = chain({"id": "inner", "type": "tool", "tool": "talk", "params": {}}).replace(
        'talk", "mode', 'outer", "mode'
    )
    async with project.served({"outer.json": outer}):
        before = await project.run("outer.json")
        await project.change({"talk.json": "{"})
        assert await project.run("outer.json") == before
        await project.change({"talk.json": chain({**SAY, "params": {"text": "y"}})})
        assert await project.run("outer.json") != before


def calling(name: str, *tools: str) -> str:
    """A chain that waits for an approval, then calls other flows."""
    nodes = [{"id": tool, "type": "tool", "tool": tool, "params": {}} for tool in tools]
    return chain(ASK, *nodes).replace('"talk"', f'"{name}"', 1)


@pytest.mark.parametrize("last", [chain({**SAY, "params": {"text": "y"}}), None, "{"], ids=["changed", "gone", "wrong"])
async def test_a_run_in_progress_keeps_the_flows_that_it_calls(project: Project, last: str | None) -> None:
    middle = chain({"id": "talk", "type": "tool", "tool": "talk", "params": {}}).replace('"talk"', '"middle"', 1)
    async with project.served({"outer.json": calling("outer", "middle"), "middle.json": middle}):
        start = {"definition": {"kind": "file", "id": "outer.json"}, "runId": "r"}
        await project.client.post("/api/runs", json=start)
        await project.change({"talk.json": last})
        await project.client.post("/api/runs/r/approve", json={})
        await until(lambda: project.versions.app.runs.row("r").ended_at is not None)
        result = (await project.client.get("/api/runs/r")).json()["result"]
        assert result["middle"] == {"talk": {"say": "old x"}}


async def test_a_definition_is_checked_again_when_its_tools_change(project: Project) -> None:
    async with project.served():
        reload = await project.change({"reload_words.py": WORDS.replace("say", "shout")})
        assert reload.changed == ["reload_words.py"]
        assert (await project.listed())[1] == ["talk.json:1"]
        await project.change({"talk.json": chain({**SAY, "tool": "shout"})})
        assert (await project.listed())[1] == []
        assert (await project.run())["say"] == "old x"


async def test_a_server_is_started_again_only_when_its_settings_change(project: Project) -> None:
    server = [sys.executable, "-E", "-S", str(Path(__file__).parents[1] / "mcp_servers" / "mortal.py")]
    settings = f"{CONFIG}[mcp.m]\ncommand = {json.dumps(server[0])}\nargs = {json.dumps(server[1:])}\n"

    async def pid() -> int:
        answer = await project.client.post("/api/tools/m:pid", json={"arguments": {}})
        return int(answer.json()["result"])

    async with project.served({"ropewalk.toml": settings}):
        first, version = await pid(), project.versions.app
        await project.change({"parts/helper.py": 'WORD = "new"'})
        await until(lambda: version not in project.versions._retiring)
        assert await pid() == first
        assert await project.say() == "new x"
        await project.change({"ropewalk.toml": settings + "timeout = 40\n"})
        second = await pid()
        assert second != first
        await until(lambda: not Path(f"/proc/{first}").exists())
    await until(lambda: not Path(f"/proc/{second}").exists())


def settings_of(*words: str) -> str:
    return f"{CONFIG}[mcp.m]\ncommand = {json.dumps(words[0])}\nargs = {json.dumps(words[1:])}\n"


async def test_a_server_that_fails_to_start_is_shown_and_the_last_good_version_stays(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = settings_of(sys.executable, "-E", "-S", str(Path(__file__).parents[1] / "mcp_servers" / "mortal.py"))
    wrong = settings_of("no-program-of-this-name")
    helper = "parts/helper.py"

    async def answers() -> Any:
        return (await project.client.post("/api/tools/m:pid", json={"arguments": {}})).json().get("result")

    async with project.served():
        reload = await project.change({"ropewalk.toml": wrong, helper: 'WORD = "new"'})  # it is added
        dev.report(reload, "the last good version")
        said = capsys.readouterr().err
        assert "ropewalk.toml:4:1: MCP server 'm': no program 'no-program-of-this-name' on the PATH" in said
        assert "the last good version" in said
        assert (await project.listed())[1] == ["ropewalk.toml:4"]
        assert await project.say() == "old x"
        await project.change({"ropewalk.toml": right})
        assert (await project.listed())[1] == []
        assert await project.say() == "new x"
        first = await answers()
        reload = await project.change({"ropewalk.toml": wrong, helper: 'WORD = "third"'})  # it is changed
        assert (len(reload.problems), reload.changed) == (1, [])
        assert (await answers(), await project.say()) == (first, "new x")

        # One that does not answer at once is used, and is shown when it fails.
        monkeypatch.setattr("ropewalk.app.reload._PATIENCE", 0)
        await project.change({"ropewalk.toml": settings_of("sh", "-c", "read line; exit 3")})
        await until(lambda: project.late)
        assert await project.say() == "third x"
        assert (await project.listed())[1] == ["ropewalk.toml:4"]
        assert not (await project.change({"talk.json": chain()})).problems
        assert (await project.listed())[1] == ["ropewalk.toml:4"]


async def test_a_provider_whose_document_becomes_wrong_keeps_its_last_good_one(project: Project) -> None:
    ping = {"get": {"operationId": "ping", "responses": {"200": {"description": "ok"}}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "api", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {"/ping": ping},
    }
    settings = f'{CONFIG}[providers.api]\nopenapi = "api.yaml"\n'

    async def is_known() -> bool:
        return bool((await project.client.get("/api/tools/api:ping")).is_success)

    async with project.served({"ropewalk.toml": settings, "api.yaml": json.dumps(document)}):
        for wrong in ('{"openapi": ', '{"openapi": "9.0"}'):
            assert (await project.change({"api.yaml": wrong})).problems
            assert await is_known()
        await project.change({"api.yaml": json.dumps(document)})
        assert (await is_known(), (await project.listed())[1]) == (True, [])


@pytest.mark.parametrize("name", ["reload_words.py", "sums.py"])
async def test_requests_are_answered_while_modules_are_imported(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    entered, go = threading.Event(), threading.Event()

    def passed() -> bool:
        entered.set()
        return go.wait(BOUND)

    monkeypatch.setitem(sys.modules, "reload_gate", SimpleNamespace(passed=passed))
    waits = "import reload_gate\nassert reload_gate.passed()\n"
    async with project.served({"sums.py": PLAN}):
        before = (project.folder / name).read_text()
        changing = asyncio.ensure_future(project.change({name: waits + before}))
        await until(lambda: entered.is_set() or changing.done())
        assert not changing.done(), changing.result()
        assert await project.say() == "old x"
        go.set()
        assert not (await changing).problems


async def test_a_silent_server_does_not_delay_the_next_change(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.app.reload._PATIENCE", 0.01)
    silent = f'{CONFIG}[mcp.m]\ncommand = "sh"\nargs = ["-c", "cat > /dev/null"]\n'
    asks = chain({**SAY, "tool": "m:x"})
    async with project.served({"ropewalk.toml": silent, "asks.json": asks}):
        assert (await project.change({"talk.json": "{"})).problems
        assert (await project.change({"talk.json": chain()})).changed == ["talk.json"]
        assert await project.listed() == (["asks.json", "talk.json"], [])


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        *(
            (path, True)
            for path in ("tools.py", "flows/a.yaml", "build/env/a.json", "ropewalk.toml", "lib/a.mjs", "odd")
        ),
        *((path, False) for path in ("data.csv", ".venv/a.py", "node_modules/a.js", ".git/a.yaml", ".ropewalk/a.json")),
        *((path, False) for path in ("a.py~", ".a.py.swp", ".#a.py", "__pycache__/a.pyc", "lib/site-packages/a.py")),
    ],
)
def test_only_files_of_the_project_count(path: str, counts: bool) -> None:
    folder = Path("/home/me/.venv/build/shop")
    assert matters(str(folder / path), [Path("/else"), folder], [folder / "odd"]) is counts

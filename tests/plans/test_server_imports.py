"""Plans that import servers: `from ropewalk.servers import fs`."""

from __future__ import annotations

import ast
import asyncio
from typing import Any

import pytest

from ropewalk import App, ToolError, plan, servers, tool
from ropewalk.errors import InvalidTool
from ropewalk.plans.read.problems import Unreadable
from ropewalk.plans.read.source import parse
from ropewalk.servers import fs, git, gitt  # type: ignore[attr-defined]
from ropewalk.servers import git as history  # type: ignore[attr-defined]


@tool(namespace="fs", name="read-file")
async def read_file(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


@tool(namespace="git")
async def log(count: int) -> list[str]:
    """List commits."""
    if count < 1:
        raise ValueError("no commits")
    return ["first"] * count


read = fs.read_file


@plan
async def right(count: int) -> Any:
    from ropewalk.servers import fs as files  # type: ignore[attr-defined]

    try:
        await git.log(count=0)
    except ToolError as error:
        return [
            str(error),
            await history.log(count=count),
            await fs.read_file("a"),
            await files.read_file(path="b"),
            await read(path="c"),
        ]


@plan
async def unknown_server() -> Any:
    return await gitt.log(count=1)


@plan
async def far_server() -> Any:
    from ropewalk.servers import postgres

    return await postgres.query(sql="")


@plan
async def unknown_tool() -> Any:
    return await fs.read_fil(path="a")


@plan
async def server_as_value() -> Any:
    return [fs, await fs.read_file(path="a")]


@plan
async def whole_module() -> Any:
    return await servers.fs.read_file(path="a")


IMPORT = "from ropewalk.servers import NAME"
PROBLEMS = [
    (unknown_server, "there is no server 'gitt'; did you mean git?"),
    (far_server, "there is no server 'postgres'; the servers are: fs, git"),
    (unknown_tool, "there is no tool 'fs.read_fil'; did you mean fs.read_file?"),
    (server_as_value, "fs is a server; call one of its tools: fs.NAME()"),
    (whole_module, "servers.fs is not a tool; write from ropewalk.servers import fs"),
]


def test_a_plan_calls_the_tools_of_the_servers_that_it_imports() -> None:
    with App("memory", tools=[read_file, log]) as app:
        error, commits, *texts = app.run_sync(right, {"count": 2}).value
    assert (error, commits, texts) == ("no commits", ["first", "first"], ["text of a", "text of b", "text of c"])


def test_a_wrong_import_says_at_its_use_what_would_be_right() -> None:
    with App("memory", tools=[read_file, log]) as app:
        found = {
            definition.name: [str(problem).partition(": ")[2] for problem in app.check(definition).problems]
            for definition, _ in PROBLEMS
        }
    assert found == {definition.name: [message] for definition, message in PROBLEMS}


def test_the_program_of_a_model_may_import_servers() -> None:
    answers = {
        "from ropewalk.servers import fs\nreturn await fs.read_file(path='a')": "text of a",
        "from ropewalk.servers import fs as x\nreturn await x.read_file(path='a')": "text of a",
        "from ropewalk.servers import fs as x\nx = 3": "x is another name of fs; use another name here",
        "from ropewalk.servers import fs as x\nmatch {}:\n    case {**x}:\n        pass": (
            "x is another name of fs; use another name here"
        ),
        "import ropewalk.servers": f"import of ropewalk.servers is not supported; write {IMPORT}",
        "from ropewalk.servers import *": f"name what you import: {IMPORT}",
    }

    async def run() -> dict[str, str]:
        async with App("memory", tools=[read_file, log]) as app:
            done = {code: await app.plans.run_plan(code) for code in answers}
        return {code: item.get("result") or item["problems"][0]["message"] for code, item in done.items()}

    assert asyncio.run(run()) == answers


TWO_FUNCTIONS = """
async def first():
    from ropewalk.servers import fs as repo
    return await repo.read_file(path="a")

async def second():
    from ropewalk.servers import git as repo
    return await repo.log(count=1)
"""
AMBIGUOUS = [
    (
        "from ropewalk.servers import fs as repo\nx = repo.a\nfrom ropewalk.servers import git as repo",
        ["1:30", "3:30"],
        "repo is imported as ropewalk.servers.fs and as ropewalk.servers.git",
    ),
    (
        "from ropewalk.servers import fs as git, git",
        ["1:30", "1:41"],
        "git is imported as ropewalk.servers.fs and as ropewalk.servers.git",
    ),
    (
        "from ropewalk.plans import now\nfrom ropewalk.servers import now",
        ["1:28", "2:30"],
        "now is imported as ropewalk.plans.now and as ropewalk.servers.now",
    ),
]


@pytest.mark.parametrize(("text", "places", "problem"), AMBIGUOUS)
def test_a_name_that_imports_give_two_meanings_is_refused(text: str, places: list[str], problem: str) -> None:
    with pytest.raises(Unreadable) as caught:
        parse(text)
    message = f"{problem}; import each under a name of its own"
    assert list(map(str, caught.value.problems)) == [f"{place}: {message}" for place in places]


@pytest.mark.parametrize("server", ["fs", "git"])
def test_two_functions_may_import_a_name(server: str) -> None:
    text = TWO_FUNCTIONS.replace("import git", f"import {server}")
    assert [node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name)] == ["fs", server]


def test_python_imports_a_server_without_a_project_and_refuses_to_call_it() -> None:
    assert [repr(fs), repr(fs.read_file), fs is servers.fs] == ["<server fs>", "<tool fs.read_file>", True]
    assert [hasattr(servers, "__path__"), hasattr(fs, "__wrapped__")] == [False, False]
    with pytest.raises(InvalidTool, match=r"fs.read_file .* elsewhere write await app.call_tool\('fs:read_file', "):
        fs.read_file(path="a")


def test_the_names_of_the_module_are_the_servers_of_the_project(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert dir(servers) == []
    (tmp_path / "ropewalk.toml").write_text('[mcp.my-fs]\ncommand = "none"\n')
    assert dir(servers) == ["my_fs"]

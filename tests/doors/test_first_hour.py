"""The first hour with Ropewalk: a new project, its test, its checks and its MCP server, each as a user runs them."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import pty
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk import App, tool
from ropewalk.doors.cli.commands import COMMANDS, program
from ropewalk.errors import InvalidFlow
from tiers import sampled

pytestmark = pytest.mark.process

COMMAND = str(Path(sys.executable).with_name("ropewalk"))

UNKNOWN = "kind: chain\nname: c\nnodes:\n  - {id: a, type: tool, tool: uper, params: {text: x}}\n"


def serve_mcp(home: Path, *words: str) -> str:
    """Start `ropewalk mcp` for a client that leaves at once, and return what it says on standard error."""
    done = fork_server.run(
        [COMMAND, "mcp", *words], cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


async def list_tools(home: Path, *words: str) -> list[str]:
    from mcp import Client, StdioServerParameters, stdio_client

    async with Client(
        stdio_client(StdioServerParameters(command=fork_server.program("ropewalk"), args=["mcp", *words], cwd=home))
    ) as client:
        return [item.name for item in (await client.list_tools()).tools]


@pytest.mark.parametrize("kind", ["chain", "composition", "experience"])
def test_a_new_project_has_a_readme_and_a_test_that_passes_and_can_fail(project: Any, kind: str) -> None:
    made = project("new", "fresh", "--kind", kind)
    assert made.code == 0, made.err
    home = project.home / "fresh"
    readme = (home / "README.md").read_text()
    run = f"ropewalk run {'.' if kind == 'experience' else f'{kind}.yaml'}"
    assert readme.startswith("# fresh\n")
    assert run in readme
    assert "$" not in readme
    assert project(*run.split()[1:], cwd=home).code == 0
    assert project("test", cwd=home).out == f"✓ tests/{kind}.test.yaml\n1 passed\n"
    definition = home / f"{kind}.yaml"
    definition.write_text(definition.read_text().replace("source: $.names", "source: $.greetings").replace(
        "tool: most_common", "tool: count_words"))  # fmt: skip
    assert project("test", cwd=home).code == 1


def test_the_test_of_a_new_agent_passes_without_a_key(project: Any) -> None:
    assert project("new", "fresh", "--kind", "agent").code == 0
    home = project.home / "fresh"
    assert "ANTHROPIC_API_KEY" in (home / "README.md").read_text()
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(words, cwd=home, env=project.env(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def test_mcp_offers_the_flows_of_a_fresh_project_and_says_how_many(project: Any) -> None:
    project("new", "fresh")
    home = project.home / "fresh"
    assert asyncio.run(list_tools(home)) == ["favourite-word"]
    assert serve_mcp(home) == "offering 1 flow: favourite-word\n"
    (home / "broken.yaml").write_text("kind: chain\nnodes: [{id: a, type: tol}]\n")
    not_offered = "not offered: broken.yaml; `ropewalk validate FILE` shows why"
    assert serve_mcp(home).splitlines() == ["offering 1 flow: favourite-word", not_offered]
    for file in home.glob("*.yaml"):
        if file.name != "broken.yaml":
            file.unlink()
    assert serve_mcp(home).splitlines() == ["offering no flows: none of the definitions is valid", not_offered]


def test_mcp_says_that_a_directory_without_definitions_offers_nothing(tmp_path: Path) -> None:
    said = serve_mcp(tmp_path)
    assert said.startswith(f"offering no flows: there are no definitions in {tmp_path}")


def test_mcp_with_files_or_configured_flows_offers_no_others(project: Any) -> None:
    project("new", "fresh")
    home = project.home / "fresh"
    (home / "other.yaml").write_text((home / "chain.yaml").read_text().replace("favourite-word", "other"))
    assert sorted(asyncio.run(list_tools(home))) == ["favourite-word", "other"]
    assert asyncio.run(list_tools(home, "other.yaml")) == ["other"]
    with (home / "ropewalk.toml").open("a") as file:
        file.write('[mcp_server]\nflows = ["chain.yaml"]\n')
    assert asyncio.run(list_tools(home)) == ["favourite-word"]


def test_validate_exits_with_3_for_an_unknown_tool_and_names_it(project: Any) -> None:
    project.write("c.yaml", UNKNOWN)
    done = project("validate", "c.yaml", "--json")
    assert done.code == 3
    [problem] = done.data["error"]["problems"]
    assert (problem["file"], problem["line"], problem["suggestion"]) == ("c.yaml", 4, "upper")
    assert "uper" in problem["message"]
    assert "c.yaml:4:31: " in done.err


def test_allow_missing_tools_makes_an_unknown_tool_a_warning(project: Any) -> None:
    project.write("c.yaml", UNKNOWN)
    done = project("validate", "c.yaml", "--allow-missing-tools")
    assert done.code == 0
    assert "warning: c.yaml:4:" in done.out
    assert done.out.splitlines()[-1] == "c.yaml: valid, but cannot run: 1 unknown tool"
    project.write("d.yaml", UNKNOWN.replace("id: a,", "id: a, timout: 1,"))
    assert project("validate", "d.yaml", "--allow-missing-tools").code == 3


def test_app_validate_returns_every_problem_and_raises_for_none(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(UNKNOWN.replace("id: a,", "id: a, timout: 1,"))

    @tool
    def upper(text: str) -> str:
        return text.upper()

    async def case() -> None:
        async with App("memory", tools=[upper]) as app:
            checked = await app.validate(file)
            assert sorted(problem.path for problem in checked.problems) == ["nodes[0].timout", "nodes[0].tool"]
            assert {problem.place.line for problem in checked.problems if problem.place} == {4}
            allowed = await app.validate(file, allow_missing_tools=True)
            assert [problem.path for problem in allowed.problems] == ["nodes[0].timout"]
            assert [warning.path for warning in allowed.warnings] == ["nodes[0].tool"]
            sound = {"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "upper", "params": {"text": "x"}}]}
            assert (await app.validate(sound)).problems == ()
            assert (await app.validate("kind: chain\nnodes: 7\n")).problems != ()
            assert (await app.validate("just text: [")).problems != ()

    asyncio.run(case())


def test_a_wrong_definition_with_an_executor_is_reported_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "kind: chain\nname: c\nnodes:\n  - id: a\n    type: tool\n    tool: any\n    params: {text: $output.nowhere}\n"
    )
    calls: list[str] = []

    async def execute(tool_id: str, arguments: dict[str, Any]) -> Any:
        calls.append(tool_id)

    async def case() -> None:
        async with App("memory") as app:
            with pytest.raises(InvalidFlow) as caught:
                await app.run(file, executor=execute)
            [problem] = caught.value.problems
            assert problem.place is not None
            assert (problem.place.file, problem.place.line) == (str(file), 7)
            assert calls == []
            file.write_text(file.read_text().replace("$output.nowhere", "hello"))
            assert (await app.run(file, executor=execute)).status == "completed"
            assert calls == ["any"]

    asyncio.run(case())


@contextlib.contextmanager
def unreachable(kind: str) -> Iterator[str]:
    """Yield an address of this machine that refuses connections, or takes them and never answers."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        if kind == "black hole":
            sock.listen(5)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"


@pytest.mark.parametrize("kind", sampled("faults", ["refused", "black hole"], 1))
def test_chat_without_a_network_fails_and_names_the_address(project: Any, kind: str) -> None:
    project.write("ropewalk.toml", "")
    with unreachable(kind) as url:
        done = project("chat", "hello", ANTHROPIC_API_KEY="none", ANTHROPIC_BASE_URL=url)
    assert done.code == 1
    assert done.err.startswith(f"error: cannot reach the Messages API at {url}: ")


def test_doctor_prints_each_part_when_it_is_checked(project: Any) -> None:
    """A server that keeps silent does not keep back the lines before it."""
    project.write("silent.py", "import pathlib, time\nwhile not pathlib.Path('end').exists():\n    time.sleep(0.01)\n")
    server = f"[mcp.slow]\ncommand = {sys.executable!r}\nargs = ['silent.py']\nconnect_timeout = 600\n"
    project.write("ropewalk.toml", server)
    child = fork_server.Popen(
        [COMMAND, "doctor"],
        cwd=project.home,
        env=project.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    lines = []
    for line in child.stdout:
        lines.append(line.rstrip())
        if line.split()[1] == "node":
            project.write("end", "")
    child.communicate()
    names = [line.split()[1] for line in lines[:-1] if not line.startswith(" ")]
    assert names[:4] == ["python", "packages", "sqlite", "node"]
    assert lines[-1].endswith(("problem found", "problems found"))
    assert any(line.startswith("✗ server slow") for line in lines)


def test_doctor_shows_on_a_terminal_what_it_checks_now(project: Any) -> None:
    main, terminal = pty.openpty()
    child = fork_server.Popen(
        [COMMAND, "doctor"], cwd=project.home, env=project.env(), stdout=subprocess.PIPE, stderr=terminal, text=True
    )
    out, _ = child.communicate()
    os.close(terminal)
    shown = os.read(main, 10_000).decode()
    os.close(main)
    assert "… store" in shown
    assert "… servers (up to 40 s)" in shown
    assert "…" not in out


OLD_NAMES = {"--max", "--run-id", "--queues", "--at", "--days"}


def options() -> Iterator[tuple[str, str, str, Any]]:
    """Yield command, option, help and type of every option of the command line."""
    parser = program()
    for words in COMMANDS:
        command = parser
        for word in words.split():
            command = command[word]
        for argument in command.assemble_argument_collection(parse_docstring=True):
            for name in argument.names:
                if name.startswith("--") and not name.startswith("--no-"):
                    yield words, name, argument.parameter.help or "", argument.hint


def test_an_option_has_one_name_and_one_meaning_in_all_commands() -> None:
    found = list(options())
    assert len(found) > 150
    assert not {name for _, name, _, _ in found} & OLD_NAMES
    kinds: dict[str, set[str]] = {}
    for _, name, _, hint in found:
        kinds.setdefault(name, set()).add("number" if "int" in str(hint) or "float" in str(hint) else "other")
    # --after is the place where a page starts: a run id in a list of runs, a number in a list of steps.
    assert [name for name, types in kinds.items() if len(types) > 1] == ["--after"]


def test_every_option_has_help_and_every_number_says_of_what() -> None:
    units = (
        "second",
        "number",
        "maximum",
        "minimum",
        "newest",
        "port",
        "priority",
        "seed",
        "start of the page",
        "score",
    )
    for command, name, help, hint in options():
        assert help[:1].isupper() or help.startswith("--"), (command, name, help)
        if inspect.isclass(hint) and issubclass(hint, (int, float)) and hint is not bool:
            assert any(unit in help.lower() for unit in units), (command, name, help)


AGAIN = """\
kind: chain
name: again
variables: {limit: 2}
nodes:
  - {id: count, type: tool, tool: add, params: {a: 1}}
  - id: pick
    type: condition
    condition: $output.count >= $var.limit
    then: [{id: big, type: tool, tool: add, params: {a: 1}}]
    otherwise: [{id: small, type: tool, tool: add, params: {a: 2}}]
  - {id: flaky, type: tool, tool: fail_once}
"""
FAIL_ONCE = '''
@tool
def fail_once() -> str:
    """Fails unless the file `works` is there; takes a fifth of a second."""
    time.sleep(0.2)
    if not Path("works").exists():
        raise RuntimeError("not yet")
    return "done"
'''


@pytest.fixture
def failed(project: Any) -> Any:
    """A project with a run `r` whose last step failed."""
    project.write("rw_cli_tools.py", (project.home / "rw_cli_tools.py").read_text() + FAIL_ONCE)
    project.write("again.yaml", AGAIN)
    assert project("run", "again.yaml", "--id", "r").code == 1
    project.write("works", "")
    return project


def test_retry_and_fork_say_first_what_was_executed_and_mark_what_was_reused(failed: Any) -> None:
    retried = failed("runs", "retry", "r")
    assert retried.out.splitlines()[1:3] == ["  executed  ✓ flaky", "  reused    ↺ 3 steps"]
    steps = [line.split("  ")[0] for line in retried.err.splitlines() if line[:1] in "↺✓-"]
    assert steps == [
        "↺ count", "- pick[else]/small", "↺ pick[0]/big", "↺ pick", "✓ flaky",
    ]  # fmt: skip
    forked = failed("runs", "fork", "r", "--id", "f", "--from", "big")
    head = forked.out.splitlines()[1]
    assert head == "  executed  ✓ pick[0]/big, ✓ pick, ✓ flaky"
    shown = failed("runs", "show", "f").out.splitlines()
    assert [line[0] for line in shown if line[2:].startswith(("count", "pick[0]/big"))] == ["↺", "✓"]
    assert "executed" not in failed("run", "again.yaml").out


def test_diff_says_first_what_changed(failed: Any) -> None:
    failed("runs", "fork", "r", "--id", "f")
    assert failed("runs", "diff", "r", "f").out.splitlines()[0] == ("changed: 1 node, result, error; 3 nodes are equal")
    failed("runs", "fork", "f", "--id", "g")
    assert failed("runs", "diff", "f", "g").out.splitlines()[0].startswith("changed: nothing; ")


def seconds(shown: str) -> float:
    number, unit = shown.split()[:2]
    return float(number) / {"ms": 1000, "s": 1}[unit]


def test_took_counts_the_whole_run(failed: Any) -> None:
    """A fifth of a second before the retry and a fifth in it."""
    retried = failed("runs", "retry", "r").out.splitlines()[0]
    assert seconds(retried.split(" in ")[1]) >= 0.4
    [shown] = [line for line in failed("runs", "show", "r").out.splitlines() if line.startswith("  took")]
    assert seconds(shown.partition("took")[2]) >= 0.4
    assert shown.split()[1] in next(line for line in failed("runs", "ls").out.splitlines() if line.startswith("r "))


def test_a_branch_has_the_name_that_its_paths_have(failed: Any) -> None:
    shown = failed("runs", "show", "r").out
    assert "· pick  takes pick[0]\n" in shown
    assert "pick[0]/big" in shown
    failed("run", "again.yaml", "--id", "s", "--var", "limit=9")
    shown = failed("runs", "show", "s").out
    assert "· pick  no condition is true: takes pick[else]\n" in shown
    assert "pick[else]/small" in shown

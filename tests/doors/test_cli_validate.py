"""`ropewalk validate`: several definitions, a whole project, and the files with which others run it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ropewalk import App
from ropewalk.app.project_versions import ProjectVersions
from ropewalk.app.reload import Reloader
from ropewalk.doors.cli.dispatch import dispatch
from ropewalk.doors.http.flow_files import FlowFiles

ROOT = Path(__file__).parents[2]
GOOD = "kind: chain\nname: good\nnodes: [{id: a, type: tool, tool: up, params: {text: a}}]\n"
FILES = {
    "ropewalk.toml": """tools.modules = ["rw_validated"]
[schedules.late]
cron = "61 * * * *"
flow = "jobs/job.yaml"
""",
    "rw_validated.py": "from ropewalk import tool\n@tool\ndef up(text: str) -> str:\n    'Up.'\n    return text\n",
    "good.yaml": GOOD,
    "wrong.yaml": GOOD.replace("tool: up", "tool: pu"),
    "broken.yaml": "kind: chain\nnodes: [",
    "typo.yaml": "kind: chian\nnodes: []\n",
    "plans.py": "from ropewalk import plan\n@plan\nasync def p() -> str:\n    up('a')\n    return help()\n"
    "@plan\nasync def q() -> str:\n    return help()\n\ndef help() -> str:\n    return undefined\n",
    "jobs/job.yaml": GOOD.replace("text: a", "text: 1"),
    # What serve does not offer:
    "compose.yaml": "services: {db: {image: postgres}}\n",
    "deployment.yaml": "kind: Deployment\nmetadata: {}\n",
    "package.json": '{"name": "x", "kind": 3}',
    "good.test.yaml": "kind: test\nflow: good.yaml\nexpect: {status: completed}\n",
    "jobs/other.yaml": "kind: chain\nnodes: 3\n",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


def validate(capfd: Any, *words: str) -> tuple[int, list[str]]:
    """Run the command and return its exit code, and the beginning of each line that it prints."""
    code = dispatch(["validate", *words])
    out, err = capfd.readouterr()
    return code, [line for line in (out + err).splitlines() if not line.startswith(" ")]


def test_a_directory_without_an_experience_names_what_to_check_instead(project: Path, capfd: Any) -> None:
    advice = "name its files, such as jobs/*.yaml, or check the project: ropewalk validate"
    message = f"error: no experience.yaml in the directory 'jobs'; {advice}"
    assert validate(capfd, "jobs") == (2, [message])


def test_without_a_definition_the_whole_project_is_checked(project: Path, capfd: Any) -> None:
    code, lines = validate(capfd)
    places = sorted(line.partition(": ")[0] for line in lines)
    assert (code, places) == (
        3,
        ["7 problems; nothing has run", "broken.yaml:2:9", "jobs/job.yaml:3:54", "not checked", "plans.py:11:12",
         "plans.py:4:5", "ropewalk.toml:3:1", "typo.yaml:1:7", "wrong.yaml:3:35"],
    )  # fmt: skip
    for name in ("wrong.yaml", "broken.yaml", "typo.yaml", "plans.py"):
        (project / name).unlink()
    (project / "ropewalk.toml").write_text(FILES["ropewalk.toml"].replace("61 ", "1 "))
    (project / "jobs/job.yaml").write_text(GOOD)
    valid = ["good.yaml: valid", "jobs/job.yaml: valid", "ropewalk.toml: valid"]
    assert validate(capfd) == (0, [*valid, "not checked: jobs/other.yaml (not in [tools] flows)"])
    (project / "jobs/other.yaml").rename(project / "jobs/other.txt")
    (project / "sub").mkdir()
    os.chdir(project / "sub")
    assert validate(capfd) == (0, [f"{project}/{line}" for line in valid])


def test_a_schedule_whose_file_is_missing_is_a_problem_at_its_line_among_the_others(project: Path, capfd: Any) -> None:
    toml = FILES["ropewalk.toml"].replace("61 ", "1 ").replace("jobs/job.yaml", "goood.yaml")
    (project / "ropewalk.toml").write_text(toml)
    code, lines = validate(capfd)
    missing = "ropewalk.toml:4:1: [schedules.late] flow: no file 'goood.yaml'; did you mean 'good.yaml'?"
    assert (code, missing in lines) == (3, True), lines
    assert any(line.startswith("wrong.yaml:3:35: ") for line in lines)


def test_several_definitions_may_belong_to_several_projects(project: Path, capfd: Any) -> None:
    other = project.parent / "bare"
    other.mkdir()
    (other / "ropewalk.toml").write_text("")
    (other / "good.yaml").write_text(GOOD)
    code, lines = validate(capfd, "good.yaml", "../bare/good.yaml", "ropewalk.toml")
    assert (code, [line.partition(": ")[0] for line in lines]) == (3, ["../bare/good.yaml:3:35", "warning"])
    assert validate(capfd, "good.yaml", "ropewalk.toml")[0] == 0
    assert dispatch(["validate", "wrong.yaml", "typo.yaml", "--json"]) == 3
    problems = json.loads(capfd.readouterr().out)["error"]["problems"]
    assert {problem["file"] for problem in problems} == {"wrong.yaml", "typo.yaml"}


def test_a_directory_without_a_project_has_nothing_to_check(
    tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, (line,) = validate(capfd)
    assert (code, "there is no definition and no ropewalk.toml here" in line) == (2, True)


def test_the_hooks_of_pre_commit_and_the_github_action_run_it(project: Path) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {hook["entry"] for hook in hooks} == {"ropewalk validate"}
    assert all(not hook["pass_filenames"] for hook in hooks)
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][-1]
    # Every input reaches a step by its environment, where no shell reads it as code.
    assert set(step["env"]) == {"DEFINITIONS", "DIRECTORY", "OPTIONS"}
    assert "${{" not in "".join(each.get("run", "") for each in action["runs"]["steps"])
    # A program in place of `ropewalk` shows its words, which the command line takes here.
    (project.parent / "ropewalk").write_text("#!/bin/sh\npwd\nprintf '%s\\n' \"$@\"\n")
    (project.parent / "ropewalk").chmod(0o755)
    path = f"{project.parent}{os.pathsep}{os.environ['PATH']}"
    for definitions, options, code in (
        ("", "", 3),
        ("good.yaml rw_validated.py", "--strict --no-code", 3),
        ("good.yaml", "", 0),
    ):
        env = {**os.environ, "PATH": path, "DEFINITIONS": definitions, "DIRECTORY": "shop", "OPTIONS": options}
        shown = subprocess.check_output(["bash", "-e", "-c", step["run"]], cwd=project.parent, env=env, text=True)
        place, *words = shown.splitlines()
        assert (place, words) == (str(project), ["validate", *options.split(), *definitions.split()])
        (project / "ropewalk.toml").write_text('tools.modules = ["rw_validated"]')
        assert dispatch(words) == code


PROBLEMS = """tools.modules = ["rw_validated"]
tools.strict_output = ["upp"]
[mcp_server]
flows = ["good.yaml", "nope.yaml"]
prompts = ["godo"]
task_only = ["good", "godo"]
[budget.definitions]
godo = { calls = 1 }
[plans.effects]
upp = "read"
[n8n.tools]
discovery = ["upp"]
[undo.tools]
upp = { tool = "ups" }

[schedules.given]
cron = "1 * * * *"
flow = "good.yaml"
input = 1
[schedules.times]
cron = "61 * * * *"
flow = "good.yaml"
[schedules.zone]
cron = "1 * * * *"
timezone = "Europe/Berlinn"
flow = "good.yaml"
[schedules.other]
cron = "1 * * * *"
flow = "wrong.yaml"
"""
UNMATCHED = {
    "ropewalk.toml:2: [tools] strict_output: there is no tool 'upp'; did you mean up?",
    "ropewalk.toml:5: [mcp_server] prompts: there is no definition 'godo'; did you mean good?",
    "ropewalk.toml:6: [mcp_server] task_only: there is no definition 'godo'; did you mean good?",
    "ropewalk.toml:8: [budget.definitions.\"godo\"] there is no definition 'godo'; did you mean good?",
    "ropewalk.toml:10: [plans.effects.\"upp\"] there is no tool 'upp'; did you mean up?",
    "ropewalk.toml:12: [n8n.tools] discovery: there is no tool 'upp'; did you mean up?",
    "ropewalk.toml:14: [undo.tools.\"upp\"] there is no tool 'upp'; did you mean up?",
    "ropewalk.toml:14: [undo.tools.\"upp\"] there is no tool 'ups'; did you mean up?",
}
WRONG = {
    "ropewalk.toml:4: [mcp_server] flows: no file 'nope.yaml'",
    'ropewalk.toml:19: [schedules.given] input: 1 is not of type "object"',
    "ropewalk.toml:21: [schedules.times] cron: '61 * * * *' is not a valid cron time; write five fields, \"minute hour"
    ' day month weekday", or six with seconds first',
    "ropewalk.toml:25: [schedules.zone] timezone: unknown time zone 'Europe/Berlinn'; did you mean Europe/Berlin?",
    "wrong.yaml:3: nodes[0].tool: unknown tool 'pu'",
}


def _lines(problems: Any) -> set[str]:
    shown = (f"{each.place.file}:{each.place.line}: {each}" for each in problems)
    return {line.replace("; did you mean 'compose.yaml'?", "") for line in shown}


def test_validate_doctor_serve_and_dev_list_the_same_problems_of_a_project(project: Path, capfd: Any) -> None:
    (project / "ropewalk.toml").write_text(PROBLEMS)
    (project / "good.yaml").write_text(GOOD + "inputSchema: {type: object}\n")
    (project / "wrong.yaml").write_text(FILES["wrong.yaml"].replace("name: good", "name: wrong"))

    async def served() -> tuple[set[str], set[str]]:
        async with App.open(project, store="memory") as app:
            files = FlowFiles.of_project(app)
            list(files.list_items())
            listed = _lines(await files.problems())
            versions = ProjectVersions(app)
            return listed, _lines((await Reloader(versions, lambda: app).start()).problems)

    expected = UNMATCHED | WRONG
    listed, reloaded = asyncio.run(served())
    assert sorted(listed) == sorted(expected)
    assert reloaded == listed
    assert dispatch(["validate", "--json"]) == 3
    error = json.loads(capfd.readouterr().out)["error"]
    shown = [f"{each['file']}:{each['line']}: {each['message']}" for each in (*error["problems"], *error["warnings"])]
    assert len(shown) == len(expected), shown
    assert dispatch(["doctor"]) == 1
    findings = capfd.readouterr().out.splitlines()
    for message in (line.partition(": ")[2] for line in expected):
        mark = "-" if any(message in line for line in UNMATCHED) else "✗"
        assert [line[0] for line in findings if message in line] == [mark], message


def test_a_definition_of_the_store_may_have_a_budget(project: Path, capfd: Any) -> None:
    (project / "ropewalk.toml").write_text("[budget.definitions]\nkept = { calls = 1 }\nlost = { calls = 1 }\n")

    async def store() -> None:
        async with App.open(project) as app:
            app.chains.core.create({"id": "c1", "name": "kept", "nodes": [{"id": "a", "type": "tool", "tool": "up"}]})

    asyncio.run(store())
    _, lines = validate(capfd)
    assert [line for line in lines if "budget" in line] == [
        "warning: ropewalk.toml:3:1: [budget.definitions.\"lost\"] there is no definition 'lost'"
    ]

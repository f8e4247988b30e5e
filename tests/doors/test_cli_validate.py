"""`ropewalk validate`: several definitions, a whole project, and the files with which others run it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ropewalk.doors.cli.dispatch import dispatch

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

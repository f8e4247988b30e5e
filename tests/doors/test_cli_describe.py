"""`tools describe`: usage phrases in a file that a person reviews."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.process
WRITER = """
import json
from ropewalk.agents.model import Answer
from ropewalk.errors import ModelError

class Writer:
    asked = 0

    async def turn(self, request, on_piece):
        shown = json.loads(request.messages[0]["content"])
        Writer.asked += 1
        if %(fails)s:
            %(failure)s
        useless = [" ", "w " * 30, "h" * 201, "\\ud800"]
        tools = [{"number": one["number"], "phrases": ["Put it in capitals, please.", one["name"], *useless]}
                 for one in shown if one["name"] != "add"]
        text = "Here: " + json.dumps({"tools": [*tools, {"number": 99, "phrases": ["x"]}, 3]})
        return Answer(content=[{"type": "text", "text": text}], stop_reason="end_turn", model="ours-1")

    async def close(self):
        pass
"""


def phrases(project):
    return json.loads((project.home / "ropewalk.phrases").read_text())["tools"]


def test_rules_write_what_is_missing_and_keep_the_rest(project):
    missing = project("tools", "describe", "--check", "--json")
    assert (missing.code, "upper" in missing.data["missing"]) == (1, True)
    done = project("tools", "describe", "--json")
    assert (done.code, "upper" in done.data["written"], done.data["failure"]) == (0, True, None), done.err
    written = phrases(project)
    assert all(len(entry["phrases"]) <= 10 and entry["by"] == "rules" for entry in written.values())
    assert done.data["without"] == [key for key, entry in written.items() if not entry["phrases"]]
    assert project("tools", "describe", "--check").code == 0

    written["upper"]["phrases"] = ["shout it out loud"]
    written["add"]["description"] = "of another text"
    written["gone"] = written["upper"]
    project.write("ropewalk.phrases", json.dumps({"tools": written}))
    assert project("tools", "select", "shout this out loud", "--json").data["results"][0]["name"] == "upper"
    again = project("tools", "describe", "--json").data
    assert (again["written"], again["removed"]) == (["add"], ["gone"])
    assert phrases(project)["upper"]["phrases"] == ["shout it out loud"]
    assert project("tools", "describe", "upper", "--json").data["written"] == ["upper"]
    assert phrases(project)["upper"]["phrases"] != ["shout it out loud"]


def test_a_model_writes_and_its_answers_are_checked(project):
    project.write("writer.py", WRITER % {"fails": False, "failure": "pass"})
    settings = (project.home / "ropewalk.toml").read_text()
    project.write("ropewalk.toml", settings + '[model]\nmodel = "writer:Writer"\n')
    done = project("tools", "describe", "--json")
    assert (done.code, done.data["failure"]) == (0, None), done.err
    written = phrases(project)
    assert written["upper"] == {**written["upper"], "by": "ours-1", "phrases": ["Put it in capitals, please", "upper"]}
    assert "add" not in written
    assert done.data["without"] == ["add"]
    assert project("tools", "describe", "--check", "--json").data["missing"] == ["add"]
    assert project("tools", "describe", "--rules", "--again").code == 0
    assert {entry["by"] for entry in phrases(project).values()} == {"rules"}


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        ('raise ModelError("overloaded")', "overloaded"),
        ('return Answer(content=[{"type": "text", "text": "{}"}], stop_reason="end_turn")', "answered something else"),
    ],
)
def test_what_a_failing_model_has_written_is_kept(project, failure, says):
    project.write("writer.py", WRITER % {"fails": "Writer.asked > 1", "failure": failure})
    settings = (project.home / "ropewalk.toml").read_text()
    more = "".join(f'[providers.p{n}]\nurl = "https://x.example"\ntools = [{{name = "t{n}"}}]\n' for n in range(2))
    project.write("ropewalk.toml", f'{settings}{more}[model]\nmodel = "writer:Writer"\n')
    done = project("tools", "describe", "--json")
    assert done.code == 1
    assert says in done.data["failure"]
    assert set(phrases(project)) == set(done.data["written"])
    assert len(done.data["written"]) > 0


@pytest.mark.parametrize(
    ("words", "says"),
    [(["uper"], "did you mean 'upper'?"), (["--rules", "--model", "x"], "exclude each other")],
)
def test_wrong_words_are_refused(project, words, says):
    done = project("tools", "describe", *words)
    assert (done.code, says in done.err) == (2, True), done.err

"""`tools`, `doctor`, `new`, `completion`, `--help`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest

import fork_server
from agreement import agree
from ropewalk.doors.cli.commands import COMMANDS, GROUPS, help_page, program

pytestmark = pytest.mark.process

SERVER = shutil.which("mcp-server-time")
needs_server = pytest.mark.skipif(SERVER is None, reason="mcp-server-time is not installed")


def with_servers(project, **servers):
    project.write(".mcp.json", json.dumps({"mcpServers": servers}))
    agree(project.home)


def test_tools_are_listed_shown_and_called(project):
    listed = project("tools", "ls", "--json").data
    assert {"upper", "add", "fail", "hang"} <= {tool["name"] for tool in listed["tools"]}
    assert listed["failures"] == {}
    assert "Add two numbers." in project("tools", "ls").out
    shown = project("tools", "show", "add", "--json").data
    assert shown["inputSchema"]["required"] == ["a"]
    assert project("tools", "call", "add", "a=2", "b=40", "--json").data == {"tool": "add", "result": 42}
    assert project("tools", "call", "add", "--input", '{"a": 1}').out.strip() == "2"


def test_editors_get_the_tools_of_providers_and_a_server_that_is_down_is_named(project):
    tool = '{name = "get-order", inputSchema = {properties = {id = {type = "integer"}}, required = ["id"]}}'
    settings = (project.home / "ropewalk.toml").read_text()
    settings += f'[providers.shop]\nurl = "https://shop.example.com"\ntools = [{tool}]\n'
    project.write("ropewalk.toml", f'{settings}[mcp.down]\ncommand = "no-such-program"\n')
    done = project("tools", "stubs", "types", "--json")
    assert (done.code, done.data["servers"]) == (1, {"down": None, "shop": 1}), done.err
    text = (project.home / "types" / "ropewalk" / "servers" / "__init__.pyi").read_text()
    assert "async def get_order(*, id: int) -> Any:" in text
    assert "down: Any" in text
    schema = project("schema", "chain", "--tools")
    assert "no-such-program" in schema.err
    known = json.loads(schema.out)["$defs"]["tool"]["anyOf"][0]
    assert {"shop:get-order", "upper"} <= set(known["enum"])


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["call", "ad"], 2, "did you mean 'add'?"),
        (["show", "nope:x"], 2, "no tool 'nope:x'"),
        (["show", "qqqqqq"], 2, "no tool 'qqqqqq': `ropewalk tools ls` lists the tools"),
        (["call", "add"], 2, '"a" is a required'),
        (["call", "add", "a=x"], 2, "a"),
        (["call", "add", "a"], 2, "must be name=value"),
        (["call", "add", "-i", "[1]"], 2, "must be a JSON object"),
        (["call", "fail", "why=broken"], 1, "broken"),
    ],
)
def test_a_tool_that_cannot_be_called_is_explained(project, words, code, says):
    done = project("tools", *words)
    assert done.code == code, done.err
    assert says in done.err
    assert "Traceback" not in done.err
    assert project("tools", *words, "--json").data["error"]["message"]


@needs_server
def test_a_server_of_the_common_file_is_used_and_a_broken_one_is_named(project):
    time = {"command": fork_server.program("python"), "args": ["-m", "mcp_server_time"]}
    with_servers(project, time=time, gone={"command": "no-such-command-here"}, unset={"command": "${NO_SUCH_V}"})
    listed = project("tools", "ls", "--json")
    assert listed.code == 0, listed.err
    assert "time:get_current_time" in {f"{t.get('namespace')}:{t['name']}" for t in listed.data["tools"]}
    assert "gone" in listed.data["failures"]
    called = project("tools", "call", "time:get_current_time", "timezone=UTC", "--json")
    assert called.code == 0, called.err
    doctor = project("doctor", "--json")
    assert doctor.code == 1
    found = {f["name"]: f for f in doctor.data["findings"]}
    assert found["server time"]["state"] == "ok"
    assert "2 tools" in found["server time"]["message"]
    assert found["server gone"]["state"] == "fault"
    assert "NO_SUCH_V is not set" in found["server unset"]["message"]


def test_doctor_finds_a_good_project_well(project):
    done = project("doctor", "--json")
    assert (done.code, done.data["ok"]) == (0, True), done.out
    names = {f["name"] for f in done.data["findings"]}
    assert {"python", "packages", "sqlite", "node", "project", "store", "tools"} <= names
    assert "no problems found" in project("doctor").out


def test_doctor_and_select_use_the_embedding_model_of_the_project(project):
    settings = (project.home / "ropewalk.toml").read_text()
    project.write("ropewalk.toml", f'{settings}[selector]\nmodel = "toy:Toy"\n')
    project.write("toy.py", TOY.replace("id =", "name ="))
    found = {f["name"]: f for f in project("doctor", "--json").data["findings"]}
    assert found["selection"]["state"] == "fault"
    assert "an embedder must be an object with id" in found["selection"]["message"]
    project.write("toy.py", TOY)
    found = {f["name"]: f for f in project("doctor", "--json").data["findings"]}
    assert (found["selection"]["state"], found["selection"]["message"].split()[-1]) == ("ok", "toy:Toy")
    request = ("tools", "select", "xqz", "--threshold", "0", "--json")
    assert project(*request).data["results"][0]["name"] == "add"
    assert project(*request, "--model", "none").data["results"] != project(*request).data["results"]
    assert project(*request, "--model", "non").code == 2


TOY = """
import numpy as np

class Toy:
    id = "toy"
    def embed_query(self, text):
        return np.array([1, "xqz" in text or "numbers" in text])
    def embed_documents(self, texts):
        return np.stack([self.embed_query(text) for text in texts])
"""


def test_doctor_tells_a_damaged_store_and_touches_nothing(project):
    assert project("run", "shout.yaml", "--input", '{"text": "a"}').code == 0
    store = project.home / "runs.db"
    broken = bytearray(store.read_bytes())
    broken[4096:8192] = os.urandom(4096)
    store.write_bytes(broken)
    done = project("doctor", "--json")
    assert done.code == 1
    assert any(f["name"] == "store" and f["state"] == "fault" for f in done.data["findings"]), done.out
    assert store.read_bytes() == bytes(broken)


def test_doctor_looks_into_a_store_in_postgres_and_hides_its_password(project, postgres_url):
    store = ("--store", f"{postgres_url}&password=hush")
    done = project("run", "shout.yaml", "--input", '{"text": "a"}', "--id", "x", *store)
    assert done.code == 0, done.err
    assert project("runs", "show", "x", "--json", *store).data["status"] == "completed"
    done = project("doctor", "--json", *store)
    assert done.code == 0, done.out
    said = next(f["message"] for f in done.data["findings"] if f["name"] == "store")
    assert re.search(r"\(Postgres \d+.*\), version \d+ of its schema, 1 runs", said), said
    assert "hush" not in done.out + done.err
    done = project("doctor", "--json", "--store", "postgresql://me:hush@127.0.0.1:1/db")
    assert done.code == 1
    assert "postgresql://me@127.0.0.1:1/db: the server cannot be reached" in done.out
    assert "hush" not in done.out + done.err


def test_a_new_project_runs_at_once(project, tmp_path_factory):
    home = tmp_path_factory.mktemp("new")
    made = project("new", "demo", cwd=home)
    assert made.code == 0, made.err
    assert "ropewalk run" in made.out
    demo = home / "demo"
    assert {p.name for p in demo.iterdir()} == {"README.md", "ropewalk.toml", "tools.py", "chain.yaml", "tests"}
    for command in ("validate", "run"):
        done = project(command, "chain.yaml", "--json", cwd=demo)
        assert done.code == 0, done.err
    assert done.data["result"]["favourite"] == "round"
    again = project("new", "demo", cwd=home)
    assert again.code == 2
    assert "not empty" in again.err


def test_the_help_page_and_the_parser_know_the_same_commands(project):
    parser = program()
    for name, (_, summary) in COMMANDS.items():
        found = parser
        for word in name.split():
            found = found[word]
        assert name in help_page()
        assert summary in help_page()
    for name in GROUPS:
        assert project(name).code == 0
    for words in ([], ["-h"], ["--help"], ["help"]):
        assert project(*words).out == help_page()
    assert project("--version").out.startswith("ropewalk 0")


HELPS = """
from ropewalk.doors.cli.commands import COMMANDS
from ropewalk.doors.cli.main import main

for name in COMMANDS:
    try:
        code = main([*name.split(), "--help"])
    except SystemExit as end:
        code = end.code
    assert not code, name
"""


def test_every_command_has_help_with_its_options(project):
    script = project.write("helps.py", HELPS)
    env = project.env({"COLUMNS": "200"})
    done = fork_server.run([sys.executable, script], cwd=project.home, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [name for name in COMMANDS if f"Usage: ropewalk {name}" not in done.stdout] == []


@pytest.mark.parametrize("words", ["run", "runs", "runs approve", "serve", "completion"])
def test_written_help_is_what_the_parser_prints(project, words):
    own = "import sys; from ropewalk.doors.cli.dispatch import dispatch; dispatch(sys.argv[1:])"
    command = [sys.executable, "-c", own, *words.split(), "--help"]
    made = fork_server.run(command, cwd=project.home, env=project.env(), capture_output=True, text=True)
    assert project(*words.split(), "--help").out == made.stdout != ""


@pytest.mark.parametrize("word", ["--help", "--version", "run --help", "runs approve --help"])
def test_help_and_version_import_neither_asyncio_nor_anything_heavy(word):
    code = f"import sys; from ropewalk.doors.cli.main import main; main({word.split()!r}); print(*sys.modules)"
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    loaded = set(done.stdout.splitlines()[-1].split())
    heavy = {"asyncio", "inspect", "logging", "cyclopts", "rich", "mcp", "pydantic", "yaml", "apsw", "orjson"}
    assert "ropewalk.doors.cli.commands" in loaded
    assert loaded & heavy == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(project, shell):
    done = project("completion", shell)
    assert done.code == 0, done.err
    assert "validate" in done.out
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=done.out, text=True, check=False).returncode == 0


def test_python_dash_m_is_the_command_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "ropewalk", "validate", "absent.yaml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "absent.yaml" in done.stderr


def test_a_limit_for_a_tool_or_a_server_that_is_not_there_is_a_problem_with_its_place(project: Any) -> None:
    file = project.home / "ropewalk.toml"
    plain = file.read_text()
    server = "[mcp.github]\nurl = 'http://127.0.0.1:9'\n"
    for wrong, near in (("uper", "did you mean upper?"), ("githup:*", "did you mean github:*?")):
        file.write_text(f'{plain}{server}[limits.tools."{wrong}"]\nper_second = 5\n')
        done = project("run", "shout.yaml", "--input", '{"text": "a"}')
        assert (done.code, "ropewalk.toml:8:1: " in done.err, near in done.err) == (2, True, True), done.err
        found = [one for one in project("doctor", "--json").data["findings"] if "[limits.tools" in one["message"]]
        assert [one["state"] for one in found] == ["fault"]
    file.write_text(
        f"{plain}{server}" + "".join(f'[limits.tools."{n}"]\nper_second = 9\n' for n in ("up*", "github:x"))
    )
    assert project("run", "shout.yaml", "--input", '{"text": "a"}').code == 0


def test_a_call_outside_of_a_run_names_the_place_of_its_failure(project: Any) -> None:
    done = project("tools", "call", "fail", "why=bad luck")
    assert done.code == 1
    lines = (project.home / "rw_cli_tools.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "raise RuntimeError(why)" in text)
    assert f"fail failed at rw_cli_tools.py:{line} in fail" in done.err
    assert " at " not in project("tools", "call", "upper", "text=5", "--input", '{"nothing": 1}').err


def test_a_strict_tool_that_is_not_there_is_a_warning(project: Any) -> None:
    file = project.home / "ropewalk.toml"
    file.write_text(file.read_text().replace("[tools]", '[tools]\nstrict_output = ["upper", "uper", "githup:*"]'))
    done = project("run", "shout.yaml", "--input", '{"text": "a"}')
    assert done.code == 0
    told = ["ropewalk.toml:2:27: [tools] strict_output: there is no tool 'uper'; did you mean upper?"]
    told += ["ropewalk.toml:2:35: [tools] strict_output: there is no server 'githup'"]
    assert [line for line in done.err.splitlines() if "] strict_output: " in line] == told
    found = [one["message"] for one in project("doctor", "--json").data["findings"] if "strict_output" in str(one)]
    assert found == told


def test_no_tools_says_which_module_holds_none(project):
    project.write("rw_cli_tools.py", "def twice(text: str) -> str:\n    return text * 2\n")
    said = "no tools: the module rw_cli_tools was imported and holds no function with @tool"
    assert said in project("tools", "ls").out
    project.write("ropewalk.toml", "")
    assert "no tools; see [tools] and [mcp.NAME]" in project("tools", "ls").out

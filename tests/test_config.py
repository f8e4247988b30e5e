"""Configuration: what is found, what is refused and where, what the environment overrides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agreement import AGREED
from ropewalk.config.modules import import_tools
from ropewalk.config.project import read_config
from ropewalk.config.settings import Limits
from ropewalk.errors import ConfigError


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refused(directory: Path, **environ: str) -> tuple[int, int, str]:
    with pytest.raises(ConfigError) as caught:
        read_config(directory, environ=environ)
    place = caught.value.place
    assert place is not None, caught.value
    assert place.file.endswith(("ropewalk.toml", ".mcp.json"))
    return place.line, place.column, str(caught.value)


def test_without_a_file_everything_has_its_default(tmp_path):
    config = read_config(tmp_path, environ={})
    assert (config.file, config.store, config.modules, config.sync) == (None, None, (), "normal")
    assert config.limits == Limits(tool_timeout=60.0)


def test_the_nearest_file_upward_holds(tmp_path):
    write(tmp_path / "ropewalk.toml", "[tools]\nmodules = ['outer']\n")
    write(tmp_path / "a" / "ropewalk.toml", "[tools]\nmodules = ['inner']\n")
    (tmp_path / "a" / "b").mkdir()
    (tmp_path / "c").mkdir()
    assert read_config(tmp_path / "a" / "b", environ={}).modules == ("inner",)
    assert read_config(tmp_path / "c", environ={}).directory == tmp_path


def test_every_setting_is_read(tmp_path):
    write(
        tmp_path / "ropewalk.toml",
        """
[tools]
modules = ["mytools", "more.tools"]
[mcp.files]
command = "npx"
args = ["-y", "server", "${HOME_DIR}"]
env = {TOKEN = "${TOKEN:-none}"}
timeout = 5
connect_timeout = 7.5
mode = "legacy"
[mcp.web]
url = "https://example.com/mcp"
headers = {Authorization = "Bearer ${KEY}"}
[mcp.off]
command = "x"
enabled = false
[providers.pay]
url = "https://pay.example"
openapi = "pay.json"
[store]
url = "sqlite:///data/runs.db"
sync = "full"
[limits]
tool_timeout = 2.5
nodes = 5
""",
    )
    config = read_config(tmp_path, environ={"HOME_DIR": "/srv", "KEY": "k1"})
    files, web = config.servers["files"], config.servers["web"]
    assert config.modules == ("mytools", "more.tools")
    assert (files.command, files.args, dict(files.env)) == (
        "npx",
        ("-y", "server", "/srv"),
        {"TOKEN": "${TOKEN:-none}"},
    )
    assert (files.timeout, files.connect_timeout, files.mode, files.cwd) == (5, 7.5, "legacy", str(tmp_path))
    assert (web.url, dict(web.headers), web.cwd) == (
        "https://example.com/mcp", {"Authorization": "Bearer ${KEY}"}, None
    )  # fmt: skip
    assert set(config.servers) == {"files", "web"}
    assert config.providers["pay"].openapi == str(tmp_path / "pay.json")
    assert (config.store, config.sync) == (f"sqlite:///{tmp_path}/data/runs.db", "full")
    assert (config.limits.tool_timeout, config.limits.nodes) == (2.5, 5)


def test_secrets_do_not_show_in_the_text_of_a_configuration(tmp_path):
    write(tmp_path / "ropewalk.toml", '[mcp.a]\nurl = "http://x"\nheaders = {K = "${S}"}\nenv = {T = "${S}"}\n')
    assert "hush" not in repr(read_config(tmp_path, environ={"S": "hush"}))


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("[tools]\nmodules 3\n", 2, 9, "expected '='"),
        ("[tools]\n[tools.a]\n[tools.a]\n", 3, 9, "cannot declare [tools.a] twice"),
        ("[tols]\nmodules = []\n", 1, 2, "unknown key 'tols'; did you mean tools?"),
        ("[tools]\n\n  modles = []\n", 3, 3, "[tools] unknown key 'modles'; did you mean modules?"),
        ("[tools]\nmodules = 'x'\n", 2, 1, "[tools] modules: must be a list of texts"),
        ("store.urk = 'x'\n", 1, 1, "did you mean url?"),
        ("[store]\nsync = 'fast'\n", 2, 1, '"normal" or "full"'),
        ("[limits]\ntool_timeout = -1\n", 2, 1, "a number of seconds above 0"),
        ("[limits]\nnesting = 201\n", 2, 1, "a whole number from 1 to 200"),
        ("[limits]\nnodes = true\n", 2, 1, "a whole number above 0"),
        ("[mcp.a]\ncommand = 'x'\nurl = 'y'\n", 1, 2, "either a command or a url"),
        ("[mcp.\"a.b\"]\ncomand = 'x'\n", 2, 1, "did you mean command?"),
        ("[mcp.a]\ncommand = 'x'\nmode = 'legcy'\n", 3, 1, "mode: must be one of auto, legacy, 2026-07-28"),
        ("[mcp.a]\nurl = 'x'\nconnect_timeout = 0\n", 3, 1, "a number of seconds above 0"),
        ("[mcp]\nfiel = 'x'\n", 2, 1, "did you mean file?"),
        ("[mcp]\ntime = 'mcp-time'\n", 2, 1, 'write [mcp.time] with command = "mcp-time"'),
        ("[mcp]\ntime = 'https://t.example/mcp'\n", 2, 1, 'with url = "https://t.example/mcp"'),
        ("[mcp]\ncommand = 'x'\n", 2, 1, "write it in [mcp.NAME]"),
        ("[mcp]\nfile = 'nope.json'\n", 2, 1, "'nope.json' does not exist"),
        ("mcp = 3\n", 1, 1, "must be a table"),
        ("\n[[mcp]]\nname = 'x'\n", 2, 3, "mcp must be a table"),
        ("[providers.p]\nheaders = {}\n", 1, 2, "needs a url or an openapi document"),
        ("[providers.p]\nurl = 'http://x'\ntools = ['t']\n", 3, 1, "tools: must be a list of tables"),
        ("[providers.p]\nopenapi = 'a'\ntools = []\n", 1, 2, "from openapi or from tools, not both"),
    ],
)
def test_what_is_wrong_is_refused_at_its_line(tmp_path, text, line, column, says):
    write(tmp_path / "ropewalk.toml", text)
    found = refused(tmp_path)
    assert says in found[2].replace("Invalid", "invalid"), found
    assert found[:2] == (line, column), found


def test_what_is_wrong_in_several_tables_is_told_at_once_in_the_order_of_the_file(tmp_path):
    text = """
[providers.p]
ulr = "x"
[mcp.a]
comand = "x"
[mcp.b]
[mcp.c]
command = 5
[providers.q]
headers = {}
[store]
sync = "fast"
[schedules.s]
queue = "x"
[queues._q]
[queues.r]
limit = 0
[limits]
tools = 5
[workers]
lease = 0
"""
    write(tmp_path / "ropewalk.toml", text)
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path, environ={})
    places = [problem.place for problem in caught.value.problems]
    assert [(Path(place.file).name, place.line) for place in places] == [
        *(("ropewalk.toml", line) for line in (3, 5, 6, 8, 9, 12, 13, 14, 15, 17, 19, 21))
    ]  # fmt: skip
    assert "cron and flow are missing" in str(caught.value)


def test_all_that_is_wrong_in_one_schedule_queue_or_limit_is_told_at_once(tmp_path):
    text = """\
[schedules.s]
queue = "x"
input = 1
catch_up = 5
[queues._q]
limit = 0
[limits.tools."a:*"]
burst = 0
"""
    write(tmp_path / "ropewalk.toml", text)
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path, environ={})
    told = [(problem.place.line, problem.message) for problem in caught.value.problems]
    assert [line for line, _ in told] == [1, 2, 4, 5, 6, 7, 8], told
    assert told[0][1] == "[schedules.s] cron and flow are missing"
    assert told[1][1] == "[schedules.s] queue: [queues.x] is not defined"


def test_the_common_servers_file_is_read_by_default(tmp_path):
    servers = {"git": {"command": "mcp-server-git", "type": "stdio"}, "old": {"command": "x", "disabled": True}}
    write(tmp_path / ".mcp.json", json.dumps({"mcpServers": servers, "other": 1}))
    assert list(read_config(tmp_path, environ=AGREED).servers) == ["git"]


def test_the_servers_file_can_be_named_and_is_overridden_by_the_toml(tmp_path):
    servers = {"git": {"command": "one"}, "web": {"url": "http://x"}}
    write(tmp_path / "conf" / "servers.json", json.dumps({"mcpServers": servers}))
    write(tmp_path / "ropewalk.toml", "[mcp]\nfile = 'conf/servers.json'\n[mcp.git]\ncommand = 'two'\n")
    config = read_config(tmp_path, environ={})
    assert config.servers["git"].command == "two"
    assert config.servers["web"].url == "http://x"


def test_one_server_that_cannot_be_used_does_not_stop_the_others(tmp_path):
    servers = {"a": {"command": "x", "env": {"K": "${NOT_SET}"}}, "b": {"command": "y"}, "c": {}, "d": {"args": 3}}
    write(tmp_path / ".mcp.json", json.dumps({"mcpServers": servers}))
    config = read_config(tmp_path, environ=AGREED)
    assert list(config.servers) == ["b"]
    assert config.failures["a"].endswith(".mcp.json:1:47: environment variable NOT_SET is not set")
    assert set(config.failures) == {"a", "c", "d"}


@pytest.mark.parametrize("key", ["env", "headers"])
def test_a_variable_in_env_and_headers_is_looked_for_and_left_to_who_connects(tmp_path, key):
    own = "command = 'x'" if key == "env" else "url = 'http://x'"
    write(tmp_path / "ropewalk.toml", f"[mcp.a]\n{own}\n{key} = {{K = '${{OUTER}}'}}\n")
    found = read_config(tmp_path, environ={"OUTER": "${INNER}", "INNER": "secret"}).servers["a"]
    assert dict(getattr(found, key)) == {"K": "${OUTER}"}
    [reason] = read_config(tmp_path, environ={"INNER": "x"}).failures.values()
    assert reason.endswith("ropewalk.toml:3:1: environment variable OUTER is not set")


def test_an_unset_variable_of_a_nested_setting_has_the_line_of_its_key(tmp_path: Path) -> None:
    text = '[providers.p]\nopenapi = "d.json"\n[providers.p.credentials]\na = "x"\nb = "${UNSET_KEY}"\n'
    write(tmp_path / "ropewalk.toml", text)
    [reason] = read_config(tmp_path, environ={}).failures.values()
    assert reason.endswith("ropewalk.toml:5:1: environment variable UNSET_KEY is not set")


def test_a_default_stands_for_an_empty_variable_and_a_value_is_not_read_again(tmp_path):
    args = "['${A:-one}', '${B:-two}', '${C}', '${D:-}']"
    write(tmp_path / "ropewalk.toml", f"[mcp.a]\ncommand = 'x'\nargs = {args}\n")
    found = read_config(tmp_path, environ={"A": "", "B": "${C}", "C": ""}).servers["a"]
    assert found.args == ("one", "${C}", "", "")


def test_the_environment_overrides_the_store(tmp_path):
    write(tmp_path / "ropewalk.toml", "[store]\nurl = 'runs.db'\n")
    assert read_config(tmp_path, environ={}).store == str(tmp_path / "runs.db")
    assert read_config(tmp_path, environ={"ROPEWALK_STORE": "memory"}).store == "memory"


MARKED = """
def tool(f):
    f.__ropewalk_tool__ = True
    return f
@tool
def one(): ...
def not_a_tool(): ...
@tool
def two(): ...
again = one
"""


def test_marked_functions_are_taken_once_in_order(tmp_path):
    write(tmp_path / "ropewalk.toml", "[tools]\nmodules = ['rw_marked_tools']\n")
    write(tmp_path / "rw_marked_tools.py", MARKED)
    assert [f.__name__ for f in import_tools(read_config(tmp_path, environ={}))] == ["one", "two"]


def test_two_projects_may_have_modules_of_the_same_name(tmp_path):
    for name in ("p", "q"):
        write(tmp_path / name / "ropewalk.toml", "[tools]\nmodules = ['rw_same_tools']\n")
        write(
            tmp_path / name / "rw_same_tools.py", MARKED.replace("def one", f"def {name}_one").replace("= one", "= two")
        )
    for name in ("p", "q", "p"):
        found = import_tools(read_config(tmp_path / name, environ={}))
        assert found[0].__name__ == f"{name}_one"


def test_a_module_that_is_not_there_is_named_with_a_suggestion(tmp_path):
    write(tmp_path / "ropewalk.toml", "[tools]\nmodules = ['rw_mytool']\n")
    write(tmp_path / "rw_mytools.py", "")
    with pytest.raises(ConfigError, match=r"ropewalk\.toml:2:1: .*no module 'rw_mytool'; did you mean rw_mytools\?"):
        import_tools(read_config(tmp_path, environ={}))


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        ("import os\ndef f(:\n", 2, "invalid syntax"),
        ("import os\n\n1 / 0\n", 3, "ZeroDivisionError"),
        ("import rw_not_there_at_all\n", 1, "rw_not_there_at_all"),
        ("raise SystemExit(3)\n", 1, "SystemExit"),
    ],
)
def test_a_module_that_fails_is_shown_at_the_line_that_fails(tmp_path, source, line, says):
    write(tmp_path / "ropewalk.toml", "[tools]\nmodules = ['rw_bad_module']\n")
    write(tmp_path / "rw_bad_module.py", source)
    with pytest.raises(ConfigError) as caught:
        import_tools(read_config(tmp_path, environ={}))
    assert says in str(caught.value)
    assert "rw_bad_module" in str(caught.value)
    assert caught.value.place is not None
    assert caught.value.place.file.endswith("rw_bad_module.py")
    assert caught.value.place.line == line


def test_the_address_of_the_store_may_name_variables(tmp_path):
    url = '[store]\nurl = "postgresql://me:${PG_PASSWORD}@${PG_HOST:-localhost}/db"\n'
    write(tmp_path / "ropewalk.toml", url)
    config = read_config(tmp_path, environ={"PG_PASSWORD": "s3cret"})
    assert config.store == "postgresql://me:s3cret@localhost/db"
    assert "s3cret" not in repr(config)
    with pytest.raises(ConfigError, match="environment variable PG_PASSWORD is not set") as told:
        read_config(tmp_path, environ={})
    assert "ropewalk.toml:2" in str(told.value)
    assert read_config(tmp_path, environ={"ROPEWALK_STORE": "memory"}).store == "memory"


def test_bytes_that_are_no_text_and_brackets_that_are_too_deep_have_their_place(tmp_path):
    file = tmp_path / "ropewalk.toml"
    file.write_bytes(b"[tools]\nmodules = ['\xff']\n")
    line, column, said = refused(tmp_path)
    assert (line, column) == (2, 13)
    assert "byte 0xff is not UTF-8" in said
    deep = "[" * 100_000 + "]" * 100_000
    write(file, f'[tools]\n# [[[\nx = """[[["""\nmodules = {deep}\n')
    line, column, said = refused(tmp_path)
    assert (line, column) == (4, 211)
    assert "nested deeper than 200" in said
    file.write_bytes(b"\xef\xbb\xbf[tools]\r\nmodules = ['a']\r\n")
    assert read_config(tmp_path, environ={}).modules == ("a",)


def test_all_that_is_wrong_in_a_file_is_told_at_once_in_its_order(tmp_path):
    text = "[tools]\nmodles = []\n[stor]\nurl = 'x'\n[store]\nurl = 1\n[limits]\nnodes = 0\n"
    line, _, said = refused(write(tmp_path / "ropewalk.toml", text).parent)
    assert line == 2
    assert [one.partition("ropewalk.toml:")[2] for one in said.splitlines()] == [
        "2:1: [tools] unknown key 'modles'; did you mean modules?",
        "3:2: unknown key 'stor'; did you mean store?",
        "6:1: [store] url: must be text",
        "8:1: [limits] nodes: must be a whole number above 0",
    ]


def test_all_that_is_wrong_of_a_server_is_told_at_once(tmp_path):
    write(tmp_path / "ropewalk.toml", "[mcp.a]\ncomand = 'x'\nargs = 1\n")
    assert len(refused(tmp_path)[2].splitlines()) == 2

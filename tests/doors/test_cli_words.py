"""What is said where a word is too many, a name is nobody's, or a command is for another kind of store."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from ropewalk import App
from ropewalk.doors.cli.commands import OLD_OPTIONS, current_words, help_page, program
from ropewalk.doors.cli.help import written_help
from ropewalk.errors import ConfigError, InvalidInput
from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql.timetable import Timetable, TimetableRow
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.workers.schedules import scheduled_run_id

COMMAND = str(Path(sys.executable).with_name("ropewalk"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["graph", "shout.yaml", "b.yaml"], "too many words, from 'b.yaml' on: `ropewalk graph` takes one SOURCE"),
        (
            ["tools", "select", "was", "ist"],
            "from 'ist' on: `ropewalk tools select` takes one QUERY in quotes: \"...\"",
        ),
        (["runs", "ls", "all"], "too many words, from 'all' on: `ropewalk runs ls` takes none"),
    ],
)
def test_a_word_too_many_is_told_with_what_the_command_takes(project, words, said):
    done = project(*words)
    assert (done.code, "Tokens" in done.err) == (2, False)
    assert said in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["worker", "--store", "memory"], "workers and schedules need a store in a file, or one in Postgres, such as"),
        (["workers", "ls"], "there is no store at runs.db yet; a server or a worker makes it"),
        (["schedules", "ls"], "there is no store at runs.db yet; a server or a worker makes it"),
    ],
)
def test_what_is_for_workers_says_which_store_it_needs(project, words, said):
    done = project(*words)
    assert done.code == 1, done.err
    assert said in done.err
    assert "dbos" not in done.err  # nobody asked for it, and these commands have no --engine


def test_schedules_are_listed_before_any_worker_has_started(project):
    toml = project.home / "ropewalk.toml"
    before = toml.read_text()
    toml.write_text(f'{before}\n[schedules.tick]\ncron = "0 0 1 1 *"\nflow = "shout.yaml"\n')
    rows = project("schedules", "ls", "--json").data
    assert [(row["name"], row["status"], row["paused"], row["next"]) for row in rows] == [
        ("tick", "not started", False, None)
    ]
    assert project("run", "shout.yaml", "--input", '{"text": "a"}').code == 0  # makes the store
    assert project("schedules", "ls").out.splitlines()[1].split()[-4:] == ["not", "started", "-", "-"]


def test_schedules_say_why_their_last_run_failed(project):
    row = TimetableRow(
        name="tick", project=None, cron="0 0 1 1 *", timezone="UTC", context={"flow": "gone.yaml"},
        catch_up="run_once", next=60.0,
    )  # fmt: skip
    with contextlib.closing(SqliteStore(project.home / "runs.db")) as store:
        Timetable(store).replace_all([row], None)
        Timetable(store).advance(row, 4e9, 60.0, ())

        id = scheduled_run_id("tick", "1970-01-01T00:01:00+00:00")

        async def record() -> None:
            log = await store.open(NewRun(id=id, kind="schedule", name="tick"))
            await log.finish("failed", None, {"message": "no file 'gone.yaml'\nat all", "kind": "NotFound"})

        asyncio.run(record())
    head, line = project("schedules", "ls").out.splitlines()
    assert (head.split()[-1], line.endswith("no file 'gone.yaml'")) == ("ERROR", True)
    assert "correct the cause, then start another one: ropewalk schedules run tick" in project("runs", "show", id).out


def test_who_asks_for_workers_is_told_how_to_do_without(project):
    done = project("run", "shout.yaml", "--input", '{"text": "a"}', "--engine", "dbos")
    assert 'engine="dbos" needs a store that workers on other hosts can reach' in done.err
    assert "or --engine local on the command line" in done.err


def test_standard_input_that_is_not_utf_8_is_told_like_a_file(project):
    piped = b'{"a":"\xff"}'
    (project.home / "bad.json").write_bytes(piped)
    command = [COMMAND, "run", "shout.yaml", "--input", "@-"]
    done = subprocess.run(command, input=piped, cwd=project.home, env=project.env(), capture_output=True, timeout=300)
    assert done.returncode == 2
    assert "<stdin>:1:7: byte 0xff is not UTF-8; write it as UTF-8" in done.stderr.decode()
    assert "bad.json:1:7: byte 0xff is not UTF-8" in project("run", "shout.yaml", "--input", "@bad.json").err


def test_where_there_are_no_recorded_tests_it_is_said_how_one_is_made(project):
    done = project("test")
    assert (done.code, done.err.splitlines()[-1]) == (
        2,
        "error: there is no recorded test here or in a subdirectory (files *.test.yaml); to record a run as a test:"
        " ropewalk runs export RUN --as-test > NAME.test.yaml",
    )


def test_every_help_has_the_exit_codes_and_no_default_of_nothing(project):
    assert "141 output not written" in help_page()
    for words in ("tools select", "run", "runs ls", "bench"):
        said = " ".join(project(*words.split(), "--help").out.split())
        assert "141 output not written" in said
        for nothing in ("default: ()", "default: False", "default: None", "--empty-"):
            assert nothing not in said, words
    assert "default: 1000" in said


def test_doctor_sets_what_a_server_wrote_apart_from_its_own_advice(project):
    code = "import sys; sys.exit('no database')"
    project.write("ropewalk.toml", f'[mcp.dies]\ncommand = "{sys.executable}"\nargs = ["-c", "{code}"]\n')
    lines = project("doctor").out.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.endswith("its stderr ends with:")]
    assert lines[at + 1 : at + 3] == [
        "    no database",
        "    check its command, url and environment in ropewalk.toml or .mcp.json",
    ]


def test_a_schedule_that_never_comes_is_refused_for_its_definition_and_a_warning_elsewhere(project):
    text = (project.home / "ropewalk.toml").read_text()
    project.write("ropewalk.toml", f'{text}\n[schedules.never]\ncron = "0 0 31 2 *"\nflow = "shout.yaml"\n')
    said = "ropewalk.toml:7:1: [schedules.never] cron: '0 0 31 2 *' is never due"
    own = project("validate", "shout.yaml")
    assert (own.code, said in own.err) == (3, True), own.err
    project.write("other.yaml", (project.home / "shout.yaml").read_text())
    other = project("validate", "other.yaml")
    assert (other.code, said in other.out) == (0, True), other.out
    assert project("run", "shout.yaml", "--input", '{"text": "a"}').code == 0
    done = project("doctor")
    assert (done.code, said in done.out) == (1, True), done.out


@pytest.mark.parametrize(
    ("option", "name", "said"),
    [
        ("--exclude", "uper", "no tool 'uper'; did you mean 'upper'?"),
        ("--exclude", "nosuch", "no tool 'nosuch'"),
        ("--category", "calendar", "no category 'calendar': no tool declares a category"),
        ("--namespace", "nosuch", "no namespace 'nosuch'"),
    ],
)
def test_a_filter_that_is_for_nothing_there_is_refused(project, option, name, said):
    done = project("tools", "select", "upper case", option, name)
    assert (done.code, said in done.err) == (2, True), done.err


def test_a_tool_of_a_server_that_is_not_there_may_be_left_out(project):
    text = (project.home / "ropewalk.toml").read_text()
    project.write("ropewalk.toml", f'{text}\n[mcp.far]\ncommand = "no-such-program"\n')
    assert project("tools", "select", "upper case", "--exclude", "far:one", "--exclude", "add").code == 0


def test_what_comes_nearest_is_explained_where_nothing_fits(project):
    done = project("tools", "select", "upper calendar", "--explain", "--threshold", "1")
    assert done.out.splitlines()[0] == "no fitting tool; below the threshold of 1:"
    assert "  upper  Make it upper case." in done.out.splitlines()[1]
    assert "      not found: calendar" in done.out.splitlines()
    assert "--explain shows the nearest tools" in project("tools", "select", "upper", "--threshold", "1").out


def test_a_store_and_a_directory_that_are_none_are_refused_at_once(tmp_path):
    with pytest.raises(InvalidInput, match="store: must be an address, a path or a Store, not int"):
        App(42)
    with pytest.raises(ConfigError, match="there is no such directory"):
        App.open(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file; name its directory"):
        App.open(tmp_path / "file")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("doctor --limit 5", "doctor --timeout 5"),
        ("mcp --tools --most-listed 7", "mcp --tools --max-listed 7"),
        ("n8n build --run-id b1 letter", "n8n build --id b1 letter"),
        ("plan f.yaml --json", "preview f.yaml --json"),
        ("runs fork r --at a --at each[3]/b", "runs fork r --from a --from each[3]/b"),
        ("tools select --max 3 letter", "tools select --limit 3 letter"),
        ("tools select letter --max=3", "tools select letter --limit=3"),
        ("tools stats --days 30 --runs 9 --json", "tools stats --since 30d --limit 9 --json"),
        ("tools stats --days=2", "tools stats --since=2d"),
        ("worker --queues fast slow --grace 1", "worker --queue fast --queue slow --grace 1"),
        ("tools select -- --max", "tools select -- --max"),
        ("plan --help", "preview --help"),
    ],
)
def test_former_names_of_commands_and_options_mean_the_new_ones(old: str, new: str) -> None:
    words = current_words(old.split())
    if "--help" in words:
        assert words == new.split()
        return
    command, bound, _ = program().parse_args(words, exit_on_error=False, print_error=False)
    assert (command, bound) == program().parse_args(new.split(), exit_on_error=False, print_error=False)[:2]


def test_former_names_are_in_no_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # with it, the parser writes the help
    for former in OLD_OPTIONS:
        command, _, option = former.rpartition(" ")
        page = written_help([*command.split(), "--help"])
        assert page is not None, command
        assert f"{option} " not in page

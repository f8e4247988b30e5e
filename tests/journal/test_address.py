"""From an address to a store."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import traceback
from pathlib import Path

import pytest

from ropewalk.app.app import App
from ropewalk.doors.cli.dispatch import dispatch
from ropewalk.errors import StoreError
from ropewalk.journal.address import open_store
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.postgres.session import parse_target
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.sqlite.store import SqliteStore

CHAIN = {"kind": "chain", "nodes": [{"id": "s", "type": "delay", "delay": 0}]}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def file_of(url: str | None) -> Path:
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    store.close()
    return store.path


def test_default_is_a_hidden_directory_that_git_ignores(tmp_path: Path) -> None:
    assert file_of(None) == tmp_path / ".ropewalk" / "ropewalk.db"
    assert (tmp_path / ".ropewalk" / ".gitignore").read_text().splitlines()[-1] == "*"
    (tmp_path / ".ropewalk" / ".gitignore").write_text("mine")
    file_of(None)
    assert (tmp_path / ".ropewalk" / ".gitignore").read_text() == "mine"


def test_a_path_is_a_file_whatever_it_is_called(tmp_path: Path) -> None:
    async def main() -> None:
        async with App(Path("memory")) as app:
            await app.run(CHAIN, run_id="r")

    asyncio.run(main())
    assert [run.id for run in SqliteStore(tmp_path / "memory").list_runs()] == ["r"]


def test_sqlite_takes_a_path_relative_or_absolute(tmp_path: Path) -> None:
    assert file_of("sqlite:///a.db") == tmp_path / "a.db"
    assert file_of(f"sqlite:///{tmp_path}/b.db") == tmp_path / "b.db"
    assert file_of("c.db") == tmp_path / "c.db"
    assert file_of(f"{tmp_path}/d.db") == tmp_path / "d.db"
    assert file_of("./memory") == tmp_path / "memory"


def test_memory_is_a_store_that_keeps_no_entries() -> None:
    store = open_store("memory")
    assert isinstance(store, MemoryStore)
    assert not store.durable


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgres://host/db?sesion=1", "address of the Postgres store is wrong"),
        ("postgresql://host/db?schema=Not One", "schema='Not One' is not a plain name"),
        ("postgresql://me:secret@127.0.0.1:1/db", "postgresql://me@127.0.0.1:1/db: the server cannot be reached"),
        ("mysql://host/db", "unsupported store URL mysql://; valid addresses: memory, sqlite:///"),
        ("sqllite:///a.db", "did you mean sqlite?"),
        ("memroy", "did you mean 'memory'?"),
        ("sqlite://a.db", "three slashes"),
        ("sqlite:///", "three slashes"),
        ("", "address is empty"),
        ("no/such/place.db", "does not exist; create it first"),
    ],
)
def test_wrong_address_is_told_with_what_would_be_right(url: str, told: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(url)
    assert told in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mongodb://me:secret@x", "unsupported store URL mongodb://; valid addresses: memory, sqlite:///"),
        ("memroy", "is not a store; did you mean 'memory'?"),
        ("no/such/place.db", "does not exist; create it first"),
        ("sqlite:///no/such/place.db", "does not exist; create it first"),
        (f"{__file__}/place.db", f"directory {__file__} is a file"),
    ],
)
def test_an_app_refuses_a_wrong_address_when_it_is_made(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], url: str, told: str
) -> None:
    with pytest.raises(StoreError) as caught:
        App(url)
    assert told in str(caught.value)
    if url == "memroy":
        return  # a file in the directory of ropewalk.toml
    Path("ropewalk.toml").write_text(f'[store]\nurl = "{url}"\n')
    place = "ropewalk.toml:2:1: [store] url: "
    with pytest.raises(StoreError) as caught:
        _ = App.open().store
    assert str(caught.value).startswith(place)
    assert told in str(caught.value)
    for words in (["worker"], ["serve", "--port", "0"], ["mcp", "--http", "0"]):
        assert dispatch(words) == 2, words
        said = capfd.readouterr().err
        assert place in said
        assert "secret" not in said
    assert list(tmp_path.iterdir()) == [tmp_path / "ropewalk.toml"]


def test_commands_that_need_no_store_work_without_its_directory(capfd: pytest.CaptureFixture[str]) -> None:
    Path("ropewalk.toml").write_text('[store]\nurl = "sqlite:////no/such/place.db"\n')
    Path("c.yaml").write_text("kind: chain\nname: c\nnodes: [{id: s, type: delay, delay: 0}]\n")
    assert dispatch(["validate", "c.yaml"]) == 0, capfd.readouterr().err


def test_postgres_without_its_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r'pip install "ropewalk\[postgres\]"'):
        open_store("postgresql://host/db")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_postgres_has_both_its_schemes(postgres_url: str, scheme: str) -> None:
    store = open_store(scheme + postgres_url.removeprefix("postgresql"))
    assert isinstance(store, PostgresStore)
    assert store.list_runs() == []
    store.close()


def test_default_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / ".ropewalk").write_text("a file")
    with pytest.raises(StoreError, match="ROPEWALK_STORE"):
        open_store(None)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:se%cret@host/db",
        "postgresql://me:s/ecret@host/db",
        "postgresql://me:secret@host:port/db",
        "postgresql://me:sec[ret@host/db",
        "postgresql://me:secret@host/db?sesion=1",
        "postgresql://host/db?password=secret&sesion=1",
        "postgresql:/me:secret@host/db",
        "postgresqll://me:secret@host/db",
        "postgresql://me:secret@127.0.0.1:1/db",
    ],
)
def test_no_error_shows_a_password(url: str) -> None:
    with pytest.raises(StoreError) as told:
        open_store(url)
    said = "".join(traceback.format_exception(told.value))
    assert not any(part in said.replace(url, "") for part in ("secret", "ecret", "cret@", "sec["))


def test_what_libpq_knows_is_passed_on_and_no_password_is_shown() -> None:
    where = parse_target(
        "postgresql://me:s%40cret@a,b:6000/db?sslmode=verify-full&sslrootcert=/ca.pem&connect_timeout=3"
        "&target_session_attrs=read-write&schema=mine"
    )
    assert where.parameters["password"] == "s@cret"
    assert where.parameters["sslmode"] == "verify-full"
    assert where.parameters["sslrootcert"] == "/ca.pem"
    assert where.parameters["target_session_attrs"] == "read-write"
    assert int(where.parameters["connect_timeout"]) == 3
    assert (where.schema, where.name) == ("mine", "postgresql://me@a,b:,6000/db?schema=mine")
    assert "cret" not in repr(where)


def test_a_server_that_cannot_be_spoken_to_in_secret_is_refused_when_that_is_asked_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def refuse() -> None:
            connection, _ = plain.accept()
            with connection:
                connection.recv(8)
                connection.sendall(b"N")  # no TLS

        threading.Thread(target=refuse, daemon=True).start()
        with pytest.raises(StoreError, match="does not support SSL"):
            open_store(f"postgresql://me@127.0.0.1:{plain.getsockname()[1]}/db?sslmode=require")


@pytest.mark.skipif(os.name != "posix", reason="paths are text there")
def test_a_path_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="SQLite needs a path in UTF-8"):
        open_store(tmp_path / "caf\udce9.db")

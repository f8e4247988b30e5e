"""Links that came with a directory never lead what the program writes elsewhere."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from ropewalk.doors.cli.arguments import write_atomically
from ropewalk.errors import StoreError
from ropewalk.journal.address import open_store
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.source.load import create_file, replace_file
from ropewalk.tools.definition import Definition
from ropewalk.tools.pins import LOCK_FILE, Pins

WEIGH = Definition(name="weigh", description="Weighs.", input_schema={"type": "object"})


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user that must stay as it is; `home` is a directory of a stranger beside it."""
    (tmp_path / "home").mkdir()
    (tmp_path / "victim").write_text("mine")
    return tmp_path / "victim"


def approve(home: Path) -> None:
    pins = Pins(home / LOCK_FILE)
    pins.approve("scale", [WEIGH])
    pins.write()


@pytest.mark.parametrize("name", [LOCK_FILE, f"{LOCK_FILE}.new", f".{LOCK_FILE}.new"])
def test_approving_pins_follows_no_link(victim: Path, name: str) -> None:
    home = victim.parent / "home"
    (home / name).symlink_to(victim)
    approve(home)
    assert victim.read_text() == "mine"
    assert not (home / LOCK_FILE).is_symlink()
    found = Pins.read(home)
    assert found is not None
    assert found.names("scale") == ["weigh"]
    assert {one.name for one in home.iterdir()} == {LOCK_FILE, name}


def test_a_link_that_wins_the_race_for_the_name_is_not_followed(victim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a name that is guessed right fails instead of being written through."""
    home = victim.parent / "home"
    monkeypatch.setattr("secrets.token_hex", lambda size: "guessed")
    (home / f".{LOCK_FILE}.guessed.new").symlink_to(victim)
    with pytest.raises(FileExistsError):
        approve(home)
    assert victim.read_text() == "mine"


def test_names_beside_a_file_cannot_be_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = os.open

    def note(path: object, *rest: object) -> int:
        seen.append(os.fspath(path))  # type: ignore[call-overload]
        return real(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", note)
    for _ in range(20):
        replace_file(tmp_path / "x", b"x")
    assert len(set(seen)) == 20


def test_a_replaced_file_keeps_its_mode_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("before")
    file.chmod(0o640)
    replace_file(file, b"after")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"after", 0o640)
    (tmp_path / "directory").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "directory", b"x")
    with pytest.raises(FileExistsError):
        create_file(file, b"again")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["directory", "x"]


def test_what_a_command_writes_uses_no_name_that_can_be_planted(victim: Path) -> None:
    home = victim.parent / "home"
    for name in (".new", "out.yaml.new", ".out.yaml.new"):
        (home / name).symlink_to(victim)
    write_atomically(home / "out.yaml", "text")
    assert (victim.read_text(), (home / "out.yaml").read_text()) == ("mine", "text")


# --- the store -------------------------------------------------------------------------------


def test_a_new_home_is_for_its_owner_only(tmp_path: Path) -> None:
    open_store(None, tmp_path).close()
    home = tmp_path / ".ropewalk"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "ropewalk.db").stat().st_mode) == 0o600
    assert (home / ".gitignore").read_text().endswith("*\n")


def test_a_dangling_link_in_place_of_the_store_is_refused(victim: Path) -> None:
    home = victim.parent / "home" / ".ropewalk"
    home.mkdir()
    (home / "ropewalk.db").symlink_to(victim.parent / "made")
    with pytest.raises(StoreError, match=r"is a link to .*made, which does not exist; remove the link"):
        open_store(None, home.parent)
    assert not (victim.parent / "made").exists()


def test_a_dangling_link_in_place_of_the_ignore_file_is_not_followed(victim: Path) -> None:
    home = victim.parent / "home" / ".ropewalk"
    home.mkdir()
    (home / ".gitignore").symlink_to(victim.parent / "made")
    open_store(None, home.parent).close()
    assert not (victim.parent / "made").exists()


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("there", [True, False])
def test_links_beside_a_store_are_refused(victim: Path, suffix: str, there: bool) -> None:
    home, target = victim.parent / "home", victim if there else victim.parent / "made"
    (home / f"x.db{suffix}").symlink_to(target)
    with pytest.raises(StoreError, match=rf"x\.db{suffix} is a link to"):
        SqliteStore(home / "x.db")
    assert victim.read_text() == "mine"
    assert not (victim.parent / "made").exists()


def test_two_that_approve_at_once_leave_a_whole_file(tmp_path: Path) -> None:
    threads = [threading.Thread(target=approve, args=(tmp_path,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Pins.read(tmp_path) is not None
    assert [one.name for one in tmp_path.iterdir()] == [LOCK_FILE]

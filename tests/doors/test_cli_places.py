"""Places that are not what they seem: a directory that is gone, a project's file that is none, names that are paths."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ropewalk.config import find, import_tools, read_config
from ropewalk.errors import ConfigError, StoreError
from ropewalk.journal.address import file_of, open_store

COMMAND = Path(sys.executable).with_name("ropewalk")


@pytest.mark.skipif(os.name == "nt", reason="a directory that is somebody's cannot be deleted there")
@pytest.mark.parametrize("words", ["run ../shout.yaml", "runs ls", "validate ../shout.yaml", "doctor", "tools ls"])
def test_a_working_directory_that_is_gone_is_told(project: Any, words: str) -> None:
    gone = project.home / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", f"rmdir '{gone}' && '{COMMAND}' {words}"],
        cwd=gone, env=project.env(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    said = "error: the working directory is not there any more; change to one that is"
    assert (done.returncode, done.stderr.splitlines()) == (2, [said])


@pytest.mark.parametrize(
    ("name", "right"),
    [("../p2/mytools", "mytools"), ("", "mytools"), ("tools/more.py", "more"), (".beside", "mytools")],
)
def test_what_is_no_name_of_a_module_is_told_with_one(tmp_path: Path, name: str, right: str) -> None:
    (tmp_path / "ropewalk.toml").write_text(f"[tools]\nmodules = [{name!r}]\n")
    with pytest.raises(ConfigError) as caught:
        import_tools(read_config(tmp_path, environ={}))
    assert caught.value.place is not None
    assert caught.value.place.line == 2
    assert f"{name!r} is no name of a module; right is one as {right!r}" in str(caught.value)


def test_a_projects_file_that_is_no_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "ropewalk.toml"
    file.mkdir()
    with pytest.raises(ConfigError, match="must be a file; it is a directory"):
        find(tmp_path)
    file.rmdir()
    file.symlink_to(file)
    with pytest.raises(ConfigError, match="must be a file; it is a link that leads nowhere"):
        read_config(tmp_path, environ={})


@pytest.mark.parametrize(
    "address", ["sqlite:///:memory:", ":memory:", "file:x.db?mode=ro", "sqlite:///file:x.db", "MEMORY", "Memory"]
)
def test_what_sqlite_reads_as_an_address_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="right are: memory"):
        open_store(address)
    assert file_of(address) is None
    (tmp_path / "ropewalk.toml").write_text(f"[store]\nurl = {address!r}\n")
    with pytest.raises(StoreError, match="right are: memory"):
        open_store(read_config(tmp_path, environ={}).store)
    assert os.listdir(tmp_path) == ["ropewalk.toml"]

"""Which files a definition may name, and what it is told about the others. Nothing of the directory runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from modules.folder import written
from ropewalk.tools.directory import paths
from ropewalk.tools.directory.paths import PathError, find, find_impl

SENTINEL = "raise SystemExit('a check ran the code')"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    home = written(tmp_path / "home", {"tools/greet.py": SENTINEL, "tools/sum.mjs": "", "tools/old.js": ""})
    written(tmp_path, {"secret.py": SENTINEL})
    (home / "tools" / "out.py").symlink_to(tmp_path / "secret.py")
    (home / "tools" / "alias.py").symlink_to("greet.py")
    (home / "tools" / "round.py").symlink_to("round.py")
    (home / "away").symlink_to(tmp_path)
    os.mkfifo(home / "tools" / "pipe.py")
    return home


@pytest.mark.parametrize("impl", ["./tools/greet.py", "tools/greet.py", "tools/greet.py:run", "./tools/sum.mjs",
                                  "./tools/old.js", "./tools/alias.py"])  # fmt: skip
def test_modules_inside_are_found_and_not_run(root: Path, impl: str) -> None:
    """MODULE-9"""
    assert find_impl(root, impl).file.is_relative_to(root)


def test_a_module_knows_its_file_its_language_and_its_function(root: Path) -> None:
    found = find_impl(root, "./tools/greet.py:hello")
    assert (found.file, found.display, found.language, found.function) == (
        root / "tools/greet.py", "tools/greet.py", "python", "hello",
    )  # fmt: skip
    assert find_impl(root, "tools/sum.mjs").language == "javascript"
    assert find_impl(root, "tools/alias.py").file == root / "tools/greet.py"


@pytest.mark.parametrize(
    ("impl", "said"),
    [
        ("../secret.py", "'..' is not allowed"),
        ("./tools/../tools/greet.py", "'..' is not allowed"),
        ("tools/..", "'..' is not allowed"),
        ("/etc/passwd", "is an absolute path; write it relative to the definition"),
        ("C:/tools/x.py", "is an absolute path"),
        ("..\\secret.py", "is not a valid path"),
        ("tools/x\0.py", "is not a valid path"),
        ("./tools/out.py", "tools/out.py is a link that leads out of the directory"),
        ("away/secret.py", "away/secret.py is a link that leads out of the directory"),
        ("away/no-such.py", "away/no-such.py is a link that leads out of the directory"),
        ("./tools/round.py", "could not open tools/round.py"),
        ("./tools/gret.py", "there is no file tools/gret.py; did you mean tools/greet.py?"),
        ("./tool/greet.py", "there is no file tool/greet.py; did you mean tools/greet.py?"),
        ("./nothing.py", "there is no file nothing.py"),
        ("./tools/greet.py/x.py", "there is no file tools/greet.py/x.py"),
        ("./tools/pipe.py", "is a device, pipe or socket"),
        ("./tools/sum.ts", "sum.ts is TypeScript; compile it with tsc"),
        ("./tools/sum.mts", "is TypeScript"),
        ("./tools", "the name of a tool module must end in .py, .mjs, .js"),
        ("./tools/sum.rb", "the name of a tool module must end in .py, .mjs, .js"),
        ("./tools/greet.py:1x", "'1x' is not a valid function name"),
        ("./tools/sum.mjs:x", "only Python modules can have a :function"),
        ("", "a path must be a string"),
        (None, "a path must be a string"),
        (7, "not 7"),
        ("x" * 5000 + ".py", "could not open"),
    ],
)  # fmt: skip
def test_what_may_not_be_named_is_refused_with_the_reason(root: Path, impl: object, said: str) -> None:
    """MODULE-7"""
    with pytest.raises(PathError) as wrong:
        find_impl(root, impl)
    assert said in str(wrong.value)


def test_the_directory_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert find(tmp_path / "link", "tools/greet.py") == root / "tools/greet.py"


def test_directories_are_found_where_they_are_asked_for(root: Path) -> None:
    assert find(root, "./tools", directory=True) == root / "tools"
    with pytest.raises(PathError, match="is not a directory"):
        find(root, "tools/greet.py", directory=True)
    with pytest.raises(PathError, match=r"there is no directory tool; did you mean tools\?"):
        find(root, "tool", directory=True)


def test_a_link_put_in_place_between_look_and_opening_gives_nothing_away(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, real = root / "tools" / "old.js", os.open
    (tmp_path / "secret.txt").write_text("secret")

    def swapped(path: object, *args: int) -> int:
        target.unlink()
        target.symlink_to(tmp_path / "secret.txt")
        return real(target, os.O_RDONLY)  # as a system would open it that knows no O_NOFOLLOW

    monkeypatch.setattr(paths.os, "open", swapped)
    with pytest.raises(PathError, match=r"leads out|was replaced"):
        paths.read(root, "tools/old.js", 100)
    monkeypatch.undo()
    target.unlink()
    target.write_text("fine")
    assert paths.read(root, "tools/old.js", 100) == b"fine"


def test_a_file_over_the_limit_is_not_read(root: Path) -> None:
    (root / "big").write_bytes(b"x" * 101)
    with pytest.raises(PathError, match="big has 101 bytes; the limit is 100 bytes"):
        paths.read(root, "big", 100)
    assert len(paths.read(root, "big", 101)) == 101

"""ARCHITECTURE.md names only what exists: each path is a file or a folder, each name is defined in the code."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.usefixtures("collector_off")
PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "ARCHITECTURE.md"
SOURCE = PROJECT / "src" / "ropewalk"
ROOTS: Final = (PROJECT, SOURCE)
SUFFIXES: Final = r"(?:py|json|js|toml|sh|md|tsx|yaml|txt)"
PATH = re.compile(rf"[\w.-]+(?:/[\w.-]+)*/|(?:[\w.-]+/)*[\w.-]+\.{SUFFIXES}|(?:[\w-]+/)+[\w-]+")
NAME = re.compile(r"@?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(.*\))?")
PLACEHOLDERS: Final = {"KIND_write.py", "KIND.schema.json", "chain.yaml"}
"""Patterns of file names, and files of users."""
WORDS: Final = {"ropewalk.backends", "ropewalk.stores", "ropewalk.toml", ".mcp.json", "process"}
"""Entry point groups, files of users, and markers of tests."""


def tokens() -> list[str]:
    """Return every text in backticks outside of code blocks, each once."""
    text = re.sub(r"```.*?```", "", PAGE.read_text("utf-8"), flags=re.DOTALL)
    return list(dict.fromkeys(re.findall(r"`([^`\n]+)`", text)))


PATHS = [item for item in tokens() if PATH.fullmatch(item) and item not in PLACEHOLDERS | WORDS]
NAMES = [item for item in tokens() if item not in PATHS and NAME.fullmatch(item) and item not in PLACEHOLDERS | WORDS]


@cache
def defined_names() -> frozenset[str]:
    """Return those names of the page that a module, class, function, parameter, attribute or variable of the code has.

    A file is parsed only if its text holds a name that no earlier file defines.
    """
    wanted = {part for name in NAMES for part in parts(name)}
    files = [file for folder in ("src", "tests", "scripts", "bench") for file in (PROJECT / folder).rglob("*.py")]
    found = wanted & {part.removesuffix(".py") for file in files for part in file.relative_to(PROJECT).parts}
    for file in files:
        text = file.read_text("utf-8")
        if not (wanted - found).isdisjoint(re.findall(r"\w+", text)):
            found |= wanted & names_in(ast.parse(text))
    return frozenset(found)


def names_in(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def parts(name: str) -> list[str]:
    match = NAME.fullmatch(name)
    assert match is not None
    return match[1].split(".")


@pytest.mark.parametrize("path", PATHS)
def test_each_path_exists(path: str) -> None:
    assert any((root / path).exists() for root in ROOTS), f"ARCHITECTURE.md names {path}, which is not there"


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_defined(name: str) -> None:
    missing = [part for part in parts(name) if part not in defined_names()]
    assert missing == [], f"ARCHITECTURE.md names {name}; the code does not define {', '.join(missing)}"


@pytest.mark.parametrize("name", [name for name in NAMES if re.fullmatch(r"[a-z_]+\.[A-Z_]+", name)])
def test_each_table_of_a_module_is_in_a_module_of_this_name(name: str) -> None:
    """`paths.MODULES` is a name in some `paths.py`."""
    module, _, table = name.partition(".")
    assert any(
        re.search(rf"^{table}\b", file.read_text("utf-8"), re.MULTILINE) for file in SOURCE.rglob(f"{module}.py")
    )


def test_the_page_is_short_enough_to_read() -> None:
    assert len(PAGE.read_text("utf-8").splitlines()) <= 250


def test_the_page_names_much() -> None:
    """A change of the page that hides its names from these tests is noticed."""
    assert len(PATHS) > 60
    assert len(NAMES) > 60


def classes_of(folder: str, bases: str) -> dict[str, Path]:
    """Return the public classes below a folder whose bases match a pattern, with their files."""
    return {
        node.name: file
        for file in (SOURCE / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and any(re.fullmatch(bases, ast.unparse(base)) for base in node.bases)
    }


def test_each_store_in_the_tree_is_in_the_conformance_tests() -> None:
    listed = (PROJECT / "tests" / "conformance" / "stores.py").read_text("utf-8")
    for name, file in classes_of("journal", r"BaseStore|SqlStore").items():
        assert re.search(rf"\b{name}\b", listed), f"add {name} ({file.name}) to tests/conformance/stores.py"


def test_each_backend_in_the_tree_is_registered_by_an_entry_point() -> None:
    groups = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"].get("entry-points", {})
    named = groups.get("ropewalk.backends", {}).values()
    for file in (SOURCE / "tools" / "backends").glob("*.py"):
        if file.name != "kinds.py" and "register_backend(" in file.read_text("utf-8"):
            module = f"ropewalk.tools.backends.{file.stem}"
            assert any(value.startswith(module) for value in named), f"pyproject.toml: add an entry point for {module}"

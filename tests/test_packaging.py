"""What is imported is declared, and what is declared is pinned: an installation has everything."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement

from ropewalk.errors import install_command

PROJECT = Path(__file__).parents[1]
FOR_TYPES = {"typing-extensions"}  # under TYPE_CHECKING only: type checkers know it without an installation
# Used only beside mcp, which cannot be without them.
WITH_MCP = {"anyio", "cryptography", "mcp-types", "pydantic", "pyjwt"}


def bare(requirement: str) -> str:
    """The name of a requirement, as registries compare names."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def declared() -> dict[str, str]:
    """By name every requirement, those of the extras too."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    listed = [*project["dependencies"], *(one for extra in extras for one in extra)]
    return {bare(one): one for one in listed if not one.startswith("ropewalk")}


def base_distributions() -> set[str]:
    """The distributions that an installation without an extra has."""
    found, names = set[str](), list(tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"])
    while names:
        requirement = Requirement(names.pop())
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and bare(requirement.name) not in found:
            found.add(bare(requirement.name))
            names += distribution(requirement.name).requires or ()
    return found


def test_an_installation_without_extras_stays_small() -> None:
    """53 MB of files take 81 MB on a disk, with the bytecode that `pip` writes; the limit is 90."""
    names = base_distributions()
    assert names.isdisjoint({"numpy", "rapidfuzz", "pystemmer", "pydantic", "mcp"})
    listed = [file for name in names for file in distribution(name).files or () if file.suffix != ".pyc"]
    sizes = [file.size or 0 for file in listed]
    sizes += [file.stat().st_size for file in (PROJECT / "src").rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert 40e6 < sum(sizes) < 58e6, sum(sizes)


IMPORT = re.compile(r"^[ \t]*(?:from|import) +([A-Za-z_]\w*)[\w.]*(?: +import\b| +as\b| *(?:#.*)?$)", re.MULTILINE)
"""Ruff has each `import` name one module."""
FOR_TYPE_CHECKERS = {"typing_extensions"}  # they bring it; here it is imported under TYPE_CHECKING only


def imported() -> set[str]:
    """The distributions that the package imports from, wherever it does."""
    names = {name for file in (PROJECT / "src").rglob("*.py") for name in IMPORT.findall(file.read_text("utf-8"))}
    known, not_installed = packages_distributions(), FOR_TYPE_CHECKERS | {"ropewalk"}
    return {bare(known.get(name, [name])[0]) for name in names - not_installed - sys.stdlib_module_names}


def test_everything_imported_is_declared() -> None:
    assert imported() - WITH_MCP - FOR_TYPES - set(declared()) == set()


def test_what_only_type_checkers_have_is_imported_for_them_only() -> None:
    code = "import sys, ropewalk.builder; print('typing_extensions' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_everything_declared_is_pinned_to_a_version_that_is_allowed() -> None:
    lines = (PROJECT / "constraints.txt").read_text().splitlines()
    pinned = {bare(name): version for name, _, version in (line.partition("==") for line in lines if line[:1] != "#")}
    for name, requirement in declared().items():
        assert name in pinned, f"constraints.txt has no {name}"
        for least in re.findall(r">=([0-9.]+)", requirement):
            assert parts(pinned[name]) >= parts(least), f"{requirement}, but {pinned[name]} is pinned"


def parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def test_messages_name_nothing_that_only_a_clone_has() -> None:
    """Every text of src, and every file that `new` copies, is complete for somebody who has only the wheel."""
    package = PROJECT / "src" / "ropewalk"
    only_in_clone = re.compile(r"path/to|\bdocs/|(?<!SKILL)(?<!report)(?<!README)\.md\b")
    templates = (package / "doors/cli/template").iterdir()
    wrong = [file for file in templates if only_in_clone.search(file.read_text("utf-8"))]
    for file in package.rglob("*.py"):
        text = file.read_text("utf-8")
        if only_in_clone.search(text):  # few files: reading every syntax tree takes seconds
            wrong += [file for literal in literals(ast.parse(text)) if only_in_clone.search(literal)]
    assert wrong == []
    assert install_command("mcp,http") == 'pip install "ropewalk[mcp,http]"'


def literals(module: ast.Module) -> Iterator[str]:
    """The texts of a module without its docstrings, which nobody sees at run time."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(module)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_the_readme_of_the_package_leads_to_the_repository() -> None:
    metadata = ProjectMetadata(str(PROJECT), PluginManager()).core
    repository = metadata.urls["Repository"]
    assert all(address.startswith(repository) for address in metadata.urls.values())
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", metadata.readme)
    assert len(links) > 30
    for picture, address in links:
        target = address.removeprefix(f"{repository}/{'raw' if picture else 'blob'}/HEAD/")
        assert (PROJECT / target.partition("#")[0]).is_file(), address
    assert repository not in (PROJECT / "README.md").read_text("utf-8")


def test_the_documents_name_extras_that_there_are() -> None:
    extras = set(tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    pages = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
    named = {
        (page.name, extra)
        for page in pages
        for found in re.findall(r"pip install \"(?:ropewalk|\.)\[([a-z0-9,]+)\]", page.read_text("utf-8"))
        for extra in found.split(",")
    }
    assert {extra for _, extra in named} <= extras
    needs = {("models.md", "claude"), ("models.md", "models"), ("http.md", "serve"), ("web-ui.md", "serve"),
             ("telemetry.md", "otel"), ("workers.md", "distributed"), ("mcp.md", "mcp"),
             ("mcp-server.md", "mcp")}  # fmt: skip
    assert needs <= named

"""Prints the test files that a change can reach: `python tests/affected.py`, or `./test.sh --affected` to run them.

The change is the working tree and the commits since the merge base with the main branch. A test is reached by the files
that it imports, however indirectly, and by those whose name or top folder it has in a string. A test that starts
processes is reached by all of `src`, as what they import is not known. A file that nobody names reaches every test.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "bench", "scripts")
MAIN = ("@{upstream}", "origin/main", "main")
_LEFT_OUT = {"node_modules", "__pycache__"}
_STARTERS = {"subprocess", "multiprocessing", "tests/fork_server.py"}
_MODULE = re.compile(r"\w+(\.\w+)+")
_SHOWN = 4


class Graph:
    """What every Python file of the project imports and names.

    Attributes:
        uses: The files that a file reaches directly, by its path.
        named: The files that have a part of a path in a string, by that part.
        tests: The test files.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.uses: dict[str, set[str]] = defaultdict(set)
        self.named: dict[str, set[str]] = defaultdict(set)
        self.files = [path for folder in FOLDERS for path in python_files(root / folder)]
        self._modules = {module: path for path in self.files for module in self._modules_of(path)}
        self._source = {self._name(path) for path in self.files if path.is_relative_to(root / "src")}
        self._trees = {path: ast.parse(path.read_text("utf-8")) for path in self.files}
        self._exports = {path: exports(tree) for path, tree in self._trees.items() if path.name == "__init__.py"}
        self._starting = starting_fixtures([tree for path, tree in self._trees.items() if path.name == "conftest.py"])
        self.tests = sorted(name for name in map(self._name, self.files) if Path(name).name.startswith("test_"))
        for path in self.files:
            self._read(path)

    def reached(self, changed: Iterable[str]) -> set[str]:
        """Return the test files that any of the files reaches."""
        users = defaultdict(set)
        for user, names in self.uses.items():
            for name in names:
                users[name].add(user)
        todo = [file for name in changed for file in self._first(name)]
        found: set[str] = set()
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += users[name]
        return found & set(self.tests)

    def _first(self, name: str) -> Iterator[str]:
        """Yield a changed file, and the files that name it, or every test."""
        path = Path(name)
        is_known = (self._root / name) in self.files
        by_name = self.named[path.name] | {test for test in self.named[path.parts[0]] if test in self.tests}
        if is_known:
            yield name
        yield from by_name
        if not is_known and not by_name:
            yield from self.tests

    def _read(self, path: Path) -> None:
        name, uses = self._name(path), self.uses[self._name(path)]
        is_test = name.startswith("tests")
        for node in ast.walk(self._trees[path]):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    uses |= self._module(alias.name)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    uses |= self._member(self._base(path, node), alias.name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
                self._text(node.value, name, uses)
            elif isinstance(node, ast.arg) and node.arg in self._starting and is_test:
                uses |= self._source
        if name == "tests/conftest.py" or path.name == "__init__.py":
            uses.clear()  # what they import for some users says nothing about the others
        elif is_test:
            if uses & _STARTERS and path.name != "conftest.py":
                uses |= self._source
            uses |= set(self._conftests(path))
        uses.discard(name)

    def _conftests(self, path: Path) -> Iterator[str]:
        """Yield the conftest.py of a file's folder, and of those above."""
        for parent in path.parents:
            if parent.is_relative_to(self._root / "tests") and (parent / "conftest.py").is_file():
                yield self._name(parent / "conftest.py")

    def _text(self, text: str, name: str, uses: set[str]) -> None:
        if _MODULE.fullmatch(text.partition(":")[0]):
            uses |= self._module(text.partition(":")[0])  # imported by its name, when it is needed
        for part in text.split("/"):
            self.named[part].add(name)

    def _module(self, module: str) -> set[str]:
        """Return the file of a module, and the packages around it."""
        parts = module.split(".")
        if parts[0] in _STARTERS:
            return {parts[0]}
        names = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
        return {self._name(self._modules[name]) for name in names if name in self._modules}

    def _member(self, module: str, member: str) -> set[str]:
        """Return the files behind `from module import member`, where a package may have the member from elsewhere."""
        path = self._modules.get(module)
        found = self._module(f"{module}.{member}")
        if path is None or path not in self._exports or f"{module}.{member}" in self._modules:
            return found
        homes = self._exports[path]
        for node, name in homes.get(member) or [home for some in homes.values() for home in some]:
            base = self._base(path, node)
            if base != module:
                found |= self._member(base, name)
        return found

    def _modules_of(self, path: Path) -> Iterator[str]:
        folder = next(self._root / folder for folder in FOLDERS if path.is_relative_to(self._root / folder))
        parts = path.relative_to(folder).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _base(self, path: Path, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = next(self._modules_of(path)).split(".")
        if path.name != "__init__.py":
            package.pop()
        package = package[: len(package) - node.level + 1]
        return ".".join([*package, *([node.module] if node.module else [])])

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def exports(tree: ast.Module) -> dict[str, list[tuple[ast.ImportFrom, str]]]:
    """Return what the `__init__.py` of a package imports, by the name that it has there."""
    found = defaultdict(list)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name].append((node, alias.name))
    return found


def starting_fixtures(conftests: list[ast.Module]) -> set[str]:
    """Return the fixtures of these files that start processes, themselves or through another one."""
    functions = [node for tree in conftests for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    names = {
        function.name: {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        | {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
        for function in functions
    }
    found = {"subprocess", "fork_server", "PostgresServer"}
    while more := {name for name, used in names.items() if used & found} - found:
        found |= more
    return found & names.keys()


def python_files(folder: Path) -> list[Path]:
    """Return the Python files below a folder."""
    return sorted(path for path in folder.rglob("*.py") if _LEFT_OUT.isdisjoint(path.parts))


def changed_files(root: Path) -> tuple[list[str], str]:
    """Return the files that differ from the main branch, and the name of what they were compared with."""
    since = "HEAD"
    for ref in MAIN:
        base = git(root, "merge-base", "HEAD", ref)
        if base:
            if base[0] != git(root, "rev-parse", "HEAD")[0]:
                since = base[0]
            break
    files = {*git(root, "diff", "--name-only", since), *git(root, "ls-files", "--others", "--exclude-standard")}
    return sorted(files), since[:10]


def git(root: Path, *words: str) -> list[str]:
    """Return the lines that a Git command prints; none where it fails."""
    return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True).stdout.splitlines()


def shown(names: list[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def main() -> None:
    changed, since = changed_files(ROOT)
    graph = Graph(ROOT)
    reached = sorted(graph.reached(changed))
    print(f"· {len(changed)} files changed since {since}: {shown(changed) or 'nothing'}", file=sys.stderr)
    print(f"· they reach {len(reached)} of {len(graph.tests)} test files: {shown(reached) or 'none'}", file=sys.stderr)
    print("\n".join(reached))


if __name__ == "__main__":
    main()

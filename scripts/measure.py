"""Measure the size of the source: files, lines, tokens of code, and the same per package.

    python scripts/measure.py [FOLDER] [--worst 20]
    python scripts/measure.py [FOLDER] --shape
    python scripts/measure.py --check | --write

A token of code is a name (keywords included), an operator or a number; strings, docstrings and
comments do not count, so that explaining code never counts against it. `--worst N` lists the
files with the most tokens per line.

The price of a package is its tokens in [tool.ropewalk.tokens] of pyproject.toml. A package may exceed it by 3 %.
`--check` prints the packages that exceed theirs. `--write` raises those figures, adds new packages, and lowers the
figures of packages that shrank.

`--shape` lists the functions with ten or more parameters and the largest cycle of files that import each other, where
imports in functions and for type checkers count, too. [tool.ropewalk.shape] of pyproject.toml holds the most of both;
`--check` prints what exceeds it.
"""

from __future__ import annotations

import argparse
import ast
import gc
import io
import re
import statistics
import sys
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

PROJECT = Path(__file__).parents[1]
TABLE = "[tool.ropewalk.tokens]"
GROWTH = 0.03
MANY_PARAMETERS = 10
Trees: TypeAlias = dict[str, ast.Module]  # by the names of modules
COUNTED = {tokenize.NAME, tokenize.OP, tokenize.NUMBER}


@dataclass(frozen=True)
class Size:
    """What one file holds."""

    file: Path
    lines: int
    filled_lines: int
    comment_lines: int
    tokens: int


def size_of(file: Path) -> Size:
    """Count the lines and tokens of a Python file."""
    text = file.read_text("utf-8")
    tokens = comments = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        tokens += token.type in COUNTED
        comments += token.type == tokenize.COMMENT
    lines = text.splitlines()
    return Size(file, len(lines), sum(bool(line.strip()) for line in lines), comments, tokens)


def row(name: str, sizes: list[Size]) -> str:
    """Word one line of the table."""
    tokens, filled = sum(s.tokens for s in sizes), sum(s.filled_lines for s in sizes)
    median = statistics.median(s.lines for s in sizes)
    comments = sum(s.comment_lines for s in sizes) / max(1, filled)
    return (
        f"{name:<22}{len(sizes):>6}{sum(s.lines for s in sizes):>9}{median:>8.0f}{tokens:>10}"
        f"{tokens / max(1, filled):>9.2f}{comments:>10.1%}"
    )


def packages_of(folder: Path) -> dict[str, list[Size]]:
    """Return the sizes of all files by package, which has at most two folders ("." for the files of the root)."""
    packages: dict[str, list[Size]] = defaultdict(list)
    for file in sorted(p for p in folder.rglob("*.py") if "node_modules" not in p.parts):
        packages["/".join(file.relative_to(folder).parts[:-1][:2]) or "."].append(size_of(file))
    return dict(sorted(packages.items()))


def tokens_of(folder: Path) -> dict[str, int]:
    """Return the tokens of each package."""
    return {name: sum(size.tokens for size in sizes) for name, sizes in packages_of(folder).items()}


def prices(settings: Path) -> dict[str, int]:
    """Return the figures of pyproject.toml."""
    return dict(tomllib.loads(settings.read_text("utf-8")).get("tool", {}).get("ropewalk", {}).get("tokens", {}))


def over_price(folder: Path, settings: Path) -> list[str]:
    """Return a message for each package that exceeds its figure, has none, or is gone."""
    tokens, figures = tokens_of(folder), prices(settings)
    found = []
    for name, count in tokens.items():
        figure = figures.get(name)
        if figure is None:
            found.append(f"{name}: {count:,} tokens and no figure; {_remedy('add it')}")
        elif count > figure * (1 + GROWTH):
            growth = f"{count / figure - 1:+.1%}" if figure else "new"
            found.append(f"{name}: {count:,} tokens for {figure:,} ({growth}); delete some, or {_remedy('raise it')}")
    return found + [f"{name}: has a figure and no files; {_remedy('remove it')}" for name in figures.keys() - tokens]


def _remedy(action: str) -> str:
    about = "" if action == "remove it" else ', and add a line to "For contributors" in CHANGELOG.md: what users got'
    return f"run `python scripts/measure.py --write` to {action}{about}"


def write_prices(folder: Path, settings: Path) -> list[str]:
    """Bring the figures up to date and return a line for each change; growth within the limit changes nothing."""
    tokens, figures = tokens_of(folder), prices(settings)
    wanted = {
        name: figures[name] if name in figures and figures[name] <= count <= figures[name] * (1 + GROWTH) else count
        for name, count in tokens.items()
    }
    table = "\n".join([TABLE, *(f'"{name}" = {count}' for name, count in wanted.items())]) + "\n"
    text = settings.read_text("utf-8")
    pattern = re.compile(rf"^{re.escape(TABLE)}\n(?:\".*\n)*", re.MULTILINE)
    settings.write_text(pattern.sub(table, text) if pattern.search(text) else f"{text}\n{table}", "utf-8")
    names = sorted(figures.keys() | wanted.keys())
    return [f"{n}: {figures.get(n)} -> {wanted.get(n)}" for n in names if figures.get(n) != wanted.get(n)]


def parse_file(file: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(file.read_text("utf-8"))


def long_signatures(trees: Trees) -> list[str]:
    """Return each function with ten or more parameters, those with the most first; `self` and `cls` do not count."""
    found = []
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                arguments += [one for one in (node.args.vararg, node.args.kwarg) if one is not None]
                count = len(arguments) - (bool(arguments) and arguments[0].arg in ("self", "cls"))
                if count >= MANY_PARAMETERS:
                    found.append((-count, f"{name}:{node.lineno} {node.name}"))
    return [f"{-count} {place}" for count, place in sorted(found)]


def largest_cycle(folder: Path, trees: Trees) -> list[str]:
    """Return the largest set of modules that import each other, directly or by others, in any way."""
    edges = {name: set(_imported(name, tree, folder, trees)) - {name} for name, tree in trees.items()}
    reached = {name: _reached(name, edges) for name in edges}
    cycles = {frozenset(other for other in reached[name] if name in reached[other]) for name in edges}
    return sorted(max(cycles, key=lambda names: (len(names), sorted(names)), default=()))


def _reached(name: str, edges: dict[str, set[str]]) -> set[str]:
    found, left = set[str](), [name]
    while left:
        new = edges[left.pop()] - found
        found |= new
        left += new
    return found


def trees_of(folder: Path, parse: Callable[[Path], ast.Module] = parse_file) -> Trees:
    """Return the syntax trees of all modules but the package itself, which imports everything."""
    trees = {}
    for file in sorted(p for p in folder.rglob("*.py") if "node_modules" not in p.parts):
        parts = file.relative_to(folder).with_suffix("").parts
        if name := ".".join(parts[:-1] if parts[-1] == "__init__" else parts).strip("."):
            trees[name] = parse(file)
    return trees


def _imported(name: str, tree: ast.Module, folder: Path, trees: Trees) -> Iterator[str]:
    parts = name.split(".")
    package = parts if folder.joinpath(*parts, "__init__.py").exists() else parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - (node.level - 1)] if node.level else []
            words = (node.module or "").split(".") if node.module else []
            if not node.level:
                if not words or words[0] != folder.name:
                    continue
                words = words[1:]
            source = ".".join([*base, *words])
            for alias in node.names:
                inner = f"{source}.{alias.name}".strip(".")
                if (target := inner if inner in trees else source) in trees:
                    yield target


def over_shape(folder: Path, settings: Path, trees: Trees | None = None) -> list[str]:
    """Return a message for each figure of the shape that exceeds the one in pyproject.toml."""
    trees = trees_of(folder) if trees is None else trees
    most = tomllib.loads(settings.read_text("utf-8")).get("tool", {}).get("ropewalk", {}).get("shape", {})
    counts = {"long_signatures": len(long_signatures(trees)), "largest_cycle": len(largest_cycle(folder, trees))}
    return [
        f"{name}: {counts[name]} for {figure}; `python scripts/measure.py --shape` lists them"
        for name, figure in most.items()
        if counts[name] > figure
    ]


def main() -> int:
    """Print the table of a source folder, or check or write the prices."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=PROJECT / "src" / "ropewalk")
    parser.add_argument("--worst", type=int, default=0, help="list N files with the most tokens per line")
    parser.add_argument("--shape", action="store_true", help="list functions with many parameters and a cycle of files")
    parser.add_argument("--check", action="store_true", help="print the packages over their price")
    parser.add_argument("--write", action="store_true", help="write the prices to pyproject.toml")
    options = parser.parse_args()
    gc.disable()  # trees hold no garbage, and to look at them takes as long as to make them
    if options.check or options.write:
        settings = PROJECT / "pyproject.toml"
        checked = (over_price, over_shape) if options.check else (write_prices,)
        lines = [line for work in checked for line in work(options.folder, settings)]
        print("\n".join(lines) or "Every package is within its price.")  # noqa: T201
        return int(options.check and bool(lines))

    if options.shape:
        trees = trees_of(options.folder)
        signatures, cycle = long_signatures(trees), largest_cycle(options.folder, trees)
        print(f"{len(signatures)} functions with {MANY_PARAMETERS} or more parameters", *signatures, sep="\n  ")  # noqa: T201
        print(f"{len(cycle)} files in the largest cycle", *cycle, sep="\n  ")  # noqa: T201
        return 0

    packages = packages_of(options.folder)
    sizes = [size for each in packages.values() for size in each]
    print(f"{'package':<22}{'files':>6}{'lines':>9}{'median':>8}{'tokens':>10}{'per line':>9}{'comments':>10}")  # noqa: T201
    for name, each in packages.items():
        print(row(name, each))  # noqa: T201
    print(row("all", sizes))  # noqa: T201
    for size in sorted(sizes, key=lambda s: -s.tokens / max(1, s.filled_lines))[: options.worst]:
        print(f"{size.tokens / size.filled_lines:6.1f} {size.lines:5} {size.file.relative_to(options.folder)}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure the size of the source: files, lines, tokens of code, and the same per package.

A token of code is a name (keywords included), an operator or a number; strings, docstrings and
comments do not count, so that explaining code never counts against it. `--worst N` lists the
files with the most tokens per line.

    python scripts/measure.py [FOLDER] [--worst 20]
"""

from __future__ import annotations

import argparse
import io
import statistics
import tokenize
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

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


def main() -> None:
    """Print the table of a source folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).parents[1] / "src" / "ropewalk"
    parser.add_argument("folder", nargs="?", type=Path, default=default)
    parser.add_argument("--worst", type=int, default=0, help="list N files with the most tokens per line")
    options = parser.parse_args()

    files = sorted(p for p in options.folder.rglob("*.py") if "node_modules" not in p.parts)
    sizes = [size_of(file) for file in files]
    packages: dict[str, list[Size]] = defaultdict(list)
    for size in sizes:
        inside = size.file.relative_to(options.folder).parts
        packages["/".join(inside[:-1][:2]) or "."].append(size)

    print(f"{'package':<22}{'files':>6}{'lines':>9}{'median':>8}{'tokens':>10}{'per line':>9}{'comments':>10}")  # noqa: T201
    for name in sorted(packages):
        print(row(name, packages[name]))  # noqa: T201
    print(row("all", sizes))  # noqa: T201
    for size in sorted(sizes, key=lambda s: -s.tokens / max(1, s.filled_lines))[: options.worst]:
        print(f"{size.tokens / size.filled_lines:6.1f} {size.lines:5} {size.file.relative_to(options.folder)}")  # noqa: T201


if __name__ == "__main__":
    main()

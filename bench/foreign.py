"""Load a folder of documents that others wrote, and print what can be used of each: `python bench/foreign.py FOLDER`.

It tells the kinds apart: OpenAPI and Swagger documents, MCP configuration files, and lists of tools. Of an OpenAPI
document it also prints how many operations the file has, counted without the reader, and whether tools and operations
that are left out add up to that number. With `--reasons`, every reason is printed with its count.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ropewalk.config.project import read_config
from ropewalk.errors import RopewalkError
from ropewalk.tools.toolbox import Toolbox

METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace", "query")
SUFFIXES = {".json", ".jsonc", ".yaml", ".yml"}


class Row:
    """What became of one document."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.used = 0
        self.left_out: dict[str, str] = {}
        self.expected: int | None = None
        self.failure = ""
        self.seconds = 0.0

    @property
    def verdict(self) -> str:
        """`ok`, or what is wrong."""
        if self.failure:
            return self.failure[:90]
        if self.expected is not None and self.used + len(self.left_out) != self.expected:
            return f"{self.used + len(self.left_out)} of {self.expected} operations"
        return "ok"


def count_operations(document: Any, folder: Path) -> int:
    """Count the operations of a document: an independent count, which knows nothing of the reader."""
    count = 0
    for path, item in (document.get("paths") or {}).items():
        if path.startswith("x-"):
            continue
        if set(item) == {"$ref"}:
            file, _, pointer = item["$ref"].partition("#")
            item = parse(folder / file) if file else document
            for step in pointer.split("/")[1:]:
                item = item[step.replace("~1", "/").replace("~0", "~")]
        count += sum(method in item for method in METHODS) + len(item.get("additionalOperations", ()))
    return count


def parse(path: Path) -> Any:
    """Parse a file with the standard readers, not with ours."""
    text = path.read_text("utf-8")
    if path.suffix.startswith(".json"):
        return json.loads(text)
    import yaml

    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


def kind_of(path: Path) -> str | None:
    """Return the kind of a document by its first keys, or None for something else."""
    head = path.read_bytes()[:2_000_000].decode("utf-8", "replace")
    if re.search(r"""^\s*\{?\s*["']?(openapi|swagger)["']?\s*:|["'](openapi|swagger)["']\s*:\s*["'][23]""", head, re.M):
        return "openapi"
    if re.search(r'"(mcpServers|servers|context_servers|mcp)"\s*:', head):
        return "mcp"
    return (
        "tools"
        if path.suffix == ".json" and re.search(r'"(parameters|inputSchema|input_schema|tools)"', head)
        else None
    )


def read_openapi_document(path: Path, row: Row) -> None:
    """Load an OpenAPI document as a provider."""
    with contextlib.suppress(Exception):  # what nobody can read has no number
        row.expected = count_operations(parse(path), path.parent)
    begin = time.process_time()
    box = Toolbox(providers={"api": {"openapi": str(path), "url": "http://127.0.0.1:9"}})
    row.seconds = time.process_time() - begin
    row.used = len(box.ids())
    row.left_out = dict(box.left_out)


def read_mcp_file(path: Path, row: Row) -> None:
    """Read an MCP configuration file as a project names it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ropewalk.toml").write_text(f"[mcp]\nfile = {json.dumps(str(path.resolve()))}\n")
        begin = time.process_time()
        config = read_config(folder)
        row.seconds = time.process_time() - begin
    row.used, row.left_out = len(config.servers), dict(config.failures)


def read_tool_list(path: Path, row: Row) -> None:
    """Read a list of tools of another program."""
    from ropewalk.tools.vendor_tools import read_tool_list as read_tools

    begin = time.process_time()
    row.used = len(read_tools(json.loads(path.read_text("utf-8"))))
    row.seconds = time.process_time() - begin


READERS = {"openapi": read_openapi_document, "mcp": read_mcp_file, "tools": read_tool_list}


def documents(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the documents of a folder; files that others refer to are of no kind."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES and path.is_file() and (kind := kind_of(path)) is not None:
            yield path, kind


def load(path: Path, kind: str) -> Row:
    """Load one document; whatever happens is a row."""
    row = Row(kind)
    try:
        READERS[kind](path, row)
    except RopewalkError as error:
        row.failure = str(error).replace("\n", " ")
    except Exception as error:  # noqa: BLE001 - a fault of ours, which is what to find
        row.failure = f"CRASH {type(error).__name__}: {error}"
    return row


def main() -> int:
    """Print the table; the exit code is 1 if a document is refused or does not add up."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--reasons", action="store_true", help="print why parts are left out")
    options = arguments.parse_args()
    print(f"{'DOCUMENT':<44} {'KIND':<8} {'USED':>5} {'LEFT OUT':>8} {'CPU s':>6}  RESULT")
    is_good = True
    for path, kind in documents(options.folder):
        row = load(path, kind)
        is_good &= row.verdict == "ok"
        name = str(path.relative_to(options.folder))
        print(f"{name:<44} {row.kind:<8} {row.used:>5} {len(row.left_out):>8} {row.seconds:>6.2f}  {row.verdict}")
        if options.reasons:
            reasons = Counter(reason.partition(": ")[2] or reason for reason in row.left_out.values())
            for reason, count in reasons.most_common(8):
                print(f"    {count:>4}  {reason[:140]}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())

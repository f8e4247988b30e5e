"""The tools of the change report: text of the Git server into data, and data into a report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TypedDict

from ropewalk import tool


class Commit(TypedDict):
    sha: str
    author: str
    date: str
    title: str


class File(TypedDict):
    path: str
    area: str
    kind: str
    added: int
    removed: int


class Change(TypedDict):
    sha: str
    author: str
    date: str
    title: str
    files: list[File]
    added: int
    removed: int


class Report(TypedDict):
    markdown: str
    json: str
    commits: int
    files: int


_ENTRY = re.compile(
    r"^Commit: (?P<sha>[0-9a-f]{40,64})\nAuthor: (?P<author>.*)\nDate: (?P<date>.*)\nMessage: (?P<title>.*)$",
    re.MULTILINE,
)
_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@tool
def read_log(text: str) -> list[Commit]:
    """Read the answer of git_log: one entry per commit, newest first."""
    return [Commit(**entry.groupdict()) for entry in _ENTRY.finditer(text)]  # type: ignore[typeddict-item]


@tool
def read_diff(commit: Commit, text: str) -> Change:
    """Read the answer of git_show: the files of one commit, with the lines added and removed."""
    files = _files(text)
    return Change(**commit, files=files, added=sum(f["added"] for f in files), removed=sum(f["removed"] for f in files))


def _files(text: str) -> list[File]:
    """One pass over a diff. Inside a hunk only its announced length counts: a changed line may look like a header."""
    files: list[File] = []
    before, old, new = "", 0, 0
    for line in text.split("\n"):
        if old > 0 or new > 0:
            if line.startswith("+"):
                files[-1]["added"] += 1
                new -= 1
            elif line.startswith("-"):
                files[-1]["removed"] += 1
                old -= 1
            elif not line.startswith("\\"):  # "\ No newline at end of file" belongs to neither side
                old, new = old - 1, new - 1
        elif line.startswith("--- "):
            before = line[4:]
        elif line.startswith("+++ "):
            files.append(_file(before, line[4:]))
        elif files and (hunk := _HUNK.match(line)):
            old, new = (int(count) if count is not None else 1 for count in hunk.groups())
    return files


def _file(before: str, after: str) -> File:
    path = (before if after == "/dev/null" else after)[2:]
    kind = "added" if before == "/dev/null" else "removed" if after == "/dev/null" else "changed"
    folders = path.split("/")[:-1]
    return File(path=path, area="/".join(folders[:2]) or ".", kind=kind, added=0, removed=0)


@tool
def write_report(
    folder: str,
    repo: str,
    status: str,
    branches: str,
    changes: list[Change],
    areas: dict[str, list[File]],
    big: list[str],
) -> Report:
    """Write report.md and report.json into a folder, and say where they are."""
    home = Path(folder).resolve()
    home.mkdir(parents=True, exist_ok=True)
    markdown, data = home / "report.md", home / "report.json"
    clean = "nothing to commit" in status
    names = [line.strip("* ") for line in branches.splitlines() if line.strip()]
    summary = {
        "repo": repo,
        "clean": clean,
        "branches": names,
        "commits": len(changes),
        "files": len({file["path"] for files in areas.values() for file in files}),
        "added": sum(c["added"] for c in changes),
        "removed": sum(c["removed"] for c in changes),
        "authors": sorted({c["author"] for c in changes}),
    }
    record = {"summary": summary, "changes": changes, "areas": areas, "big": big}
    data.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", "utf-8")
    markdown.write_text("\n".join([*_summary(summary), *_areas(areas), *_commits(changes, big), ""]), "utf-8")
    return Report(markdown=str(markdown), json=str(data), commits=len(changes), files=int(str(summary["files"])))


def _summary(summary: dict[str, object]) -> list[str]:
    return [
        f"# Changes in {Path(str(summary['repo'])).resolve().name}",
        "",
        f"{summary['commits']} commits touched {summary['files']} files: "
        f"{summary['added']} lines added, {summary['removed']} removed. "
        f"The working tree {'is clean' if summary['clean'] else 'has changes that are not committed'}.",
        "",
    ]


def _areas(areas: dict[str, list[File]]) -> list[str]:
    lines = ["## Where", "", "| folder | files | added | removed |", "|---|---:|---:|---:|"]
    for area, files in sorted(areas.items(), key=lambda pair: -sum(f["added"] + f["removed"] for f in pair[1])):
        added, removed = sum(f["added"] for f in files), sum(f["removed"] for f in files)
        lines.append(f"| {_code(area)} | {len({f['path'] for f in files})} | {added} | {removed} |")
    return [*lines, ""]


def _commits(changes: list[Change], big: list[str]) -> list[str]:
    lines = ["## What", "", "| commit | when | who | what | lines |", "|---|---|---|---|---:|"]
    for c in changes:
        mark = " **big**" if c["sha"] in big else ""
        when, who = c["date"][:10], _cell(re.sub(r" <.*>$", "", c["author"]))
        lines.append(
            f"| `{c['sha'][:10]}` | {when} | {who} | {_cell(c['title'])}{mark} | +{c['added']} -{c['removed']} |"
        )
    return [*lines, ""]


def _code(text: str) -> str:
    """Text in a code span of a table, where a bar is all that needs escaping."""
    return "`" + " ".join(text.split()).replace("`", "'").replace("|", "\\|") + "`"


def _cell(text: str) -> str:
    """Text of strangers in a table: one line, and no markup of its own."""
    return re.sub(r"([\\|`*_<>\[\]])", r"\\\1", " ".join(text.split()))

"""Tokens that one task takes in three ways, over real servers: python bench/tokens.py

The task is the same, its steps are the same calls of n8n-mcp, filesystem and git, and a script stands in for the
model: what is counted is what would have been sent. (a) every tool of every server, every result in the conversation;
(b) only the tools that the selector finds for the task; (c) the steps as one composed tool. No model is asked.

A token is counted as up to four letters of a word, up to three digits, or one other sign; white space is free. That is
an approximation: the ratios are what to read. Needs `scripts/node.sh` and `pip install mcp-server-git`.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ropewalk import flow
from ropewalk.agents import Completion, complete_with_tools, select
from ropewalk.agents.model import Request
from ropewalk.app.app import App
from ropewalk.n8n.node_tools import ENVIRONMENT
from ropewalk.testing import ScriptedModel, wants

NODE = Path(__file__).parents[1] / "tests" / "node" / "node_modules"
TASK = (
    "Search the n8n nodes for Slack, get its documentation and its properties about threads, write the names of those "
    "to the file NOTE, and git add and git commit it."
)
_PIECE = re.compile(r"[^\W\d_]{1,4}|\d{1,3}|[^\w\s]|_")


def tokens(value: Any) -> int:
    """How many a value has as JSON, or a text as it is."""
    return len(_PIECE.findall(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))


def servers(home: Path) -> dict[str, dict[str, Any]]:
    official = NODE / "@modelcontextprotocol"
    git = shutil.which("mcp-server-git", path=str(Path(sys.executable).parent)) or shutil.which("mcp-server-git")
    found = {
        "n8n-mcp": ("node", [str(NODE / "n8n-mcp" / "dist" / "mcp" / "stdio-wrapper.js")], dict(ENVIRONMENT)),
        "everything": ("node", [str(official / "server-everything" / "dist" / "index.js")], {}),
        "filesystem": ("node", [str(official / "server-filesystem" / "dist" / "index.js"), str(home)], {}),
        "git": (git or "", ["--repository", str(home)], {}),
    }
    for name, (command, args, _) in found.items():
        if not command or (command == "node" and not Path(args[0]).is_file()):
            sys.exit(f"{name} is not installed; see the top of {Path(__file__).name}")
    return {name: {"command": c, "args": args, "env": env} for name, (c, args, env) in found.items()}


def steps(home: Path, note: Any) -> list[tuple[str, dict[str, Any]]]:
    """The calls; `note` is what is written, given what the one before found."""
    slack, repo = {"nodeType": "nodes-base.slack"}, {"repo_path": str(home)}
    return [
        ("n8n-mcp:search_nodes", {"query": "slack", "limit": 10}),
        ("n8n-mcp:get_node", {**slack, "mode": "docs"}),
        ("n8n-mcp:get_node", {**slack, "mode": "search_properties", "propertyQuery": "thread"}),
        ("filesystem:write_file", {"path": str(home / "NOTE"), "content": note}),
        ("git:git_add", {**repo, "files": ["NOTE"]}),
        ("git:git_commit", {**repo, "message": "A note on threads"}),
    ]


def composed(home: Path) -> Any:
    """The steps as a flow, whose result is what the last one says."""
    with flow("note-on-node") as f:
        last: Any = None
        note: Any = None
        for id, given in steps(home, None):
            if "content" in given:
                given["content"] = note
            last = f.call(id, **given)
            if "propertyQuery" in given:
                note = f"{last.matches.map(lambda one: one.path)}"
        f.result(last)
    return f.done()


def sent(requests: list[Request]) -> dict[str, int]:
    """What all rounds sent: definitions, and messages (with results of before, again and again)."""
    definitions = sum(tokens(request.tools) for request in requests)
    return {"definitions": definitions, "messages": sum(tokens(request.messages) for request in requests)}


async def converse(app: App, calls: list[Any], tools: Any) -> tuple[Completion, list[Request]]:
    model = ScriptedModel(*calls, "Done.")
    app.model = model
    done = await complete_with_tools(TASK, tools=tools, app=app, cache=False)
    failed = [f"{call['name']}: {call['outcome']}" for call in done.trace if "error" in call["outcome"]]
    if failed:
        raise SystemExit("a step failed: " + "; ".join(failed))
    return done, model.requests


async def measured(way: str, home: Path, note: str) -> tuple[int, int, dict[str, int], str]:
    async with App("memory") as app:
        for name, config in servers(home).items():
            app.toolbox.add_mcp(name, config)
        await app.connect()
        if app.toolbox.failures:
            sys.exit(str(app.toolbox.failures))
        every = sorted(tool.id for tool in app.toolbox.list() if tool.namespace in app.toolbox.mcp.names)
        calls: list[Any] = [wants(id.partition(":")[2], given) for id, given in steps(home, note)]
        tools: Any = {"a": every, "b": select(TASK, max_results=10)}.get(way)
        if way == "c":
            about = "Writes which properties of n8n's Slack node are about threads to the file NOTE, and commits it."
            tools, calls = [app.as_tool(composed(home), description=about)], [wants("note-on-node", {})]
        done, requests = await converse(app, calls, tools)
        return done.rounds, len(requests[0].tools), sent(requests), (home / "NOTE").read_text()


def repository(folder: str) -> Path:
    home = Path(folder).resolve()
    subprocess.run(["git", "init", "-q", str(home)], check=True)
    for key in ("user.name", "user.email"):
        subprocess.run(["git", "-C", str(home), "config", key, "bench@example.com"], check=True)
    return home


def main() -> None:
    rows, note = [], ""
    for way in ("c: one composed tool", "b: selected tools", "a: all tools"):  # c says what a model would write
        with tempfile.TemporaryDirectory() as folder:
            rounds, count, said, note = asyncio.run(measured(way[0], repository(folder), note))
        rows.insert(0, (way, rounds, count, said))
    whole = sum(rows[0][3].values())
    print(f"{'way':<22}{'rounds':>7}{'tools':>7}{'definitions':>13}{'messages':>10}{'sent in all':>13}{'of a':>8}")
    for way, rounds, count, said in rows:
        parts = f"{said['definitions']:>13,}{said['messages']:>10,}{sum(said.values()):>13,}"
        print(f"{way:<22}{rounds:>7}{count:>7}{parts}{sum(said.values()) / whole:>8.1%}")


if __name__ == "__main__":
    main()

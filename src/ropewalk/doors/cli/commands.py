"""Every command, in one table: the help page and the parser are both made from it.

A command is named by its import path, so that only the one that is used is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cyclopts import App

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "new": ("new:new", "Make a directory with a definition that runs at once."),
    "validate": ("define:validate", "Check a definition; nothing of it runs."),
    "plan": ("define:plan", "Show what would run, in which order, with which tools."),
    "graph": ("define:graph", "Draw a definition: mermaid, svg or text."),
    "convert": ("define:convert", "Write a definition in another notation."),
    "schema": ("schema:schema", "Print the JSON Schema of a notation's documents, for editors."),
    "run": ("run:run", "Run a definition and print its result."),
    "resume": (
        "run:resume",
        "Go on with a run after a crash, or with one that waits; with one that has ended: runs retry.",
    ),
    "runs ls": ("runs:ls", "List runs, newest first."),
    "runs show": ("runs:show", "Show one run: its nodes, attempts, results and errors."),
    "runs watch": ("runs:watch", "Follow a run while it goes on, also one of another process."),
    "runs diff": ("compare:diff", "Show what differs between two runs, node by node."),
    "runs fork": ("rerun:fork", "Start a new run from one of before, with other input or another definition."),
    "runs cancel": ("runs:stop", "The same as `runs stop`."),
    "runs export": ("export:export", "Print everything recorded of a run as one JSON object, or as a test."),
    "runs prune": ("keep:prune", "Delete old runs and free their space."),
    "runs versions": ("keep:versions", "List the versions of a stored definition, or print one."),
    "runs retry": ("rerun:retry", "Go on with a run that has ended: what failed runs again."),
    "runs send": ("waiting:send", "Send an event to a run that waits for it."),
    "runs approve": ("waiting:approve", "Approve what a run asks, or reject it."),
    "runs stop": ("runs:stop", "Stop a run, also one of another process."),
    "runs release": ("workers:release", "Set a parked run free: workers take it from where it was."),
    "worker": ("workers:worker", "Take runs from the queues of a store in Postgres and execute them."),
    "workers ls": ("workers:ls", "List the workers of a store."),
    "schedules ls": ("schedules:ls", "List the schedules of a store."),
    "schedules run": ("schedules:run", "Start what a schedule starts, now."),
    "schedules pause": ("schedules:pause", "Start nothing by this schedule for now."),
    "schedules resume": ("schedules:resume", "Go on with a schedule, from its next time on."),
    "store copy": ("store:copy", "Copy everything of one store into another one, as from SQLite to Postgres."),
    "tools ls": ("tools:ls", "List the tools that definitions can use."),
    "tools show": ("tools:show", "Show one tool: its description and schemas."),
    "tools select": ("selection:select", "Find the tools that a request needs, best first."),
    "tools learnt": ("selection:learnt", "Show what the selector learnt of tools; export or forget it."),
    "tools call": ("tools:call", "Call one tool and print its result."),
    "tools stats": ("stats:stats", "Show how often past runs called each tool, and how that went."),
    "tools pin": ("pin:pin", "Show what differs from the approved tools of MCP servers, and approve it."),
    "chat": ("chat:chat", "Talk with a model that calls the configured tools."),
    "n8n build": ("n8n:build", "Build a workflow for n8n from a prompt."),
    "mcp": ("mcp:mcp", "Serve flows and tools as the tools of an MCP server."),
    "test": ("replay:replay", "Run recorded runs again with what their tools gave; show every difference."),
    "serve": ("serve:serve", "Serve the HTTP API and the page."),
    "doctor": ("doctor:doctor", "Check this installation, the store and every configured server."),
    "bench": ("bench:bench", "Measure what a step costs on this machine and its store."),
    "completion": ("completion:completion", "Print a completion script for bash, zsh or fish."),
}
GROUPS: Final = {
    "runs": "List, show, follow, answer, retry and stop runs.",
    "workers": "Look at the workers of a store.",
    "schedules": "List, start, pause and resume what the clock starts.",
    "store": "Move what a store holds.",
    "tools": "List, show, select, call and pin tools.",
    "n8n": "Build workflows for n8n.",
}

_EXIT_CODES = """\
Exit codes: 0 completed or partial, 1 run failed, 2 usage, 3 invalid definition,
4 waiting, 124 timeout, 130 interrupted, 141 output not taken."""


def help_page() -> str:
    """What `ropewalk --help` prints; made without the parser, which takes longer to import."""
    wide = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(wide)}  {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "Usage: ropewalk COMMAND [OPTIONS]",
            "",
            "Compose, check, run and serve tool chains for LLM agents.",
            "",
            "Commands:",
            *lines,
            "",
            "`ropewalk COMMAND --help` shows a command's options; most take --json.",
            _EXIT_CODES,
            "",
        ]
    )


def version() -> str:
    """The installed version."""
    from importlib.metadata import version as installed

    return installed("ropewalk")


def _default(value: object) -> Any:
    """What the help says of a default: nothing of a switch that is off, and of what is left out."""
    return None if value is None or value is False or value == () else str(value)


def program() -> App:
    """The parser for all commands."""
    from cyclopts import App, Parameter

    root = App(
        name="ropewalk",
        default_parameter=Parameter(show_default=_default),
        help="Compose, check, run and serve tool chains for LLM agents.",
        help_epilogue=_EXIT_CODES,
        help_format="plaintext",
        version=version,
    )
    groups = {name: App(name=name, help=summary, help_format="plaintext") for name, summary in GROUPS.items()}
    for group in groups.values():
        root.command(group)
    for words, (where, summary) in COMMANDS.items():
        module, _, function = where.partition(":")
        parent, _, leaf = words.rpartition(" ")
        (groups[parent] if parent else root).command(f"{__package__}.{module}:{function}", name=leaf, help=summary)
    return root

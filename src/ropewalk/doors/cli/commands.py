"""The table of commands, from which the help page and the parser are made.

A command is named by its import path, so that only the module of the command in use is imported. To add a
command, add a line to `COMMANDS` and a function that returns an `Answer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cyclopts import App

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "new": ("definitions:new", "Create a new project with a working example."),
    "validate": ("validate:validate", "Check definitions, or the whole project, without running them."),
    "preview": ("definitions:preview", "Preview a run: its nodes, their order and their tools."),
    "graph": ("definitions:graph", "Draw a definition as text, Mermaid or SVG."),
    "convert": ("definitions:convert", "Translate a definition to another notation."),
    "schema": ("definitions:schema", "Print the JSON Schema of a kind of definition, for editors."),
    "run": ("run:run", "Run a definition and print its result."),
    "resume": (
        "run:resume",
        "Resume a crashed or waiting run. To rerun a finished run, use `runs retry`.",
    ),
    "overview": ("overview:overview", "Show runs by status, failures by error, what waits, schedules and queues."),
    "runs ls": ("runs:ls", "List runs, newest first."),
    "runs show": ("runs:show", "Show one run: its steps, results and errors."),
    "runs watch": ("runs:watch", "Follow a run live, in any process."),
    "runs logs": ("runs:logs", "Show what the tools of a run have printed and logged."),
    "runs diff": ("runs:diff", "Compare two runs, node by node."),
    "runs fork": ("rerun:fork", "Start a new run from an earlier one, with different input or a different definition."),
    "runs cancel": ("runs:stop", "Stop a run. Alias of `runs stop`."),
    "runs export": ("runs:export", "Export a run as JSON, or as a test for `ropewalk test`."),
    "runs prune": ("store:prune", "Delete old runs and free their disk space."),
    "runs versions": ("store:versions", "List the versions of a stored definition, or print one version."),
    "runs retry": ("rerun:retry", "Retry the failed steps of a finished run."),
    "runs undo": ("undo:undo", "Undo the finished steps of a run that has ended."),
    "runs send": ("signals:send", "Send an event to a waiting run, or the answer to a question of an MCP server."),
    "runs approve": ("signals:approve", "Approve or reject a step of a waiting run."),
    "runs stop": ("runs:stop", "Stop a run, in any process."),
    "runs release": ("workers:release", "Release a parked run so that a worker can continue it."),
    "worker": ("workers:worker", "Start a worker that executes queued runs and schedules."),
    "workers ls": ("workers:ls", "List the workers."),
    "schedules ls": ("workers:list_schedules", "List the schedules."),
    "schedules run": ("workers:run", "Start the run of a schedule now."),
    "schedules pause": ("workers:pause", "Pause a schedule."),
    "schedules resume": ("workers:resume", "Resume a paused schedule from its next due time."),
    "store copy": ("store:copy", "Copy a store into another one, for example from SQLite to Postgres."),
    "tools ls": ("tools:ls", "List the tools that definitions can use."),
    "tools show": ("tools:show", "Show one tool: its description and schemas."),
    "tools select": ("tools:select", "Rank the tools for a request."),
    "tools learnt": ("tools:learnt", "Show, export or delete what the tool selection has learned."),
    "tools call": ("tools:call", "Call one tool and print its result."),
    "tools stats": ("tools:stats", "Show calls, failures and durations of each tool in past runs."),
    "tools pin": ("tools:pin", "Compare the tools of MCP servers with the approved ones, and approve changes."),
    "tools import": ("import_servers:import_servers", "Copy the MCP servers of another program to `ropewalk.toml`."),
    "tools describe": ("describe:describe", "Write how people ask for each tool, so that selection finds it."),
    "tools stubs": ("stubs:stubs", "Write the types of the tools of servers for type checkers and editors."),
    "tools login": ("login:login", "Log in at an MCP server in a browser."),
    "tools logout": ("login:logout", "Delete the login at an MCP server."),
    "trust": ("trust:trust", "Agree to the servers that the `.mcp.json` of the project starts."),
    "models": ("models:models", "List the models of the project, with keys, prices and capabilities."),
    "chat": ("agents:chat", "Chat with a model that calls your tools."),
    "n8n build": ("agents:build", "Build an n8n workflow from a prompt."),
    "mcp": ("serve:mcp", "Serve flows and tools to MCP clients."),
    "test": ("rerun:replay", "Replay recorded runs as regression tests and show every difference."),
    "serve": ("serve:serve", "Serve the HTTP API and the web UI."),
    "dev": ("dev:dev", "Serve a project, and reload it when a file changes."),
    "doctor": ("doctor:doctor", "Check the installation, the project, the store and the servers."),
    "bench": ("doctor:bench", "Measure the time per step on this machine and store."),
    "completion": ("dispatch:completion", "Print a completion script for bash, zsh or fish."),
}
OLD_COMMANDS: Final = {"plan": "preview"}
OLD_OPTIONS: Final = {
    "doctor --limit": "--timeout",
    "mcp --most-listed": "--max-listed",
    "n8n build --run-id": "--id",
    "runs fork --at": "--from",
    "tools select --max": "--limit",
    "tools stats --days": "--since",
    "tools stats --runs": "--limit",
    "worker --queues": "--queue",
}
"""Former names of options that scripts may use, each with its name today."""
GROUPS: Final = {
    "runs": "List, show, follow, continue, retry, undo and stop runs.",
    "workers": "List workers.",
    "schedules": "List, run, pause and resume schedules.",
    "store": "Copy a store.",
    "tools": "List, show, rank, call and approve tools; log in at servers.",
    "n8n": "Build n8n workflows.",
}

_EXIT_CODES = """\
Exit codes: 0 completed or partial, 1 run failed, 2 usage, 3 invalid definition,
4 waiting, 124 timeout, 130 interrupted, 141 output not written."""


def current_words(words: list[str]) -> list[str]:
    """Return a command line with former names of its command and its options replaced by those of today."""
    words = [OLD_COMMANDS.get(words[0], words[0]), *words[1:]]
    command = " ".join(words[: 2 if words[0] in GROUPS else 1])
    end = words.index("--") if "--" in words else len(words)
    for at, word in enumerate(words[:end]):
        option, equals, value = word.partition("=")
        if new := OLD_OPTIONS.get(f"{command} {option}"):
            words[at] = f"{new}{equals}{value}"
            if option == "--days":  # `--since` has a unit
                words[at if equals else min(at + 1, end - 1)] += "d"
    return words


def help_page() -> str:
    """Return the text of `ropewalk --help`."""

    # It needs no parser, which takes longer to import.
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "Usage: ropewalk COMMAND [OPTIONS]",
            "",
            "Compose, check, run and serve tool chains for LLM agents.",
            "",
            "Commands:",
            *lines,
            "",
            "`ropewalk COMMAND --help` shows the options of a command. Most commands take --json.",
            _EXIT_CODES,
            "",
        ]
    )


def version() -> str:
    """Return the installed version."""
    from importlib.metadata import version as installed_version

    return installed_version("ropewalk")


def _default_text(value: object) -> str | None:
    """Return the default that the help shows; None for a switch that is off and for an option without a default."""
    return None if value is None or value is False or value == () else str(value)


def program() -> App:
    """Return the parser of all commands."""
    from cyclopts import App, Parameter

    root = App(
        name="ropewalk",
        default_parameter=Parameter(show_default=_default_text),
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

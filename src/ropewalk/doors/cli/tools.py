"""`tools ls|show|call`: the toolbox, as definitions see it.

Connecting all servers of a project, with a word about those that keep a command waiting.

`tools pin`: what MCP servers and OpenAPI documents say about tools, held against what was approved.

`tools select` and `tools learnt`: which tools fit a request, and what was learnt of them.

`tools stats`: what past runs say of tools.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Collection
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from cyclopts import Parameter, validators

from ...config.project import read_config
from ...errors import (
    Action,
    ConfigError,
    InvalidInput,
    InvalidValue,
    NotFound,
    Remedy,
    StoreError,
    ToolError,
    message_of,
)
from ...select.options import THRESHOLD
from ...select.tool_card import category_of
from ...source.document import escape_invisible, json_text
from ...values import check_json, did_you_mean
from ..errors import failure_text
from ..remedies import Door, given_options, word_remedy
from .arguments import option_of, read_input, split_pairs, with_arguments
from .cached_lists import Fresh, ask_servers, cached_line, cached_lists, prefer_lists
from .dispatch import FAILED, Answer, UsageError
from .options import Arguments, Input, Json, Project, StoreAddress
from .output import columns, duration, first_line, moment, notify
from .questions import ask_on_terminal
from .session import Interrupts, directory, no_project_note, with_app, without_tools
from .store import instant

if TYPE_CHECKING:
    from ...app.app import App
    from ...tools.pins import Difference, Pins
    from ...tools.tool import Tool

_QUIET: Final = 2.0  # seconds before a command says what it waits for


async def all_connected(app: App) -> None:
    """Connect every server."""

    # The command has no later moment to list a tool, so it waits for each one's `connect_timeout`, and says so when
    # that takes long.
    late = await app.toolbox.connect_within(_QUIET)
    if late:
        notify(f"waiting for {', '.join(late)}: no answer yet; `connect_timeout` of the server says how long to wait")
        await app.toolbox.connect_within(None)


LeftOut: TypeAlias = Annotated[
    bool, Parameter(negative=(), help="Also list the tools that settings or OpenAPI documents leave out, and why.")
]


def ls(*, left_out: LeftOut = False, fresh: Fresh = False, json: Json = False, project: Project = None) -> Answer:
    """List the tools that definitions can use, and the servers that cannot be reached, each with the reason."""

    async def work(app: App, _: Interrupts) -> Answer:
        from ...app.presenters import tool_list

        unread = await list_tools(app, project, fresh)
        tools = sorted(app.toolbox.list(), key=lambda t: t.id)
        data = {**tool_list(app.context, tools), "cached": {n: round(age) for n, age in cached_lists(app).items()}}
        rows = [(t.id, first_line(t.description or "")) for t in tools]
        text = [columns(("TOOL", "DESCRIPTION"), rows) if rows else _none(directory(None, project), app)]
        text += [*failure_lines(app), *_left_out_lines(app, left_out), *unread, *cached_line(app)]
        if left_out:
            data |= {"leftOut": app.toolbox.left_out, "shortened": app.toolbox.shortened}
        return Answer(data=data, text="\n".join(text))

    return with_app(work, project=project, store="memory")


async def list_tools(app: App, project: Path | None, fresh: bool) -> list[str]:
    """Make every tool of the project known to the toolbox; return what could not be read."""
    prefer_lists(app, fresh)
    await all_connected(app)
    return await _add_own_tools(app, project)


async def _add_own_tools(app: App, project: Path | None) -> list[str]:
    """Offer the flows and the saved plans of the project as tools of an app whose store is in memory."""

    # The project's store is only read: it is not created, and no old run is deleted.
    from ...app.saved_plans import KIND

    try:
        async with without_tools(project, None) as stored:
            for definition in stored.store.list_definitions(KIND):
                app.store.put_definition(definition)
    except StoreError as error:
        return [escape_invisible(f"! saved plans: {failure_text(str(error), Door.CLI)}")]
    finally:
        await app.jobs.connect_own()
    return []


def failure_lines(app: App, besides: Collection[str] = ()) -> list[str]:
    """Name the servers and the flows that cannot be used, but for some, each with the reason and what helps."""
    flows = app.jobs.flow_tools
    reasons = {**app.toolbox.failures, **({} if flows is None else flows.failures())}
    return [
        escape_invisible(f"! {name}: {failure_text(why, Door.CLI)}")
        for name, why in reasons.items()
        if name not in app.toolbox.left_out and name not in besides
    ]


def _left_out_lines(app: App, is_listed: bool) -> list[str]:
    """Name the operations that are left out, or say how many there are."""
    reasons = app.toolbox.left_out
    if is_listed:
        parts = [f"~ {name}: {what}" for name, what in app.toolbox.shortened.items()]
        return [escape_invisible(line) for line in [*(f"- {name}: {why}" for name, why in reasons.items()), *parts]]
    plural = "tool is left out" if len(reasons) == 1 else "tools are left out"
    return [f"{len(reasons)} {plural}; --left-out gives the reasons"] if reasons else []


def _none(place: Path, app: App) -> str:
    """Say why there are no tools, as far as that is known."""
    untrusted = app.context.untrusted
    unusable = [name for name in app.toolbox.failures if name not in untrusted]
    if untrusted:
        remedy = word_remedy(Remedy(Action.TRUST, {}), Door.CLI)
        others = f"; these cannot be used: {', '.join(unusable)}" if unusable else ""
        return f"no tools; nobody has agreed to these servers yet: {', '.join(untrusted)}; {remedy}{others}"
    if unusable:
        return f"no tools; these cannot be used: {', '.join(unusable)}"
    modules = read_config(place).modules
    if not modules and (note := no_project_note(place)) is not None:
        return f"no tools; {note}"
    if not modules:
        return "no tools; see [tools] and [mcp.NAME] in ropewalk.toml"
    has_several = len(modules) > 1
    was = (
        f"modules {', '.join(modules)} were imported and hold"
        if has_several
        else f"module {modules[0]} was imported and holds"
    )
    return f"no tools: the {was} no function with @tool (from ropewalk import tool)"


def show(tool_id: str, /, *, fresh: Fresh = False, json: Json = False, project: Project = None) -> Answer:
    """Show one tool: its description and schemas."""

    async def work(app: App, _: Interrupts) -> Answer:
        prefer_lists(app, fresh)
        if tool_id.startswith("plans:"):
            await _add_own_tools(app, project)
        try:
            tool = await _find_tool(app, tool_id)
        except NotFound:  # the server may have it by now
            if not ask_servers(app):
                raise
            tool = await _find_tool(app, tool_id)
        result = tool.to_dict()
        text = json_text(result)
        return Answer(data=result, text=text)

    return with_app(work, project=project, store="memory")


async def _find_tool(app: App, tool_id: str) -> Tool:
    """Return a tool, or raise NotFound with what lists the tools if no other one is similar."""
    try:
        return await app.jobs.find_tool(tool_id)
    except NotFound as error:
        if error.suggestion is None and error.why is None and error.what == "tool":
            raise NotFound("tool", tool_id, why="`ropewalk tools ls` lists the tools") from None
        raise


def call(
    tool_id: str,
    /,
    *arguments: Arguments,
    input: Input = None,
    request: Annotated[
        str | None,
        Parameter(help="The user's request that this call serves; the tool selection learns which tools fit it."),
    ] = None,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Call one tool and print its result. Arguments: NAME=VALUE, or --input '{...}'."""
    values = read_input(input)
    if values is not None and not isinstance(values, dict):
        raise UsageError(f"{option_of(input)} must be a JSON object: the tool's arguments by name")
    texts = split_pairs(arguments, "argument")
    is_saved_plan = tool_id.startswith("plans:")

    async def work(app: App, _: Interrupts) -> Answer:
        ask_on_terminal(app)
        tool = await _find_tool(app, tool_id)
        arguments_by_name = with_arguments(values or {}, texts, tool.input_schema, option_of(input))
        try:
            value = await app.call_tool(
                tool_id, arguments_by_name, on_progress=None if json else _progress, request=request
            )
        except ToolError as error:
            from ...engine.stack_trace import trace_of_call  # loaded late: most calls do not fail

            trace = trace_of_call(error)
            if trace.at is not None:
                notify(f"{tool_id} failed at {trace.at}", logging.ERROR)
            # What a server printed or answered, without the message above it, which comes with the error.
            details = (trace.text or "").partition("\n\n")[2]
            if details not in message_of(error) and (trace.at is None or "://" in trace.at):
                notify(details, logging.ERROR)
            raise
        text = value if isinstance(value, str) else json_text(value)
        return Answer(data={"tool": tool_id, "result": value}, text=escape_invisible(text))

    return with_app(work, project=project, store=None if request is not None or is_saved_plan else "memory")


def _progress(event: Any) -> None:
    total = f"/{event.total:g}" if event.total is not None else ""
    sys.stderr.write(escape_invisible(f"… {event.progress:g}{total}  {event.message or ''}".rstrip()) + "\n")


_MARK = {"new": "+", "changed": "~", "renamed": "~", "shadows": "!", "gone": "-"}


def pin(
    what: str | None = None,
    /,
    *,
    approve: Annotated[
        bool, Parameter(name="--approve", negative=(), help="Approve the current tools: write them to ropewalk.lock.")
    ] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Compare the tools of MCP servers and OpenAPI providers with the approved ones.

    WHAT is a SERVER or SERVER:TOOL (default: all). The exit code is 1 if a difference is not approved, or if a
    server cannot be reached.
    """

    async def work(app: App, _: Interrupts) -> Answer:
        from ...tools.pins import LOCK_FILE, Pins

        toolbox = app.toolbox
        pins = toolbox.pins or Pins(Path(app.project or ".") / LOCK_FILE)
        # SERVER, SERVER:TOOL or nothing: a missing part selects everything.
        server, tool = [*(what or "").split(":", 1), ""][:2]
        servers, unreachable = await _reached(app, server)
        result = [
            d for name in servers for d in pins.differences(name, toolbox.definitions(name)) if tool in ("", d.tool)
        ]
        if tool and not result and tool not in (item.name for item in toolbox.definitions(server)):
            near = did_you_mean(tool, [item.name for item in toolbox.definitions(server)])
            raise NotFound("tool", f"{server}:{tool}", suggestion=near and f"{server}:{near}")
        if approve:
            for name in servers:
                pins.approve(name, toolbox.definitions(name), tool or None)
            pins.write()
        rows = [{"tool": d.id, "kind": d.kind, "message": d.approval_message if approve else d.message} for d in result]
        return Answer(
            exit=FAILED if unreachable or (result and not approve) else 0,
            data={"differences": rows, "leftOut": unreachable, "approved": approve, "file": str(pins.path)},
            text=_text(result, unreachable, approve, pins),
        )

    return with_app(work, project=project, store="memory")


async def _reached(app: App, server: str) -> tuple[list[str], dict[str, str]]:
    """Connect the requested servers, or all servers, and return those that listed their tools, with the reason for each
    other one.
    """
    known = [] if app.toolbox.mcp is None else list(app.toolbox.mcp.names)
    known += app.toolbox.provider.documented
    if not known:
        raise UsageError("this project has no MCP servers and no OpenAPI documents; see [mcp.NAME] in ropewalk.toml")
    if server and server not in known:
        raise NotFound("server", server, suggestion=did_you_mean(server, known))
    requested = [server] if server else known
    await app.toolbox.connect_for(f"{name}:" for name in requested)
    unreachable = {name: app.toolbox.failures[name] for name in requested if name in app.toolbox.failures}
    if len(unreachable) == len(requested):
        raise UsageError(
            "; ".join([*unreachable.values(), "the tools of a server that cannot be reached were not approved"])
        )
    return [name for name in requested if name not in unreachable], unreachable


def _text(differences: list[Difference], unreachable: dict[str, str], approve: bool, pins: Pins) -> str:
    lines = [
        escape_invisible(f"{_MARK[d.kind]} {d.id}  {d.approval_message if approve else d.message}") for d in differences
    ]
    for name, why in unreachable.items():
        message = (
            f"; when it can be reached again: ropewalk tools pin {name} --approve{given_options(store=False)}"
            if approve
            else ""
        )
        lines.append(escape_invisible(f"? {name}  left out; its tools were not compared or approved: {why}{message}"))
    if approve and differences:
        lines.append(f"written to {pins.path}; restart serve, mcp and worker, because they read it only at their start")
    elif approve:
        lines.append(f"nothing differs from {pins.path}")
    elif differences:
        lines.append(f"{len(differences)} to review; --approve writes the current definitions into {pins.path}")
    else:
        lines.append("nothing differs from what was approved")
    return "\n".join(lines)


Strategy = Annotated[
    str | None, Parameter(help="Strategy: hybrid, exact, fuzzy, semantic, intent or legacy_hybrid. [default: hybrid]")
]


_Namespace: TypeAlias = Annotated[
    str | None, Parameter(help="Only tools of this namespace, for example of one MCP server.")
]


_Model: TypeAlias = Annotated[
    str | None,
    Parameter(help="Embedding model: none, minilm, multilingual or MODULE:CLASS. [default: that of the project]"),
]


def _nothing_selected(
    query: str, among: str, near: list[dict[str, Any]], threshold: float | None, explain: bool
) -> list[str]:
    """Say why no tool was selected, and what would come nearest."""
    if not query.strip():
        return ["no tool: the request is empty"]
    if not near:
        return [f"no fitting tool{among}; no tool has a word of the request"]
    if explain:
        limit = f"{THRESHOLD if threshold is None else threshold:g}"
        lines = [line for item in near for line in _score_lines(item, query)]
        return [f"no fitting tool{among}; below the threshold of {limit}:", *lines]
    return [f"no fitting tool{among}; --explain shows the nearest tools, and a lower --threshold accepts them"]


def select(
    query: str,
    /,
    *,
    strategy: Strategy = None,
    model: _Model = None,
    limit: Annotated[int | None, Parameter(help="Maximum number of tools. [default: 5]")] = None,
    threshold: Annotated[float | None, Parameter(help="Minimum score, from 0 to 1. [default: 0.3]")] = None,
    category: Annotated[str | None, Parameter(help="Only tools of this category.")] = None,
    namespace: _Namespace = None,
    exclude: Annotated[tuple[str, ...], Parameter(negative=(), help="Exclude this tool; repeatable.")] = (),
    explain: Annotated[bool, Parameter(negative="", help="Show how each score was computed.")] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Rank the tools for a request: the best first, each with a score from 0 to 1."""
    options = {
        "strategy": strategy,
        "maxResults": limit,
        "threshold": threshold,
        "category": category,
        "namespace": namespace,
        "excludeTools": list(exclude) or None,
    }

    try:
        check_json(query, "QUERY")
    except InvalidValue as error:
        raise UsageError(str(error)) from error

    async def work(app: App, _: Interrupts) -> Answer:
        from ...app.presenters import tool_selection

        if model is not None:
            _use_model(app, model)
        await app.connect()
        await app.jobs.connect_own()
        # Check names after connecting: only now are all tools and namespaces known.
        _check_names(app, namespace, category, exclude)
        requested = {name: value for name, value in options.items() if value is not None}
        try:
            result = app.selector.select(query, requested)
        except InvalidInput as error:
            raise UsageError(str(error)) from error
        data = tool_selection(app.jobs, result)
        rows = [(f"{item['score']:.2f}", item["name"], first_line(item["description"])) for item in data["results"]]
        if explain:
            text = [line for item in data["results"] for line in _score_lines(item, query)]
        else:
            text = [columns(("SCORE", "TOOL", "DESCRIPTION"), rows)] if rows else []
        text += _flow_lines(app, data["results"])
        # An empty list does not help, so name the nearest tools that the threshold hid.
        if not rows:
            among = " among the allowed tools" if category or namespace or exclude else ""
            near = app.selector.select(query, {**requested, "threshold": 0})["results"] if threshold != 0 else []
            text = _nothing_selected(query, among, near, threshold, explain)
        text += failure_lines(app)
        return Answer(data=data, text="\n".join(text))

    return with_app(work, project=project)


def _use_model(app: App, model: str) -> None:
    try:
        app.context.selection.set_model(model)
    except ConfigError as error:
        raise UsageError(f"--model: {error}") from error


def _flow_lines(app: App, results: list[dict[str, Any]]) -> list[str]:
    """Say how to run those of the results that are flows of the project."""
    flows = {item["name"]: os.path.join(app.project or "", item["flow"]) for item in results if "flow" in item}
    return [f"{name} is a flow: ropewalk run {quote(os.path.relpath(path))}" for name, path in flows.items()]


def _check_names(app: App, namespace: str | None, category: str | None, exclude: tuple[str, ...]) -> None:
    """Raise NotFound for a name that no tool has, with the nearest names."""

    # Tools of a server that is not connected may exist.
    tools = app.toolbox.list()
    spaces = {tool.namespace for tool in tools if tool.namespace} | app.toolbox.spaces
    if namespace is not None and namespace not in spaces:
        raise NotFound("namespace", namespace, suggestion=did_you_mean(namespace, spaces))
    kinds = {kind for tool in tools if (kind := category_of(tool)) is not None}
    if category is not None and category not in kinds:
        why = None if kinds else 'no tool declares a category: @tool(annotations={"category": ...})'
        raise NotFound("category", category, suggestion=did_you_mean(category, kinds), why=why)
    names = {name for tool in tools for name in (tool.id, tool.name)}
    for name in exclude:
        if name not in names and name.partition(":")[0] not in app.toolbox.failures:
            raise NotFound("tool", name, suggestion=did_you_mean(name, names))


def learnt(
    tool: Annotated[str | None, Parameter(help="Only this tool.")] = None,
    /,
    *,
    requests: Annotated[bool, Parameter(negative="", help="Also show the remembered requests.")] = False,
    forget: Annotated[
        bool, Parameter(negative="", help="Delete what was learned of the tool, or of all tools.")
    ] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Show what the tool selection has learned: successes and failures per tool. --json exports it."""

    async def work(app: App, _: Interrupts) -> Answer:
        if tool is not None:
            await _check_tool(app, tool, project)
        if forget:
            count = app.selector.forget(tool)
            return Answer(
                data={"forgotten": count},
                text=f"forgot {count} request{'' if count == 1 else 's'}",
            )
        # Two records: the rate of successes of each tool, and the requests that it served.
        rates = {name: rate for name, rate in app.selector.stats().items() if tool is None or name == tool}
        uses = [use for use in app.selector.export_learnt() if tool is None or use["tool"] == tool]
        table = {
            name: {"successes": rate.successes, "failures": rate.failures, "rate": round(rate.smoothed, 3)}
            for name, rate in rates.items()
        }
        rows = [(name, rate.successes, rate.failures, f"{rate.smoothed:.2f}") for name, rate in rates.items()]
        text = [columns(("TOOL", "OK", "FAILED", "RATE"), rows) if rows else "nothing was learned yet"]
        if requests and uses:
            lines = [(use["tool"], moment(use["at"]), first_line(use["request"])) for use in uses]
            text.append("\n" + columns(("TOOL", "LATEST", "REQUEST"), lines))
        return Answer(data={"tools": table, "learnt": uses}, text="\n".join(text))

    return with_app(work, project=project, tools=False)


async def _check_tool(app: App, tool: str, project: Path | None) -> None:
    """NotFound for a tool that there is not, unless something was learnt of it: that stays when a tool goes."""

    # Those of a server that is not there may be any.
    known = {use.tool for use in app.selector.learnt()} | app.selector.stats().keys()
    if tool in known:
        return
    from ...app.app import App

    async with App.open(directory(None, project), store="memory") as app:
        try:
            await app.toolbox.find(tool)
        except NotFound as error:
            if tool.partition(":")[0] not in app.toolbox.failures:
                near = None if error.why else did_you_mean(tool, (*known, *app.toolbox.ids()))
                raise NotFound("tool", tool, suggestion=near, why=error.why) from None


def _score_lines(row: dict[str, Any], query: str) -> list[str]:
    """Render a selected tool: the words of the request that it has and lacks, and what each feature added."""
    from ...select.query import read_request

    why = row["matches"]
    lines = [escape_invisible(f"{row['score']:.2f}  {row['name']}  {first_line(row['description'])}")]
    for word, message in why["terms"].items():
        alike = "" if message["likeness"] == 1.0 else f" (alike: {message['likeness']:g})"
        lines.append(escape_invisible(f"      {word}{alike}: {', '.join(message['fields'])}"))
    lacks = [term.plain for term in read_request(query).terms if term.plain not in why["terms"]]
    if lacks:
        lines.append(escape_invisible(f"      not found: {', '.join(lacks)}"))
    if why["features"]:
        parts = sorted(why["features"].items(), key=lambda part: -part[1])
        lines.append("      " + ", ".join(f"{name} {value:+.2f}" for name, value in parts))
    return lines


def stats(
    *,
    since: Annotated[
        str | None, Parameter(help="Only runs started since then: 2h or 30d (ago), 2026-11-01, 2026-11-01T12:30.")
    ] = None,
    limit: Annotated[
        int, Parameter(validator=validators.Number(gte=1), help="Maximum number of runs to read, newest first.")
    ] = 1000,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Show calls, failures and durations of each tool in past runs."""
    started_since = instant(since, "--since")

    async def work(app: App, _: Interrupts) -> Answer:
        # The rows are for people; --json has every number of the same result.
        result: dict[str, object] = app.runs.tool_stats(since=started_since, limit=limit)
        rows = [
            (
                item["tool"],
                item["calls"],
                item["failed"],
                duration(item["p50Ms"] / 1000),
                duration(item["p95Ms"] / 1000),
                f"{item['tokens']:,}" if item["tokens"] else "-",
                first_line(item["lastError"] or ""),
            )
            for item in result["tools"]  # type: ignore[attr-defined]
        ]
        head = ("TOOL", "CALLS", "FAILED", "P50", "P95", "TOKENS", "LAST ERROR")
        lines = [columns(head, rows) if rows else "no run has called a tool; to start one: ropewalk run FILE"]
        if result["unread"]:
            lines.append(f"{result['unread']} runs are left out: their definitions can no longer be read")
        return Answer(data=result, text="\n".join(lines))

    return with_app(work, project=project, store=store, tools=False)

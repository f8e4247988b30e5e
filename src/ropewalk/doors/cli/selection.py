"""`tools select` and `tools learnt`: which tools fit a request, and what was learnt of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ...errors import InvalidInput, InvalidValue, NotFound
from ...select.card import category_of
from ...select.options import THRESHOLD
from ...source import visible
from ...values import check_json, closest
from .answer import Answer
from .exits import UsageError
from .interrupts import Interrupts
from .options import Json, Project
from .session import directory, with_app
from .table import columns, first_line, moment

if TYPE_CHECKING:
    from pathlib import Path

    from ...app import App

Strategy = Annotated[str | None, Parameter(help="hybrid (default), exact, fuzzy, semantic, intent or legacy_hybrid.")]


def select(
    query: str,
    /,
    *,
    strategy: Strategy = None,
    max: Annotated[int | None, Parameter(help="How many at most; 5 unless given.")] = None,
    threshold: Annotated[float | None, Parameter(help="The least score, 0 to 1; 0.3 unless given.")] = None,
    category: Annotated[str | None, Parameter(help="Only tools of this category.")] = None,
    namespace: Annotated[str | None, Parameter(help="Only tools of this namespace, as of one MCP server.")] = None,
    exclude: Annotated[tuple[str, ...], Parameter(negative=(), help="Not this tool; repeatable.")] = (),
    explain: Annotated[bool, Parameter(negative="", help="Show what speaks for each tool.")] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Find the tools that a request needs, best first, with how sure one can be of each (0 to 1)."""
    options = {
        "strategy": strategy,
        "maxResults": max,
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
        await app.connect()
        _check_names(app, namespace, category, exclude)
        asked = {name: value for name, value in options.items() if value is not None}
        try:
            found = app.selector.select(query, asked)
        except InvalidInput as error:
            raise UsageError(str(error)) from error
        failures = {name: str(why) for name, why in app.toolbox.failures.items()}
        rows = [(f"{one['score']:.2f}", one["name"], first_line(one["description"])) for one in found["results"]]
        if explain:
            text = [line for one in found["results"] for line in _explained(one, query)]
        else:
            text = [columns(("SCORE", "TOOL", "DESCRIPTION"), rows)] if rows else []
        if not rows:
            text = ["no fitting tool" + (" among those left" if category or namespace or exclude else "")]
            near = app.selector.select(query, {**asked, "threshold": 0})["results"] if threshold != 0 else []
            if not query.strip():
                text = ["no tool: the request is empty"]
            elif not near:
                text[0] += "; none has anything of the request"
            elif explain:
                text[0] += f"; below the threshold of {THRESHOLD if threshold is None else threshold:g}:"
                text += [line for one in near for line in _explained(one, query)]
            else:
                text[0] += "; --explain shows what comes nearest, a lower --threshold takes it"
        text += [visible(f"! {name}: {why}") for name, why in failures.items()]
        return Answer(data={**found.to_dict(), "failures": failures}, text="\n".join(text))

    return with_app(work, project=project)


def _check_names(app: App, namespace: str | None, category: str | None, exclude: tuple[str, ...]) -> None:
    """A name that nothing has is a slip: NotFound, with what may have been meant. Tools of a server that is not
    there may be any."""
    tools = app.toolbox.list()
    spaces = {tool.namespace for tool in tools if tool.namespace} | app.toolbox.spaces
    if namespace is not None and namespace not in spaces:
        raise NotFound("namespace", namespace, suggestion=closest(namespace, spaces))
    kinds = {kind for tool in tools if (kind := category_of(tool)) is not None}
    if category is not None and category not in kinds:
        why = None if kinds else 'no tool says one: @tool(annotations={"category": ...})'
        raise NotFound("category", category, suggestion=closest(category, kinds), why=why)
    names = {name for tool in tools for name in (tool.id, tool.name)}
    for name in exclude:
        if name not in names and name.partition(":")[0] not in app.toolbox.failures:
            raise NotFound("tool", name, suggestion=closest(name, names))


def learnt(
    tool: Annotated[str | None, Parameter(help="Of this tool only.")] = None,
    /,
    *,
    requests: Annotated[bool, Parameter(negative="", help="Show the requests that are remembered, too.")] = False,
    forget: Annotated[bool, Parameter(negative="", help="Delete what was learnt, of the tool or of all.")] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Show how often tools succeeded and what was learnt from it; --json exports it, --forget deletes it."""

    async def work(app: App, _: Interrupts) -> Answer:
        if tool is not None:
            await _check_tool(app, tool, project)
        if forget:
            gone = app.selector.forget(tool)
            return Answer(data={"forgotten": gone}, text=f"forgot {gone} request{'' if gone == 1 else 's'}")
        rates = {name: rate for name, rate in app.selector.stats().items() if tool is None or name == tool}
        uses = [use for use in app.selector.export_learnt() if tool is None or use["tool"] == tool]
        shown = {
            name: {"successes": rate.successes, "failures": rate.failures, "rate": round(rate.smoothed, 3)}
            for name, rate in rates.items()
        }
        rows = [(name, rate.successes, rate.failures, f"{rate.smoothed:.2f}") for name, rate in rates.items()]
        text = [columns(("TOOL", "OK", "FAILED", "RATE"), rows) if rows else "nothing was learnt yet"]
        if requests and uses:
            lines = [(use["tool"], moment(use["at"]), first_line(use["request"])) for use in uses]
            text.append("\n" + columns(("TOOL", "LATEST", "REQUEST"), lines))
        return Answer(data={"tools": shown, "learnt": uses}, text="\n".join(text))

    return with_app(work, project=project, tools=False)


async def _check_tool(app: App, tool: str, project: Path | None) -> None:
    """NotFound for a tool that there is not, unless something was learnt of it: that stays when a tool goes. Those of
    a server that is not there may be any."""
    known = {use.tool for use in app.selector.learnt()} | app.selector.stats().keys()
    if tool in known:
        return
    from ...app import App

    async with App.open(directory(None, project), store="memory") as whole:
        try:
            await whole.toolbox.find(tool)
        except NotFound as error:
            if tool.partition(":")[0] not in whole.toolbox.failures:
                near = None if error.why else closest(tool, (*known, *whole.toolbox.ids()))
                raise NotFound("tool", tool, suggestion=near, why=error.why) from None


def _explained(one: dict[str, Any], query: str) -> list[str]:
    """A result with the words of the request that it has, those that it does not, and what each feature added."""
    from ...select.request import read_request

    why = one["matches"]
    lines = [visible(f"{one['score']:.2f}  {one['name']}  {first_line(one['description'])}")]
    for word, said in why["terms"].items():
        alike = "" if said["likeness"] == 1.0 else f" (alike: {said['likeness']:g})"
        lines.append(visible(f"      {word}{alike}: {', '.join(said['fields'])}"))
    lacks = [term.plain for term in read_request(query).terms if term.plain not in why["terms"]]
    if lacks:
        lines.append(visible(f"      not found: {', '.join(lacks)}"))
    if why["features"]:
        parts = sorted(why["features"].items(), key=lambda part: -part[1])
        lines.append("      " + ", ".join(f"{name} {value:+.2f}" for name, value in parts))
    return lines

"""Commands with a model: `chat` and `n8n build`, and the transcripts of agents.

`chat` runs an agent over the configured tools, on a terminal or over pipes. It asks before it calls a tool that is not
marked as read-only. Without a terminal it calls such a tool only if `--yes` names it. Every prompt is a run in the
store.

`n8n build` makes a workflow for n8n from a prompt. The workflow goes to standard output or to `-o`, the report to
standard error or next to the file. An invalid workflow is written as `NAME.draft.json`.

A transcript shows the turns and calls of an agent, with their texts and costs. It leaves out the nodes of the loop
(`calls`, `use`, `approved`), because no author wrote them.
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import orjson
from cyclopts import Parameter, validators

from ...app.facts import approval_text, tool_text_of
from ...engine.engine import check_run_id, new_run_id
from ...errors import CompletionFailed, RunStopped, raised_at
from ...source.document import escape_invisible, json_text
from ...tools.output import uncaptured
from ..errors import failure_text
from ..remedies import Door, given_options
from .arguments import saved, some_words
from .dispatch import DONE, FAILED, Answer, UsageError, explain
from .models import require_model
from .options import Json, Project, StoreAddress
from .output import duration, first_line
from .questions import answer_question, ask_on_terminal
from .session import Interrupts, with_app
from .streams import write_stdout
from .tools import all_connected

if TYPE_CHECKING:
    from ...agents import Completion
    from ...agents.session import Session
    from ...app.app import App
    from ...n8n.builder import Built
    from ...tools.mcp.local_client import Elicitation
    from ...tools.tool import Tool
    from .keyboard import Keyboard

_LONGEST = 200
_YES, _ALWAYS, _NO = ("y", "yes"), ("a", "always"), ("", "n", "no")


_Prompt: TypeAlias = Annotated[
    str | None,
    Parameter(validator=some_words, help="Answer this prompt and exit (default: read prompts line by line)."),
]
_Tool: TypeAlias = Annotated[
    tuple[str, ...], Parameter(name="--tool", negative=(), help="Offer only this tool; repeatable (default: all).")
]
_Yes: TypeAlias = Annotated[
    tuple[str, ...], Parameter(name="--yes", negative=(), help="Call this tool without asking; repeatable.")
]
_MaxRounds: TypeAlias = Annotated[
    int, Parameter(validator=validators.Number(gte=1), help="Maximum model turns per prompt.")
]
_MaxTools: TypeAlias = Annotated[
    int,
    Parameter(
        validator=validators.Number(gte=1),
        help="Maximum number of tools offered per prompt; the best matches are chosen.",
    ),
]

_Plans: TypeAlias = Annotated[
    bool | None,
    Parameter(name="--plans", help="Let the model write programs that call the tools, in place of single calls."),
]


def chat(
    prompt: _Prompt = None,
    /,
    *,
    tool: _Tool = (),
    yes: _Yes = (),
    model: Annotated[str | None, Parameter(help="Model (default: the configured one).")] = None,
    system: Annotated[str | None, Parameter(help="System prompt.")] = None,
    max_rounds: _MaxRounds = 20,
    max_tools: _MaxTools = 40,
    plans: _Plans = None,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Chat with a model that calls your tools. It needs a model and its key: see `ropewalk models`."""

    async def work(app: App, interrupts: Interrupts) -> Answer:
        from ...agents.session import Session

        await require_model(app, model)
        talk = _Talk(interrupts, json, prompt is None and sys.stdin.isatty())
        if talk.interactive:
            app.toolbox.on_elicit = talk.elicit
        elif prompt is not None:
            ask_on_terminal(app)
        await all_connected(app)
        tools = _named(app, "--tool", tool)
        if app.context.plans.offer if plans is None else plans:
            tools = _plan_operations(app) + (tools if tool else [])
        # Without --yes every call with side effects is approved first; without a terminal it is refused.
        allowed = {item.id for item in _named(app, "--yes", yes)} if yes else set()

        def began(run_id: str, offered: list[str]) -> None:
            interrupts.running(run_id)
            talk.run = app, run_id
            if len(offered) < len(tools):
                talk.notify(f"· {len(offered)} of {len(tools)} tools fit")

        session = Session(
            app,
            tools=[item.id for item in tools],
            approve=[item.id for item in tools if _is_asked_about(item) and item.id not in allowed],
            ask=talk.ask,
            on_event=talk.hear,
            on_run=began,
            max_tools=max_tools,
            model=model,
            system=system,
            max_rounds=max_rounds,
        )
        talk.begin(app, tools)
        code = await talk.answer_prompts(session, prompt)
        message = talk.answers
        return Answer(exit=code, data=message[0] if prompt is not None and message else {"answers": message})

    # Execute in this process, also if workers execute the project's runs: the person who approves is here.
    return with_app(work, project=project, store=store, engine="local")


def _plan_operations(app: App) -> list[Tool]:
    """Return the tools by which a model writes programs."""
    from ...app.plan_operations import IDS, install_operations

    install_operations(app.context, app.jobs)
    return [tool for id in IDS if (tool := app.toolbox.get(id)) is not None]


def _is_asked_about(tool: Tool) -> bool:
    """Return True for a tool whose calls are approved first."""

    # A program asks by itself, before single calls.
    return tool.has_side_effects and tool.namespace != "ropewalk"


def _named(app: App, option: str, names: tuple[str, ...]) -> list[Tool]:
    """Return the tools with these names (ids, or names that only one tool has); all tools if there are no names."""
    there = sorted((item for item in app.toolbox.list() if item.namespace != "ropewalk"), key=lambda item: item.id)
    if not names:
        return there
    from ...agents.tool_definitions import closest_tool

    result = []
    for name in names:
        same = [item for item in there if name == item.id] or [item for item in there if name == item.name]
        if len(same) != 1:
            near = closest_tool(name, there)
            message = f"several: {', '.join(item.id for item in same)}" if same else "no tool"
            hint = f"; did you mean {near}?" if near and not same else ""
            raise UsageError(f"{option} {name!r} names {message}{hint}")
        result += same
    return result


class _Talk:
    """Reads prompts and shows answers."""

    # Answers go to standard output, everything else to standard error.

    def __init__(self, interrupts: Interrupts, json: bool, interactive: bool) -> None:
        self._interrupts = interrupts
        self.json, self.interactive = json, interactive
        self.answers: list[dict[str, Any]] = []  # what --json prints in the end
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._keyboard: Keyboard | None = None  # of a terminal
        self._asking = asyncio.Lock()
        self._always: set[str] = set()
        self._open = False  # a line of the answer has begun
        self.run: tuple[App, str] | None = None  # the run of the answer that is under way
        self._questions: set[asyncio.Task[None]] = set()

    def begin(self, app: App, tools: list[Tool]) -> None:
        if self.interactive:
            self.notify(f"{len(tools)} tools; Ctrl-C stops an answer, Ctrl-D ends")
        for name, why in app.toolbox.failures.items():
            self.notify(f"! {name}: {failure_text(why, Door.CLI)}")

    async def answer_prompts(self, session: Session, prompt: str | None) -> int:
        """Send every prompt to the session and show the answers."""
        code = DONE
        async for line in self.prompts(prompt):
            try:
                done = await self._interrupts.turn(session.say(line))
            except (CompletionFailed, RunStopped) as error:
                if error.run_id and self._interrupts.stored:
                    error.add_note(f"to see its steps: {self._interrupts.command('runs show', error.run_id)}")
                if not self.interactive:
                    raise
                self.notify(explain(error))
                continue
            self.answered(line, done)
            code = DONE if done.finished else FAILED
        return code

    async def prompts(self, prompt: str | None) -> AsyncIterator[str]:
        """Yield the prompt of the command line, or the lines of standard input."""
        if prompt is not None:
            yield prompt
            return
        if self.interactive:
            from .keyboard import Keyboard  # there are no terminals of this kind on Windows

            self._keyboard = Keyboard(sys.stdin.fileno(), sys.stdin.encoding)
            try:
                while (line := await self._line()) is not None:
                    if line.strip():
                        yield line.strip()
            finally:
                self._keyboard.close()
            return
        loop = asyncio.get_running_loop()
        # A daemon thread, so that the chat can end before Enter is pressed.
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        while (line := await self._lines.get()) is not None:
            if line.strip():
                yield line.strip()

    async def _line(self) -> str | None:
        """Read the next prompt at a terminal, where Ctrl-C ends the chat as Ctrl-D does."""
        try:
            line = await self._interrupts.turn(self._next("> "))
        except RunStopped:
            line = None
        if line is None:
            self.notify("")
        return line

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for line in sys.stdin:
                loop.call_soon_threadsafe(self._lines.put_nowait, line)
            loop.call_soon_threadsafe(self._lines.put_nowait, None)
        except RuntimeError:
            return  # the loop has ended meanwhile

    async def _next(self, sign: str) -> str | None:
        with uncaptured():  # no output of a tool
            sys.stderr.write(sign)
            sys.stderr.flush()
        return None if self._keyboard is None else await self._keyboard.line()

    async def ask(self, tool: str, arguments: dict[str, Any]) -> bool | str:
        """Ask whether a tool may be called with these arguments."""

        # Return True, False or the reason for a refusal.
        if not self.interactive:
            why = f"it is not marked as read-only, and there is no terminal to ask on; to allow it: --yes {tool}"
            self.notify(f"✗ {tool}: {why}")
            return why
        async with self._asking:
            if tool in self._always:
                return True
            effect = "" if self.run is None else f"  ({tool_text_of(self.run[0].context, tool)})"
            self.notify(f"? call {tool} {orjson.dumps(arguments).decode()}{effect}")
            # Whoever typed ahead had not seen this question, so that is no answer to it.
            if self._keyboard is not None and self._keyboard.discard():
                self.notify("! input that was typed before this question is ignored")
            message = (await self._next("  y (yes), n (no), a (always), or the reason why not: ") or "").strip()
            word = message.lower()
            if word in _ALWAYS:
                self._always.add(tool)
            if word in (*_ALWAYS, *_YES):
                return True
            return False if word in _NO else message

    async def elicit(self, question: Elicitation) -> Any:
        """Ask what an MCP server wants to know during a call."""
        async with self._asking:
            if self._keyboard is not None:
                self._keyboard.discard()
            return await answer_question(question, self._next, self.notify)

    async def _answer_question(self, app: App, run_id: str, text: str) -> None:
        """Ask whether a program may continue, and send the answer to its run."""
        if not self.interactive:
            self.notify(f"? {text}")
            self.notify(f"  waiting for an approval: ropewalk runs approve {run_id}{given_options()}")
            return
        waits = await asyncio.to_thread(app.runs.waiting, run_id)
        # The conversation itself may use any of its tools. The question is about the program.
        facts = await asyncio.to_thread(
            app.runs.facts, run_id, [wait for wait in waits if wait.get("approval") == text]
        )
        async with self._asking:
            if facts:
                self.notify(approval_text(facts[:1]))
            self.notify(f"? {text}")
            if self._keyboard is not None and self._keyboard.discard():
                self.notify("! input that was typed before this question is ignored")
            answer = (await self._next("  y (yes), n (no), or the reason why not: ") or "").strip()
        approved = answer.lower() in _YES
        note = None if approved or answer.lower() in _NO else answer
        waits = await asyncio.to_thread(app.runs.waiting, run_id)
        path = next((str(wait["path"]) for wait in waits if wait.get("approval") == text), None)
        if path is not None:  # else somebody has answered elsewhere
            await asyncio.to_thread(lambda: app.runs.approve(run_id, path, approved=approved, by="chat", note=note))

    def hear(self, event: dict[str, Any]) -> None:
        """Show what comes while the model answers."""
        kind = event["type"]
        if kind == "approval" and self.run is not None:
            task = asyncio.ensure_future(self._answer_question(*self.run, event["text"]))
            self._questions.add(task)
            task.add_done_callback(self._questions.discard)
        if kind == "question" and self.run is not None:  # nobody at this terminal can answer
            question = event["question"]
            self.notify(f"? {question['server']} asks: {question['message']}")
            self.notify(
                f"  waiting for an answer: ropewalk runs send {self.run[1]} {quote(event['event'])}{given_options()}"
            )
        if kind == "text" and not self.json:
            with uncaptured():  # no output of a tool
                write_stdout(escape_invisible(event["text"]))
            self._open = True
        elif kind == "broken_off" and not self.json:
            self.notify(f"! the answer was interrupted: {first_line(event['error'])}; asking again")
        elif kind == "tool_use":
            arguments = orjson.dumps(event["input"]).decode()
            short = arguments if len(arguments) <= _LONGEST else f"{arguments[:_LONGEST]}…"
            self.notify(f"· {event['tool'] or event['name']} {short}")
        elif kind == "tool_finished" and event["tool"] != "ropewalk:approval":
            mark, why = ("✓", "") if event["error"] is None else ("✗", f": {first_line(event['error'])}{_place(event)}")
            self.notify(f"{mark} {event['tool']} {duration(event['ms'] / 1000)}{why}")

    def answered(self, prompt: str, done: Completion) -> None:
        """Show what is left of an answer."""
        if self.json:
            calls = [{key: use[key] for key in ("tool", "name", "input", "outcome")} for use in done.trace]
            answer = {"prompt": prompt, "text": done.text, "stopReason": done.stop_reason, "rounds": done.rounds}
            more = {"usage": done.usage, "cost": done.cost, "calls": calls, "runId": done.run_id}
            self.answers.append({**answer, **more, "warnings": list(done.warnings)})
        else:
            is_unshown = not self._open and done.text  # by a client that does not stream
            write_stdout((escape_invisible(done.text) if is_unshown else "") + "\n")
        self._open = False
        for warning in done.warnings:
            self.notify(f"! {warning}")
        if not done.finished:
            self.notify(f"! {done.why}")
        if self.interactive:
            spent = sum(done.usage.values())
            self.notify(f"  {spent:,} tokens" + (f", ${done.cost:.4f}" if done.cost is not None else ""))

    def notify(self, text: str) -> None:
        """Print a line on standard error, after the unfinished line on standard output."""
        if self._open:
            write_stdout("\n")
            self._open = False
        with uncaptured():
            sys.stderr.write(escape_invisible(text) + "\n")
            sys.stderr.flush()


def _place(event: Mapping[str, Any]) -> str:
    return raised_at({"message": event["error"], "at": event.get("at")})


def _writable(_: object, output: Path | None) -> None:
    """Refuse, before anything is paid, what cannot be written in the end."""
    if output is None:
        return
    if not output.parent.is_dir():
        raise ValueError(f"The directory {output.parent} does not exist.")
    if output.is_dir():
        raise ValueError(f"It is a directory; name a file in it, such as {output / 'workflow.json'}.")


def build(
    prompt: Annotated[str, Parameter(validator=some_words, help="The task of the workflow, in words.")],
    /,
    *,
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"],
            validator=_writable,
            help="Output file of the workflow; the report NAME.report.md is written next to it.",
        ),
    ] = None,
    no_tools: Annotated[
        bool,
        Parameter(
            name="--no-tools", negative=(), help="Give the model no tools; n8n-mcp still validates the workflow."
        ),
    ] = False,
    model: Annotated[str | None, Parameter(help="Model (default: the configured one).")] = None,
    id: Annotated[str | None, Parameter(name="--id", help="Run id. The id of an interrupted build resumes it.")] = None,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Build an n8n workflow from a prompt. It needs a model (`ropewalk models`) and n8n-mcp (npm install n8n-mcp)."""

    async def work(app: App, interrupts: Interrupts) -> Answer:
        from ...n8n.builder import WorkflowBuilder, as_json, as_text

        await require_model(app, model, reachable=False)
        more = {} if model is None else {"model": model}
        builder = WorkflowBuilder(app, tools=False if no_tools else None, **more)
        check_run_id(id)
        run_id = id or new_run_id()
        _write_line(f"build {run_id}")  # first, because whoever resumes the build needs the id
        if (why := builder.not_installed) is not None:
            _write_line(f"! {why}; without it the workflow is not validated")
        try:
            built = await builder.build(prompt, run_id=run_id, on_phase=lambda name: _write_line(f"· {name}"))
        except (CompletionFailed, asyncio.CancelledError) as failed:
            if getattr(failed, "completion", None) is None:  # nothing was said that would only be said again
                _write_line(f"to resume the build, repeat the command with --id {run_id}")
            raise
        text = json_text(built.workflow) + "\n"
        report, data = as_text(built), {"workflow": built.workflow, "report": as_json(built)}
        code = DONE if built.valid else FAILED
        if output is None:
            _write_line(report)
            if not built.valid and not json:
                _write_line(
                    f"the draft is not printed; to write it without asking the model again: -o FILE --id {run_id}"
                )
            return Answer(exit=code, data=data, text=text.rstrip("\n") if built.valid else None)
        files = _write(output, built, text, report)
        paths = {kind: str(file) for kind, file in files.items()}
        return Answer(exit=code, data={**data, "files": paths}, text="\n".join(f"{k}: {v}" for k, v in paths.items()))

    # Execute in this process, also if workers execute the project's runs: they lack the tools of the phases.
    return with_app(work, project=project, store=store, engine="local")


def _write(output: Path, built: Built, workflow: str, report: str) -> dict[str, Path]:
    """Write a workflow or a draft, with its report."""

    # A valid workflow replaces an earlier draft.
    draft = output.with_suffix(".draft.json")
    files = {
        "report": output.with_suffix(".report.md"),
        "workflow" if built.valid else "draft": output if built.valid else draft,
    }
    for kind, file in files.items():
        saved(file, report if kind == "report" else workflow)
    if built.valid and _is_ours(draft, built.workflow):
        draft.unlink()
        _write_line(f"{draft} is removed: the workflow is valid now")
    return files


def _is_ours(draft: Path, workflow: dict[str, Any]) -> bool:
    """Return True if the file is a draft that this command wrote."""
    try:
        result = orjson.loads(draft.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(result, dict) and result.keys() == workflow.keys()


def _write_line(text: str) -> None:
    with uncaptured():  # no output of a tool
        sys.stderr.write(escape_invisible(text) + "\n")
        sys.stderr.flush()


_MOST: Final = 80
_ARGS: Final = 60
_DONE: Final = ("end_turn", "stop_sequence")


class Transcript:
    """The agents of one run."""

    # `take` receives its steps in their order and returns the steps to show.

    def __init__(self, kind: str, document: Any) -> None:
        names = ["agent"] if kind == "agent" else sorted(set(_agents(document)))
        of = "|".join(map(re.escape, names)) or r"(?!)"
        own = "" if kind == "agent" else r"(?P=id)\."
        self._inside = re.compile(
            rf"(?P<at>(?:.*/)?(?P<id>{of})(?:@\d+)?)\[(?P<round>\d+)\]/{own}"
            rf"(?:turn(?:@(?P<try>\d+))?|calls(?:\[(?P<use>\d+)\](?:/{own}(?P<rest>.*))?)?)"
        )
        self._document = kind == "agent"
        self._turns: dict[tuple[str, int], dict[str, Any]] = {}
        self._totals: dict[str, dict[str, Any]] = {}

    def lines(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the steps to show: those of agents with `words` in place of a path and `says` in place of a value."""
        for row in rows:
            match = self._inside.fullmatch(row["path"])
            if match is not None:
                yield from self._inner(row, match)
            elif row["path"] in self._totals and row["kind"] == "node":
                yield {**row, "says": _sum(self._totals[row["path"]])}
            else:
                yield row

    def error(self, message: str) -> str:
        """Return the error of the run without the names of the loop's nodes."""
        path, colon, rest = message.partition(": ")
        result = self._inside.fullmatch(path)
        if result is not None and colon:
            return f"{result['at']} turn {int(result['round']) + 1}: {rest}"
        return rest if self._document and path == "finished" else message

    def _inner(self, row: dict[str, Any], match: re.Match[str]) -> Iterator[dict[str, Any]]:
        at, turn = match["at"], int(match["round"])
        words = f"{at} turn {turn + 1}"
        if match["use"] is None:
            if row["path"].endswith("calls"):
                return
            if isinstance(row.get("value"), dict) and "uses" in row["value"]:
                self._turns[at, turn] = row["value"]
                self._totals[at] = {**(row["value"].get("totals") or {}), "stop": row["value"].get("stop_reason")}
                row = {**row, "says": _turn(row["value"])}
            yield {**row, "words": words + (f", attempt {match['try']}" if match["try"] else "")}
            return
        uses = self._turns.get((at, turn), {}).get("uses") or []
        use = uses[int(match["use"])] if int(match["use"]) < len(uses) else {}
        yield from _call(row, words, match["rest"] or "", use)


def _call(row: dict[str, Any], words: str, rest: str, use: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the steps to show of one call that the model requests."""
    tool = use.get("tool") or use.get("name") or "a tool"
    call_words = f"{words} calls {tool} {first_line(_text(use.get('input')), _ARGS)}"
    last = rest.rpartition("/")[2]
    if row["kind"] == "branch":
        if use.get("run") is None and rest.endswith("use"):
            cached = (use.get("cached") or {}).get("cached")
            again = use.get("same_as") if cached is None else cached["run_id"]
            message = use.get("error") if again is None else "the result of the same call before"
            if cached is not None:
                message = f"the result that run {again} got {duration(cached['age'])} before"
            yield {
                **row,
                "status": "ok" if again is not None else "failed",
                "words": call_words,
                "says": _text(message),
            }
    elif re.search(r"(^|\.)call\.", last):
        value = row.get("value")
        if isinstance(value, dict):
            value = value.get("value", value)
        yield {**row, "words": call_words, **({} if row["status"] in ("failed", "recovered") else {"value": value})}
    elif row["kind"] in ("wait", "signal", "timer"):
        yield {**row, "words": words}


def _turn(value: Mapping[str, Any]) -> str:
    """Summarise one turn of the model: its calls or its answer, and its cost."""
    uses = value.get("uses") or []
    parts = []
    if uses:
        parts.append("calls " + ", ".join(str(use.get("tool") or use.get("name")) for use in uses))
    elif value.get("answer") not in (None, ""):
        parts.append(first_line(_text(value["answer"]), _MOST))
    stop = value.get("stop_reason")
    if stop is not None and stop not in _DONE:
        parts.append(f"ends: {stop}")
    return " · ".join([*parts, *_cost_texts(value.get("usage"), value.get("cost"))])


def _sum(totals: Mapping[str, Any]) -> str:
    """Summarise all turns, and why there were no more."""
    counts = [f"{totals.get(key, 0):,} {word}{'' if totals.get(key) == 1 else 's'}" for key, word in
              (("rounds", "turn"), ("calls", "call"))]  # fmt: skip
    why = totals.get("why") or ("the model had finished" if totals.get("stop") in _DONE else totals.get("stop"))
    return " · ".join(
        [", ".join(counts), *_cost_texts(totals.get("usage"), totals.get("cost")), *([why] if why else [])]
    )


def _cost_texts(usage: Any, cost: Any) -> list[str]:
    """Return tokens and money as texts, where they are known."""
    arguments = usage if isinstance(usage, dict) else {}
    out = arguments.get("output_tokens", 0)
    into = sum(amount for key, amount in arguments.items() if key != "output_tokens" and isinstance(amount, int))
    tokens = [f"{into:,} tokens in, {out:,} out"] if into or out else []
    return tokens + ([f"${cost:.4f}"] if isinstance(cost, (int, float)) else [])


def _agents(value: Any) -> Iterator[str]:
    """Yield the ids of all nodes of a document that are agents."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if item.get("kind") == "agent" and isinstance(item.get("id"), str):
                yield item["id"]
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()

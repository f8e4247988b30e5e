"""`chat`: an agent over the configured tools, on a terminal or over pipes.

Tools that are not marked as read-only are asked about; where there is no terminal they are only called when `--yes`
names them. Every prompt is a run in the store.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter, validators

from ...errors import CompletionFailed, RunStopped
from ...source import visible
from .answer import Answer
from .exits import DONE, FAILED, UsageError, explain
from .given import some_words
from .interrupts import Interrupts
from .options import Json, Project, StoreAddress
from .servers import all_connected
from .session import needs_model, with_app
from .streams import put
from .table import duration, first_line

if TYPE_CHECKING:
    from ...app import App
    from ...claude import Completion
    from ...claude.session import Session
    from ...tools.tool import Tool
    from .keyboard import Keyboard

_LONGEST = 200
_YES, _ALWAYS, _NO = ("y", "yes"), ("a", "always"), ("", "n", "no")


def chat(
    prompt: Annotated[
        str | None,
        Parameter(validator=some_words, help="Answer this and end; without it prompts are read line by line."),
    ] = None,
    /,
    *,
    tool: Annotated[
        tuple[str, ...], Parameter(name="--tool", negative=(), help="Only these tools; repeatable (default: all).")
    ] = (),
    yes: Annotated[
        tuple[str, ...], Parameter(name="--yes", negative=(), help="Call this tool without asking; repeatable.")
    ] = (),
    model: Annotated[str | None, Parameter(help="The model (default: as configured).")] = None,
    system: Annotated[str | None, Parameter(help="The system prompt.")] = None,
    max_rounds: Annotated[
        int, Parameter(validator=validators.Number(gte=1), help="At most so many turns of the model per prompt.")
    ] = 20,
    max_tools: Annotated[
        int, Parameter(validator=validators.Number(gte=1), help="Offer at most so many per prompt: those that fit.")
    ] = 40,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Talk with a model that calls the configured tools. It needs ANTHROPIC_API_KEY."""

    async def work(app: App, interrupts: Interrupts) -> Answer:
        from ...claude.session import Session

        needs_model(app)
        await all_connected(app)
        tools = _named(app, tool)
        allowed = {one.id for one in _named(app, yes)} if yes else set()
        talk = _Talk(interrupts, json, prompt is None and sys.stdin.isatty())

        def began(run_id: str, offered: list[str]) -> None:
            interrupts.running(run_id)
            if len(offered) < len(tools):
                talk.tell(f"· {len(offered)} of {len(tools)} tools fit")

        session = Session(
            app,
            tools=[one.id for one in tools],
            approve=[one.id for one in tools if one.has_side_effects and one.id not in allowed],
            ask=talk.ask,
            on_event=talk.hear,
            on_run=began,
            most_tools=max_tools,
            model=model,
            system=system,
            max_rounds=max_rounds,
        )
        talk.begin(app, tools)
        code = await talk.through(session, prompt)
        said = talk.said
        return Answer(exit=code, data=said[0] if prompt is not None and said else {"answers": said})

    # Here, whoever executes the project's runs else: who is asked for an approval sits here.
    return with_app(work, project=project, store=store, engine="local")


def _named(app: App, names: tuple[str, ...]) -> list[Tool]:
    """The tools of these names (ids, or names that only one has); all that there are without."""
    there = sorted((one for one in app.toolbox.list() if one.namespace != "ropewalk"), key=lambda one: one.id)
    if not names:
        return there
    from ...claude.given_tools import near_tool

    found = []
    for name in names:
        same = [one for one in there if name == one.id] or [one for one in there if name == one.name]
        if len(same) != 1:
            near = near_tool(name, there)
            said = f"several: {', '.join(one.id for one in same)}" if same else "no tool"
            raise UsageError(f"{name!r} names {said}" + (f"; did you mean {near}?" if near and not same else ""))
        found += same
    return found


class _Talk:
    """What is read and shown. Answers go to standard output, all else to standard error."""

    def __init__(self, interrupts: Interrupts, json: bool, interactive: bool) -> None:
        self._interrupts = interrupts
        self.json, self.interactive = json, interactive
        self.said: list[dict[str, Any]] = []  # what --json prints in the end
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._keyboard: Keyboard | None = None  # of a terminal
        self._asking = asyncio.Lock()
        self._always: set[str] = set()
        self._open = False  # a line of the answer has begun

    def begin(self, app: App, tools: list[Tool]) -> None:
        if self.interactive:
            self.tell(f"{len(tools)} tools; Ctrl-C stops an answer, Ctrl-D ends")
        for name, why in app.toolbox.failures.items():
            self.tell(f"! {name}: {why}")

    async def through(self, session: Session, given: str | None) -> int:
        """Say every prompt; gives the exit code."""
        code = DONE
        async for line in self.prompts(given):
            try:
                done = await self._interrupts.turn(session.say(line))
            except (CompletionFailed, RunStopped) as error:
                if not self.interactive:
                    raise
                self.tell(explain(error))
                continue
            self.answered(line, done)
            code = DONE if done.finished else FAILED
        return code

    async def prompts(self, given: str | None) -> AsyncIterator[str]:
        """The one that was given, or the lines of standard input."""
        if given is not None:
            yield given
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
        # A daemon: whoever ends the chat does not have to press Enter for it first.
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        while (line := await self._lines.get()) is not None:
            if line.strip():
                yield line.strip()

    async def _line(self) -> str | None:
        """The next prompt at a terminal, where Ctrl-C ends the chat as Ctrl-D does."""
        try:
            line = await self._interrupts.turn(self._next("> "))
        except RunStopped:
            line = None
        if line is None:
            self.tell("")
        return line

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for line in sys.stdin:
                loop.call_soon_threadsafe(self._lines.put_nowait, line)
            loop.call_soon_threadsafe(self._lines.put_nowait, None)
        except RuntimeError:
            return  # the loop has ended meanwhile

    async def _next(self, sign: str) -> str | None:
        sys.stderr.write(sign)
        sys.stderr.flush()
        return None if self._keyboard is None else await self._keyboard.line()

    async def ask(self, tool: str, given: dict[str, Any]) -> bool | str:
        """Whether a tool may be called with these arguments."""
        if not self.interactive:
            why = f"it is not marked as read-only, and there is no terminal to ask on; --yes {tool} allows it"
            self.tell(f"✗ {tool}: {why}")
            return why
        async with self._asking:
            if tool in self._always:
                return True
            self.tell(f"? call {tool} {orjson.dumps(given).decode()}")
            # Whoever typed ahead had not seen this question, so that is no answer to it.
            if self._keyboard is not None and self._keyboard.discard():
                self.tell("! what was typed before this question is dropped")
            said = (await self._next("  y (yes), n (no), a (always), or why not, in words: ") or "").strip()
            word = said.lower()
            if word in _ALWAYS:
                self._always.add(tool)
            if word in (*_ALWAYS, *_YES):
                return True
            return False if word in _NO else said

    def hear(self, event: dict[str, Any]) -> None:
        """Show what comes while the model answers."""
        kind = event["type"]
        if kind == "text" and not self.json:
            put(visible(event["text"]))
            self._open = True
        elif kind == "broken_off" and not self.json:
            self.tell(f"! that broke off: {first_line(event['error'])}; it begins anew")
        elif kind == "tool_use":
            given = orjson.dumps(event["input"]).decode()
            short = given if len(given) <= _LONGEST else f"{given[:_LONGEST]}…"
            self.tell(f"· {event['tool'] or event['name']} {short}")
        elif kind == "tool_finished" and event["tool"] != "ropewalk:approval":
            mark, why = ("✓", "") if event["error"] is None else ("✗", f": {first_line(event['error'])}")
            self.tell(f"{mark} {event['tool']} {duration(event['ms'] / 1000)}{why}")

    def answered(self, prompt: str, done: Completion) -> None:
        """Show what is left of an answer."""
        if self.json:
            calls = [{key: use[key] for key in ("tool", "name", "input", "outcome")} for use in done.trace]
            said = {"prompt": prompt, "text": done.text, "stopReason": done.stop_reason, "rounds": done.rounds}
            more = {"usage": done.usage, "cost": done.cost, "calls": calls, "runId": done.run_id}
            self.said.append({**said, **more, "warnings": list(done.warnings)})
        else:
            told = not self._open and done.text  # by a client that does not stream
            put((visible(done.text) if told else "") + "\n")
        self._open = False
        for warning in done.warnings:
            self.tell(f"! {warning}")
        if not done.finished:
            self.tell(f"! {done.why}")
        if self.interactive:
            spent = sum(done.usage.values())
            self.tell(f"  {spent:,} tokens" + (f", ${done.cost:.4f}" if done.cost is not None else ""))

    def tell(self, text: str) -> None:
        """A line on standard error, after what has begun on standard output."""
        if self._open:
            put("\n")
            self._open = False
        sys.stderr.write(visible(text) + "\n")
        sys.stderr.flush()

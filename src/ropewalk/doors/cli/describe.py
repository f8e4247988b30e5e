"""`tools describe`: the usage phrases of the project's tools, in a file to review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ...config.project import PHRASE_FILE
from ...errors import ModelError, NotFound
from ...select.phrases import phrase_file_text, read_phrase_book
from ...select.tool_card import card_of
from ...source.document import escape_invisible
from ...source.load import replace_file
from ...values import did_you_mean
from .cached_lists import Fresh, cached_line
from .dispatch import FAILED, Answer, UsageError
from .models import require_model
from .options import Json, Project
from .session import Interrupts, directory, with_app
from .tools import failure_lines, list_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from ...app.app import App
    from ...select.phrases import Entry, PhraseBook
    from ...select.tool_card import Card


def describe(
    *tools: Annotated[str, Parameter(name="TOOL", help="Write these again, though their phrases fit. [default: none]")],
    rules: Annotated[bool, Parameter(negative=(), help="Write by rules alone, though a model is configured.")] = False,
    model: Annotated[str | None, Parameter(help="Model that writes. [default: the configured one, else rules]")] = None,
    again: Annotated[bool, Parameter(negative=(), help="Write the phrases of every tool again.")] = False,
    check: Annotated[bool, Parameter(negative=(), help="Write nothing; exit 1 if a tool needs phrases.")] = False,
    fresh: Fresh = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Write usage phrases, how people ask for each tool, to `ropewalk.phrases` in the project directory.

    `tools select`, agents and MCP clients then find tools by them. Phrases are pinned to the description of their tool:
    those that fit it stay as they are, with your changes. Well-known servers have phrases that come with Ropewalk.
    """

    async def work(app: App, _: Interrupts) -> Answer:
        if rules and model is not None:
            raise UsageError("--rules and --model exclude each other")
        path = directory(None, project) / PHRASE_FILE
        book = read_phrase_book(path)
        notes = [*await list_tools(app, project, fresh), *failure_lines(app)]
        cards = [card_of(tool) for tool in sorted(app.toolbox.list(), key=lambda tool: tool.id)]
        _check_names(tools, cards)
        wanted = [card for card in cards if again or card.key in tools or not book.covers(card)]
        if check:
            return _missing(path, book, cards, notes)
        before = phrase_file_text(book)
        gone = _remove_gone(book, cards)
        writer = await _writer(app, wanted, rules, model)
        try:
            written, failure = await _write(book, writer)
        finally:  # also of a command that is interrupted, what was written is kept
            if (text := phrase_file_text(book)) != before:
                _save(path, text)
        # A model may leave tools out; the rules write an entry for each.
        without = [card.key for card in wanted if not book.phrases_of(card)]
        data = {"file": str(path), "written": written, "without": without, "removed": gone, "failure": failure}
        lines = [f"written to {path}: phrases of {sum(bool(book.entries[key].phrases) for key in written)} tools"]
        if without:
            lines.append(
                f"without phrases: {', '.join(without)}; a model or you can write them (`ropewalk tools describe"
                f" --model`, {path.name})"
            )
        if len(cards) > len(wanted):
            lines.append(f"{len(cards) - len(wanted)} tools have phrases that fit")
        lines += [f"removed: {key}, which is gone" for key in gone]
        if failure:
            lines.append(escape_invisible(f"! {failure}; `--rules` writes without a model"))
        lines += map(escape_invisible, notes)
        return Answer(exit=FAILED if failure or notes else 0, data=data, text="\n".join([*lines, *cached_line(app)]))

    return with_app(work, project=project, store="memory")


def _missing(path: Path, book: PhraseBook, cards: Sequence[Card], notes: Sequence[str]) -> Answer:
    """Name the tools that phrases were not written for."""
    missing = [card.key for card in cards if not book.covers(card)]
    lines = [
        f"{key}: there are no phrases for its description; write them with `ropewalk tools describe`" for key in missing
    ]
    lines += map(escape_invisible, notes)  # what cannot be read may have tools, too
    is_complete = not lines
    if without := [card.key for card in cards if card.key not in missing and not book.phrases_of(card)]:
        lines.append(f"without phrases: {', '.join(without)}; the rules knew none")
    text = "\n".join(lines) or f"{path}: the phrases of every tool fit its description"
    data = {"file": str(path), "missing": missing, "without": without}
    return Answer(exit=0 if is_complete else FAILED, data=data, text=text)


def _remove_gone(book: PhraseBook, cards: Sequence[Card]) -> list[str]:
    """Remove and return the tools that their servers list no more."""
    listed = {card.key for card in cards}
    spaces = {"", *(card.namespace or "" for card in cards)}  # the tools of other servers are not known now
    gone = [key for key in book.entries if key not in listed and key.rpartition(":")[0] in spaces]
    for key in gone:
        del book.entries[key]
    return gone


async def _write(book: PhraseBook, writer: AsyncIterator[tuple[str, Entry]]) -> tuple[list[str], str | None]:
    """Put what is written into the book; return the tools, and why the writer failed."""
    written: list[str] = []
    try:
        async for key, entry in writer:
            book.entries[key] = entry
            written.append(key)
    except ModelError as error:  # what it has written until then is kept
        return written, str(error)
    return written, None


def _check_names(names: Sequence[str], cards: Sequence[Card]) -> None:
    known = {card.key for card in cards}
    for name in names:
        if name not in known:
            raise NotFound("tool", name, suggestion=did_you_mean(name, known))


async def _writer(app: App, cards: Sequence[Card], rules: bool, model: str | None) -> AsyncIterator[tuple[str, Entry]]:
    """Return what writes the phrases: the named model, the configured one, or the rules."""
    from ...app.tool_phrases import entries_by_model, entries_by_rules

    if model is not None:
        await require_model(app, model)
    if not rules and (model is not None or _has_model(app)):
        return entries_by_model(cards, app.context.client_of(model or ""), model)

    async def by_rules() -> AsyncIterator[tuple[str, Entry]]:
        for entry in entries_by_rules(cards):
            yield entry

    return by_rules()


def _has_model(app: App) -> bool:
    """Return True if a model is configured that lacks nothing, such as a key."""
    try:
        missing = getattr(app.context.client_of(""), "missing", None)
        return missing is None or missing() is None
    except ModelError:
        return False


def _save(path: Path, text: str) -> None:
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error}") from error

"""Usage phrases: how people ask for a tool, in other words than its maker's.

`ropewalk.phrases` in the directory of a project has the phrases of its tools; `known_phrases.json` comes with the
package and has those of well-known servers. Each entry is pinned to the description that it was written for: when a
tool says something else, its phrases no longer count. A file is JSON:

    {"tools": {"fs:read_file": {"description": "<description_hash>", "by": "rules", "phrases": ["..."]}}}

Refused: a file of another shape; every problem is named. `phrase_index.py` compares phrases with requests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError, Problem, display_path
from ..fast_dataclass import dataclass
from .tool_card import Card

MAX_PHRASES: Final = 10  # phrases of a tool
MAX_LENGTH: Final = 200  # characters of a phrase
_MAX_SIZE: Final = 50_000_000  # bytes of a file


@dataclass(frozen=True, slots=True)
class Entry:
    """The phrases of a tool, the hash of the description that they were written for, and who wrote them."""

    description: str
    phrases: tuple[str, ...]
    by: str = ""


class PhraseBook:
    """The phrases of a project's tools by id, and, unless `known` is false, those that come with the package."""

    def __init__(self, entries: Mapping[str, Entry] | None = None, *, known: bool = True) -> None:
        self.entries, self._known = dict(entries or {}), known

    def phrases_of(self, card: Card) -> tuple[str, ...]:
        """Return the phrases of a tool that were written for its description; those of the project come first."""
        entry = self.entries.get(card.key)
        known = _known_phrases().get(card.name) if self._known else None
        if entry is None and known is None:
            return ()
        described = description_hash(card.description)
        if entry is not None and entry.description == described:
            return entry.phrases
        return (known or {}).get(described, ())

    def covers(self, card: Card) -> bool:
        """Return True if phrases were written for the description of a tool, even if there were none to write."""
        entry = self.entries.get(card.key)
        return bool(self.phrases_of(card)) or (entry is not None and not self.is_stale(card))

    def is_stale(self, card: Card) -> bool:
        """Return True if the project has phrases for a tool that were written for another description."""
        entry = self.entries.get(card.key)
        return entry is not None and entry.description != description_hash(card.description)


def description_hash(description: str) -> str:
    """Return the hash that pins phrases to a description."""
    return hashlib.sha256(description.encode(errors="replace")).hexdigest()[:16]


def read_phrase_book(path: Path) -> PhraseBook:
    """Read a file of phrases, an empty book if there is none; raise ConfigError with every problem of a wrong one."""
    try:
        text = path.read_bytes()[: _MAX_SIZE + 1].decode()
        data = json.loads(text)
    except FileNotFoundError:
        return PhraseBook()
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, no JSON
        where = f":{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(f"{display_path(path)}{where}: cannot be read as a file of phrases: {error}") from error
    entries, problems = _read_entries(data)
    if problems:
        raise ConfigError("\n".join(f"{display_path(path)}: {one.path}: {one.message}" for one in problems))
    return PhraseBook(entries)


def _read_entries(data: Any) -> tuple[dict[str, Entry], list[Problem]]:
    tools = data.get("tools") if isinstance(data, dict) else None
    if not isinstance(tools, dict):
        return {}, [Problem(path="tools", message="must be an object of tools by id")]
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    for key, value in tools.items():
        given = value if isinstance(value, dict) else {}
        described, phrases, by = (given.get(name) for name in ("description", "phrases", "by"))
        path = f"tools.{key}"
        if not isinstance(described, str):
            problems.append(Problem(path=f"{path}.description", message="must be the hash of a description"))
        elif not isinstance(phrases, list) or not all(isinstance(phrase, str) for phrase in phrases):
            problems.append(Problem(path=f"{path}.phrases", message="must be a list of strings"))
        elif len(phrases) > MAX_PHRASES or any(len(phrase) > MAX_LENGTH for phrase in phrases):
            limit = f"at most {MAX_PHRASES} phrases of at most {MAX_LENGTH} characters"
            problems.append(Problem(path=f"{path}.phrases", message=f"has more than is read: {limit}"))
        else:
            entries[key] = Entry(described, tuple(phrases), by if isinstance(by, str) else "")
    return entries, problems


def phrase_file_text(book: PhraseBook) -> str:
    """Return the text of a file of phrases, in the order of the ids."""
    tools = {
        key: {"description": entry.description, "by": entry.by, "phrases": [*entry.phrases]}
        for key, entry in sorted(book.entries.items())
    }
    return json.dumps({"tools": tools}, indent=2, ensure_ascii=False) + "\n"


@cache
def _known_phrases() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the phrases that come with the package, by name and hash of the description."""
    known: dict[str, dict[str, tuple[str, ...]]] = {}
    for server in json.loads((files(__package__) / "known_phrases.json").read_bytes()):
        for name, entry in server["tools"].items():
            known.setdefault(name, {})[entry["description"]] = tuple(entry["phrases"])
    return known

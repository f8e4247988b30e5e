"""The files of a directory whose texts are part of its experience: prompts, skills, schemas of answers.

They are read when the definition is read. So a run keeps the prompts that it began with, and a changed prompt is a
changed definition. Paths stay inside the directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .dialects.experience_prompt import named_files
from .tools.inside import WrongPath, read

MOST: Final = 1_000_000
"""Bytes that such a file may hold."""


def with_files(document: Mapping[str, Any], root: str | None) -> Mapping[str, Any]:
    """Return an experience with the texts of the files that it names in `files`.

    Args:
        document: A document of any notation. Documents that name no files are returned as they are.
        root: The directory of the document. None for a document that came from no directory.

    Returns:
        A copy with `files`: a text by path, or `{problem}` for a file that cannot be read. Texts that `files` has
        already are kept: they are those that a run began with.
    """
    if root is None or "graph" not in document:
        return document
    known = document.get("files")
    texts: dict[str, Any] = dict(known) if isinstance(known, Mapping) else {}
    for name in named_files(document):
        if not isinstance(texts.get(name), str):
            texts[name] = _text(root, name)
    return {**document, "files": texts} if texts else document


def _text(root: str, name: str) -> Any:
    try:
        return read(Path(root), name, MOST).decode("utf-8-sig").replace("\r\n", "\n")
    except WrongPath as wrong:
        return {"problem": str(wrong)}
    except UnicodeDecodeError as error:
        return {"problem": f"{name} is not UTF-8 at byte {error.start}; write it as UTF-8"}

"""Files as tools: `tool: ./answer.yaml` in a document means the flow of this file, next to the document.

The document then names the flow, so that its record means the same wherever it continues. Documents of clients have no
directory, and cannot name files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..values import digest
from .python_file import python_place

DATA: Final = frozenset(
    ("params", "inputMapping", "args", "variables", "input", "inputSchema", "outputSchema", "value")
)
"""Fields that hold data, in which anything may be called `tool`."""
_FILE: Final = r"\.\.?/.+\.(ya?ml|json|py:\w+)"


PREFIX: Final = "flow"
"""The prefix of the ids of tools that documents name as files."""


class FlowReferences:
    """Replaces the files that one document names by the ids of their flows."""

    # `base` is the directory of the project: the id of a file is its path from there.

    def __init__(self, directory: str, base: Path | None) -> None:
        self._directory, self._base = directory, base
        self.files: dict[str, str] = {}
        """The files that the document names, by id."""

    def replaced(self, document: Any) -> Any:
        """Return a document with the ids of flows in place of their files."""
        if isinstance(document, Mapping):
            return {key: value if key in DATA else self._replaced(key, value) for key, value in document.items()}
        if isinstance(document, list):
            return [self.replaced(item) for item in document]
        return document

    def _replaced(self, key: str, value: Any) -> Any:
        if key == "tool" and isinstance(value, str):
            return self._id(value)
        if key == "tools" and isinstance(value, list):
            return [self._id(item) if isinstance(item, str) else item for item in value]
        return self.replaced(value)

    def _id(self, text: str) -> str:
        path = Path(self._directory, text)
        if not re.fullmatch(_FILE, text):
            return text
        path = path.resolve()
        start = Path(self._directory).resolve() if self._base is None else self._base.resolve()
        # A tool id has no slashes, and a file outside of the project has no short path.
        inside = path.relative_to(start) if path.is_relative_to(start) else Path(digest(str(path))[:8], path.name)
        place = python_place(inside)
        name = str(inside.with_suffix("") if place is None else place[0].with_suffix("") / place[1])
        id = f"{PREFIX}:{re.sub(r'[^A-Za-z0-9_-]+', '.', name)[-100:].strip('.')}"
        self.files[id] = str(path)
        return id

"""Files as tools: `tool: ./answer.yaml` in a document means the flow of this file, next to the document.

The document then names the flow, so that its record means the same wherever it continues. Documents of clients have no
directory, and cannot name files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import InvalidFlow, Problem
from .flow_list import read_flow_file
from .python_file import python_place

DATA: Final = frozenset(
    ("params", "inputMapping", "args", "variables", "input", "inputSchema", "outputSchema", "value")
)
"""Fields that hold data, in which anything may be called `tool`."""
_FILE: Final = r"\.\.?/.+\.(ya?ml|json|py:\w+)"


def with_flow_names(document: Any, directory: str, files: dict[str, str]) -> Any:
    """Return a document with the names of flows in place of their files, which are noted in `files`."""
    if isinstance(document, Mapping):
        return {key: value if key in DATA else _named(key, value, directory, files) for key, value in document.items()}
    if isinstance(document, list):
        return [with_flow_names(item, directory, files) for item in document]
    return document


def _named(key: str, value: Any, directory: str, files: dict[str, str]) -> Any:
    if key == "tool" and isinstance(value, str):
        return _name_of_file(value, directory, files)
    if key == "tools" and isinstance(value, list):
        return [_name_of_file(item, directory, files) if isinstance(item, str) else item for item in value]
    return with_flow_names(value, directory, files)


def _name_of_file(text: str, directory: str, files: dict[str, str]) -> str:
    path = Path(directory, text)
    if not re.fullmatch(_FILE, text) or not (python_place(path) or (path, ""))[0].is_file():
        return text
    path = path.resolve()
    name = read_flow_file(path).name
    if files.setdefault(name, str(path)) != str(path):
        message = f"{path.name} and {Path(files[name]).name} have the name {name!r}; give one of them another `name`"
        raise InvalidFlow([Problem(path="", message=message)])
    return name

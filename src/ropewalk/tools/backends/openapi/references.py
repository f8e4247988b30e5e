"""Follows `$ref` to any place of an OpenAPI document, and to other files of its folder.

Each value is known with the name of the file that it is in ("" for the document itself), because its own references
are relative to that file. Nothing outside the folder of the document is read, and nothing is fetched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from ....errors import ConfigError, InvalidTool
from ....values import Json

_MAX_REFERENCES: Final = 50
_MAX_FILES: Final = 10_000


class Part(NamedTuple):
    """A value of a document, with the file that it is in."""

    value: Any
    file: str


class References:
    """The references of one document."""

    # An invalid one raises InvalidTool for the operation that needs it.

    def __init__(self, document: dict[str, Json], file: Path | None = None) -> None:
        self._folder = None if file is None else file.resolve().parent
        self._documents: dict[str, Any] = {"": document}
        if file is not None:
            self._documents[file.name] = document
        self._anchors: dict[str, dict[str, str]] = {}

    def follow(self, value: Any, file: str) -> Part:
        """Return a path item, parameter, body or response, with its references followed."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(value, dict):
                raise InvalidTool(f"expected an object, not {type(value).__name__}")
            ref = value.get("$ref")
            if not isinstance(ref, str):
                return Part(value, file)
            value, file = self.target(ref, file)
        raise InvalidTool("its references form a cycle")

    def target(self, ref: str, file: str) -> Part:
        """Return the target of a reference that is written in a file."""
        name, pointer = self.place(ref, file)
        return self._at(self._document(name, ref), name, pointer, ref, 0)

    def place(self, ref: str, file: str) -> tuple[str, str]:
        """Return the file and the pointer of a reference; equal places have equal names."""
        address, _, fragment = ref.partition("#")
        name = self._name_of(address, file, ref) if address else file
        pointer = unquote(fragment)
        if pointer and not pointer.startswith("/"):
            known = self._anchors_of(name, ref)
            if pointer not in known:
                raise InvalidTool(f"the reference {ref!r} has no target")
            pointer = known[pointer]
        return name, pointer

    def _at(self, node: Any, name: str, pointer: str, ref: str, depth: int) -> Part:
        for raw in pointer.split("/")[1:]:
            step = raw.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and step not in node and isinstance(node.get("$ref"), str):
                if depth >= _MAX_REFERENCES:
                    raise InvalidTool("its references form a cycle")
                # The pointer leads through another reference.
                place = self.place(node["$ref"], name)
                node, name = self._at(self._document(place[0], ref), *place, ref, depth + 1)
            if isinstance(node, list) and step.isdecimal() and int(step) < len(node):
                node = node[int(step)]
            elif isinstance(node, dict) and step in node:
                node = node[step]
            else:
                raise InvalidTool(f"the reference {ref!r} has no target")
        return Part(node, name)

    def _name_of(self, address: str, file: str, ref: str) -> str:
        known = self._anchors_of(file, ref)
        if address in known:  # the `$id` of a schema, or the document's own `$self`
            raise InvalidTool(f"the reference {ref!r} names an $id; write a pointer instead")
        if self._folder is None or "://" in address or address.startswith("/"):
            raise InvalidTool(f"the reference {ref!r} points outside the document; put its target inside")
        path = (self._folder / file).parent / unquote(address) if file else self._folder / unquote(address)
        try:
            resolved = path.resolve()
            return resolved.relative_to(self._folder).as_posix()
        except (OSError, ValueError):
            raise InvalidTool(f"the reference {ref!r} points outside the folder of the document") from None

    def _document(self, name: str, ref: str) -> Any:
        if name not in self._documents:
            from .document import read_file

            if self._folder is None or len(self._documents) > _MAX_FILES:
                raise InvalidTool(f"the reference {ref!r} points outside the document; put its target inside")
            try:
                self._documents[name] = read_file(self._folder / name, name)
            except ConfigError as error:
                raise InvalidTool(f"the reference {ref!r} cannot be read: {error}") from error
        return self._documents[name]

    def _anchors_of(self, name: str, ref: str) -> dict[str, str]:
        """Return the pointer of each `$anchor` of a file."""
        if name not in self._anchors:
            found: dict[str, str] = {}
            stack: list[tuple[Any, str]] = [(self._document(name, ref), "")]
            while stack:
                node, pointer = stack.pop()
                items = node.items() if isinstance(node, dict) else enumerate(node)
                for key, value in items:
                    if key in ("$anchor", "$dynamicAnchor") and isinstance(value, str):
                        found.setdefault(value, pointer)
                    elif isinstance(value, (dict, list)):
                        stack.append((value, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"))
            self._anchors[name] = found
        return self._anchors[name]

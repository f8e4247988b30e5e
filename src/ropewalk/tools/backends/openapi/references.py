"""Follows `$ref` to any place of an OpenAPI document, to a schema by its `$id` or `$anchor`, and to other documents.

Each value is known with the name of the document that it is in, because its references are relative to that document:
"" for the first document, a path for another file of the folder, an address for a fetched document and for a schema
with an `$id`. Nothing outside the folder is read. Documents are fetched only from the server of the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urldefrag, urljoin

from ....errors import ConfigError, InvalidTool
from ....values import Json
from .security import origin_of

_MAX_REFERENCES: Final = 50
_MAX_FILES: Final = 10_000
MAX_FETCHED: Final = 100
"""Documents that are fetched because the first one refers to them."""
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")


class Part(NamedTuple):
    """A value of a document, with the name of the document that it is in."""

    value: Any
    file: str


class References:
    """The references of one document."""

    # An invalid one raises InvalidTool for the operation that needs it.
    # `address` is where the document was fetched, and `fetch` reads another document of that server.

    def __init__(
        self,
        document: dict[str, Json],
        file: Path | None = None,
        address: str | None = None,
        fetch: Callable[[str], Any] | None = None,
    ) -> None:
        self._folder = None if file is None else file.resolve().parent
        self._address, self._fetch = address, fetch
        self._documents: dict[str, Any] = {}
        self._bases: dict[str, str] = {}  # what references are relative to
        self._names: dict[str, str] = {}  # by address
        self._outer: dict[str, str] = {}  # the document around a schema with an `$id`
        self._anchors: dict[str, dict[str, str]] = {}
        self._unreadable: dict[str, str] = {}
        place = (address or "") if file is None else f"file:///{quote(file.name)}"
        self._add("", document, place)
        if file is not None:
            self._documents[file.name] = document
            self._bases[file.name] = self._bases[""]

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
        """Return the target of a reference that is written in a document."""
        name, pointer = self.place(ref, file)
        return self._at(self._document(name, ref), name, pointer, ref, 0)

    def place(self, ref: str, file: str) -> tuple[str, str]:
        """Return the document and the pointer of a reference; equal places have equal names."""
        address, _, fragment = ref.partition("#")
        name = self._name_of(address, file, ref) if address else file
        pointer = unquote(fragment)
        # Many documents mean a place of the whole document, although the schema has an `$id`.
        while name in self._outer and not self._leads(name, pointer):
            name = self._outer[name]
        if pointer and not pointer.startswith("/"):
            known = self._anchors_of(name, ref)
            if pointer not in known:
                raise InvalidTool(f"the reference {ref!r} has no target")
            pointer = known[pointer]
        return name, pointer

    def inside(self, schema: dict[str, Any], file: str) -> str:
        """Return the document that the references in a schema are relative to: the schema itself if it has an `$id`."""
        identifier = schema.get("$id")
        if not isinstance(identifier, str) or identifier.startswith("#") or schema is self._documents[file]:
            return file
        address = _joined(self._bases[file], identifier)
        if address not in self._names:
            self._add(address, schema, address, outer=file)
        name = self._names[address]
        return name if self._documents[name] is schema else file

    def name_for(self, place: tuple[str, str]) -> str:
        """Return the last part of the name of a document, for a target that is a whole document."""
        return PurePosixPath(unquote(place[0].partition("?")[0])).stem

    def _add(self, name: str, document: Any, place: str, outer: str | None = None) -> None:
        """Note a document, and the addresses that it is known by."""
        base = place
        for key in ("$self", "$id") if isinstance(document, dict) and outer is None else ():
            if isinstance(document.get(key), str):
                base = _joined(base, document[key])
        self._documents[name], self._bases[name] = document, base
        for address in (place, base):
            self._names.setdefault(address, name)
        if outer is not None:
            self._outer[name] = outer

    def _leads(self, name: str, pointer: str) -> bool:
        """Return True if a pointer or an anchor leads to a value of a schema with an `$id`."""
        if not pointer.startswith("/"):
            return not pointer or pointer in self._anchors_of(name, "")
        node = self._documents[name]
        for step in _steps(pointer):
            if not isinstance(node, dict) or step not in node:
                return isinstance(node, list) and step.isdecimal() and int(step) < len(node)
            node = node[step]
        return True

    def _at(self, node: Any, name: str, pointer: str, ref: str, depth: int) -> Part:
        for step in _steps(pointer):
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
        """Return the name of the document that an address means."""
        meant = _joined(self._bases[file], address)
        if meant in self._names or self._finds(meant):
            return self._names[meant]
        while file in self._outer:
            file = self._outer[file]
        if self._folder is not None and "://" not in address and not address.startswith("/"):
            path = (self._folder / file).parent / unquote(address) if file else self._folder / unquote(address)
            try:
                return path.resolve().relative_to(self._folder).as_posix()
            except (OSError, ValueError):
                raise InvalidTool(f"the reference {ref!r} points outside the folder of the document") from None
        if self._address is None or self._fetch is None:
            raise InvalidTool(f"the reference {ref!r} points outside the document; put its target inside")
        # A `$self` may name a place that the document was not fetched from.
        for candidate in (meant, _joined(file or self._address, address)):
            try:
                if origin_of(candidate) == origin_of(self._address):
                    return candidate
            except ValueError:
                continue  # it is no address
        raise InvalidTool(
            f"the reference {ref!r} points to another server; put its target on the server of the document"
        )

    def _finds(self, address: str) -> bool:
        """Return True if a document that was read has a schema with this `$id`."""
        for name in [name for name in self._documents if name not in self._anchors]:
            self._anchors_of(name, "")
        return address in self._names

    def _document(self, name: str, ref: str) -> Any:
        if name not in self._documents:
            if name not in self._unreadable:
                try:
                    self._read(name)
                except ConfigError as error:
                    self._unreadable[name] = str(error)
            if name in self._unreadable:
                raise InvalidTool(f"the reference {ref!r} cannot be read: {self._unreadable[name]}")
        return self._documents[name]

    def _read(self, name: str) -> None:
        """Read a file of the folder, or fetch a document."""
        from .document import read_file

        if self._folder is not None:
            if len(self._documents) > _MAX_FILES:
                raise ConfigError(f"the document has more than {_MAX_FILES:,} files")
            self._add(name, read_file(self._folder / name, name), f"file:///{quote(name)}")
        elif self._fetch is not None:
            if len(self._documents) - len(self._outer) > MAX_FETCHED:
                raise ConfigError(f"the document refers to more than {MAX_FETCHED} others")
            self._add(name, self._fetch(name), name)

    def _anchors_of(self, name: str, ref: str) -> dict[str, str]:
        """Return the pointer of each `$anchor` of a document; note the schemas in it that have an `$id`."""
        if name not in self._anchors:
            found = self._anchors[name] = {}
            document = self._document(name, ref)
            stack: list[tuple[Any, str, str]] = [(document, "", name)]
            while stack:
                node, pointer, home = stack.pop()
                if isinstance(node, dict) and "$id" in node and node is not document:
                    home = self.inside(node, home)
                for key, value in _items(node):
                    if key in _ANCHORS and isinstance(value, str):
                        found.setdefault(value, pointer)
                    elif isinstance(value, (dict, list)):
                        step = str(key).replace("~", "~0").replace("/", "~1")
                        stack.append((value, f"{pointer}/{step}", home))
        return self._anchors[name]


def _joined(base: str, address: str) -> str:
    """Return an address relative to another one, without a fragment; any other text stays as it is."""
    try:
        return urldefrag(urljoin(base, address))[0]
    except ValueError:
        return address


def _steps(pointer: str) -> Iterator[str]:
    """Yield the steps of a JSON pointer."""
    return (raw.replace("~1", "/").replace("~0", "~") for raw in pointer.split("/")[1:])


def _items(node: Any) -> Iterator[tuple[Any, Any]]:
    return iter(node.items() if isinstance(node, dict) else enumerate(node))

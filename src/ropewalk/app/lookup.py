"""Find stored definitions: by their id, or by the object that describes one.

Refused here: paths. No store is opened to look for a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from ..errors import InvalidFlow, NotFound, Problem
from ..journal.protocol import Definition, Store
from ..notations.records import ChainObject, CompositionObject
from ..values import did_you_mean, is_json

STORED: Final = ("chain", "composition")
"""The kinds of definitions that a store holds by an id of their own."""
_LOADED_BY_ID: Final = (*STORED, "plan")
_SAVED_PLAN: Final = "plans:"
"""The start of the id of the tool that a saved plan is."""
_KIND_OF_RECORD: Final[dict[type, str]] = {ChainObject: "chain", CompositionObject: "composition"}
_PATH: Final = r"[/\\\n]|\.(ya?ml|json|py|md)$"


def stored_kind(store: Store, source: Mapping[str, Any]) -> str | None:
    """Return the kind of the stored definition that an object describes, or None if it is some other document."""
    kind = _KIND_OF_RECORD.get(type(source))
    metadata = source["metadata"]
    if kind is None and isinstance(metadata, Mapping) and "runCount" in metadata:
        nodes = source.get("nodes")
        same = [known for known in _with_id(store, source.get("id"), STORED) if known.document["nodes"] == nodes]
        kind = same[0].kind if len(same) == 1 else None
    return kind


def find_definition(store: Store, source: Any, missing: NotFound) -> Definition:
    """Return the stored definition with an id."""
    check_id(source, missing)
    if source.startswith(_SAVED_PLAN):
        result = _with_id(store, source.removeprefix(_SAVED_PLAN), ("plan",))
    else:
        result = _with_id(store, source, _LOADED_BY_ID)
    if len(result) > 1:
        kinds = " and ".join(f"a {definition.kind}" for definition in result)
        message = f"{kinds} have the id {source!r}; pass the object of one of them, or plans:NAME for a saved plan"
        raise InvalidFlow([Problem(path="", message=message)])
    if not result:
        ids = [definition.id for kind in _LOADED_BY_ID for definition in store.list_definitions(kind)]
        raise NotFound("file or stored definition", source, suggestion=missing.suggestion or did_you_mean(source, ids))
    return result[0]


def check_id(source: Any, missing: NotFound) -> None:
    """Raise an error if a source is a path, so that no store is opened to look for a file."""
    if not isinstance(source, str) or re.search(_PATH, source):
        raise missing


def _with_id(store: Store, id: Any, kinds: tuple[str, ...]) -> list[Definition]:
    if not can_be(id):
        return []
    result = (store.get_definition(kind, id) for kind in kinds)
    return [definition for definition in result if definition is not None]


def can_be(id: Any) -> TypeGuard[str]:
    """Return True if a stored definition can have this id."""

    # A store is not queried for values that it cannot hold.
    return isinstance(id, str) and is_json(id)

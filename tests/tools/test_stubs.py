"""Stubs of tools as Python: each TypedDict has a name of its own."""

from __future__ import annotations

import ast
from typing import Any

from ropewalk.tools.stubs import stub
from ropewalk.tools.tool import Tool


def object_of(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": list(members)}


def classes_of(source: str) -> dict[str, list[str]]:
    """Return the members of each class; a name that is defined twice fails."""
    classes = [item for item in ast.parse(source).body if isinstance(item, ast.ClassDef)]
    assert len({item.name for item in classes}) == len(classes), source
    return {item.name: [ast.unparse(line) for line in item.body] for item in classes}


def test_objects_whose_keys_make_equal_names_get_classes_of_their_own() -> None:
    home, office = object_of(street=object_of(), city={"type": "string"}), object_of(floor={"type": "integer"})
    address = {"type": "object", "properties": {"a_b": home, "a__b": office}, "required": ["a_b", "a__b"]}
    source = stub(Tool("send", "Sends a parcel.", object_of(to=address)), "send")
    assert classes_of(source) == {
        "SendToAB": ["street: dict", "city: str"],
        "SendToAB_": ["floor: int"],
        "SendTo": ["a_b: SendToAB", "a__b: SendToAB_"],
    }


def test_alternatives_and_the_result_get_classes_of_their_own() -> None:
    either = {"anyOf": [object_of(id={"type": "integer"}), object_of(name={"type": "string"})]}
    tool = Tool("find", "Finds a berth.", object_of(result=either), output_schema=object_of(depth={"type": "number"}))
    source = stub(tool, "find")
    assert classes_of(source) == {
        "FindResult": ["id: int"],
        "FindResult_": ["name: str"],
        "FindResult__": ["depth: float"],
    }
    assert "async def find(*, result: FindResult | FindResult_) -> FindResult__:" in source

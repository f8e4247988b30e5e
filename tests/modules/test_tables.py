"""What is told in more than one place of a directory's tools is told alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ropewalk.notations.experience import nodes
from ropewalk.notations.json_schema import schema_of
from ropewalk.tools.directory import dataset
from ropewalk.tools.directory.directory import DirectoryCaller
from ropewalk.tools.directory.paths import MODULES
from ropewalk.tools.runner import Runner
from ropewalk.tools.toolbox import Toolbox

PLACES = ("uri", "url")


def test_every_source_of_datasets_can_be_written_and_is_known_to_editors() -> None:
    assert nodes.SOURCES.keys() == dataset.SOURCES.keys()
    shown = {frozenset(one["properties"]) for one in sources(schema_of("experience"))}
    plain = {form for form in shown if "type" not in form}
    assert plain == {frozenset((kind, *beside)) for kind, beside in nodes.SOURCES.items()}
    # The original's form names the kind in `type` and the place in `uri` or `url`.
    typed = {frozenset(("type", place, *beside)) for beside in nodes.SOURCES.values() for place in PLACES}
    assert shown - plain == typed


def sources(schema: Any) -> list[dict[str, Any]]:
    """The alternatives of the one `source` that has them."""
    if isinstance(schema, list):
        return [found for one in schema for found in sources(one)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("source", {})
    if isinstance(own, dict) and "oneOf" in own:
        return list(own["oneOf"])
    return [found for one in schema.values() for found in sources(one)]


def test_every_language_of_modules_is_called_by_something_of_its_own(tmp_path: Path) -> None:
    caller = DirectoryCaller(Runner(Toolbox()), tmp_path)
    assert caller.languages.keys() == set(MODULES.values())

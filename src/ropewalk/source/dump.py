"""A document as text that `load` reads back as the same."""

from __future__ import annotations

from typing import Any

import orjson
import yaml

from ..values import Json
from .yaml_text import plain


class _Dumper(yaml.SafeDumper):
    """Block style, keys as they stand, and in quotes what the core schema of YAML 1.2 reads as no text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text and _is_block(text):
        style = "|"
    elif not text.isprintable():
        style = '"'
    elif not text or plain(text) is not text:
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_block(text: str) -> bool:
    """Whether every line can stand as it is."""
    return text.replace("\n", "").isprintable() and not any(line != line.strip() for line in text.splitlines())


_Dumper.add_representer(str, _text)


def dump(document: Json, form: str = "yaml") -> str:
    """The text of a document, as `yaml` or `json`."""
    if form == "json":
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text

"""Build hook: make the links of README.md absolute in the package, because PyPI shows it without the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"(?P<text>(?P<picture>!?)\[[^\]]*\])\((?!https?:|#)(?P<target>[^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Set the README of the package; the only address is the `Repository` of `[project.urls]`."""

    def update(self, metadata: dict[str, Any]) -> None:
        repository = metadata["urls"]["Repository"]

        def make_absolute(link: re.Match[str]) -> str:
            view = "raw" if link["picture"] else "blob"
            return f"{link['text']}({repository}/{view}/HEAD/{link['target']})"

        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": _RELATIVE.sub(make_absolute, text)}

"""A directory with an experience, made from texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent

import pytest

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """`make(graph, state, "name.py"=code)` writes an experience and its modules; gives the directory."""

    def directory(graph: str, state: str = "{}", *, at: str = "exp", more: str = "", **modules: str) -> Path:
        home = tmp_path / at
        home.mkdir(parents=True, exist_ok=True)
        head = f"name: {Path(at).name}\nversion: 0.1.0\n{more}\nstate: {{schema: {state}}}\ngraph:\n"
        text = head + indent(dedent(graph).lstrip("\n"), "  ")
        (home / "experience.yaml").write_text(text, "utf-8")
        for name, code in modules.items():
            stem, _, suffix = name.rpartition("_")
            (home / f"{stem}.{suffix}").write_text(dedent(code), "utf-8")
        return home

    return directory

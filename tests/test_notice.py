"""NOTICE names every package that the built web UI contains."""

from __future__ import annotations

import json
import re
from pathlib import Path

PROJECT = Path(__file__).parents[1]
ONLY_TYPES = {"csstype"}  # TypeScript declarations, of which nothing is left in the built files


def test_notice_names_each_package_of_the_web_ui_with_its_license() -> None:
    lock = json.loads((PROJECT / "page" / "package-lock.json").read_text())
    shipped = {
        name.removeprefix("node_modules/"): package["license"]
        for name, package in lock["packages"].items()
        if name and not package.get("dev") and not name.startswith("node_modules/@types/")
    }
    named = re.findall(r"^    (\S+) +(MIT|ISC|BSD-3-Clause) +Copyright", (PROJECT / "NOTICE").read_text(), re.MULTILINE)
    assert dict(named) == {name: license for name, license in shipped.items() if name not in ONLY_TYPES}

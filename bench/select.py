"""How well and how fast tools are selected: python bench/select.py FOLDER... (see selection.py).

Only a way in: a script called `select` stands in the way of the standard library's module of that name for
everything that is run from this folder, so whoever imports it gets that one.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def standard_library() -> None:
    """Put the module that was meant in the place of this one."""
    if "select" in sys.builtin_module_names:
        return  # as in Debian's Python: nothing stands in the way of what is built in
    elsewhere = [path for path in sys.path if Path(path or ".").resolve() != HERE]
    spec = importlib.machinery.PathFinder.find_spec("select", elsewhere)
    if spec is None or spec.loader is None:
        raise ImportError("the standard library's select is not to be found")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["select"] = module


standard_library()
if __name__ == "__main__":
    from selection import main

    main()

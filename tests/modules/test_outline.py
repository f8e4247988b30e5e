"""What a check says of Python modules from their text, and that it runs none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from modules.folder import written
from ropewalk.tools.directory.paths import find_impl, outline_problem
from ropewalk.tools.directory.python import load_function
from ropewalk.tools.module_result import ModuleFailed

WRONG = {
    "def f(args):\n    return {\n": "m.py:2: '{' was never closed",
    "from json import loads\nLIMIT = 5\nclass A: ...\ndef _own(x): ...\n": "it defines no public function",
    "def a(args): ...\nasync def b(args): ...\n": "which function is the tool? It defines a, b",
}
SOUND = [
    "def a(args): ...\ndef _b(): ...\n",
    "def a(args): ...\ndef run(args): ...\n",
    "from functools import partial\ndef _a(n, args): ...\nmain = partial(_a, 1)\n",
    "try:\n    import nothing_like_it\nexcept ImportError:\n    def a(args): ...\n",
    "from functools import cache\ndef a(args): ...\ndef b(args): ...\ndel b\n",
    "globals()['run'] = lambda args: {}\n",
    "tool = lambda args: {}\n",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_a_run_would_refuse_is_told_before_it(tmp_path: Path, text: str) -> None:
    """EXP-RUN-6"""
    impl = find_impl(written(tmp_path, {"m.py": text}), "m.py")
    found = outline_problem(tmp_path, impl) or ""
    assert WRONG[text] in found
    with pytest.raises(ModuleFailed) as failed:
        load_function(tmp_path, impl)
    assert str(failed.value) == found


@pytest.mark.parametrize("text", SOUND)
def test_what_a_run_takes_is_no_problem(tmp_path: Path, text: str) -> None:
    impl = find_impl(written(tmp_path, {"m.py": text}), "m.py")
    assert load_function(tmp_path, impl)
    assert outline_problem(tmp_path, impl) is None


def test_a_function_that_is_named_and_not_there(tmp_path: Path) -> None:
    written(
        tmp_path, {"m.py": "def greet(args): ...\nclass Tool:\n    def __init__(self, args): ...\nraise SystemExit\n"}
    )
    said = outline_problem(tmp_path, find_impl(tmp_path, "m.py:gret"))
    assert said == "m.py: it has no function gret; did you mean greet?"
    assert outline_problem(tmp_path, find_impl(tmp_path, "m.py:greet")) is None
    assert outline_problem(tmp_path, find_impl(tmp_path, "m.py:Tool")) is None

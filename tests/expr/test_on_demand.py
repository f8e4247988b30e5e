"""The parser and the functions come when they are needed, and then all of them."""

from __future__ import annotations

import subprocess
import sys

import pytest


def answer(code: str) -> str:
    """What a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


START = "import sys; from ropewalk.expr import *; loaded = lambda name: f'ropewalk.expr.{name}' in sys.modules\n"


def test_a_reference_needs_neither_parser_nor_functions() -> None:
    code = START.replace("import *", "import compile_expr, lift") + (
        "tree = lift({'a': '$input.rows[0]', 'b': [1, '$prev']}, frozenset(('input', 'prev')))\n"
        "get = compile_expr(tree, lambda ref: ((lambda frame: frame[ref.root]), ref.path))\n"
        "print(get({'input': {'rows': [7]}, 'prev': 8}), *map(loaded, ('parser', 'calls', 'functions', 'tokens')))\n"
    )
    assert answer(code) == "{'a': 7, 'b': [1, 8]} False False False False"


@pytest.mark.parametrize(
    ("tree", "value"),
    [
        ("Fn('pick', (Lit({'a': 1, 'b': 2}), Lit(['a'])))", "{'a': 1}"),
        ("Fn('upper', (Lit('x'),))", "X"),
        ("Fn('+', (Lit(1), Lit(2)))", "3"),
        ("Each('map', Lit([1]), ('$item',), Fn('+', (Var('$item'), Lit(1))))", "[2]"),
    ],
)
def test_a_tree_that_nobody_parsed_finds_every_function(tree: str, value: str) -> None:
    code = START + f"print(compile_expr({tree}, None)(None))\n"
    assert answer(code.replace("import *", "import Each, Fn, Lit, Var, compile_expr")) == value


@pytest.mark.parametrize("name", ["parse", "lift", "show", "transform", "function"])
def test_a_name_stays_the_function_once_its_module_is_there(name: str) -> None:
    assert answer(f"import ropewalk.expr.parser; from ropewalk.expr import {name} as it; print(callable(it))") == "True"


def test_the_check_knows_the_functions_of_a_flow_that_nobody_parsed() -> None:
    code = (
        "from ropewalk.check import check\n"
        "from ropewalk.ir import Flow, Graph, Node\n"
        "from ropewalk.ops import Compute\n"
        "from ropewalk.expr.ast import Fn, Lit\n"
        "node = Node(id='n', op=Compute(value=Fn('pick', (Lit({}), Lit([])))))\n"
        "print(check(Flow(name='f', body=Graph(nodes=(node,)))).problems)\n"
    )
    assert answer(code) == "()"

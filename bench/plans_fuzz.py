"""Small random programs: values, functions and methods in every combination that the grammar of expressions allows."""

from __future__ import annotations

import random

VALUES = (
    "0",
    "1",
    "-1",
    "2",
    "10**9",
    "2**62",
    "1.5",
    "-0.0",
    "1e308",
    "float('inf')",
    "True",
    "None",
    "''",
    "'a'",
    "'abc' * 3",
    "[]",
    "[1, 2]",
    "[[1], ['a']]",
    "{}",
    "{'a': 1}",
    "{'a': {'b': [1]}}",
    "(1,)",
    "{1, 2}",
    "range(5)",
    "range(10**6)",
    "len",
    "int",
    "str",
    "list",
    "lambda x: x",
    "lambda *a: a",
    "iter([1])",
    "zip([1], [2])",
    "map(str, [1])",
    "Counter('aab')",
    "deque([1])",
    "defaultdict(list)",
    "date(2020, 1, 1)",
    "timedelta(1)",
    "re.compile('a')",
    "re.match('a', 'a')",
    "ValueError('x')",
    "x",
    "y",
    "z",
)
FUNCTIONS = [
    "len",
    "sum",
    "min",
    "max",
    "sorted",
    "reversed",
    "enumerate",
    "zip",
    "range",
    "any",
    "all",
    "round",
    "abs",
    "divmod",
    "isinstance",
    "str",
    "int",
    "float",
    "bool",
    "list",
    "dict",
    "tuple",
    "set",
    "frozenset",
    "repr",
    "format",
    "hex",
    "bin",
    "oct",
    "ord",
    "chr",
    "pow",
    "next",
    "iter",
    "filter",
    "map",
    "callable",
    "type",
    "math.floor",
    "math.gcd",
    "math.comb",
    "math.prod",
    "math.dist",
    "json.dumps",
    "json.loads",
    "statistics.mean",
    "statistics.mode",
    "re.sub",
    "re.findall",
    "re.split",
    "itertools.chain",
    "itertools.islice",
    "itertools.accumulate",
    "itertools.groupby",
    "itertools.product",
    "itertools.permutations",
    "operator.itemgetter",
    "functools.reduce",
    "copy.deepcopy",
    "textwrap.wrap",
    "heapq.nlargest",
    "Counter",
    "deque",
    "OrderedDict",
    "defaultdict",
    "date",
    "datetime",
    "timedelta",
    "calendar.monthrange",
    "string.digits",
]
METHODS = [
    "append",
    "extend",
    "pop",
    "sort",
    "index",
    "count",
    "get",
    "items",
    "keys",
    "values",
    "update",
    "split",
    "join",
    "replace",
    "strip",
    "upper",
    "format",
    "format_map",
    "translate",
    "encode",
    "isoformat",
    "strftime",
    "group",
    "groups",
    "most_common",
    "elements",
    "subtract",
    "rotate",
    "union",
    "add",
    "discard",
    "copy",
    "setdefault",
    "fromkeys",
    "as_integer_ratio",
    "bit_length",
    "total_seconds",
    "zfill",
    "center",
    "expandtabs",
    "partition",
]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "==", "<", "in", "is", "and", "or"]
STATEMENTS = (
    "for x in {}:\n    y = {}\n",
    "try:\n    x = {}\nexcept Exception as z:\n    y = str(z)\n",
    "if {}:\n    x = {}\n",
    "match {}:\n    case [a, *b]:\n        x = {}\n",
    "x, *y = {}\nz = {}\n",
    "while x:\n    x = {}\n    y = {}\n    break\n",
)
IMPORTS = (
    "import math, json, statistics, re, itertools, operator, functools, copy, textwrap, heapq, calendar, string\n"
    "from collections import Counter, deque, OrderedDict, defaultdict\nfrom datetime import date, datetime, timedelta\n"
)


def expression(chance: random.Random, depth: int = 0) -> str:
    """Return a random expression."""

    def part() -> str:
        return expression(chance, depth + 1)

    kind = chance.random()
    if depth > 3 or kind < 0.3:
        return chance.choice(VALUES)
    if kind < 0.5:
        return f"{chance.choice(FUNCTIONS)}({', '.join(part() for _ in range(chance.randint(0, 3)))})"
    if kind < 0.65:
        return f"({part()}).{chance.choice(METHODS)}({', '.join(part() for _ in range(chance.randint(0, 2)))})"
    if kind < 0.78:
        return f"({part()} {chance.choice(OPERATORS)} {part()})"
    if kind < 0.84:
        return f"({part()})[{chance.choice([part(), ':', '1:', '::-1'])}]"
    if kind < 0.9:
        return f"[{part()} for x in {part()}]"
    return chance.choice((f"({part()} if {part()} else {part()})", f"[*{part()}]", f"{{**{part()}}}", f"-{part()}"))


def program(chance: random.Random) -> str:
    """Return a random program."""
    body = "".join(f"{name} = {expression(chance)}\n" for name in chance.sample("xyz", chance.randint(1, 3)))
    for _ in range(chance.randint(0, 2)):
        body += (
            chance.choice(STATEMENTS)
            .replace("{}", "\0")
            .replace("\0", expression(chance), 1)
            .replace("\0", expression(chance), 1)
        )
    call = "now()\n" if chance.random() < 0.5 else ""
    return f"{IMPORTS}x = y = z = 1\n{call}{body}return str({expression(chance)})"

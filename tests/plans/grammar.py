# ruff: noqa: E501 - a construct is one line
"""Random programs from Python's grammar, whether or not plans support them; each construct is one line of a table.

In a template `$int` is an expression of that kind, `$int_` one without `await`, `$block` some statements, `$loop` some
statements of a loop, and `#` a number of its own for new names. Every value may be awaited: from a tool as a copy, or
from a local function as the same object. Half of the programs are short and draw from a few constructs only, because
what one construct does wrong is seldom seen among many others.
"""

from __future__ import annotations

import ast
import random
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from typing import Final

PARAMETERS: Final = {"same": ("value",), "fail": ("value",), "save": ("key", "value")}
"""The tools of the programs: `same` gives its value, `fail` raises for odd numbers, `save` counts."""

START: Final = """
import asyncio
import contextlib
from collections import defaultdict
class Box:
    made = 0
    def __init__(self, n, items=None):
        self.n = n
        self.items = [] if items is None else items
    def add(self, item, *more):
        self.items.append(item)
        self.n += len(more)
        return self
async def later(value):
    await $pause_
    return value
async def zero():
    return 0
async def both(first, second=2, *rest, third=3, **others):
    return first + second + third + len(rest) + await same(value=len(others))
def plain(first, second=2, *rest, third=3, **others):
    return first - second + third + len(rest) + len(others)
out = []
tasks = []
a, b = 1, 2
xs = [1, 2, 3]
ys = xs
rows = [[1, 2], [3], [0, 4, 5]]
counts = {"a": 1, "b": 2}
table = {"a": [1], "b": xs}
groups = defaultdict(list)
box = Box(3, ys)
job = asyncio.create_task(zero())
other = asyncio.create_task(zero())
lock = asyncio.Lock()
semaphore = asyncio.Semaphore(2)
queue = asyncio.Queue()
"""
RESULTS: Final = ("out", "a", "b", "xs", "ys", "rows", "counts", "table", "groups", "box.n", "box.items")
"""What a program returns."""
WAITS: Final = ("await job", "await other")
"""What half of the programs wait for at their end."""

AWAITS: Final = (
    "(await same(value=$))",
    "(await same(value=$))",
    "(await later($))",
    "(await later(value=$))",
    "(await asyncio.create_task(later($)))",
    "(await asyncio.gather(later($), same(value=1)))[0]",
    "(await asyncio.wait_for(later($), 9))",
    "(await asyncio.shield(later($)))",
)
"""What may be around the expression at `$`."""

EXPRESSIONS: Final = {
    "int": """
        0 | 1 | 2 | 5 | -3 | a | b | a | b | box.n | len(xs) | counts["a"]
        ($int + $int) | ($int - $int) | ($int * $int_) | ($int // $int) | ($int % 4) | ($int << ($int % 3)) | ($int ^ $int)
        ($int & $int) | ($int |$int) | ($int >> ($int % 3)) | ($int ** ($int % 3)) | -$int | ~$int | ($int if $bool else $int) | ($int or $int) | ($int and $int) | (a := $int) | (b := $int)
        plain($int, $int) | plain($int, second=$int) | plain(*$list[:2], 1) | plain(1, **{"third": $int}) | plain(1, 2, *$list)
        (await both($int, $int)) | (await both(*$list[:1], third=$int)) | (await both($int, **$dict))
        (lambda x, y=$int: x + y)($int) | (lambda *r, k: sum(r) + k)(*$list, k=$int) | (await later(plain))($int, $int)
        len($list) | sum($list) | max($list, default=$int) | min($int, $int) | sum(x * $int_ for x in $list) | abs($int)
        $list[$int % 3] | $list[-1] | $rows[$int % 3][0] | $dict["a"] | $dict.get($text, $int) | rows[$int % 3][$int % 2]
        (await same(value={"n": $int})).n | Box($int).n | (await later(box)).n | box.add($int).n | len($text) | int($bool)
        $list.index($int) | $list.count($int) | (await fail(value=$int)) | (await save($text, $int)) | (await same([$int, 7]))[0]
        next((x for x in $list if x > $int_), $int) | len({$int, $int, 3}) | len($dict) | table["a"][0]
    """,
    "bool": """
        True | False | $int < $int | $int <= $int < $int | $int == $int != $int | not $bool | $int in $list | $list is xs
        ($bool and $bool) | ($bool or $bool) | $text in $dict | $list == $list | $int not in ($int, $int) | bool($list)
        any(x > $int_ for x in $list) | all([x < $int for x in $list]) | isinstance($int, int) | (a := $int) > 2
    """,
    "text": """
        "a" | "b" | "hello" | f"{$int}-{$text!r}" | f"{$int:{$int % 7}}" | str($int) | ($text + $text) | $text.upper()
        "-".join([str(x) for x in $list]) | $text[$int:$int] | $text[::$int or 1] | f"{$list} and {$int:03d}" | "%s!" % $int
        ("a" if $bool else $text) | $text.replace($text, "x") | list($dict)[0] | str($bool)
    """,
    "list": """
        xs | ys | xs | rows[$int % 3] | table["a"] | box.items | groups[$text]
        [] | [$int] | [$int, $int] | [*$list, $int] | [*$list, *$list] | list(($int, $int)) | ($list + $list) | ($list * ($int % 3))
        [x + $int for x in $list] | [$int for x in $list if x > $int] | [x * y for x in $list[:2] for y in $list[:2]]
        [x for y in $rows[:2] if $bool for x in y] | list(x - 1 for x in $list) | sorted({x % 3 for x in $list}) | sorted({$int, $int})
        $list[$int:] | $list[:$int] | $list[::-1] | $list[$int:$int:$int or 1] | sorted($list, key=lambda x: (x % 3, x))
        list($dict.values()) | list(map(lambda x: x + $int_, $list)) | [x for x in range($int % 4)] | sorted({x + $int for x in $list})
        (await asyncio.gather(same($int), later($int))) | (await asyncio.gather(*[same(x) for x in $list[:3]]))
        ($list if $bool else $list) | ($list or $list) | list(filter(lambda x: x > 1, $list)) | list(reversed($list))
        (await later(box)).items | $rows[$int % 3] | list(dict(zip($list, $list)).values()) | [(x, $int)[1] for x in $list]
        [y := $int, y] | [i + x for i, x in enumerate($list)] | (await asyncio.gather(later(1), return_exceptions=$bool))
    """,
    "rows": "rows | rows | [$list, $list] | [[$int], xs] | [[x, $int] for x in $list] | list(table.values()) | [*rows, $list]",
    "dict": """
        counts | {"a": $int} | {"a": $int, $text: $int} | {$text: $int} | {**$dict, "b": $int} | dict(a=$int, b=$int) | ($dict |$dict)
        {str(x): x for x in $list} | {str(x): $int for x in $list if x} | {$text: x for x in $list} | dict([("a", $int)])
        {k: v for k, v in $dict.items()} | ({"a": $int} or $dict) | dict(zip("ab", $list)) | {"a": 1, **$dict}
    """,
    "coroutine": """
        same(1) | save("k", 1) | save("m", 2) | later(2)
        same($int) | same(value=$list) | later($int) | later($list) | both($int, $int) | save($text, $int) | save("k", $list) | fail($int)
    """,
    "task": """
        asyncio.create_task(save("t", 1)) | asyncio.create_task(save("u", 2)) | asyncio.create_task(later(1))
        asyncio.create_task($coroutine) | asyncio.create_task($coroutine, name="t") | (await later($task))
    """,
    "function": "plain | (lambda x: x) | (lambda x, y=$int: x - y) | (await later(plain)) | [abs, plain][$int % 2]",
    "pause": 'same(value=0) | save("p", 0) | asyncio.sleep(0)',
    "seconds": "0 | 0.02 | 0.05 | 0.3 | ($int % 3 / 20)",
}
"""The expressions of each kind, between bars."""

_NEVER_COPIED: Final = ("coroutine", "task", "function")
"""The kinds that no tool takes."""

STATEMENTS: Final = """
a = $int
b = a = $int
a: int = $int
xs = $list
ys = xs = $list
a, b = $int, $int
a, *xs = $list
(a, b), *_ = [($int, $int), $int]
[a, b] = $list[:2]
x, *y = $function
out.append($function($int))
rows[$int % 3] = $list
rows[$int % 3][0] = $int
counts[$text] = $int
xs[$int:] = $list
xs[$int:$int] = [$int]
xs[::2] = $list
box.n = $int
(await later(box)).n = $int
box.items, rows[0] = $list, $list
rows[0][0], counts[$text] = $int, $int
a += $int
xs += $list
xs *= $int % 3
rows[$int % 3] += $list
rows[$int % 3][0] += $int
counts["a"] += $int
counts[$text] -= $int
xs[$int:$int] += $list
box.n += $int
(await later(box)).n -= $int
groups["a"] += [$int]
table["b"] += $list
del xs[$int % 3]
del xs[$int:$int], counts[$text]
del (await later(box)).items[0]
out.append($int)
out.append($list)
out.append([$text, $bool])
out.append(list($list))
out.append(dict($dict))
print($int, $text, sep=$text)
xs.append($int)
xs.extend($list)
xs.insert($int, $int)
xs.remove($int)
out.append(xs.pop($int % 2))
groups[$text].append($int)
groups["a"].append($int); groups["a"].extend([$int])
table[$text].append($int)
table.setdefault($text, []).append($int)
table.get("b").append($int)
table.update(c=$list)
rows[$int % 3].append($int)
rows.append($list)
box.items.append($int)
box.add($int).add($int, *$list)
(await later(box)).items.append($int)
(await later(xs)).append($int)
counts.update({"z": $int}, y=$int)
append = xs.append; append($int)
s# = xs; n = $int; s#.append(n)
s# = rows[$int % 3]; s#.append($int); out.append(len(rows[0]))
pair# = (xs, $int); pair#[0].append($int)
$int
pass
assert $bool, $text
raise ValueError($text)
raise KeyError($int) from ValueError($text)
if $bool:|    $block
if $bool:|    $block|else:|    $block
if $bool:|    $block|elif $bool:|    $block|else:|    $block
if (a := $int) > 1:|    $block
for i in $list[:3]:|    $loop
for i in range($int % 4):|    $loop|    xs.append($int)
for i, row in enumerate(rows):|    for j, _ in enumerate(row):|        row[j] += $int * (i + j)
for row in $rows:|    row.append($int)
for a, *b# in [[$int, 1], [$int]]:|    $loop
for rows[$int % 3] in $rows[:2]:|    $loop
for counts[$text] in $list[:2]:|    $loop
for key, value in list(table.items()):|    value.append($int)|    $loop
for i in $list[:3]:|    $loop|else:|    $block
w# = 0|while w# < 2 and $bool:|    w# += 1|    $loop
w# = 0|while (w# := w# + 1) < $int % 5:|    $loop|else:|    $block
with contextlib.suppress(ValueError, KeyError):|    $block
with contextlib.suppress($int > 1 and KeyError or Exception):|    $block
try:|    $block|except ValueError:|    $block
try:|    $block|    raise KeyError($text)|except (KeyError, IndexError) as error:|    out.append(str(error))|    $block
try:|    $block|except (await later(ValueError)) as error:|    $block|except Exception:|    $block|else:|    $block
try:|    $block|    out.append(await fail(value=$int))|except ToolError as error:|    out.append(str(error))|finally:|    $block
match $list:|    case [first, *_] if first > $int:|        $block|    case []:|        $block|    case _:|        $block
match $dict:|    case {"a": 1 | 2 as a}:|        $block|    case {"b": b, **others}:|        $block
match $int, box:|    case 1, Box(n=3):|        $block|    case int(), Box(n=n#) if $bool:|        out.append(n#)
def f#(x, y=$int, *, z=$int):|    return x + y * z + a|out.append(f#($int, z=$int))
def f#(x, known=[]):|    known.append(x)|    return known|f#($int)|out.append(list(f#($int)))
def f#(x, known=$list):|    known.append(x)|    return len(known)|f#($int); out.append(f#($int))
def f#(x: $int, **others) -> $text:|    nonlocal a|    a += x|    return others|out.append(f#($int, k=$int))
def f#(x):|    global seen|    seen = [x]|f#($int)|seen.append($int)|out.append(seen)
def f#():|    yield $int_|    yield from $list_[:3]|for i in f#():|    $loop
def f#(wrapped):|    return lambda x: wrapped(x) + $int_|@(await later(f#))|def g#(x):|    return x * 2|out.append(g#($int))
async def f#(x, y=$int, known=[]):|    known.append(x)|    $block|    return len(known) + y|out.append(await f#($int) + await f#($int))
async def f#(x):|    nonlocal a, xs|    $block|    return $int|out.append(await f#($int))
async def f#(x) -> (await later(int)):|    nonlocal a|    a += $int|    return $text|out.append(await f#($int))
async def f#(n):|    if n <= 0:|        return $int|    return await f#(n - 1) + $int|out.append(await f#($int % 3))
async def f#(x):|    for i in $list[:3]:|        if i == $int:|            return i|        rows[0].append(i)|out.append(await f#($int))
@(await later(contextlib.suppress(ValueError)))|async def f#():|    raise ValueError|await f#()
hooks# = [lambda x=$int: x + i for i in $list[:3]]|out.append([hook() for hook in hooks#])
hooks# = []|for i in range(3):|    async def f#(k=i):|        return [k, i, await same(i)]|    hooks#.append(f#)|out.append([await f() for f in hooks#])
class C#(Box):|    size = $int_|    def get(self):|        return self.n + self.size|out.append(C#($int).get())
class C#:|    async def get(self, x=1):|        self.x = $int|        return self.x + x|out.append(await C#().get($int))
class C#(Exception):|    pass|try:|    $block|    raise C#($text)|except C# as error:|    out.append(error.args[0])
import math|a = math.floor($int / 2)
from math import ceil|a = ceil($int / 2)
async def f#():|    $block|    return $int|tasks.append(asyncio.create_task(f#()))
async def f#():|    await save("t", $int)|    await save("u", $int)|asyncio.create_task(f#())
await $coroutine
out.append(await $coroutine)
$task
job = $task
other = $task
await job
await other
out.append(await job)
out.append([await other, await job, $int])
tasks.append($task)
t# = $task|$block|out.append(await t#)
t# = $task|if $bool:|    $block|    out.append(await t#)
async def f#():|    $block|    return $int|t# = asyncio.create_task(f#())|$block|out.append(await t#)
async def f#():|    $block|    return $int|asyncio.create_task(f#())|await $coroutine
t# = asyncio.create_task(save("t", $int))|out.append([await t#, $int, await t#])
t# = asyncio.create_task(later($list))|u# = asyncio.create_task(later($int))|out.append([await u#, await t#])
t# = asyncio.create_task(later($int))|async def f#():|    return await t# + await save("x", $int)|out.append(await asyncio.gather(t#, f#(), f#()))
named# = {"x": asyncio.create_task(save("t", $int)), $text: asyncio.create_task(later($int))}|out.append({k: await t for k, t in named#.items()})
if tasks:|    tasks[-1].cancel()
for task in tasks:|    try:|        out.append(await task)|    except (Exception, asyncio.CancelledError) as error:|        out.append(type(error).__name__)
out.append(str(len(await asyncio.gather(*tasks, return_exceptions=True))))
t# = asyncio.create_task(later($int))|await asyncio.sleep($int % 2)|t#.cancel()|out.append(t#.cancelled())
t# = asyncio.create_task(later($int))|await t#|out.append([t#.result(), t#.done()])
if tasks:|    done, pending = await asyncio.wait(tasks[-2:], timeout=$int % 3 / 20)|    out.append([len(done), len(pending)])
ts# = [asyncio.create_task(later($int)), asyncio.create_task(same(value=$int))]|for c in asyncio.as_completed(ts#):|    out.append(await c)
async with asyncio.TaskGroup() as g#:|    t# = g#.create_task(later($int))|    g#.create_task(save("g", $int))|out.append(t#.result())
async with asyncio.TaskGroup() as g#:|    g#.create_task(fail($int))|    $block
async def f#():|    $block|async with asyncio.TaskGroup() as g#:|    g#.create_task(f#())|    $block
async with lock:|    out.append($int)
async with (await later(semaphore)) as s#:|    $block
try:|    async with asyncio.timeout($seconds):|        a = $int|        $block|        await asyncio.sleep($int % 2)|except TimeoutError:|    out.append("late")
try:|    async with asyncio.timeout($seconds):|        $block|        await asyncio.sleep($seconds)|        $block|except TimeoutError:|    $block
async def f#():|    $block|    await asyncio.sleep($seconds)|    return $int|try:|    out.append(await asyncio.wait_for(f#(), $seconds))|except TimeoutError:|    $block
try:|    out.append(await asyncio.wait_for($coroutine, $seconds))|except TimeoutError:|    $block
try:|    async with asyncio.timeout(0.05):|        for i in (1, 2, 3):|            out.append(await same(i))|except TimeoutError:|    xs.append($int)
async def f#():|    $block|    await asyncio.sleep(0.03)|    return $int|out.append(await asyncio.wait_for(f#(), $seconds))
await asyncio.sleep($int % 3 / 30)
queue.put_nowait($int)|out.append(await queue.get() + $int)
async def f#():|    async with lock:|        await save("l", $int)|        await save("m", $int)|await asyncio.gather(f#(), f#(), save("n", $int))
rows[$int % 3][$int % 2], (a, *box.items) = $int, $list
xs[$int % 3] = rows[$int % 3] = b = $list
counts[$text]: int = $int
for a, rows[$int % 3][0] in [($int, $int), ($int, 1)]:|    $loop
for (await later(box)).n, *ys in [$list, $list]:|    $loop
out.append([rows[0] for rows[$int % 3] in $rows[:2]])
out.append([x async for x in (await later(y + $int_) for y in $list[:3])])
out.append([x + $int async for x in (y for y in $list[:2] if await same(y)) if x > $int])
out.append(sum(await same(x) for x in $list))
async def f#(x):|    for i in $list[:3]:|        yield i + x|async for i in f#($int):|    $loop
async def f#(x):|    yield $int|    $block|    yield await later(x)|async for counts[$text] in (await later(f#))($int):|    $loop|else:|    $block
async def f#(x):|    try:|        yield await fail(value=x)|    except ToolError:|        yield $int|out.append([i + $int async for i in f#($int)])
async def f#():|    yield $int|    raise KeyError($text)|try:|    async for i in f#():|        $loop|except KeyError as error:|    out.append(str(error))
async def f#():|    yield $int|    yield $list|g# = f#()|out.append([x async for x in g#])|out.append([x async for x in g#])
class C#((await later(Box))):|    pass|out.append(C#($int).n)
@(await later(lambda kind: kind))|class C#:|    n = 1|out.append(C#.n)
class C#:|    a = b = $list_|    c = (d := $int_)|    def get(self, x=a, *, y=c):|        return [x, y, self.d, a]|out.append(C#().get($list))
def f#(x, y=[(a := $int_), a]):|    return [x, y, a]|out.append(f#($int))
def f#(x: $int, *y: $list, z: (await later(int)) = $int, **others: $bool) -> $int:|    return x + z|out.append(f#($int))
f# = lambda x, *y, z=$int, **others: [x, y, z, len(others)]|out.append(f#(*$list, z=$int))|out.append(f#($int, *$list, **$dict))
def f#(*r, k=1, **others):|    return [list(r), k, others]|out.append(f#(*$list, k=$int))|out.append(f#(*$list, $int, *xs, k=$int, **$dict))
out.append(plain(*xs, third=box.add($int).n))
out.append([*$list, xs.append($int), *$list, $int, *xs])
out.append({**$dict, "k": counts.update(k=$int), **counts, $text: $int})
out.append(f"{xs}{$int}{xs.append($int)}{$list}{await later(xs)}")
out.append((xs, $list, list(xs), $int))
out.append(xs[:] + [xs.pop()] + xs if xs else $list)
out.append([$int, $int] < [$int, $int] <= $list)
out.append((lambda: xs.append($int_) or len(xs))() + len(xs) + $int)
def f#():|    for i in $list_[:3]:|        try:|            yield i|        finally:|            out.append(["closed", i])|for i in f#():|    $loop
def f#():|    got = yield $int_|    while got:|        got = yield got - 1|g# = f#()|next(g#)|out.append([g#.send(min($int, 4)), list(g#)])
def f#(n):|    if n > 0:|        yield n|        yield from f#(n - 1)|out.append(list(f#($int % 4)))
def f#(n):|    return 0 if n <= 0 else n + f#(n - 1)|out.append(f#($int % 5))
async def f#():|    try:|        return $int|    finally:|        $block|out.append(await f#())
async def f#():|    for i in $list[:2]:|        try:|            $loop|            continue|        finally:|            out.append(i)|            if $bool:|                break|    else:|        return 1|out.append(await f#())
async def f#():|    while True:|        try:|            await fail(value=$int)|            return "done"|        except ToolError as error:|            out.append(error.tool)|            return $int|        finally:|            await save("f", $int)|out.append(await f#())
try:|    try:|        await fail(value=$int)|    except ToolError as error:|        raise KeyError($text) from error|except KeyError as error:|    out.append([str(error), type(error.__cause__).__name__])
try:|    try:|        $block|        raise ValueError($text)|    except ValueError:|        $block|        raise|except Exception as error:|    out.append(type(error).__name__)
try:|    $block|except Exception:|    $block|else:|    out.append("else")|finally:|    out.append("finally")
class M#:|    def __enter__(self):|        out.append("enter")|        return xs|    def __exit__(self, kind, error, trace):|        out.append(kind is not None and kind.__name__)|        return $bool_|with M#() as s#, contextlib.suppress(ValueError):|    $block|    s#.append($int)
class M#:|    async def __aenter__(self):|        await save("m", $int)|        return self|    async def __aexit__(self, kind, error, trace):|        out.append(await save("x", str(error)))|        return $bool|async with M#() as s#:|    $block|    raise KeyError($text)
class M#:|    def __enter__(self):|        return 1|    def __exit__(self, *parts):|        out.append("left")|for i in $list[:3]:|    with M#() as rows[$int % 4]:|        $loop
class P#:|    def __init__(self, n):|        self.n = n|    @property|    def double(self):|        return self.n * 2|    @double.setter|    def double(self, value):|        self.n = value // 2|    @classmethod|    def make(cls, n):|        return cls(n + 1)|    @staticmethod|    def triple(n):|        return n * 3|p# = P#.make($int)|p#.double += $int|out.append([p#.n, p#.double, P#.triple($int)])
class P#:|    def __init__(self, items):|        self.items = items|    def __len__(self):|        return len(self.items)|    def __getitem__(self, i):|        return self.items[i]|    def __setitem__(self, i, value):|        self.items[i] = value|    def __contains__(self, x):|        return x in self.items|    def __iter__(self):|        return iter(self.items)|    def __call__(self, x):|        return x + len(self.items)|p# = P#($list)|p#[$int % 2] = $int|out.append([len(p#), p#[0], $int in p#, list(p#), p#($int), bool(p#)])
class P#:|    def __init__(self, n):|        self.n = n|    def __eq__(self, other):|        return self.n == other.n|    def __lt__(self, other):|        return self.n < other.n|    def __add__(self, other):|        return P#(self.n + other.n)|    def __repr__(self):|        return f"P({self.n})"|out.append([P#($int) == P#($int), str(max(P#($int), P#(2))), str(P#(1) + P#($int)), str([P#($int)])])
from dataclasses import dataclass, field, asdict|@dataclass|class D#:|    x: int|    y: list = field(default_factory=list)|    z: int = $int_|d# = D#($int, z=$int)|d#.y.append($int)|out.append([asdict(d#), str(d#), d# == D#(1)])
from collections import namedtuple|T# = namedtuple("T", "x y")|t# = T#($int, $list)|x, y = t#|out.append([t#.x, t#[1], x, len(t#), t#._replace(x=$int)])
e# = asyncio.Event()|async def f#():|    await e#.wait()|    return $int|t# = asyncio.create_task(f#())|await asyncio.sleep(0)|e#.set()|out.append([await t#, e#.is_set()])
q# = asyncio.Queue(1)|async def f#():|    for i in $list[:3]:|        await q#.put(i)|    await q#.put(None)|t# = asyncio.create_task(f#())|while (x := await q#.get()) is not None:|    out.append([x, $int])
async def f#(i):|    async with semaphore:|        await save("s", i)|        out.append(i)|    return i|out.append(await asyncio.gather(*[f#(x) for x in $list[:4]], return_exceptions=$bool))
async def f#():|    try:|        await asyncio.sleep(1)|    except asyncio.CancelledError:|        await save("c", $int)|        raise|t# = asyncio.create_task(f#())|await same(value=0)|t#.cancel()|try:|    await t#|except asyncio.CancelledError:|    out.append(t#.cancelled())
async def f#():|    try:|        $block|        await asyncio.sleep(1)|    finally:|        out.append(await save("f", 1))|try:|    out.append(await asyncio.wait_for(f#(), 0.1))|except asyncio.TimeoutError:|    out.append("late")
t# = asyncio.create_task(later($int))|try:|    out.append(await asyncio.wait_for(asyncio.shield(t#), 0.01))|except TimeoutError:|    out.append(await t#)
try:|    async with asyncio.timeout(0.2):|        try:|            async with asyncio.timeout(0.03):|                $block|                await asyncio.sleep(1)|        except TimeoutError:|            out.append("inner")|            await save("o", $int)|except TimeoutError:|    out.append("outer")
try:|    async with asyncio.TaskGroup() as g#:|        g#.create_task(fail(1))|        g#.create_task(later($int))|        $block|except ExceptionGroup as error:|    out.append([len(error.exceptions), str(error)])
done, pending = await asyncio.wait([asyncio.create_task(later($int)), asyncio.create_task(same(1))], return_when=asyncio.FIRST_COMPLETED)|out.append([len(done), len(pending), [t.result() for t in done]])
async def f#():|    asyncio.current_task().cancel()|    await same(value=$int)|try:|    await asyncio.create_task(f#())|except asyncio.CancelledError:|    out.append("cancelled")
async def f#():|    await fail(value=1)|t# = asyncio.create_task(f#())|u# = asyncio.create_task(later($int))|try:|    await asyncio.gather(t#, u#)|except Exception as error:|    out.append([str(error), u#.done(), $int])
c# = later($int)|out.append([await c#, $int])
c# = save("k", $list)|xs.append($int)|out.append(await c#)
fs# = {"a": later, "b": plain, "c": same}|out.append([await fs#["a"]($int), fs#["b"](1), await fs#["c"]($int)])
for f in [later, same]:|    out.append(await f($int))
def f#(g, *r, **k):|    return g(*r, **k)|out.append([await f#(later, $int), f#(plain, 1, second=$int)])
import functools|f# = functools.partial(plain, $int, third=$int)|out.append(f#($int))
w# = 0|while True:|    w# += 1|    if w# > 3 or $bool:|        break|    if $int % 2:|        continue|    $block|    out.append(w#)
for i in range(5):|    if i == $int:|        break|else:|    out.append("all")
match $list:|    case [x, y]:|        out.append([x, y])|    case [x, *rest] if rest and $bool:|        out.append(rest)|    case [] | [_]:|        $block
match {"kind": $text, "n": $int, "xs": $list}:|    case {"kind": "a" | "b" as kind, "n": int(n)} if n > $int:|        out.append([kind, n])|    case {"xs": [first, *_], **others}:|        out.append([first, others])
a, b = b, a
xs[0], xs[-1] = xs[-1], xs[0]
x = y = []|x.append($int)|out.append(y)
x = [[]] * 2|x[0].append($int)|out.append(x)
global seen#|seen# = $int|out.append(seen#)
def f#():|    x = $int_|    def g():|        nonlocal x|        x += 1|        return x|    return g|g# = f#()|out.append([g#(), g#(), f#()()])
assert $bool
lines# = [f"{k}={v:>4}" for k, v in sorted($dict.items())]|out.append("; ".join(lines#))
out.append(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[: $int])
out.append([list(x) for x in zip($list, $list)])
out.append(dict(sorted($dict.items())))
out.append(list(enumerate($list, start=$int)))
del counts["a"]
out.append($int @ $int)
a @= $int
out.append(counts.pop($text, $int))
out.append(table.get($text, [$int])[-1:])
box.n: (await later(int)) = $int
async def f#(p: $int, o: $int = $int, /, q: $int = $int, r: $int = $int, *s: $int, k: $int = $int, m: $int = $int, **n: $int) -> $int:|    return [p, o, q, r, len(s), k, m, len(n)]|out.append(await f#($int, *$list[:2], m=$int))
def f#(p: $int, o: $int = $int, /, q: $int = $int, r: $int = $int, *s: $int, k: $int = $int, m: $int = $int, **n: $int) -> $int:|    return [p, o, q, r, len(s), k, m, len(n)]|out.append(f#($int, *$list[:2], m=$int))
out.append((lambda x, y=$int, z=$int, *, k=$int, m=$int: [x, y, z, k, m])($int, k=$int))
def f#(g):|    return lambda *r: [g.__name__, *r]|@(await later(f#))|@(await later(f#))|def g#(x):|    return x|out.append(g#($int))
def f#(g):|    return lambda x: g(x + 1)|@(await later(f#))|@f#|@(await later(f#))|async def g#(x):|    return x + $int|out.append(await g#($int))
def f#(x):|    async def g():|        return x + $int|    async def h():|        return await g() * 2|    return h|out.append(await f#($int_)())
class A#:|    m = 5|class C#((await later(Box)), (await later(A#))):|    pass|out.append([C#($int).n, C#.m])
@(await later(lambda kind: kind))|@(await later(lambda kind: kind))|class C#:|    n = 1|out.append(C#.n)
with contextlib.suppress(ValueError) as rows[$int % 4], contextlib.suppress($int > 1 and KeyError or TypeError) as counts[$text]:|    $block
async with (await later(semaphore)) as rows[$int % 4], (await later(lock)) as counts[$text]:|    $block
out.append({str(x): $int for rows[$int % 4] in $rows[:2] if $bool if len(rows) > $int for x in $list[:2] if $bool if x > $int})
out.append({$text: x + $int for x in $list[:2] for counts[$text] in $list[:2] if $bool})
out.append(sorted({x + $int for rows[$int % 4] in $rows[:2] if $bool if len(rows) > $int for x in $list[:2] if $bool if x > $int}))
out.append(sorted({counts["a"] for x in $list[:2] for counts[$text] in $list[:2] if $bool}))
out.append([x + $int for rows[$int % 4] in $rows[:2] if $bool if len(rows) > $int for x in $list[:2] if $bool if x > $int])
out.append([counts["a"] for x in $list[:2] for counts[$text] in $list[:2] if $bool])
out.append([x async for x in (await later(x) for rows[$int % 4] in $rows[:2] if $bool if len(rows) > $int for x in $list[:2] if $bool if x > $int)])
out.append([x async for x in (await later(x) for x in $list[:2] for counts[$text] in $list[:2] if $bool)])
try:|    $block|    raise IndexError($text)|except KeyError:|    $block|except (await later((ValueError, IndexError))):|    $block|except ($int > 2 and TypeError or NameError) as error:|    out.append(str(error))
match [$bool, None, $int]:|    case [True, None, 1 | 2]:|        out.append(1)|    case [_, None as x, y]:|        out.append([x, y])
""".strip().splitlines()
"""The statements, one in each line; a bar without a space before it begins a new line."""

REFUSED: Final = [
    "try:|    await $coroutine|    await $coroutine|except* (await later(ValueError)):|    await $coroutine|    await $coroutine|except* (await later(KeyError)):|    await $coroutine|    await $coroutine|else:|    await $coroutine|    await $coroutine|finally:|    await $coroutine|    await $coroutine",
    "try:|    $block|except* ValueError:|    $block|else:|    $block|finally:|    $block",
    "class C#(metaclass=(await later(type))):|    pass",
    "class C#(a=(await later(1)), metaclass=(await later(type))):|    pass",
]
"""Statements that plans refuse by design; they are rare."""

_OF_ONE_LINE: Final = [statement for statement in STATEMENTS if not re.search(r"(?<! )\|", statement)]


def _by_word() -> dict[str, list[str]]:
    """Return the words and signs that several statements have in common, with these statements."""
    found: dict[str, list[str]] = {}
    for statement in STATEMENTS:
        for word in sorted(set(re.findall(r"\$?[a-zA-Z_]+|[-+*@:]=|;|\*(?=[a-z$])", statement))):
            found.setdefault(word, []).append(statement)
    return {word: statements for word, statements in found.items() if len(statements) > 1}


_BY_WORD: Final = _by_word()
# fmt: off
_THEMES: Final = (
    "a", "xs", "rows", "counts", "table", "groups", "box", "tasks", "job", "other", "lock", "semaphore", "TimeoutError", "wait_for"
)
"""Words of which the statements of a short program share one, besides a word that is drawn from all."""
_RARE: Final = (
    "box|class", "lock|semaphore|queue|event", "contextlib", "lambda", "shield", "async for|async x|yield", "await .* for", "@"
)
"""Words of which a short program has two at most."""
# fmt: on

OF_LOOPS: Final = ["break", "continue", "if $bool:|    break", "if $bool:|    continue"]

DEEPEST: Final = 3


class Grammar:
    """Writes random programs."""

    # seed: Programs of the same seed are the same.

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._number = 0
        self._expressions = {
            kind: [part for line in text.strip().splitlines() for part in line.strip().split(" | ")]
            for kind, text in EXPRESSIONS.items()
        }
        self._leaves = {kind: [part for part in parts if "$" not in part] for kind, parts in self._expressions.items()}
        self._statements, self._awaits, self._deepest = STATEMENTS, AWAITS, DEEPEST
        self._start = self.fill(START.strip(), 0)
        self._is_short = self._random.random() < 0.5
        if self._is_short:
            self._keep_few_constructs()

    def _keep_few_constructs(self) -> None:
        """Draw the constructs of a short program: statements that share a few words, and few expressions."""
        chance = self._random
        absent = chance.sample(_RARE, len(_RARE) - chance.randint(0, 2))
        self._absent = re.compile("|".join(absent), re.IGNORECASE)

        def few(templates: Sequence[str], most: int) -> list[str]:
            kept = [template for template in templates if not self._absent.search(template)]
            return chance.sample(kept, min(most, len(kept)))

        self._deepest = chance.randint(1, 2)
        words = [chance.choice(_THEMES), chance.choice(list(_BY_WORD))]
        self._statements = ["await $coroutine", *few(_OF_ONE_LINE, 2)]
        self._statements += [text for word in words for text in few(_BY_WORD[word], 3)]
        self._awaits = few(AWAITS, 3)
        for kind, leaves in self._leaves.items():
            self._leaves[kind] = few(leaves, 3)
            self._expressions[kind] = self._leaves[kind] + few(self._expressions[kind], 4)

    def program(self) -> str:
        """Return the body of a function."""
        guards = self._random.choice((0, 0, 0.5)) if self._is_short else 0.7
        statements = [self._guarded(guards) for _ in range(self._random.randint(1 if self._is_short else 2, 6))]
        results = [*self._random.choice([(), WAITS]), *RESULTS]
        if self._is_short:
            return self._begun("\n".join(statements), results)
        return "\n".join([self._start, *statements, f"return [{', '.join(results)}]"])

    def _begun(self, text: str, results: list[str]) -> str:
        """Return statements between the parts of the start that they need, with some others, and a result."""
        used, begin = _names_in(ast.parse("async def main():\n" + textwrap.indent(text, "    "))), []
        for statement in reversed(ast.parse(self._start).body):
            code = ast.unparse(statement)
            may_come = not self._absent.search(code) and self._random.random() < 0.1
            if _bound_by(statement) & used or may_come:
                begin.insert(0, code)
                used |= _names_in(statement)
        kept = [result for result in results if _names_in(ast.parse(result)) <= used]
        return "\n".join([*begin, text, f"return [{', '.join(kept)}]"])

    def _guarded(self, guards: float) -> str:
        """Return a statement that Python compiles, with that chance of a handler around it."""
        while True:
            text = self.statement(0)
            if self._random.random() < guards:
                text = f"try:\n{textwrap.indent(text, '    ')}\nexcept Exception as error:\n    out.append(type(error).__name__)"
            if is_python(f"{self._start}\n{text}"):
                return text

    # --- statements ------------------------------------------------------------------------------

    def statement(self, depth: int, of_loop: bool = False) -> str:
        """Return a statement."""
        options = self._statements
        if of_loop and self._random.random() < 0.2:
            options = OF_LOOPS
        elif depth >= DEEPEST:
            options = [option for option in self._statements if option in _OF_ONE_LINE]
        elif not self._is_short and self._random.random() < 0.001:
            options = REFUSED
        return self._written(self._random.choice(options), depth)

    def _written(self, template: str, depth: int) -> str:
        """Return a template with expressions and blocks in it."""
        self._number += 1
        lines: list[str] = []
        for line in re.split(r"(?<! )\|", template.replace("#", str(self._number))):
            code = line.lstrip()
            if code in ("$block", "$loop"):
                code = self.block(depth + 1, code == "$loop")
            else:
                code = self.fill(code, 0)
            lines.append(textwrap.indent(code, line[: len(line) - len(line.lstrip())]))
        return "\n".join(lines)

    def block(self, depth: int, of_loop: bool) -> str:
        """Return some statements."""
        return "\n".join(self.statement(depth, of_loop) for _ in range(self._random.randint(1, 2)))

    # --- expressions -----------------------------------------------------------------------------

    def fill(self, template: str, depth: int) -> str:
        """Return a template with expressions in place of its kinds."""
        return re.sub(r"\$([a-z]+)(_?)", lambda kind: self.expression(kind[1], depth, not kind[2]), template)

    def expression(self, kind: str, depth: int, may_wait: bool) -> str:
        """Return an expression."""
        if may_wait and depth < self._deepest and kind not in _NEVER_COPIED and self._random.random() < 0.25:
            return self._random.choice(self._awaits).replace("$", self.expression(kind, depth + 1, may_wait))
        is_leaf = depth >= self._deepest or self._random.random() < 0.4
        template = self._random.choice((self._leaves if is_leaf else self._expressions)[kind])
        if not may_wait:
            if "await" in template:
                return self.expression(kind, depth, may_wait)
            template = re.sub(r"\$([a-z]+)\b", r"$\1_", template)
        return self.fill(template, depth + 1)


def is_python(text: str) -> bool:
    """Return True if Python compiles the body of a function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            compile("async def main():\n" + textwrap.indent(text, "    "), "main", "exec", dont_inherit=True)
        except SyntaxError:
            return False
    return True


def _bound_by(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of the start makes."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {statement.name}
    nodes = list(ast.walk(statement))
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.name for node in nodes if isinstance(node, ast.alias)}


def _names_in(tree: ast.AST) -> set[str]:
    """Return the names that a tree reads or changes."""
    nodes = list(ast.walk(tree))
    outer = [name for node in nodes if isinstance(node, ast.Nonlocal) for name in node.names]
    return {node.id for node in nodes if isinstance(node, ast.Name)}.union(outer)


# --- the constructs of Python ----------------------------------------------------------------------

_HOLDERS: Final = ("keyword", "comprehension", "withitem", "arguments", "arg", "match_case")
"""The classes that are neither expressions nor statements, and hold some."""


def constructs() -> set[str]:
    """Return the classes of Python's syntax, and each position that may hold an await (`Call.args[1]`)."""
    # `[0]` is the first of several and `[1]` a later one; a holder has the position in its own (`Call.keywords[0].value`).
    kinds: set[str] = set()
    for kind in [*ast.expr.__subclasses__(), *ast.stmt.__subclasses__()]:
        kinds |= {kind.__name__, *(f"{kind.__name__}.{position}" for position in _positions(kind))}
    return kinds | {kind.__name__ for base in (ast.pattern, ast.operator) for kind in base.__subclasses__()}


def _positions(kind: type[ast.AST]) -> Iterator[str]:
    for held, many, name in re.findall(r"(\w+)([*?]?) (\w+)", (kind.__doc__ or "").partition("(")[2]):
        places = [f"{name}[0]", f"{name}[1]"] if many == "*" else [name]
        if held in ("expr", "stmt"):
            yield from places
        elif held == "excepthandler" or held in _HOLDERS:
            inner = list(_positions(ast.ExceptHandler if held == "excepthandler" else getattr(ast, held)))
            yield from (f"{place}.{position}" for place in places for position in inner)


def constructs_of(tree: ast.AST) -> set[str]:
    """Return the constructs of a program."""
    seen: set[str] = set()
    _visit(tree, seen)
    return seen


def _visit(node: ast.AST, seen: set[str]) -> list[str]:
    """Collect the constructs of a node, and return the positions in it that hold an await, without its class."""
    name, held = type(node).__name__, []
    for field, value in ast.iter_fields(node):
        for index, part in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(part, ast.AST):
                continue
            place = f"{field}[{min(index, 1)}]" if isinstance(value, list) else field
            positions = _visit(part, seen)
            if isinstance(part, (ast.expr, ast.stmt)):
                held += [place] if positions or isinstance(part, ast.Await) else []
            else:
                held += [f"{place}.{position}" for position in positions]
    if isinstance(node, (ast.expr, ast.stmt)):
        seen |= {name, *(f"{name}.{position}" for position in held)}
    else:
        seen.add(name)
    return held

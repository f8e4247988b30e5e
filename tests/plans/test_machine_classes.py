"""Classes, functions and modules as people write them who have not seen the language: as in Python."""

from __future__ import annotations

import pytest

from ropewalk.plans.program import Program

from .virtual_loop import compared

PROGRAMS = {
    "chain.from_iterable of itertools": """
import itertools
return list(itertools.chain.from_iterable([[1],[2,3]]))
""",
    "chain.from_iterable of chain": """
from itertools import chain
return list(chain.from_iterable([[1],[2,3]])) + list(map(str, chain([1],[2])))
""",
    "chain.from_iterable as a value": """
import itertools as it
f = it.chain.from_iterable
return list(f([[1],[2]]))
""",
    "constants of dates": """
from datetime import datetime, date, timezone
return [datetime.fromisoformat("2025-01-01").isoformat(), str(datetime.max), str(date.min) ,
    str(date.max), date.fromisocalendar(2025,1,1).isoformat()]
""",
    "attributes of a function": """
def f():
    return 1
f.calls = 0
f.calls += 1
return [f.calls, f.__name__, hasattr(f, "calls"), getattr(f, "other", 3)]
""",
    "a function changes its own attribute": """
def f():
    f.n = getattr(f, "n", 0) + 1
    return f.n
f(); f()
return f.n
""",
    "an attribute is deleted": """
f = lambda: 1
f.x = 2
del f.x
return hasattr(f, "x")
""",
    "attributes of an async function": """
async def f():
    return 1
f.tag = "t"
return [f.tag, f.__name__, await f()]
""",
    "partial and lru_cache": """
from functools import partial, wraps, lru_cache, cached_property
p = partial(pow, 2)
@lru_cache(maxsize=None)
def sq(x):
    print("c")
    return x * x
sq(2); sq(2); sq.cache_clear(); sq(2)
return [p(3), p.args, p.keywords, p.func(2, 3), sq.__wrapped__(3), sq.__name__]
""",
    "wraps keeps the name and attributes": """
from functools import wraps
def deco(fn):
    @wraps(fn)
    def inner(*a, **k):
        inner.count += 1
        return fn(*a, **k)
    inner.count = 0
    return inner
@deco
def g(x):
    return x
g(1); g(2)
return [g.count, g.__name__, g.__wrapped__(5)]
""",
    "enum": """
from enum import Enum, IntEnum, StrEnum, auto, Flag, unique
class C(Enum):
    RED = 1
    BLUE = "b"
    ALIAS = 1
    def describe(self):
        return f"{self.name}:{self.value}"
    @classmethod
    def default(cls):
        return cls.RED
    @property
    def low(self):
        return self.name.lower()
    @staticmethod
    def st(x):
        return x
return [C.RED.name, C("b").name, C["RED"].value, [c.name for c in C], len(C), C.ALIAS is C.RED,
    C.RED.describe(), C.default().low, str(C.RED), repr(C.RED), f"{C.RED}", C.RED == C.RED, C.RED in C,
    isinstance(C.RED, C), C.st(3), list(C.__members__)]
""",
    "enums of numbers and texts": """
from enum import StrEnum, auto, IntEnum
class S(StrEnum):
    A = auto()
    B = "bee"
class I(IntEnum):
    X = 1
    Y = 2
return [S.A, S.B.upper(), S("a").name, {S.A: 1}["a"], I.X + 1, I.X < I.Y, max(I), f"{I.X}", f"{S.A!r}",
    json.dumps([I.X, S.A]), sorted(I, reverse=True)[0].name, S.A == "a"]
""",
    "enum that is also a text": """
from enum import Enum
class K(str, Enum):
    A = "a"
    B = "b"
return [K.A == "a", K.A.value, K("b") is K.B, "a" in [k.value for k in K], json.dumps({"k": K.A}),
    K.A.upper(), str(K.A), f"{K.A}", [k for k in K]]
""",
    "enum with several values": """
from enum import Enum
class C(Enum):
    A = (1, "x")
    B = (2, "y")
    def __init__(self, num, label):
        self.num = num
        self.label = label
return [C.A.num, C.B.label, C((1, "x")).name, {c: c.num for c in C}[C.A]]
""",
    "flags": """
from enum import Flag, auto
class P(Flag):
    R = auto()
    W = auto()
x = P.R | P.W
return [P.R in x, bool(x & P.W), x.value, P.R.value]
""",
    "match of an enum": """
import enum
class C(enum.Enum):
    A = enum.auto()
match C.A:
    case C.A:
        return "a"
""",
    "methods of a named tuple": """
from typing import NamedTuple
class P(NamedTuple):
    x: int
    y: int = 2
    def total(self):
        return self.x + self.y
    @property
    def double(self):
        return self.x * 2
    @classmethod
    def of(cls, s):
        return cls(*map(int, s.split(",")))
    def __str__(self):
        return "P!"
    def __add__(self, o):
        return P(self.x + o.x, self.y + o.y)
p = P(1)
a, b = p
return [p.total(), p.double, P.of("3,4"), str(p), repr(p), p + p, p._asdict(), p._replace(x=5),
    P._fields, P._make([7, 8]), P._field_defaults, p == (1, 2), p.index(2), p[0], a, len(p), p.count(1),
    max([P(1), P(0)])]
""",
    "errors of a named tuple": """
from typing import NamedTuple
class P(NamedTuple):
    x: int
p = P(1)
try:
    p.x = 2
except AttributeError as e:
    print(e)
try:
    P()
except TypeError as e:
    print(e)
try:
    p.zzz
except AttributeError as e:
    print(e)
""",
    "class of a namedtuple": """
from collections import namedtuple
class Q(namedtuple("Q", "a b")):
    @property
    def s(self):
        return self.a + self.b
q = Q(1, 2)
return [q.s, q._replace(a=3).s, q]
""",
    "methods of a dataclass": """
from dataclasses import dataclass, field, asdict, replace, fields, astuple
from typing import ClassVar
@dataclass(order=True, frozen=True)
class V:
    major: int
    minor: int = 0
    KIND: ClassVar[str] = "v"
    tags: tuple = field(default=(), compare=False, repr=False)
    @property
    def text(self):
        return f"{self.major}.{self.minor}"
    @classmethod
    def parse(cls, s):
        return cls(*map(int, s.split(".")))
    @staticmethod
    def zero():
        return V(0)
    def __post_init__(self):
        if self.major < 0:
            raise ValueError("neg")
    def bump(self):
        return replace(self, minor=self.minor + 1)
v = V.parse("1.2")
return [v.text, v < V(2), sorted([V(3), V(1)])[0].text, v.bump().text, V.KIND, repr(v), asdict(v),
    [f.name for f in fields(v)], len({v, V(1, 2)}), V.zero() == V(0), astuple(v)]
""",
    "containers of dataclasses": """
from dataclasses import dataclass, field
@dataclass
class Node:
    name: str
    kids: list["Node"] = field(default_factory=list)
    def walk(self):
        yield self.name
        for k in self.kids:
            yield from k.walk()
    def __len__(self):
        return 1 + sum(len(k) for k in self.kids)
    def __iter__(self):
        return iter(self.kids)
    def __contains__(self, n):
        return n in list(self.walk())
    def __getitem__(self, i):
        return self.kids[i]
    def __bool__(self):
        return True
n = Node("a", [Node("b"), Node("c")])
return [list(n.walk()), len(n), [k.name for k in n], "c" in n, n[0].name, bool(n)]
""",
    "total_ordering": """
from functools import total_ordering
@total_ordering
class A:
    def __init__(self, n):
        self.n = n
    def __eq__(self, o):
        return self.n == o.n
    def __lt__(self, o):
        return self.n < o.n
return [A(1) <= A(1), A(2) > A(1), max(A(1), A(3)).n, A(1) != A(2)]
""",
    "special methods": """
class M:
    def __init__(self, v):
        self.v = v
    def __add__(self, o): return M(self.v + o.v)
    def __radd__(self, o): return M(self.v + o)
    def __sub__(self, o): return M(self.v - o.v)
    def __mul__(self, k): return M(self.v * k)
    def __rmul__(self, k): return M(self.v * k)
    def __truediv__(self, k): return M(self.v / k)
    def __neg__(self): return M(-self.v)
    def __abs__(self): return M(abs(self.v))
    def __iadd__(self, o):
        self.v += o.v
        return self
    def __call__(self, x): return self.v + x
    def __format__(self, spec): return f"<{self.v}{spec}>"
    def __int__(self): return int(self.v)
    def __float__(self): return float(self.v)
    def __round__(self, n=0): return round(self.v, n)
    def __hash__(self): return 7
    def __eq__(self, o): return self.v == o.v
    def __and__(self, o): return self.v and o.v
    def __getattr__(self, n): return "?" + n
    def __repr__(self): return f"M({self.v})"
a = M(3)
a += M(1)
return [(M(1)+M(2)).v, sum([M(1), M(2)]).v, (2*M(3)).v, (M(4)/2).v, (-M(1)).v, abs(M(-2)).v, a.v,
    M(1)(2), f"{M(1):x}", int(M(2.5)), float(M(1)), round(M(2.567), 1), {M(1): "k"}[M(1)], a.foo,
    repr([M(1)]), str(M(2)), M(1) & M(2)]
""",
    "class of a dict": """
class D(dict):
    def __missing__(self, k):
        self[k] = v = k * 2
        return v
    def total(self):
        return sum(self.values())
d = D(a=1)
return [d[3], len(d), d.get("zz"), list(d.items()), isinstance(d, dict), dict(d) == d, repr(d)]
""",
    "class of a list": """
class L(list):
    def first(self):
        return self[0]
    def append(self, x):
        super().append(x * 2)
l = L([1, 2])
l.append(5)
l.extend([7])
return [l.first(), l, len(l), l[1:], sorted(l, reverse=True), repr(l), l + [1], 5 in l, l.index(2), l.pop()]
""",
    "class of UserDict": """
from collections import UserDict, defaultdict, OrderedDict, Counter
class U(UserDict):
    def __setitem__(self, k, v):
        super().__setitem__(k.lower(), v)
    def __getitem__(self, k):
        return super().__getitem__(k.lower())
u = U({"A": 1})
u["B"] = 2
u.update(C=3)
return [u["a"], dict(u), len(u), "b" in u, u.get("C"), u.data, list(u.items()), u.pop("c"), sorted(u)]
""",
    "class of a dict that calls super": """
class DD(dict):
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.hits = 0
    def __getitem__(self, k):
        self.hits += 1
        return super().__getitem__(k)
d = DD(x=1, y=2)
d["x"]; d["y"]
return [d.hits, d.setdefault("z", 4), d.copy(), {**d}, d | {"q": 1}]
""",
    "notes and text of an exception": """
class E(Exception):
    def __init__(self, code, msg="m"):
        super().__init__(msg)
        self.code = code
    def __str__(self):
        return f"{self.code}: {self.args[0]}"
class F(E):
    pass
try:
    raise F(3)
except E as e:
    e.add_note("n")
    return [e.code, str(e), repr(e), e.args, type(e).__name__, e.__notes__, isinstance(e, Exception)]
""",
    "exception of two classes": """
class E(ValueError, LookupError):
    pass
try:
    raise E("x")
except LookupError as e:
    return [str(e), repr(e)]
""",
    "super in class methods": """
class A:
    def m(self):
        return "A"
    @classmethod
    def c(cls):
        return cls.__name__ + "A"
class B(A):
    def m(self):
        return super().m() + "B"
    @classmethod
    def c(cls):
        return super().c() + "B"
b = B()
f = b.m
return [b.m(), B.c(), b.c(), f(), f.__name__, b.__class__.__name__, A.m(b), f.__self__ is b]
""",
    "__new__": """
class S:
    _inst = None
    def __new__(cls, *a):
        if cls._inst is None:
            cls._inst = super().__new__(cls)
        return cls._inst
    def __init__(self, x):
        self.x = x
return [S(1) is S(2), S(3).x]
""",
    "cached_property": """
from functools import cached_property
class T:
    n = 0
    @cached_property
    def v(self):
        T.n += 1
        return T.n
t = T()
return [t.v, t.v, T().v]
""",
    "decorator of a method": """
def retry(n):
    def deco(fn):
        async def w(self, *a):
            for i in range(n):
                try:
                    return await fn(self, *a)
                except ValueError:
                    print("again")
            return None
        return w
    return deco
class C:
    @retry(2)
    async def go(self, x):
        return await get(x)
return [await C().go(13), await C().go(2)]
""",
    "async with of an object": """
class C:
    def __init__(self):
        self.log = []
    async def __aenter__(self):
        self.log.append(await get(1))
        return self
    async def __aexit__(self, t, e, tb):
        self.log.append(t.__name__ if t else None)
        return True
async with C() as c:
    raise ValueError("x")
return c.log
""",
    "iterator": """
class It:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        if self.n <= 0: raise StopIteration
        self.n -= 1
        return self.n
return [list(It(3)), sum(It(4)), [x for x in It(2)], max(It(3))]
""",
    "async iterator": """
class AI:
    def __init__(self, n): self.n = n
    def __aiter__(self): return self
    async def __anext__(self):
        if self.n <= 0: raise StopAsyncIteration
        self.n -= 1
        return await get(self.n)
return [x async for x in AI(3)]
""",
    "async iterator made of a generator": """
class AG:
    async def __aiter__(self):
        for i in range(2):
            yield await get(i)
return [x async for x in AG()]
""",
    "contextmanager": """
from contextlib import contextmanager
@contextmanager
def cm(x):
    print("in", x)
    try:
        yield x + 1
    except ValueError as e:
        print("caught", e)
    finally:
        print("out")
with cm(1) as v:
    print(v)
    raise ValueError("boo")
with cm(5):
    pass
""",
    "contextmanager of a method": """
from contextlib import contextmanager
class C:
    @contextmanager
    def tx(self, n):
        yield n
with C().tx(3) as v:
    return v
""",
    "asynccontextmanager": """
from contextlib import asynccontextmanager
@asynccontextmanager
async def cm(x):
    a = await get(x)
    try:
        yield a
    finally:
        await get(a + 10)
async with cm(1) as v, cm(2) as w:
    print(v, w)
try:
    async with cm(1):
        raise KeyError("k")
except KeyError as e:
    print(e)
""",
    "ExitStack": """
from contextlib import ExitStack, nullcontext, suppress
with ExitStack() as st:
    st.callback(print, "last")
    st.enter_context(suppress(ValueError))
    x = st.enter_context(nullcontext(4))
    print(x)
    raise ValueError
print("after")
""",
    "AsyncExitStack": """
from contextlib import AsyncExitStack, asynccontextmanager
@asynccontextmanager
async def cm(n):
    yield await get(n)
    print("closed", n)
async with AsyncExitStack() as st:
    vals = [await st.enter_async_context(cm(n)) for n in range(3)]
    st.push_async_callback(get, 9)
    keep = st.pop_all()
print(vals)
await keep.aclose()
""",
    "SimpleNamespace": """
from types import SimpleNamespace
s = SimpleNamespace(a=1, b=[2])
s.c = 3
return [s.a, s.c, repr(s), s == SimpleNamespace(a=1, b=[2], c=3), hasattr(s, "zz")]
""",
    "PurePosixPath": """
from pathlib import PurePosixPath as P
p = P("/a/b") / "c.tar.gz"
return [str(p), p.name, p.suffix, p.suffixes, p.stem, str(p.parent), p.parts, str(p.with_suffix(".x")),
    str(p.relative_to("/a")), p.is_absolute(), [str(x) for x in p.parents], p.match("*.gz"),
    p == P("/a/b/c.tar.gz"), f"{p}", str("x" / P("y")), p.parent.name, str(p.joinpath("d", "e")), repr(p),
    sorted([P("b"), P("a")])[0].name]
""",
    "posixpath": """
import posixpath, os.path
return [posixpath.join("a", "b"), os.path.basename("/x/y.txt"), os.path.splitext("a.b"),
    posixpath.dirname("/a/b/c"), posixpath.normpath("a//b/../c")]
""",
    "bisect": """
import bisect
from bisect import insort
l = [1, 3, 5]
insort(l, 4)
return [l, bisect.bisect_left(l, 3), bisect.bisect(l, 3), bisect.bisect_right([(1, "a"), (3, "b")], 2,
    key=lambda r: r[0])]
""",
    "templates": """
from string import Template, capwords
import string
return [Template("$a and ${b} $$").substitute(a=1, b=[2]), Template("$x $y").safe_substitute({"x": 1}),
    capwords("a bc"), string.ascii_lowercase[:3], string.digits]
""",
    "addresses": """
from email.utils import parseaddr, formataddr
return [parseaddr("Ann <a@b.c>"), formataddr(("Ann", "a@b.c"))]
""",
    "special methods as values": """
x = [3, 1]
f = x.__getitem__
return [f(0), {"a": 1}.__getitem__("a"), "abc".__len__(), sorted({"a": 2, "b": 1}, key={"a": 2,
    "b": 1}.__getitem__), (1).__add__(2), [1].__contains__(1)]
""",
    "getattr and hasattr": """
x = await get(3)
return [getattr("abc", "upper")(), getattr({"a": 1}, "b", 5), hasattr([], "append"), hasattr(5, "zz")]
""",
    "object as a mark": """
S = object()
def f(x=S):
    return x is S
return [f(), f(1), S == S, S is not object()]
""",
    "names of types as values": """
Row = dict[str, list[int]]
x: Row = {"a": [1]}
return x
""",
    "hints as values": """
from typing import Optional
Maybe = Optional[int]
def f(x: Maybe) -> Maybe:
    return x
return f(1)
""",
    "protocol": """
from typing import Protocol
class P(Protocol):
    def go(self) -> int: ...
class Q:
    def go(self):
        return 1
return Q().go()
""",
    "typed dict": """
from typing import TypedDict
class R(TypedDict, total=False):
    a: int
r: R = {"a": 1}
return [R(a=2), r["a"]]
""",
    "coroutine functions": """
import inspect
async def f(): return 1
c = f()
return [asyncio.iscoroutinefunction(f), asyncio.iscoroutine(c), inspect.isawaitable(c),
    asyncio.iscoroutinefunction(get), await c]
""",
    "copies of objects": """
import copy
class A:
    def __init__(self): self.l = [1]
a = A()
b = copy.copy(a)
c = copy.deepcopy(a)
b.l.append(2)
return [a.l, c.l]
""",
    "re.error": """
try:
    re.compile("(" + "x")
except re.error as e:
    return str(e)
""",
    "aclosing ends a generator": """
from contextlib import aclosing
async def numbers():
    try:
        while True:
            yield await get(1)
    finally:
        await get(7)
async with aclosing(numbers()) as stream:
    async for number in stream:
        await get(13)
""",
    "the class of a failed tool": """
class Quiet:
    def __enter__(self):
        return self
    def __exit__(self, kind, error, trace):
        print(kind.__name__, issubclass(kind, ValueError), issubclass(type(error), KeyError))
        return issubclass(kind, ValueError)
with Quiet():
    await get(13)
""",
    "a failed tool in a class pattern": """
try:
    await get(13)
except Exception as error:
    match error:
        case LookupError():
            return "lookup"
        case ValueError():
            return "value"
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_python_does(name: str) -> None:
    def answer(tool: str, arguments: dict[str, int]) -> int:
        if arguments["n"] == 13:
            raise ValueError("bad")
        return arguments["n"]

    assert compared(PROGRAMS[name], {"get": ["n"]}, answer) == []


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("class A(tuple):\n    pass", "derive from"),
        ("class A(int):\n    pass", "derive from"),
        ("from enum import Enum\nEnum('A', 'B C')", "class Name(Enum)"),
        ("class A:\n    def __del__(self):\n        pass", "__del__ is not supported"),
        ("import re\nre.findall('(a+)+(?=!)', await get(1))", "may take too long"),
        ("from re import sub, I\nsub('(a', '', 'a', flags=I)", "is not valid"),
        ("import os\nos.getcwd()", "os.getcwd is not supported"),
        ("from pathlib import Path", "pathlib.Path is not supported"),
        ("import asyncio\nasyncio.to_thread(print)", "asyncio.to_thread is not supported"),
        ("x = await get(1)\ngetattr(x, '__globals__')", "underscore"),
    ],
)
def test_what_cannot_run_is_refused_before_the_first_call(text: str, advice: str) -> None:
    assert advice in Program(text, {"get": ["n"]}).problems[0].message

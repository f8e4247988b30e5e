"""Orders of evaluation and scopes that random programs once found different; the machine does what Python does."""

from __future__ import annotations

import pytest

from .grammar import PARAMETERS
from .test_grammar import world
from .virtual_loop import compared

AWAITS = {
    "tuple target": """
rows=[[1],[2]]
rows[await same(0)][0], (a, *rows[await same(1)]) = 5, [6, 7, 8]
return [rows, a]
""",
    "chain target": """
rows=[[1],[2]]
rows[await same(0)] = a = rows[await same(1)] = await same(9)
return [rows, a]
""",
    "for target": """
d={}
for d[await same('k')] in [1,2]:
    await same(d['k'])
return d
""",
    "for target2": """
d={}
for d[await same('k')], x in [(1,2)]:
    pass
return d
""",
    "async for target": """
d={}
async def g():
    yield 1
    yield await same(2)
async for d[await same('k')] in g():
    await same(d['k'])
return d
""",
    "comp target": """
d={}
x=[d['k'] for d[await same('k')] in [1,2]]
return [d,x]
""",
    "with target": """
d={}
async with asyncio.Lock() as d[await same('k')]:
    pass
return d
""",
    "with target fails": """
class C:
    def __enter__(self):
        return 1
    def __exit__(self, a, b, c):
        out.append(str(b))
        return True
out=[]
d=[]
with C() as d[await same(3)]:
    pass
with C() as d[3]:
    pass
return out
""",
    "ann": """
d={}
d[await same('k')]: int = await same(3)
return d
""",
    "agen exp": "return [x async for x in (await same(i) for i in range(3) if await same(i))]",
    "agen exp2": "return sum(await same(i) for i in range(3))",
    "agen exp3": "g = (await same(i) for i in 5)",
    "agen exp4": """
g = (y async for y in (await same(i) for i in await same([1,2])))
r=[]
async for z in g:
    r.append(z)
async for z in g:
    r.append(z)
return r
""",
    "agen exp str": """
g = (await same(i) for i in [1])
for x in g:
    pass
""",
    "agen error": """
async def g():
    try:
        yield await fail(1)
    except ToolError as e:
        yield str(e)
    yield 3
return [x async for x in g()]
""",
    "agen error2": """
async def g():
    for i in range(3):
        try:
            yield await fail(i)
        except Exception as e:
            yield [i, str(e)]
return [x async for x in g()]
""",
    "agen error3": """
async def g():
    yield await fail(1)
    yield 2
try:
    return [x async for x in g()]
except Exception as e:
    return str(e)
""",
    "base": """
class B:
    n = 1
async def l(x):
    await same(0)
    return x
@(await l(lambda k: k))
class C(await l(B)):
    pass
return C.n
""",
    "decorator order": """
out=[]
def d(x):
    out.append(x)
    return lambda k: k
def b(x):
    out.append('base')
    return x
class B: pass
@d(1)
@d(2)
class C(B):
    x = out.append('body')
return out
""",
    "walrus class": """
a=1
class C:
    x = (y := 5) + 1
    z = y
return [C.x, C.y, C.z, a]
""",
    "walrus default": """
def f(x=(y:=3)):
    return x+y
return [f(), y]
""",
    "walrus lambda default": """
f = lambda x=(y:=3): x+y
return [f(), y]
""",
    "walrus decorator": """
@(d:=lambda f: f)
def g():
    return 1
return g() if d else 0
""",
    "multi field": """
out=[]
def f():
    out.append(1)
    return []
class C:
    a = b = f()
C.a.append(1)
return [C.b, out]
""",
    "method default": """
n=5
class C:
    n=1
    def f(self, k=n, *, j=n+1):
        return [k, j, n]
return C().f()
""",
    "field calls method": """
class C:
    def f(x):
        return x*2
    y = f(3)
return C.y
""",
    "annotation await": """
async def f(x: await same(1), *a: await same(2), k: await same(3), **o: await same(4)) -> await same(5):
    pass
return 1
""",
    "annotation order": """
out=[]
def p(x):
    out.append(x)
    return x
@(lambda f: p('deco') and f)
def f(a: p('a'), /, b: p('b')=p('db'), *c: p('c'), d: p('d')=p('dd'), **e: p('e')) -> p('r'):
    pass
return out
""",
    "annotation fails": """
def f(x: 1 // 0):
    pass
""",
    "annotation walrus": """
def f(x: (y := 4)):
    pass
return y
""",
    "annotation names": """
def f(x: int, y: 'z' = 1, *c: list[int] | None) -> dict[str, int]:
    return x
return f(1)
""",
    "unpack generator": """
out=[]
def g():
    for i in range(9):
        out.append(i)
        yield i
try:
    a, b = g()
except ValueError as e:
    out.append(str(e))
return out
""",
    "k=await": """
xs=[1,2]
def f(*a, k):
    return [a, k]
return f(*xs, k=await same(3))
""",
    "k=await2": """
xs=[1,2]
class C:
    def f(self, *a, k, **o):
        return [a, k, o]
return [C().f(*xs, k=await same(3)), C().f(*xs, 5, **{'k': 1}, z=await same(4))]
""",
}
SCOPES = {
    "stop": """
def g():
    yield 1
async def f():
    return next(iter([]))
it=g()
next(it)
try:
    next(it)
except StopIteration:
    await same(1)
try:
    await f()
except RuntimeError as e:
    return [str(e), type(e).__name__]
""",
    "stop in with": """
import contextlib
with contextlib.suppress(StopIteration):
    await same(1)
    next(iter([]))
return 1
""",
    "stop in generator": """
def g():
    yield next(iter([]))
try:
    list(g())
except RuntimeError as e:
    return str(e)
""",
    "stop in agen": """
async def g():
    yield next(iter([]))
try:
    return [x async for x in g()]
except RuntimeError as e:
    return str(e)
""",
    "stop in main": """
await same(1)
next(iter([]))
""",
    "stop in recursion": """
def f(n):
    return next(iter([])) if n == 0 else f(n-1)
try:
    f(3)
except StopIteration:
    return 'stop'
""",
    "stop in task": """
async def f():
    await same(1)
    raise StopIteration(5)
t=asyncio.create_task(f())
try:
    await t
except Exception as e:
    return [type(e).__name__, str(e)]
""",
    "stop finally": """
try:
    try:
        next(iter([]))
    finally:
        await same(2)
except StopIteration as e:
    return e.value
""",
    "name": """
def f(): pass
async def g(): pass
return [f.__name__, g.__name__, (lambda: 1).__name__, len.__name__]
""",
    "class": """
try:
    1/0
except Exception as e:
    return [e.__class__.__name__, e.__cause__]
""",
    "class names": """
n=1
class C:
    n=2
    xs=[n for _ in range(2)]
    ys=[i for i in range(n)]
    f=lambda self: n
return [C.xs, C.ys, C().f()]
""",
    "free": """
def f():
    return zz
def g():
    zz
if await same(0):
    zz = 1
try:
    f()
except NameError as e:
    return [str(e), type(e).__name__]
""",
    "local": """
try:
    print(zz)
except NameError as e:
    print(str(e), type(e).__name__)
zz = 1
""",
    "in place": """
r=[]
for f in (lambda: 1):
    pass
""",
    "in place2": """
x=1
try:
    x += await same(None)
except TypeError as e:
    print(e)
try:
    x //= None
except TypeError as e:
    print(e)
try:
    x **= None
except TypeError as e:
    print(e)
try:
    x |= None
except TypeError as e:
    print(e)
s='a'
try:
    s += 1
except TypeError as e:
    print(e)
try:
    s *= 'x'
except TypeError as e:
    print(e)
s=[1]
try:
    s += 1
except TypeError as e:
    print(e)
try:
    s -= [1]
except TypeError as e:
    print(e)
""",
    "gen close": """
out=[]
def g():
    try:
        yield 1
        yield 2
    finally:
        out.append('end')
for x in g():
    break
out.append('after')
it=g()
next(it)
it.close()
out.append('closed')
try:
    for x in g():
        raise KeyError
except KeyError:
    out.append('error')
h=g()
next(h)
h=None
out.append('gone')
return out
""",
    "gen throw": """
def g():
    while True:
        try:
            x = yield 1
        except ValueError as e:
            yield str(e)
def h():
    yield from g()
it=h()
next(it)
r=[it.throw(ValueError('a'))]
r.append(next(it))
r.append(it.throw(ValueError('b')))
try:
    it.throw(KeyError('c'))
except KeyError:
    r.append('k')
return r
""",
    "gen with": """
out=[]
class M:
    def __enter__(self):
        return self
    def __exit__(self, k, e, t):
        out.append(k is not None and k.__name__)
def g():
    with M():
        yield 1
for x in g():
    break
list(g())
return out
""",
    "gen return finally": """
def g():
    try:
        yield 1
    finally:
        return 5
it=g()
next(it)
it.close()
return list(it)
""",
}
SPREAD_START = """
xs=[1,2]
d={'a':1}
def p(*a, **k):
    return [list(a), k]
def push(v):
    xs.append(v)
    d['z']=v
    return v
async def apush(v):
    await same(0)
    return push(v)
async def lat(v):
    await same(0)
    return v
"""
SPREADS = {
    "only star": "return p(*xs, k=push(9))",
    "only star await": "return p(*xs, k=await apush(9))",
    "only await star": "return p(*(await lat(xs)), k=await apush(9))",
    "star then": "return p(*xs, push(3), k=push(9))",
    "star then await": "return p(*xs, await apush(3), k=await apush(9))",
    "await star then await": "return p(*(await lat(xs)), await apush(3))",
    "list": "return [*(await lat(xs)), await apush(3), *xs]",
    "set": "return sorted({*(await lat(xs)), await apush(3), *xs})",
    "tuple": "return (*(await lat(xs)), await apush(3), *xs)",
    "fstring": "return f'{await lat(xs)}{await apush(3)}{xs}'",
    "fstring spec": "return f'{await lat(3):>{await apush(7)}}{xs}'",
    "fstring nested": "return p(f'{await lat(xs)}', await apush(3))",
    "dstar": "return p(**d, k=await apush(1))",
    "dstar await": "return p(**(await lat(d)), k=await apush(1))",
    "dict": "return {**d, 'k': await apush(1)}",
    "dict await": "return {**(await lat(d)), 'k': await apush(1), **d}",
    "dict await2": "return {'q': xs, **(await lat(d)), (await lat('k')): await apush(1), 'x': list(xs)}",
    "star error": """
try:
    p(*5, k=await apush(1))
except TypeError as e:
    return xs
""",
    "star error2": """
try:
    p(1, *5, k=await apush(1))
except TypeError as e:
    return xs
""",
    "star error3": """
try:
    p(**5, k=await apush(1))
except TypeError as e:
    return xs
""",
    "method": "return 'x'.join(*[await lat(['a','b'])])",
    "method star": "return sorted(*[await lat([3,1])], key=await lat(None))",
    "slices": "return xs[await lat(0):await apush(2):await lat(1)]",
    "print": """
print(*xs, sep=await lat('-'))
print(*(await lat(xs)), await apush(1), sep=str(await apush(2)))
""",
    "await in dict key": "return {await lat('a'): await lat(1), await lat('b'): 2}",
    "kw dup": """
try:
    p(k=await lat(1), **{'k': push(2)}, z=push(3))
except TypeError as e:
    return xs
""",
}


@pytest.mark.parametrize("name", [*AWAITS, *SCOPES])
def test_a_program_does_what_python_does(name: str) -> None:
    assert compared((AWAITS | SCOPES)[name], PARAMETERS, None, fresh=world) == []


@pytest.mark.parametrize("name", SPREADS)
def test_spread_arguments_are_read_when_python_reads_them(name: str) -> None:
    assert compared(SPREAD_START + SPREADS[name], PARAMETERS, None, fresh=world) == []

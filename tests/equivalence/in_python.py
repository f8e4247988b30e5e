"""The programs of `programs.yaml` in Python: one function per program, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ropewalk import flow
from ropewalk.builder.flow import Built, FlowBuilder

PROGRAMS: dict[str, Callable[..., Built]] = {}


def program(write: Callable[[FlowBuilder], object]) -> Callable[[FlowBuilder], object]:
    """Register a program; what the function returns is its result."""

    def built() -> Built:
        f = flow(write.__name__)
        f.result(write(f))
        return f.done()

    PROGRAMS[write.__name__] = built
    return write


def named(f: FlowBuilder, name: str, tool: str, /, **args: object) -> Any:
    return f.options(name=name).call(tool, **args)


@program
def sequence(f: FlowBuilder) -> object:
    found = named(f, "found", "search", query=f.input.topic)
    page = named(f, "page", "fetch", url=found[0].url)
    return named(f, "text", "write", page=page, about=f.input.topic)


@program
def at_once(f: FlowBuilder) -> object:
    f.settings(parallel=True, limit=4)
    a = named(f, "a", "one", n=1)
    b = named(f, "b", "two", n=2)
    c = named(f, "c", "three", n=3)
    return [a, b, c]


@program
def diamond(f: FlowBuilder) -> object:
    f.settings(parallel=True, limit=4)
    top = named(f, "top", "start", of=f.input.x)
    left = named(f, "left", "twice", of=top.n)
    right = named(f, "right", "twice", of=top.m)
    return named(f, "bottom", "join", left=left, right=right)


@program
def choice(f: FlowBuilder) -> object:
    paid = named(f, "paid", "check", order=f.input.order)
    return f.options(name="next").when(
        paid.status == "paid",
        lambda: named(f, "shipped", "ship", order=f.input.order),
        lambda: named(f, "reminded", "remind", order=f.input.order, due=paid.due),
    )


@program
def skipped_step(f: FlowBuilder) -> object:
    found = named(f, "found", "search", query="rope")
    f.options(name="extra", when=found.n > 5).call("more", n=found.n)
    return named(f, "last", "write", n=found.n)


@program
def until_it_is_done(f: FlowBuilder) -> object:
    n = f.state("n", {"type": "number"})
    f.options(name="rounds").loop(lambda: f.options(name="step", into=n).call("step"), until=n >= 3, limit=10)
    return n


@program
def for_each(f: FlowBuilder) -> object:
    listed = named(f, "listed", "ls", dir="/")
    return f.options(name="pages").for_each(
        listed, lambda item: named(f, "page", "fetch", url=item.url, n=1), concurrency=3
    )


@program
def tries(f: FlowBuilder) -> object:
    got = f.options(name="got", attempts=3).call("flaky", key="a")
    return named(f, "last", "write", got=got)


@program
def tries_then_stands_in(f: FlowBuilder) -> object:
    got = f.options(name="got", attempts=2, fallback=lambda error: {"why": error.message}).call("flaky", key="a")
    return named(f, "last", "write", got=got)


@program
def transforms(f: FlowBuilder) -> object:
    rows = named(f, "rows", "load")
    big = f.options(name="big").value(rows.filter(lambda row: row.size > 10))
    short = f.options(name="short").value(big.pick(["name", "size"]))
    sorted_ = f.options(name="sorted").value(short.sort(lambda row: row.size, "desc"))
    grouped = f.options(name="grouped").value(sorted_.group_by(lambda row: row.name))
    return named(f, "saved", "save", groups=grouped)


@program
def nested_data(f: FlowBuilder) -> object:
    made = named(f, "made", "make")
    return named(
        f, "used", "use",
        deep={"list": [made.a.b[1], {"again": made.a["odd key"], "n": None}], "literal": "$5 and ${x}"},
        text=f"{f.input.who}: {made.a.b[0]} of {made.a.b.length()}",
        whole=made,
        missing=f.input.nothing.here,
        sum=made.a.b[0] + made.a.b[1] * 2,
    )  # fmt: skip


@program
def failure(f: FlowBuilder) -> object:
    named(f, "first", "one")
    named(f, "second", "bad", n=2)
    return named(f, "third", "never")


@program
def goes_on_without(f: FlowBuilder) -> object:
    f.settings(parallel=True, limit=4)
    f.options(name="optional", reported=True).call("bad", n=1)
    other = named(f, "other", "one")
    return named(f, "last", "write", n=other)


@program
def silent(f: FlowBuilder) -> object:
    got = f.options(name="got", fallback=None).call("bad")
    return named(f, "last", "write", got=got)


@program
def failing_rounds(f: FlowBuilder) -> object:
    return f.options(name="pages").for_each(
        f.input.urls, lambda url: f.options(name="page", reported=True).call("fetch", url=url), concurrency=2
    )


@program
def fold(f: FlowBuilder) -> object:
    total = f.state("total", {"type": "number"}, initial=0)
    f.options(name="sums").for_each(
        f.input.items, lambda item: f.options(name="sum", into=total).call("add", acc=total, item=item)
    )
    return total


@program
def loops_inside(f: FlowBuilder) -> object:
    return f.options(name="rows").for_each(
        f.input.rows,
        lambda row: f.options(name="cells").for_each(row, lambda cell, j: named(f, "cell", "cell", n=cell, at=j)),
    )


@program
def pipeline(f: FlowBuilder) -> object:
    def stages(item: Any) -> Any:
        page = named(f, "page", "fetch", url=item)
        return named(f, "mail", "send", text=page, to=item)

    return f.options(name="mails").for_each(f.input.people, stages, concurrency=4)


@program
def pause(f: FlowBuilder) -> object:
    f.options(name="rest").sleep(0.001)
    return named(f, "last", "write", n=1)


@program
def waits(f: FlowBuilder) -> object:
    order = f.input.order
    paid = f.options(name="paid").wait(f"paid-{order}")
    ask = f.options(name="ask").approval(f"Ship {order}?")
    return named(f, "last", "write", sum=paid.sum, by=ask["by"])

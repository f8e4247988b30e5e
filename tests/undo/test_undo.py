"""Undo: the finished steps of a run are undone in reverse order, by each notation, after each kind of ending."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patience import until
from ropewalk import App, InvalidFlow, tool
from ropewalk.errors import InvalidInput, InvalidTool, NothingToUndo, PartOfRun, RunUndone
from ropewalk.events import Event
from ropewalk.journal.run_ids import new_run_id
from ropewalk.tools.undo import Undo

Json = Any


pytestmark = pytest.mark.anyio


class Shop:
    """A shop whose book has every order and cancellation in the order in which they took effect."""

    def __init__(self) -> None:
        self.book: list[str] = []
        self.broken: set[str] = set()  # orders that cannot be cancelled now
        self.entered = asyncio.Event()

    def tools(self) -> list[Any]:
        @tool
        async def cancel_order(id: str) -> str:
            if id in self.broken:
                raise ValueError(f"{id} is with the carrier")
            self.book.append(f"cancel {id}")
            return "cancelled"

        @tool(undo={"tool": cancel_order, "args": {"id": "$result.id"}})
        async def order(item: str) -> dict[str, str]:
            self.book.append(f"order {item}")
            return {"id": f"o-{item}"}

        @tool(annotations={"readOnlyHint": True})
        async def look(item: str) -> str:
            return item

        @tool
        async def note(text: str) -> str:
            return text

        @tool
        async def fail() -> str:
            raise ValueError("no more")

        @tool
        async def hang() -> str:
            self.entered.set()
            await asyncio.Event().wait()
            return ""

        return [cancel_order, order, look, note, fail, hang]


def chain(*nodes: dict[str, Json], **more: Json) -> dict[str, Json]:
    return {"kind": "chain", "name": "orders", "nodes": list(nodes), **more}


def call(id: str, tool_id: str, /, **params: Json) -> dict[str, Json]:
    return {"id": id, "type": "tool", "tool": tool_id, "params": params}


def last(ending: str) -> dict[str, Json]:
    if ending == "rejected":
        return {"id": "ask", "type": "wait", "approval": "Pay?"}
    return call("last", {"failed": "fail", "stopped": "hang", "timeout": "hang", "completed": "look"}[ending], **(
        {"item": "x"} if ending == "completed" else {}
    ))  # fmt: skip


def composed(ending: str) -> dict[str, Json]:
    """A composition: a map of calls, then how it ends."""
    end = {"id": "last", "type": "tool", "tool": {"failed": "fail", "completed": "look"}.get(ending, "hang")}
    if ending in ("failed", "completed", "stopped", "timeout"):
        end["inputMapping"] = {"item": "x"} if ending == "completed" else {}
    nodes = [
        {"id": "listed", "type": "map", "tool": "order", "inputMapping": {"item": "$item"}, "concurrency": 1},
        end,
    ]
    more = {"timeout": 500} if ending == "timeout" else {}
    return {"kind": "composition", "name": "orders", "nodes": nodes, **more}


def in_plan(ending: str) -> dict[str, Json]:
    end = {
        "failed": "await fail()",
        "stopped": "await hang()",
        "timeout": "await asyncio.wait_for(hang(), 0.2)",
        "completed": "await look(item='x')",
        "rejected": "await approve('Pay?')\n'paid'",
    }[ending]
    code = f"import asyncio\nawait order(item='a')\nfor x in ['b', 'c']:\n    await order(item=x)\n{end}\n"
    return {"kind": "plan", "code": code}


NOTATIONS: dict[str, Callable[[str], Any]] = {
    "chain": lambda ending: chain(
        call("a", "order", item="a"),
        {"id": "each", "type": "loop", "items": ["b", "c"], "nodes": [call("one", "order", item="$item")]},
        last(ending),
        **({"timeout": 300} if ending == "timeout" else {}),
    ),
    "composition": composed,
    "plan": in_plan,
}
INPUTS: dict[str, Any] = {"composition": ["a", "b", "c"]}
STORES = ("memory", "sqlite")


def address(kind: str, folder: Path) -> str:
    return "memory" if kind == "memory" else f"sqlite:///{folder / 'runs.db'}"


async def run_to(app: App, shop: Shop, definition: Any, ending: str, input: Any = None) -> str:
    """Run a definition to one kind of ending; return the id of the run."""
    run_id = new_run_id()
    running = asyncio.create_task(app.run(definition, input, run_id=run_id))
    if ending == "stopped":
        hangs = asyncio.create_task(shop.entered.wait())
        await asyncio.wait({hangs, running}, return_when=asyncio.FIRST_COMPLETED)
        app.runs.stop(run_id)
        hangs.cancel()
    if ending == "rejected":
        await until(lambda: running.done() or (app.store.get_run(run_id) and app.runs.waiting(run_id)))
        if not running.done():
            app.runs.approve(run_id, approved=False)
    outcome = await running
    assert outcome.status == {"rejected": "failed", "timeout": outcome.status}.get(ending, ending), outcome
    return run_id


ENDINGS = ("failed", "stopped", "timeout", "rejected", "completed")


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize(
    ("notation", "ending"),
    # A composition has no approvals.
    [case for case in itertools.product(NOTATIONS, ENDINGS) if case != ("composition", "rejected")],
)
async def test_finished_steps_are_undone_in_reverse(notation: str, kind: str, ending: str, tmp_path: Path) -> None:
    shop = Shop()
    async with App(address(kind, tmp_path), tools=shop.tools()) as app:
        run_id = await run_to(app, shop, NOTATIONS[notation](ending), ending, INPUTS.get(notation))
        made = list(shop.book)
        report = await app.runs.undo(run_id)
        assert sorted(made) == ["order a", "order b", "order c"]
        assert shop.book == [*made, *(line.replace("order ", "cancel o-") for line in reversed(made))]
        assert report["status"] == "undone"
        assert not report["left"]
        assert [step["args"]["id"] for step in report["undone"]] == [f"o-{line[6:]}" for line in reversed(made)]
        # An undo is not repeated, and the run shows it.
        assert (await app.runs.undo(run_id))["status"] == "undone"
        assert len(shop.book) == 6
        shown = app.runs.get(run_id)
        assert shown is not None
        assert shown["undo"]["undoRun"] == f"{run_id}~undo"


@pytest.mark.parametrize("kind", STORES)
async def test_a_failing_undo_is_left_and_continued(kind: str, tmp_path: Path) -> None:
    shop = Shop()
    shop.broken.add("o-b")
    definition = chain(*(call(x, "order", item=x) for x in "abc"), call("f", "fail"))
    async with App(address(kind, tmp_path), tools=shop.tools()) as app:
        app.context.undo = type(app.context.undo)(attempts=2, delay=0.01)
        run_id = await run_to(app, shop, definition, "failed")
        report = await app.runs.undo(run_id)
        assert report["status"] == "incomplete"
        assert [step["path"] for step in report["undone"]] == ["c"]
        assert [step["path"] for step in report["left"]] == ["b", "a"]
        assert "with the carrier" in report["left"][0]["error"]
        assert shop.book[3:] == ["cancel o-c"]
        shop.broken.clear()
        report = await app.runs.undo(run_id)
        assert report["status"] == "undone"
        assert [step["path"] for step in report["undone"]] == ["c", "b", "a"]
        assert shop.book[3:] == ["cancel o-c", "cancel o-b", "cancel o-a"]


async def test_a_fork_repeats_only_undone_steps_and_those_after_them(tmp_path: Path) -> None:
    shop = Shop()
    shop.broken.add("o-b")
    definition = chain(*(call(x, "order", item=x) for x in "abc"), call("l", "look", item="x"), call("f", "fail"))
    async with App(address("sqlite", tmp_path), tools=shop.tools()) as app:
        app.context.undo = type(app.context.undo)(attempts=1)
        run_id = await run_to(app, shop, definition, "failed")
        other = await app.runs.fork(run_id)
        assert (await app.runs.undo(run_id))["status"] == "incomplete"
        # The undo of b failed, and that of a was not called: both orders are still there.
        fork = await app.runs.fork(run_id)
        assert shop.book == ["order a", "order b", "order c", "cancel o-c", "order c"]
        # So it is for a run that shares the calls.
        await app.runs.fork(other.run_id)
        assert shop.book[5:] == ["order c"]
        report = await app.runs.undo(fork.run_id)
        assert [step["path"] for step in report["undone"]] == ["c"]
        left = {step["path"]: step["reason"] for step in report["notUndoable"] if "undoRun" in step}
        assert left == dict.fromkeys("ab", f"left by the undo in run {run_id}, by run {run_id}~undo")
        shop.broken.clear()
        assert (await app.runs.undo(run_id))["status"] == "undone"
        assert shop.book[6:] == ["cancel o-c", "cancel o-b", "cancel o-a"]
        await app.runs.fork(run_id)
        assert shop.book[9:] == ["order a", "order b", "order c"]


@pytest.mark.parametrize("kind", STORES)
async def test_what_cannot_be_undone_is_listed(kind: str, tmp_path: Path) -> None:
    shop = Shop()
    definition = chain(
        call("l", "look", item="x"), call("n", "note", text="hi"), call("a", "order", item="a"), call("f", "fail")
    )
    async with App(address(kind, tmp_path), tools=shop.tools()) as app:
        run_id = await run_to(app, shop, definition, "failed")
        report = await app.runs.undo(run_id)
        assert report["notUndoable"] == [
            {"path": "l", "tool": "look", "reason": "it only reads"},
            {"path": "n", "tool": "note", "reason": "it has no undo"},
        ]


@pytest.mark.parametrize("kind", STORES)
async def test_the_policy_undoes_a_run_that_fails(kind: str, tmp_path: Path) -> None:
    shop = Shop()
    async with App(address(kind, tmp_path), tools=shop.tools()) as app:
        events: list[Event] = []
        outcome = await app.run(
            chain(call("a", "order", item="a"), call("f", "fail")), undo="on_failure", on_event=events.append
        )
        assert outcome.status == "failed"
        assert shop.book == ["order a", "cancel o-a"]
        undone: Any = outcome["undo"]
        assert undone["status"] == "undone"
        assert undone["policy"] == "on_failure"
        assert {event.run_id for event in events} == {outcome.run_id, f"{outcome.run_id}~undo"}
        # Without a step to undo there is nothing to do, and the run can be retried.
        outcome = await app.run(chain(call("f", "fail")), undo="on_failure")
        assert app.store.get_run(outcome.run_id).undo == ""  # type: ignore[union-attr]
        assert app.store.undo_due() == []
        await app.run(chain(call("a", "order", item="b")), undo="on_failure")
        assert shop.book == ["order a", "cancel o-a", "order b"]


async def test_a_wrong_policy_is_refused() -> None:
    async with App("memory", tools=Shop().tools()) as app:
        with pytest.raises(InvalidInput, match="on_failure"):
            await app.run(chain(call("f", "fail")), undo="on_fail")  # type: ignore[arg-type]


async def test_an_undone_run_is_not_continued(tmp_path: Path) -> None:
    shop = Shop()
    async with App(address("sqlite", tmp_path), tools=shop.tools()) as app:
        run_id = await run_to(app, shop, chain(call("a", "order", item="a"), call("l", "note", text="x"),
                                               call("f", "fail")), "failed")  # fmt: skip
        await app.runs.undo(run_id)
        with pytest.raises(RunUndone, match="fork"):
            await app.runs.retry(run_id)
        with pytest.raises(RunUndone):
            await app.store.reopen(run_id, again=True)
        with pytest.raises(NothingToUndo, match="is the undo of"):
            await app.runs.undo(f"{run_id}~undo")
        assert (await app.resume(run_id)).status == "failed"
        # A fork makes the undone call again, and is undone on its own.
        shop.book.clear()
        fork = await app.runs.fork(run_id)
        assert shop.book == ["order a"]
        await app.runs.undo(fork.run_id)
        assert shop.book == ["order a", "cancel o-a"]


async def test_a_fork_that_waits_is_not_continued_without_the_calls_that_it_shares(tmp_path: Path) -> None:
    shop = Shop()
    async with App(address("sqlite", tmp_path), tools=shop.tools()) as app:
        first = call("a", "order", item="a")
        run_id = await run_to(app, shop, chain(first, call("f", "fail")), "failed")
        fork = await app.runs.fork(run_id, definition=chain(first, last("rejected")), park=True)
        assert fork.status == "waiting"
        await app.runs.undo(run_id)
        app.runs.approve(fork.run_id)
        with pytest.raises(RunUndone, match=f"run {fork.run_id} is undone by run {run_id}~undo"):
            await app.resume(fork.run_id)
        row = app.store.get_run(fork.run_id)
        assert row is not None
        assert (row.epoch, row.ended_at, shop.book) == (1, None, ["order a", "cancel o-a"])


async def test_a_call_that_two_forks_share_is_undone_once_in_whichever_run(tmp_path: Path) -> None:
    shop = Shop()
    async with App(address("sqlite", tmp_path), tools=shop.tools()) as app:
        pair = {**chain(call("x", "order", item="x")), "name": "pair"}
        app.toolbox.register(app.as_tool(pair))
        first = chain(call("a", "order", item="a"), call("p", "pair"), call("f", "fail"))
        run_id = await run_to(app, shop, first, "failed")
        fork = await app.runs.fork(run_id)
        other = await app.runs.fork(fork.run_id)
        assert shop.book == ["order a", "order x"]
        report = await app.runs.undo(other.run_id)
        assert [(step["path"], step["madeBy"]) for step in report["undone"]] == [("p/x", run_id), ("a", run_id)]
        assert shop.book[2:] == ["cancel o-x", "cancel o-a"]
        for shared in (run_id, fork.run_id):
            with pytest.raises(NothingToUndo, match=f"undone already in run {other.run_id}"):
                await app.runs.undo(shared)
            # What it recorded no longer holds.
            with pytest.raises(RunUndone, match=f"by run {other.run_id}~undo"):
                await app.runs.retry(shared)
            shown = app.runs.get(shared)
            assert shown is not None
            assert (shown["undo"]["status"], shown["undo"]["undone"]) == ("none", [])
            elsewhere = [(step["path"], step["undoRun"]) for step in shown["undo"]["notUndoable"]]
            assert sorted(elsewhere) == [("a", f"{other.run_id}~undo"), ("p/x", f"{other.run_id}~undo")]
        assert len(shop.book) == 4
        again = await app.runs.fork(run_id)
        assert shop.book[4:] == ["order a", "order x"]
        assert (await app.runs.undo(again.run_id))["status"] == "undone"
        assert shop.book[6:] == ["cancel o-x", "cancel o-a"]


async def test_the_policy_of_a_fork_leaves_the_calls_of_its_run_alone(tmp_path: Path) -> None:
    shop = Shop()
    async with App(address("sqlite", tmp_path), tools=shop.tools()) as app:
        kept = chain(call("a", "order", item="a"), call("b", "look", item="x"))
        run_id = await run_to(app, shop, kept, "completed")
        changed = chain(
            call("a", "order", item="a"), call("c", "order", item="c"), call("f", "fail"), undo="on_failure"
        )
        fork = await app.runs.fork(run_id, definition=changed)
        assert fork.status == "failed"
        assert shop.book == ["order a", "order c", "cancel o-c"]
        assert (await app.runs.undo(run_id))["status"] == "undone"
        assert shop.book[3:] == ["cancel o-a"]


async def test_a_repeated_call_is_undone_as_often_as_it_took_effect(tmp_path: Path) -> None:
    shop = Shop()
    numbers = iter(range(9))

    @tool
    async def give_back(number: int) -> str:
        shop.book.append(f"give back {number}")
        return ""

    @tool(undo=Undo("give_back", {"number": "$result"}))
    async def draw() -> int:
        number = next(numbers)
        shop.book.append(f"draw {number}")
        return number

    async with App(address("sqlite", tmp_path), tools=[*shop.tools(), draw, give_back]) as app:
        run_id = await run_to(app, shop, chain(call("d", "draw"), call("f", "fail")), "failed")
        await app.runs.retry(run_id, ["d"])
        assert shop.book == ["draw 0", "draw 1"]
        await app.runs.undo(run_id)
        assert shop.book == ["draw 0", "draw 1", "give back 1", "give back 0"]


@pytest.mark.parametrize("kind", STORES)
async def test_steps_of_inner_flows_are_undone_in_their_order(kind: str, tmp_path: Path) -> None:
    shop = Shop()
    async with App(address(kind, tmp_path), tools=shop.tools()) as app:
        inner = {**chain(call("one", "order", item="x"), call("two", "order", item="y")), "name": "pair"}
        app.toolbox.register(app.as_tool(inner))
        outer = chain(call("a", "order", item="a"), call("p", "pair"), call("b", "order", item="b"), call("f", "fail"))
        run_id = await run_to(app, shop, outer, "failed")
        assert shop.book == ["order a", "order x", "order y", "order b"]
        report = await app.runs.undo(run_id)
        assert shop.book[4:] == ["cancel o-b", "cancel o-y", "cancel o-x", "cancel o-a"]
        assert [step["path"] for step in report["undone"]] == ["b", "p/two", "p/one", "a"]
        part = app.store.list_runs(parent=run_id)[0]
        with pytest.raises(PartOfRun):
            await app.runs.undo(part.id)


async def test_the_undo_of_a_flow_covers_its_steps() -> None:
    shop = Shop()

    @tool
    async def drop_pair() -> str:
        shop.book.append("drop pair")
        return ""

    async with App("memory", tools=[*shop.tools(), drop_pair]) as app:
        inner = {**chain(call("one", "order", item="x")), "name": "pair"}
        app.toolbox.undos["pair"] = Undo("drop_pair")
        app.toolbox.register(app.as_tool(inner))
        run_id = await run_to(app, shop, chain(call("p", "pair"), call("f", "fail")), "failed")
        await app.runs.undo(run_id)
        assert shop.book == ["order x", "drop pair"]


async def test_arguments_follow_from_names_without_a_mapping() -> None:
    shop = Shop()

    @tool
    async def unbook(seat: int, name: str) -> str:
        shop.book.append(f"unbook {seat} {name}")
        return ""

    @tool(undo=unbook)
    async def book(name: str, extra: int = 1) -> dict[str, Json]:
        return {"seat": 7, "other": 1}

    async with App("memory", tools=[*shop.tools(), book, unbook]) as app:
        run_id = await run_to(app, shop, chain(call("b", "book", name="Ann"), call("f", "fail")), "failed")
        await app.runs.undo(run_id)
        assert shop.book == ["unbook 7 Ann"]


async def test_only_an_ended_run_is_undone() -> None:
    shop = Shop()
    async with App("memory", tools=shop.tools()) as app:
        run_id = new_run_id()
        running = asyncio.create_task(app.run(chain(call("a", "order", item="a"), call("h", "hang")), run_id=run_id))
        await shop.entered.wait()
        with pytest.raises(NothingToUndo, match="stop"):
            await app.runs.undo(run_id)
        app.runs.stop(run_id)
        await running
        assert (await app.runs.undo(run_id))["status"] == "undone"


# --- the check ---------------------------------------------------------------------------------


def flow_with(undo: Json) -> dict[str, Json]:
    """A flow of one call with this undo, as JSON of the codec."""
    op = {"kind": "Call", "tool": "order", "args": {"lit": {"item": "a"}}, "undo": undo}
    return {"kind": "flow", "ropewalk": 1, "name": "f", "body": 0, "regions": [{"nodes": [{"id": "a", "op": op}]}]}


def undo_with(**args: Json) -> dict[str, Json]:
    return {"tool": "cancel_order", "args": {"obj": [[name, value] for name, value in args.items()]}}


@pytest.mark.parametrize(
    ("undo", "path", "message"),
    [
        ({"tool": "cancel_ordr"}, "a.op.undo.tool", "did you mean cancel_order"),
        (undo_with(id={"ref": ["input", "x"]}), "undo", "can read only $args and $result of the call that it undoes"),
        (undo_with(id={"lit": 7}), "undo.args.id", "must be"),
        (undo_with(), "undo.args", "required argument 'id'"),
        (undo_with(id={"lit": "x"}, other={"lit": 1}), "undo.args.other", "unknown argument"),
        (undo_with(id={"ref": ["args", "itm"]}), "undo.args.id", "has no 'itm'"),
    ],
)
async def test_a_wrong_undo_of_a_call_is_a_problem(undo: Json, path: str, message: str) -> None:
    async with App("memory", tools=Shop().tools()) as app:
        with pytest.raises(InvalidFlow) as caught:
            await app.run(flow_with(undo))
        problem = caught.value.problems[0]
        assert path.removeprefix("a.op.") in problem.path, problem
        assert message in str(problem)


async def test_a_wrong_undo_of_a_tool_is_a_problem_at_the_tool() -> None:
    class Order(dict[str, str]): ...

    @tool(undo=Undo("cancel_order", {"id": "$args.id"}))
    async def order(item: str) -> dict[str, str]:
        return {}

    tools = [each for each in Shop().tools() if each.__name__ != "order"]
    async with App("memory", tools=[*tools, order]) as app:
        with pytest.raises(InvalidFlow) as caught:
            await app.run(chain(call("a", "order", item="a")))
        [problem] = caught.value.problems
        assert problem.path == "nodes[0].tool"
        assert "the undo of tool 'order'" in problem.message
        assert "has no 'id'" in problem.message


async def test_an_undo_of_a_call_replaces_that_of_the_tool() -> None:
    shop = Shop()
    undo = {"tool": "note", "args": {"obj": [["text", {"ref": ["args", "item"]}]]}}
    async with App("memory", tools=shop.tools()) as app:
        outcome = await app.run(flow_with(undo))
        report = await app.runs.undo(outcome.run_id)
        assert report["undone"][0]["tool"] == "note"
        assert report["undone"][0]["args"] == {"text": "a"}
        assert shop.book == ["order a"]


async def test_a_chain_sets_the_undo_of_a_call_and_keeps_it_when_converted() -> None:
    shop = Shop()
    node = {
        **call("a", "note", text="hi"),
        "undo": {"tool": "cancel_order", "args": {"id": "${$args.text}-${$result}"}},
    }
    definition = chain(node, {**call("b", "order", item="b"), "undo": "note"}, call("f", "fail"))
    async with App("memory", tools=shop.tools()) as app:
        again = app.convert(app.convert(definition, "flow"), "chain")
        assert [each.get("undo") for each in again["nodes"]] == [node["undo"], "note", None]
        node["undo"] = {"tool": "cancel_order", "args": {"id": "$result.x"}}
        with pytest.raises(InvalidFlow) as caught:
            await app.run(definition)
        assert {problem.path for problem in caught.value.problems} == {"nodes[0].undo.args.id"}
        node["undo"] = {"tool": "cancel_order", "args": {"id": "${$args.text}-${$result}"}}
        run_id = await run_to(app, shop, chain(node, call("f", "fail")), "failed")
        await app.runs.undo(run_id)
        assert shop.book == ["cancel hi-hi"]


@pytest.mark.parametrize(
    "undo", [7, {"tool": 1}, {"tol": "x"}, {"tool": "note", "args": []}, {"tool": "note", "args": {"text": "$input"}}]
)
async def test_a_wrong_undo_of_a_chain_is_refused_at_its_place(undo: Json) -> None:
    async with App("memory", tools=Shop().tools()) as app:
        with pytest.raises(InvalidFlow) as caught:
            await app.run(chain({**call("a", "note", text="hi"), "undo": undo}))
        assert all(problem.path.startswith("nodes[0].undo") for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("undo", "message"),
    [
        (lambda: Undo("x", {"id": "$input.x"}), "known: \\$args, \\$result"),
        (lambda: Undo("x", {"id": "${result.id +}"}), "undo:"),
        (lambda: Undo("x", {"id": object()}), "undo"),
        (lambda: Undo(7), "must be a function or the id of a tool"),
    ],
)
def test_a_malformed_undo_is_refused_where_it_is_written(undo: Callable[[], Undo], message: str) -> None:
    with pytest.raises(InvalidTool, match=message):
        undo()


async def test_a_result_sets_no_optional_parameter_of_the_undo() -> None:
    dropped: list[dict[str, Any]] = []

    @tool
    def drop(path: str, recursive: bool = False) -> None:
        """Delete a file."""
        dropped.append({"path": path, "recursive": recursive})

    @tool(undo=drop)
    def upload(name: str) -> dict[str, Any]:
        """Upload a file, as a remote server answers."""
        return {"path": name, "recursive": True}

    async with App("memory", tools=[drop, upload]) as app:
        nodes = [{"id": "a", "type": "tool", "tool": "upload", "params": {"name": "mine.txt"}}]
        outcome = await app.run({"kind": "chain", "name": "x", "nodes": nodes})
        await app.runs.undo(outcome.run_id)
    assert dropped == [{"path": "mine.txt", "recursive": False}]

"""The five operations on plans, from Python: find tools, check, run, resume, save."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, TypedDict

import pytest

from ropewalk import App, tool
from ropewalk.config.settings import PlanSettings
from ropewalk.errors import InvalidInput, RunEnded

pytestmark = pytest.mark.anyio


class Person(TypedDict):
    """What `user` gives."""

    id: int
    name: str


class Shop:
    """Tools with every kind of effect, and the calls that were made."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.broken: set[int] = set()

    def tools(self) -> list[Any]:
        @tool(annotations={"readOnlyHint": True})
        async def get_order(id: int) -> dict[str, Any]:
            """Look up an order by its number."""
            self.calls.append(("get_order", id))
            if id in self.broken:
                raise ValueError(f"no order {id}")
            return {"id": id, "total": id * 10.5}

        @tool
        async def note(order: int, text: str) -> str:
            """Write a note on an order."""
            self.calls.append(("note", [order, text]))
            return f"{order}: {text}"

        @tool(annotations={"destructiveHint": True})
        async def cancel_order(id: int, reason: str = "none") -> bool:
            """Cancel an order. This cannot be undone."""
            self.calls.append(("cancel_order", id))
            return True

        return [get_order, note, cancel_order]


@pytest.fixture
def shop() -> Shop:
    return Shop()


def open_app(shop: Shop, path: Path, **plans: Any) -> App:
    app = App(f"sqlite:///{path / 'runs.db'}", tools=shop.tools())
    app.context.plans = PlanSettings(**plans)
    return app


LOOP = """
done = []
for id in [1, 2, 3]:
    order = await get_order(id=id)
    done.append(await note(order=order.id, text="seen"))
return done
"""


async def test_find_tools_gives_python_stubs(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        answer: Any = await app.plans.find_tools("cancel an order", 2)
    assert answer["tools"][0] == {"name": "cancel_order", "effect": "destructive", "score": answer["tools"][0]["score"]}
    functions = [node for node in ast.parse(answer["stubs"]).body if isinstance(node, ast.AsyncFunctionDef)]
    assert len(functions) == 2
    assert ast.unparse(functions[0].args) == "*, id: int, reason: str='none'"
    assert "cannot be undone" in str(ast.get_docstring(functions[0]))


async def test_find_tools_answers_several_queries_and_shortens_the_rest(shop: Shop, tmp_path: Path) -> None:
    @tool
    async def refund(order: int, amount: float) -> bool:
        """Pay money back for an order. It takes days."""
        return True

    async with open_app(shop, tmp_path) as app:
        app.toolbox.register(refund)
        answer: Any = await app.plans.find_tools(queries=["cancel order", "pay money back"])
        named: Any = await app.plans.find_tools("note", 1)
    assert [row["name"] for row in answer["tools"]][:2] == ["cancel_order", "refund"]
    assert {query: names[0] for query, names in answer["queries"].items()} == {
        "cancel order": "cancel_order",
        "pay money back": "refund",
    }
    assert len([node for node in ast.parse(answer["stubs"]).body if isinstance(node, ast.AsyncFunctionDef)]) == 3
    [line] = [line for line in answer["stubs"].split("\n") if line.startswith("# write: ") or "read: " in line]
    assert re.fullmatch(r"# (write|read): (note\(order, text\)|get_order\(id\)): .+", line)
    assert "async def note(" in named["stubs"]


async def test_find_tools_lists_each_of_two_tools_with_one_name_in_python(shop: Shop, tmp_path: Path) -> None:
    @tool(namespace="gh", name="get-issue")
    async def old() -> int:
        """Get an issue."""
        return 1

    @tool(namespace="gh", name="get_issue")
    async def new() -> int:
        """Read one issue."""
        return 2

    async with open_app(shop, tmp_path) as app:
        app.toolbox.register(old)
        app.toolbox.register(new)
        found = {id: await app.plans.find_tools(id, 2) for id in ("gh:get-issue", "gh:get_issue")}
    docstrings = {id: re.findall(r'"""(.+?)\.?"""', str(answer["stubs"])) for id, answer in found.items()}
    assert docstrings == {
        "gh:get-issue": ["Get an issue", "Read one issue"],
        "gh:get_issue": ["Read one issue", "Get an issue"],
    }


async def test_find_tools_refuses_nonsense(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        for request, limit in (("", 3), ("x", 0), ("x", True)):
            with pytest.raises(InvalidInput):
                await app.plans.find_tools(request, limit)


async def test_check_plan_gives_the_facts(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        answer: Any = await app.plans.check_plan(LOOP)
    assert answer["ok"]
    assert shop.calls == []
    facts = answer["facts"]
    assert [(row["tool"], row["effect"], row["calls"]) for row in facts["tools"]] == [
        ("get_order", "read", 3),
        ("note", "write", 3),
    ]
    assert (facts["maxCalls"], facts["loops"], facts["effect"]) == (6, [], "write")
    assert "get_order" in answer["graph"]


async def test_a_loop_over_an_input_has_no_static_bound(shop: Shop, tmp_path: Path) -> None:
    code = "for id in ids:\n    await get_order(id=id)\nwait = await wait_for('paid')\n"
    async with open_app(shop, tmp_path) as app:
        answer: Any = await app.plans.check_plan(code, {"ids": [1]})
    facts = answer["facts"]
    assert facts["maxCalls"] is None
    assert [(loop["at"], loop["limit"]) for loop in facts["loops"]] == [("code:1:1", None)]
    assert facts["waits"][0]["event"] == "paid"


async def test_the_configuration_decides_the_effect(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path, effects={"note": "destructive", "get_*": "write"}) as app:
        answer: Any = await app.plans.check_plan(LOOP)
    assert [row["effect"] for row in answer["facts"]["tools"]] == ["write", "destructive"]


@pytest.mark.parametrize(
    ("code", "line", "column", "words"),
    [
        ("x = 1\ny = await get_ordr(id=x)", 2, 11, "did you mean get_order"),
        ("await get_order(idd=1)", 1, 17, "no parameter 'idd'"),
        ("x = 'a'\nawait get_order(id='b')", 2, 20, "integer"),
        ("if True\n    pass", 1, 8, "SyntaxError"),
    ],
)
async def test_problems_have_line_column_and_caret(
    shop: Shop, tmp_path: Path, code: str, line: int, column: int, words: str
) -> None:
    async with open_app(shop, tmp_path) as app:
        checked: Any = await app.plans.check_plan(code)
        ran: Any = await app.plans.run_plan("await note(order=1, text='x')\n" + code)
    [problem] = checked["problems"]
    assert (problem["line"], problem["column"]) == (line, column)
    assert words in problem["message"]
    shown = problem["text"].split("\n")
    assert shown[1].strip() == code.split("\n")[line - 1].strip()
    assert shown[2].index("^") - 4 == column - 1
    assert ran["status"] == "invalid"
    assert shop.calls == []


async def test_run_plan_gives_the_result(shop: Shop, tmp_path: Path) -> None:
    seen: list[str] = []
    async with open_app(shop, tmp_path) as app:
        answer = await app.plans.run_plan(LOOP, on_event=lambda event: seen.append(event.kind))
        listed = app.runs.get(str(answer["runId"]))
    assert answer["status"] == "completed"
    assert answer["result"] == ["1: seen", "2: seen", "3: seen"]
    assert len(shop.calls) == 6
    assert seen.count("node.finished") >= 6
    assert listed is not None


async def test_a_failed_run_names_the_line_and_keeps_the_partial_results(shop: Shop, tmp_path: Path) -> None:
    shop.broken = {3}
    async with open_app(shop, tmp_path) as app:
        answer: Any = await app.plans.run_plan(LOOP)
        assert answer["status"] == "failed"
        assert answer["error"]["line"] == 4
        assert answer["error"]["text"] == "order = await get_order(id=id)"
        assert "no order 3" in answer["error"]["message"]
        assert [row["value"] for row in answer["partial"] if row["tool"] == "note"] == ["1: seen", "2: seen"]
        shop.broken, before = set(), len(shop.calls)
        again = await app.plans.resume_run(str(answer["runId"]))
    assert again["result"] == ["1: seen", "2: seen", "3: seen"]
    assert [name for name, _ in shop.calls[before:]] == ["get_order", "note"]


@pytest.mark.parametrize("limit", [0, 1, 4])
async def test_the_budget_of_calls_is_never_exceeded(shop: Shop, tmp_path: Path, limit: int) -> None:
    async with open_app(shop, tmp_path) as app:
        answer: Any = await app.plans.run_plan(LOOP, budget={"calls": limit})
        assert answer["status"] == "failed"
        assert "budget" in answer["error"]["message"]
        assert len(shop.calls) == limit
        await app.plans.resume_run(answer["runId"])
        assert len(shop.calls) == limit
        answer = await app.plans.run_plan(LOOP, budget={"calls": 6})
        assert answer["status"] == "completed"


async def test_a_gather_stays_within_the_budget(shop: Shop, tmp_path: Path) -> None:
    code = "return await asyncio.gather(*[get_order(id=i) for i in range(8)], return_exceptions=True)"
    async with open_app(shop, tmp_path) as app:
        await app.plans.run_plan(code, budget={"calls": 3})
    assert len(shop.calls) == 3


async def test_the_budget_covers_inner_flows(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        await app.plans.save_plan("mark", LOOP, "Mark the orders.")
        answer = await app.plans.run_plan("await plans.mark()\nawait plans.mark()", budget={"calls": 5})
    assert answer["status"] == "failed"
    assert len(shop.calls) == 4


async def test_a_budget_of_seconds_ends_the_run(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        answer = await app.plans.run_plan("await asyncio.sleep(30)\nawait get_order(id=1)", budget={"seconds": 0.2})
        with pytest.raises(InvalidInput):
            await app.plans.run_plan("1", budget={"calls": -1, "weeks": 3})
    assert answer["status"] in ("failed", "timeout")
    assert shop.calls == []


CANCEL = """
order = await get_order(id=7)
ok = await cancel_order(id=order.id, reason="late")
return [order.id, ok]
"""


async def test_a_destructive_call_waits_and_the_approval_is_bound_to_its_arguments(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        plans = app.plans.for_models()
        answer: Any = await plans.run_plan(CANCEL)
        assert answer["status"] == "waiting"
        [wait] = answer["waitingFor"]
        assert 'cancel_order with {"id": 7, "reason": "late"}' in wait["approval"]
        mark = wait["approval"].rpartition("[")[2].rstrip("]")
        with pytest.raises(InvalidInput):
            await plans.resume_run(answer["runId"], {"approved": True, "digest": "0" * 16})
        assert [name for name, _ in shop.calls] == ["get_order"]
        done = await plans.resume_run(answer["runId"], {"approved": True, "digest": mark}, by="ann")
        assert done["result"] == [7, True]
        assert [name for name, _ in shop.calls] == ["get_order", "cancel_order"]
        with pytest.raises(RunEnded):
            await plans.resume_run(answer["runId"], {"approved": True})


async def test_a_refused_call_is_not_made(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        answer: Any = await app.plans.for_models().run_plan(CANCEL)
        done: Any = await app.plans.resume_run(answer["runId"], {"approved": False, "note": "keep it"}, by="bob")
    assert done["status"] == "failed"
    assert "keep it" in done["error"]["message"]
    assert done["error"]["line"] == 3
    assert [name for name, _ in shop.calls] == ["get_order"]


async def test_a_persons_own_program_asks_nothing(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        answer = await app.plans.run_plan(CANCEL)
    assert answer["status"] == "completed"


async def test_an_inner_flow_that_destroys_is_asked_about(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        chain = {
            "kind": "chain",
            "name": "drop",
            "nodes": [{"id": "x", "type": "tool", "tool": "cancel_order", "params": {"id": 9}}],
        }
        app.toolbox.register(app.as_tool(chain))
        answer: Any = await app.plans.for_models().run_plan("await drop()")
    assert answer["status"] == "waiting"
    assert shop.calls == []


async def test_corrected_code_takes_what_fits_from_the_record(shop: Shop, tmp_path: Path) -> None:
    code = "a = await get_order(id=1)\nb = await note(order=a.id, text='x')\nreturn a.nothing"
    async with open_app(shop, tmp_path) as app:
        failed: Any = await app.plans.run_plan(code)
        assert failed["status"] == "failed"
        assert failed["error"]["line"] == 3
        fixed = "# corrected\n" + code.replace("a.nothing", "[b, a.total]")
        done = await app.plans.resume_run(failed["runId"], code=fixed)
    assert done["status"] == "completed"
    assert done["result"] == ["1: x", 10.5]
    assert [name for name, _ in shop.calls] == ["get_order", "note"]
    assert done["corrects"] == failed["runId"]


@pytest.mark.parametrize(
    ("fixed", "changed"),
    [
        ("await note(order=1, text='y')", {"tool": "note", "arguments": {"order": 1, "text": "y"}}),
        ("await get_order(id=1)", None),
        ("await cancel_order(id=1)", {"tool": "cancel_order", "arguments": {"id": 1}}),
    ],
)
async def test_a_recorded_write_that_no_longer_fits_stops_the_run(
    shop: Shop, tmp_path: Path, fixed: str, changed: Any
) -> None:
    async with open_app(shop, tmp_path) as app:
        failed = await app.plans.run_plan("await note(order=1, text='x')\nraise ValueError('no')")
        before = len(shop.calls)
        answer: Any = await app.plans.resume_run(str(failed["runId"]), code=fixed)
    assert answer["status"] == "conflict"
    assert answer["recorded"] == {"tool": "note", "line": 1, "effect": "write", "result": "1: x"}
    assert answer["changed"] == changed
    assert [name for name, _ in shop.calls[before:]] == (["get_order"] if changed is None else [])


async def test_corrected_code_keeps_an_approval_of_the_same_arguments(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        plans = app.plans.for_models()
        waiting: Any = await plans.run_plan(CANCEL.replace("[order.id", "[order.x"))
        failed: Any = await plans.resume_run(waiting["runId"], {"approved": True}, by="ann")
        assert failed["status"] == "failed"
        done = await plans.resume_run(failed["runId"], code=CANCEL)
    assert done["status"] == "completed"
    assert done["result"] == [7, True]
    assert [name for name, _ in shop.calls] == ["get_order", "cancel_order"]


async def test_a_large_result_is_a_handle_that_a_later_plan_reads(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path, max_result=200) as app:
        answer: Any = await app.plans.run_plan("return [i for i in range(500)]")
        handle = answer["result"]
        assert (handle["type"], handle["$value"]) == ("array", f"{answer['runId']}/result")
        assert handle["size"] > 1000
        assert handle["preview"].startswith("[0,1,2")
        later = await app.plans.run_plan(f"big = value({handle['$value']!r})\nreturn [len(big), big[-1]]")
        none = await app.plans.run_plan("return value('no-run/result')")
    assert later["result"] == [500, 499]
    assert none["status"] == "failed"


async def test_a_saved_plan_is_a_tool_with_schema_and_versions(shop: Shop, tmp_path: Path) -> None:
    code = "id: int\norder = await get_order(id=id)\nreturn order.total"
    async with open_app(shop, tmp_path) as app:
        saved: Any = await app.plans.save_plan("order_total", code, "Total price of an order.")
        assert (saved["tool"], saved["version"]) == ("plans:order_total", 1)
        assert saved["inputSchema"]["required"] == ["id"]
        again: Any = await app.plans.save_plan("order_total", code + " + 1", "Total price of an order.")
        assert again["version"] == 2
        bad: Any = await app.plans.save_plan("Bad Name", code, "x")
        assert bad["status"] == "invalid"
        wrong: Any = await app.plans.save_plan("wrong", "await nothing()", "x")
        assert wrong["status"] == "invalid"
        assert wrong["problems"][0]["line"] == 1
    async with open_app(shop, tmp_path) as later:  # another process finds it
        found: Any = await later.plans.find_tools("total price of an order", 1)
        assert found["tools"][0]["name"] == "plans.order_total"
        answer = await later.plans.run_plan("return await plans.order_total(id=4)")
    assert answer["result"] == 43.0


async def test_a_run_that_lost_its_process_keeps_its_budget(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        waiting: Any = await app.plans.run_plan(
            "await get_order(id=1)\nawait wait_for('go')\n" + LOOP, budget={"calls": 3}
        )
    async with open_app(shop, tmp_path) as later:
        answer: Any = await later.plans.resume_run(waiting["runId"], {"event": "go"})
    assert answer["status"] == "failed"
    assert len(shop.calls) == 3


async def test_the_type_of_a_recorded_value_is_known(tmp_path: Path) -> None:
    @tool
    async def user(id: int) -> Person:
        """Look up a person."""
        return {"id": id, "name": "Ann"}

    async with App(str(tmp_path / "runs.db"), tools=[user]) as app:
        run: Any = await app.plans.run_plan("person = await user(id=1)\nreturn person")
        for place in (f"{run['runId']}/result", f"{run['runId']}/program[0-1:16.1]/user"):
            wrong: Any = await app.plans.check_plan(f"x = 1\nreturn value({place!r}).nme")
            (problem,) = wrong["problems"]
            assert problem["line"] == 2
            assert "has no member 'nme'; it has: id, name; did you mean name?" in problem["message"]
            done: Any = await app.plans.run_plan(f"return value({place!r}).name.upper()")
            assert done["result"] == "ANN"
        unknown: Any = await app.plans.check_plan("return value('nothing/result').nme")
        assert unknown["ok"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"input": "x"}, ("input", "must be an object with the values that the program reads, by name")),
        ({"input": [1]}, ("input", "must be an object with the values that the program reads, by name")),
        ({"input": {1: 2}}, ("input", "object key 1 is int, not a string")),
        ({"input": {"\ud800": 2}}, ("input", "object key with a NUL character or a lone surrogate")),
        ({"approve": "x"}, ("approve", "must be one of: none, destructive, writes")),
    ],
)
async def test_wrong_arguments_are_named(
    shop: Shop, tmp_path: Path, arguments: dict[str, Any], problem: tuple[str, str]
) -> None:
    async with open_app(shop, tmp_path) as app:
        with pytest.raises(InvalidInput) as caught:
            await app.plans.run_plan("return 1", **arguments)
    assert [(item.path, item.message) for item in caught.value.problems] == [problem]


async def test_a_wrong_decision_is_named(shop: Shop, tmp_path: Path) -> None:
    wrong: Any = "yes"
    async with open_app(shop, tmp_path) as app:
        answer: Any = await app.plans.run_plan("return await approve('ok?')")
        with pytest.raises(InvalidInput) as caught:
            await app.plans.resume_run(answer["runId"], wrong)
    [problem] = caught.value.problems
    assert (problem.path, problem.message) == ("decision", "must be {approved: true or false} or {event, payload}")


@pytest.mark.parametrize("character", ["\0", "\ud800"])
async def test_a_character_that_no_program_has_is_a_problem_with_its_line(
    shop: Shop, tmp_path: Path, character: str
) -> None:
    code = f"x = 1\ny = '{character}'"
    async with open_app(shop, tmp_path) as app:
        checked: Any = await app.plans.check_plan(code)
        saved: Any = await app.plans.save_plan("a", code, "A plan.")
        validation: Any = await app.validate({"kind": "plan", "name": "a", "code": "x = '\0'"})
    for problems in (checked["problems"], saved["problems"]):
        [problem] = problems
        assert (problem["line"], problem["column"], character in problem["text"]) == (2, 6, False)
    assert [problem.path for problem in validation.problems] == ["code"]


async def test_yield_outside_of_a_function_is_a_problem(shop: Shop, tmp_path: Path) -> None:
    async with open_app(shop, tmp_path) as app:
        answer: Any = await app.plans.run_plan("for i in range(3):\n    yield i")
    [problem] = answer["problems"]
    assert (answer["status"], problem["line"], problem["column"]) == ("invalid", 2, 5)
    assert problem["message"].startswith("yield outside of a function")

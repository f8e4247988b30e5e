"""`@plan`: functions run as flows do what they do in Python, and what is wrong has its line in the Python file."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, InvalidFlow, plan, tool, transform
from ropewalk.errors import FlowFailed

from . import functions
from .functions import PLANS, Order, Total


async def by_python(function: Any, arguments: dict[str, Any]) -> Any:
    """Execute the function itself, in a module whose plans are plain functions."""
    scope = dict(vars(functions))
    for name, value in vars(functions).items():
        if hasattr(value, "function"):
            scope[name] = type(value.function)(
                value.function.__code__, scope, name, value.function.__defaults__, value.function.__closure__
            )
    return await scope[function.__name__](**arguments)


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_gives_what_python_gives(name: str) -> None:
    function, arguments = PLANS[name]

    async def both() -> tuple[Any, Any]:
        async with App("memory") as app:
            return (await app.run(function, arguments)).value, await by_python(function, arguments)

    got, wanted = asyncio.run(both())
    assert got == wanted
    assert type(got) is type(wanted)


def test_calling_a_plan_runs_it() -> None:
    assert asyncio.run(functions.total("it")) == Total(3, ["Ann", "Ann", "Bob"])

    async def inside() -> list[Any]:
        async with App("memory") as app:
            await functions.total("it")
            return [run.name for run in app.runs.list()]

    assert asyncio.run(inside()) == ["total"]


@tool
async def refuse(n: int) -> int:
    """Fail."""
    raise ValueError(f"no {n}")


@plan
async def divide(n: int) -> float:
    """Divide."""

    # The program has no docstring, no comment and no blank line before its first statement.

    if n:
        return await refuse(n)

    return 1 / n


@pytest.mark.parametrize(("n", "source"), [(0, "return 1 / n"), (2, "return await refuse(n)")])
def test_a_failure_of_a_plan_names_its_line_in_the_file(n: int, source: str) -> None:
    with pytest.raises(FlowFailed) as caught:
        asyncio.run(divide(n))
    lines = Path(__file__).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.strip() == source)
    trace = caught.value.trace
    assert trace is not None
    assert trace.text is not None
    assert f'test_plan_functions.py", line {line}\n    {source}\n' in trace.text
    if n:
        assert "in refuse\n" in trace.text
        assert trace.at is not None
        assert trace.at.endswith(" in refuse")
    else:
        assert str(caught.value).endswith(f"test_plan_functions.py:{line}: ZeroDivisionError: division by zero")


def test_the_signature_is_the_schema() -> None:
    async def made() -> Any:
        async with App("memory") as app:
            made = app.as_tool(functions.overspenders)
            app.toolbox.register(made)
            return made, await app.call_tool("overspenders", {"department": "sales"})

    made_tool, value = asyncio.run(made())
    assert made_tool.description == "Team members whose expenses exceed their limit."
    assert made_tool.input_schema == {
        "type": "object",
        "properties": {
            "department": {"type": "string", "description": "The department."},
            "quarter": {"type": "string", "default": "Q3"},
        },
        "required": ["department"],
        "additionalProperties": False,
    }
    assert made_tool.output_schema["items"]["required"] == ["name", "spent"]
    assert value == [{"name": "Ann", "spent": 230}]


def test_models_are_inputs() -> None:
    async def run() -> Any:
        async with App("memory") as app:
            order = Order(id=1, lines=["a", "b"])
            return (await app.run(functions.order_lines, {"order": order})).value, await functions.order_lines(order)

    assert asyncio.run(run()) == (["A", "B"], ["A", "B"])


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "wrong_names": [
            ('os.getenv("HOME")', "os.getenv is not a tool"),
            ("SEEN.append", "SEEN belongs to the module"),
        ],
        "wrong_call": [
            ("departmen=word", "get_team has no parameter 'departmen'"),
            ("missing", "'missing' is not def"),
        ],
        "wrong_helper": [("open(path)", "open is not supported")],
        "wrong_class": [("Namespace(word=word)", "the class Namespace is not known to plans; a plan has dicts")],
        "wrong_type": [("await get_team(3)", "must be a string")],
    }.items(),
)
def test_problems_name_the_line_of_the_file(name: str, expected: list[tuple[str, str]]) -> None:
    async def check() -> Any:
        async with App("memory") as app:
            return await app.validate(getattr(functions, name))

    found = asyncio.run(check()).problems
    file = inspect.getsourcefile(functions)
    lines = Path(str(file)).read_text().splitlines()
    assert len(found) == len(expected)
    for problem, (text, message) in zip(found, expected, strict=True):
        assert problem.place.file == file
        assert lines[problem.place.line - 1] == problem.place.text
        assert text in problem.place.text
        assert message in str(problem)
        if name == "wrong_call":
            assert problem.place.text[problem.place.column - 1 :].startswith(text)


def test_what_is_no_plan() -> None:
    with pytest.raises(InvalidFlow, match="@plan goes above an async def"):
        plan(3)  # type: ignore[call-overload]

    @plan  # type: ignore[arg-type]
    def plain(a: str) -> str:
        return a

    with pytest.raises(InvalidFlow, match="write async def plain"):
        App("memory").load(plain)


def test_a_failure_is_raised() -> None:
    @tool
    async def fails() -> int:
        """Fail."""
        raise ValueError("no such thing")

    @plan
    async def failing() -> int:
        return await fails()

    with pytest.raises(FlowFailed, match="no such thing") as caught:
        asyncio.run(failing())
    assert caught.value.status == "failed"


@pytest.mark.anyio
async def test_a_transform_runs_again_in_a_resumed_run_of_another_process(tmp_path: Path) -> None:
    calls: list[Any] = []

    @transform("doubled for a plan")
    def doubled(value: int) -> int:
        calls.append(value)
        return value * 2

    @plan
    async def waits(n: int) -> int:
        first = doubled(n)
        await wait_for("go")  # type: ignore[name-defined]  # noqa: F821
        return first + doubled(n)

    async with App(str(tmp_path / "runs.db")) as app:
        waiting = await app.run(waits, {"n": 2}, park=True)
    assert (waiting.status, calls) == ("waiting", [2])
    async with App(str(tmp_path / "runs.db")) as later:
        later.runs.send(waiting.run_id, "go")
        assert (await later.resume(waiting.run_id)).value == 8
    assert calls == [2, 2, 2]


@pytest.mark.anyio
async def test_programs_of_models_call_no_transforms() -> None:
    document = {"kind": "plan", "code": "return initials(['a'])", "transforms": {"initials": "first letters"}}
    async with App("memory") as app:
        assert (await app.run({**document, "name": "p"})).value == ["a"]
        assert (await app.preview(document)).facts.to_dict()["transforms"] == ["first letters"]
        with pytest.raises(InvalidFlow, match="programs of models cannot call"):
            app.load({**document, "origin": "model"})
        with pytest.raises(InvalidFlow, match="no transform 'nothing' is registered"):
            app.load({**document, "transforms": {"initials": "nothing"}})

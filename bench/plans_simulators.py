"""Readers of sets with executable tools: BFCL v4 multi-turn and tau-bench. Their own code runs from the folder.

BFCL: https://github.com/ShishirPatil/gorilla (`berkeley-function-call-leaderboard`; needs `mpmath`).
tau-bench: https://github.com/sierra-research/tau-bench. `folder` is a checkout.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

from plans_gold import Gold, Reference, Schema, Step, copied
from plans_sets import schema_of

_BFCL_PARTS = ("base", "long_context", "miss_func", "miss_param")
_BFCL_CODE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_BFCL_CLASSES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}


def _bare_package(name: str, folder: Path) -> None:
    """Make a package of a folder without running its `__init__`, which imports clients of models."""
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package


# --- BFCL ------------------------------------------------------------------------------------------


class Simulators:
    """The simulators of one conversation of BFCL, after the turns before this one."""

    def __init__(self, entry: Mapping[str, Any], history: list[Step], part: str) -> None:
        self.instances = {name: _simulator(name)() for name in entry["involved_classes"]}
        for name, instance in self.instances.items():
            if name != "MathAPI":
                config = copy.deepcopy(entry["initial_config"].get(name, {}))
                instance._load_scenario(config, long_context=part == "long_context")
        for step in history:
            self.call(step.tool, step.args)

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        """Call a method of a simulator; an exception becomes a text, as in the harness of BFCL."""
        method = next(getattr(one, tool) for one in self.instances.values() if hasattr(one, tool))
        try:
            return _as_json(method(**copied(args)))
        except Exception as error:  # noqa: BLE001 - simulators raise anything
            return f"Error during execution: {error}"

    def state(self) -> Any:
        """Return the attributes of every simulator."""
        return {name: _as_json(instance) for name, instance in self.instances.items()}


def _as_json(value: Any) -> Any:
    """Return a value of a simulator as JSON; objects by their public attributes."""
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_as_json(item) for item in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if hasattr(value, "__dict__"):
        return {key: _as_json(item) for key, item in vars(value).items() if key != "parent" and not key.startswith("_")}
    return str(value)


@cache
def _simulator(name: str) -> Any:
    return getattr(importlib.import_module(f"{_BFCL_CODE}.{_BFCL_CLASSES[name]}"), name)


def bfcl(folder: Path) -> Iterator[Gold]:
    """Read the turns of BFCL v4 multi-turn: each turn with calls is one sequence, in the state that the others left."""
    base = next(
        path for path in (folder, folder / "berkeley-function-call-leaderboard") if (path / "bfcl_eval").is_dir()
    )
    base /= "bfcl_eval"
    for package in (
        "",
        ".eval_checker",
        ".eval_checker.multi_turn_eval",
        ".eval_checker.multi_turn_eval.func_source_code",
    ):
        _bare_package(f"bfcl_eval{package}", base.joinpath(*package.split(".")[1:]))
    documents = {name: _bfcl_tools(base, file) for name, file in _BFCL_CLASSES.items()}
    for part in _BFCL_PARTS:
        entries = _lines(base / "data" / f"BFCL_v4_multi_turn_{part}.json")
        answers = _lines(base / "data" / "possible_answer" / f"BFCL_v4_multi_turn_{part}.json")
        for entry, answer in zip(entries, answers, strict=True):
            classes = entry["involved_classes"]
            tools = {name: tool for owner in classes for name, tool in documents[owner].items()}
            history: list[Step] = []
            for turn, calls in enumerate(answer["ground_truth"]):
                steps = [_bfcl_step(text, number, classes) for number, text in enumerate(calls, 1)]
                if steps:
                    yield Gold(
                        id=f"bfcl/{entry['id']} turn {turn}",
                        tools=tools,
                        steps=steps,
                        result=[Reference(step.label) for step in steps],
                        world=lambda entry=entry, before=tuple(history), part=part: Simulators(entry, before, part),  # type: ignore[misc]
                        key="bfcl " + " ".join(sorted(classes)),
                    )
                history += steps


def _bfcl_step(text: str, number: int, classes: list[str]) -> Step:
    """Return the step of a call; arguments by position get the names of the simulator's own signature."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    name = ast.unparse(call.func).rpartition(".")[2]
    args: dict[str, Any] = {}
    if call.args:
        method = next((getattr(_simulator(one), name) for one in classes if hasattr(_simulator(one), name)), None)
        names = list(inspect.signature(method).parameters)[1:] if method is not None else []
        args = dict(zip(names, map(ast.literal_eval, call.args), strict=False))
    args |= {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    return Step(f"r{number}", name, copied(args))


def _bfcl_tools(base: Path, file: str) -> dict[str, Schema]:
    return {
        entry["name"]: Schema(entry["description"], {"type": "object", **_bfcl_schema(entry["parameters"])})
        for entry in _lines(base / "data" / "multi_turn_func_doc" / f"{file}.json")
    }


def _bfcl_schema(entry: Mapping[str, Any]) -> dict[str, Any]:
    schema = schema_of(entry)
    if isinstance(entry.get("properties"), dict):
        schema["properties"] = {key: _bfcl_schema(inner) for key, inner in entry["properties"].items()}
    return schema | ({"required": entry["required"]} if entry.get("required") else {})


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


# --- tau-bench -------------------------------------------------------------------------------------


class Shop:
    """The data of a domain of tau-bench, on which its tools act."""

    def __init__(self, data: dict[str, Any], packed: bytes, tools: Mapping[str, Any]) -> None:
        self.before, self.data, self.tools = data, orjson.loads(packed), tools

    def call(self, tool: str, args: dict[str, Any]) -> Any:
        """Invoke a tool; an exception becomes a text, as in the environment of tau-bench."""
        try:
            return _as_json(self.tools[tool].invoke(data=self.data, **copied(args)))
        except Exception as error:  # noqa: BLE001 - tools raise anything
            return f"Error: {error}"

    def state(self) -> Any:
        """Return every record that differs from what it was at first; no tool removes one."""
        return {
            table: {key: record for key, record in records.items() if record != self.before[table].get(key)}
            for table, records in self.data.items()
        }


def tau(folder: Path) -> Iterator[Gold]:
    """Read the tasks of tau-bench."""
    for package in ("", ".envs", ".envs.retail", ".envs.airline"):
        _bare_package(f"tau_bench{package}", (folder / "tau_bench").joinpath(*package.split(".")[1:]))
    for domain, splits in (("retail", ("test", "dev", "train")), ("airline", ("test",))):
        own = f"tau_bench.envs.{domain}"
        kinds = importlib.import_module(f"{own}.tools").ALL_TOOLS
        classes = {kind.get_info()["function"]["name"]: kind for kind in kinds}
        infos = {name: kind.get_info()["function"] for name, kind in classes.items()}
        tools = {name: Schema(info["description"], info["parameters"]) for name, info in infos.items()}
        data = importlib.import_module(f"{own}.data").load_data()
        packed = orjson.dumps(data)
        for split in splits:
            module = importlib.import_module(f"{own}.tasks_{split}")
            tasks = next(value for name, value in vars(module).items() if name.startswith("TASKS"))
            for number, task in enumerate(tasks):
                steps = [
                    Step(f"r{at}", action.name, copied(action.kwargs)) for at, action in enumerate(task.actions, 1)
                ]
                if steps:
                    yield Gold(
                        id=f"tau/{domain}-{split} {number}",
                        tools=tools,
                        steps=steps,
                        result=[Reference(step.label) for step in steps],
                        world=lambda data=data, packed=packed, classes=classes: Shop(data, packed, classes),  # type: ignore[misc]
                        key=f"tau {domain}",
                    )

"""Python tool modules: which function is the tool, what it gets, what it may give, where it failed."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.lab import every_way, flow, lit, node, obj
from modules.folder import call, caller, refused, written
from ropewalk.engine.engine import Engine, Job
from ropewalk.errors import ToolError, ToolNotFound, ToolTimeout
from ropewalk.expr.ast import Ref
from ropewalk.ir import Graph
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import NewRun
from ropewalk.ops import Call
from ropewalk.tools.directory import imports
from ropewalk.tools.runner import Runner
from ropewalk.tools.toolbox import Toolbox

GIVES = "    return {'state_delta': {'who': %r}}\n"


def tool(name: str, who: str = "it", kind: str = "def") -> str:
    return f"{kind} {name}(args):\n" + GIVES % (who or name)


@pytest.mark.parametrize(
    ("source", "who"),
    [
        (tool("greet"), "it"),
        (tool("greet", kind="async def"), "it"),
        (tool("run", "run") + tool("other"), "run"),
        (tool("main", "main") + tool("other"), "main"),
        (tool("main", "main") + tool("run", "run"), "run"),
        (tool("_hidden") + tool("greet", "greet") + "LIMIT = 3\nclass Public: pass\n", "greet"),
        ("from json import dumps, loads\nfrom subprocess import run\n" + tool("greet", "greet"), "greet"),
        ("import functools\ndef _f(who, args):\n    return {'state_delta': {'who': who}}\n"
         "run = functools.partial(_f, 'partial')\n", "partial"),
        ("class _T:\n    def __call__(self, args):\n        return {'state_delta': {'who': 'object'}}\nrun = _T()\n",
         "object"),
        ("def run(args, limit=3, *rest, **more):\n" + GIVES % "defaults", "defaults"),
    ],
)  # fmt: skip
async def test_the_tool_is_run_or_main_or_the_only_public_function(tmp_path: Path, source: str, who: str) -> None:
    """MODULE-1"""
    tools = caller(tmp_path, {"tools/x.py": source})
    assert await call(tools, "impl:./tools/x.py") == {"state_delta": {"who": who}}


async def test_a_function_can_be_named_after_a_colon(tmp_path: Path) -> None:
    tools = caller(tmp_path, {"tools/x.py": tool("run") + tool("_other", "other")})
    assert await call(tools, "impl:./tools/x.py:_other") == {"state_delta": {"who": "other"}}


@pytest.mark.parametrize(
    ("impl", "source", "said"),
    [
        ("", "X = 1\n", "tools/x.py: it defines no public function; write `def run(args):`"),
        ("", "from json import dumps\n", "it defines no public function"),
        ("", tool("a") + tool("b"), "tools/x.py: which function is the tool? It defines a, b: call one `run`"),
        ("", "def run():\n    pass\n", "tools/x.py: run must take one argument, args"),
        (
            "",
            "def run(args, other):\n    pass\n",
            "run must take one argument, args: missing a required argument: 'other'",
        ),
        (":gret", tool("greet"), "tools/x.py: it has no function gret; did you mean greet?"),
        (":LIMIT", "LIMIT = 3\n", "LIMIT is int, not a function"),
        ("", "def run(args)\n    pass\n", "tools/x.py:1: expected ':'"),
        ("", "X = 1\nimport no_such_module\n", "tools/x.py:2: importing it failed: ModuleNotFoundError"),
        ("", "import sys\nsys.exit(3)\n", "tools/x.py:2: importing it failed: SystemExit: 3"),
        ("", "def a():\n    1 / 0\na()\n", "tools/x.py:2: importing it failed: ZeroDivisionError: division by zero"),
    ],
)
async def test_a_module_that_is_no_tool_is_told_so_with_its_file(
    tmp_path: Path, impl: str, source: str, said: str
) -> None:
    tools = caller(tmp_path, {"tools/x.py": source})
    bound = tools.bind(f"impl:./tools/x.py{impl}")
    with pytest.raises(ToolError) as caught:
        await bound.call({}, "r/n")
    assert said in caught.value.reason
    assert not caught.value.retryable, "the same file fails the same way"


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        ("None", "tools/x.py: gave nothing, not an object with state_delta"),
        ("[1]", "gave a list, not an object"),
        ("3", "gave a number (3), not an object"),
        ("{}", "its result has no state_delta (give {} to write nothing)"),
        ("{'stateDelta': {}}", "has no state_delta (give {} to write nothing); rename 'stateDelta' to state_delta?"),
        ("{'rows': [], 'n': 1}", "; it has rows, n"),
        ("{'state_delta': None}", "tools/x.py: state_delta is nothing, not an object of state fields"),
        ("{'state_delta': [1]}", "state_delta is a list, not an object"),
        ("{'state_delta': {'a': float('nan')}}", "tools/x.py: result.state_delta.a: nan is not JSON"),
        ("{'state_delta': {'a': {1, 2}}}", "tools/x.py: result.state_delta.a: set is not JSON"),
        ("{'state_delta': {1: 2}}", "result.state_delta: object key 1 is int, not a string"),
        ("{'state_delta': {}, 'edge_output': lambda: 1}", "result.edge_output: function is not JSON"),
        ("{'state_delta': {}, 'metrics': [1]}", "tools/x.py: metrics is a list, not an object of tokens_in"),
        ("{'state_delta': {}, 'metrics': {'tokens_in': 'x'}}", "metrics.tokens_in is a string, not a number"),
        ("(lambda x: x.append(x) or {'state_delta': {'a': x}})([])", "nested too deep, or within itself"),
    ],
)
async def test_a_result_that_is_none_is_refused_with_the_file(tmp_path: Path, gives: str, said: str) -> None:
    """MODULE-3"""
    tools = caller(tmp_path, {"tools/x.py": f"def run(args):\n    return {gives}\n"})
    assert said in await refused(tools, "impl:./tools/x.py")


async def test_edge_output_and_metrics_come_with_the_result(tmp_path: Path) -> None:
    """MODULE-4"""
    source = "def run(args):\n    return {'state_delta': {}, 'edge_output': [1, None], 'metrics': {'cost_usd': 0.5}}\n"
    tools = caller(tmp_path, {"tools/x.py": source})
    assert await call(tools, "impl:./tools/x.py") == {
        "state_delta": {}, "edge_output": [1, None], "metrics": {"cost_usd": 0.5},
    }  # fmt: skip


async def test_a_failure_names_the_file_and_the_line_of_the_directory(tmp_path: Path) -> None:
    files = {
        "tools/x.py": "import helper\n\nasync def run(args):\n    return helper.fails()\n",
        "tools/helper.py": "import json\ndef fails():\n    return json.loads('{')\n",
        "tools/end.py": "import sys\ndef run(args):\n    sys.exit('enough')\n",
        "tools/async_end.py": "import sys\nasync def run(args):\n    sys.exit('enough')\n",
        "tools/silent.py": "def run(args):\n    raise KeyError\n",
    }
    tools = caller(tmp_path, files)
    assert (await refused(tools, "impl:tools/x.py")).startswith("tools/helper.py:3: JSONDecodeError: Expecting")
    assert await refused(tools, "impl:tools/end.py") == "tools/end.py:3: SystemExit: enough"
    assert await refused(tools, "impl:tools/async_end.py") == "tools/async_end.py:3: SystemExit: enough"
    assert await refused(tools, "impl:tools/silent.py") == "tools/silent.py:2: KeyError"


async def test_a_failure_that_says_it_is_final_is_not_tried_again(tmp_path: Path) -> None:
    source = "class Final(Exception):\n    retryable = False\ndef run(args):\n    raise Final('no')\n"
    with pytest.raises(ToolError) as caught:
        await call(caller(tmp_path, {"x.py": source}), "impl:x.py")
    assert not caught.value.retryable


async def test_plain_functions_run_beside_the_loop_and_coroutines_in_it(tmp_path: Path) -> None:
    """MODULE-2"""
    where = "import threading\n%s run(args):\n    return {'state_delta': {'t': threading.get_ident()}}\n"
    tools = caller(tmp_path, {"a.py": where % "async def", "b.py": where % "def"})
    here = threading.get_ident()
    assert (await call(tools, "impl:a.py"))["state_delta"]["t"] == here
    assert (await call(tools, "impl:b.py"))["state_delta"]["t"] != here


async def test_a_call_past_its_time_is_given_up(tmp_path: Path) -> None:
    source = "import asyncio\nasync def run(args):\n    await asyncio.Event().wait()\n"
    tools = caller(tmp_path, {"x.py": source}, timeout=0.05)
    with pytest.raises(ToolTimeout):
        await call(tools, "impl:x.py")


# --- what a function gets --------------------------------------------------------------------------

RUIN = """
def ruin(value):
    for inner in list(value.values() if isinstance(value, dict) else value):
        if isinstance(inner, (dict, list)):
            ruin(inner)
    value.clear()

def run(args):
    ruin(args)
    return {"state_delta": {}}
"""


async def test_changing_what_it_was_given_does_nothing_to_anybody_else(tmp_path: Path) -> None:
    """MODULE-5"""
    tools = caller(tmp_path, {"ruin.py": RUIN, "show.py": "def run(args):\n    return {'state_delta': args}\n"})
    state = {"rows": [{"a": 1}]}
    args = {"x": [1, {"y": 2}], "_state": state, "_edge_inputs": {"n": state["rows"]}, "_item": state["rows"][0]}
    before = repr(args)
    await asyncio.gather(*(call(tools, "impl:ruin.py", args) for _ in range(4)))
    assert repr(args) == before
    assert (await call(tools, "impl:show.py", args))["state_delta"] == args


async def test_a_result_may_hold_the_state_it_was_given(tmp_path: Path) -> None:
    source = (
        "def run(args):\n    return {'state_delta': {'a': args['_state']}, 'edge_output': [args['_edge_inputs']]}\n"
    )
    tools = caller(tmp_path, {"x.py": source})
    shared = {"rows": [1]}
    result = await call(tools, "impl:x.py", {"_state": shared, "_edge_inputs": {}})
    assert result == {"state_delta": {"a": {"rows": [1]}}, "edge_output": [{}]}
    assert type(result["state_delta"]["a"]) is dict
    assert result["state_delta"]["a"]["rows"] is not shared["rows"]


async def test_the_environment_is_what_was_let_through(tmp_path: Path) -> None:
    source = "def run(args):\n    return {'state_delta': {'env': args.get('_env')}}\n"
    with_it = caller(tmp_path, {"x.py": source}, env={"TOKEN": "t"})
    assert (await call(with_it, "impl:x.py"))["state_delta"] == {"env": {"TOKEN": "t"}}
    assert (await call(caller(tmp_path), "impl:x.py"))["state_delta"] == {"env": None}


# --- imports ---------------------------------------------------------------------------------------


async def test_modules_find_each_other_and_nobody_else_finds_them(tmp_path: Path) -> None:
    """MODULE-10"""
    path, known = list(sys.path), set(sys.modules)
    files = {
        "tools/x.py": (
            "import helper, pkg.deep\nfrom helper import NAME\nfrom . import helper as same\nfrom lib import top\n"
            "import csv, requests_like\n"
            "def run(args):\n    import late\n"
            "    return {'state_delta': {'all': [NAME, same is helper, pkg.deep.X, top.Y, late.Z, csv.reader"
            " is not None, requests_like.A]}}\n"
        ),
        "tools/helper.py": "NAME = 'helper'\n",
        "tools/late.py": "Z = 'late'\n",
        "tools/csv.py": "raise RuntimeError('this hides the standard library')\n",
        "tools/pkg/__init__.py": "from . import deep\n",
        "tools/pkg/deep.py": "X = 'deep'\n",
        "tools/requests_like.py": "A = __name__\n",
        "lib/top.py": "Y = 'top'\n",
    }  # fmt: skip
    result = await call(caller(tmp_path, files), "impl:tools/x.py")
    assert result["state_delta"]["all"][:6] == ["helper", True, "deep", "top", "late", True]
    assert sys.path == path
    assert not {"helper", "late", "lib", "x", "requests_like", "pkg"} & (set(sys.modules) - known)
    assert "__pycache__" not in [name for _, folders, _ in os.walk(tmp_path) for name in folders]


async def test_a_module_that_has_the_name_of_an_installed_one_can_import_that(tmp_path: Path) -> None:
    files = {
        "orjson.py": "import orjson\ndef run(args):\n    return {'state_delta': {'a': orjson.dumps(1).decode()}}\n"
    }
    assert (await call(caller(tmp_path, files), "impl:orjson.py"))["state_delta"] == {"a": "1"}


async def test_two_directories_with_the_same_names_do_not_meet(tmp_path: Path) -> None:
    """MODULE-10"""
    source = "import helper\ncount = 0\ndef run(args):\n    return {'state_delta': {'who': helper.WHO}}\n"
    one = caller(tmp_path / "one", {"tools/x.py": source, "tools/helper.py": "WHO = 1\n"})
    two = caller(tmp_path / "two", {"tools/x.py": source, "tools/helper.py": "WHO = 2\n"})
    for tools, who in ((one, 1), (two, 2), (one, 1)):
        assert (await call(tools, "impl:tools/x.py"))["state_delta"] == {"who": who}


async def test_names_that_python_could_not_write_are_fine(tmp_path: Path) -> None:
    source = "from dataclasses import dataclass\nimport helper\n@dataclass\nclass _D:\n    x: int\n" + tool("run")
    tools = caller(tmp_path, {"my tools v1.2/a-tool.v2.py": source, "my tools v1.2/helper.py": ""})
    assert await call(tools, "impl:my tools v1.2/a-tool.v2.py") == {"state_delta": {"who": "it"}}


async def test_a_module_is_imported_once_for_all_calls_and_callers(tmp_path: Path) -> None:
    source = "from pathlib import Path\nwith Path(__file__).with_name('log').open('a') as f:\n    f.write('x')\n"
    tools = caller(tmp_path, {"x.py": source + tool("run")})
    await asyncio.gather(*(call(tools, "impl:x.py") for _ in range(5)))
    await call(caller(tmp_path), "impl:x.py")
    assert (tmp_path / "log").read_text() == "x"


@pytest.mark.parametrize("changed", ["x.py", "helper.py"])
async def test_a_module_that_changed_is_imported_anew_and_the_version_says_so(tmp_path: Path, changed: str) -> None:
    """MODULE-11"""
    files = {"x.py": "import helper\nA = 1\ndef run(args):\n    return {'state_delta': {'n': A + helper.B}}\n",
             "helper.py": "B = 1\n"}  # fmt: skip
    tools = caller(tmp_path, files)
    first = tools.version
    assert (await call(tools, "impl:x.py"))["state_delta"] == {"n": 2}
    assert tools.version == first
    written(tmp_path, {changed: files[changed].replace("A = 1", "A = 5").replace("B = 1", "B = 5")})
    assert tools.version != first
    second = tools.version
    assert (await call(tools, "impl:x.py"))["state_delta"] == {"n": 6}
    assert tools.version == second


async def test_a_link_put_there_after_the_check_is_not_followed(tmp_path: Path) -> None:
    """MODULE-8"""
    outside = written(tmp_path, {"outside.py": tool("run", "outside")}) / "outside.py"
    tools = caller(tmp_path / "home", {"x.py": "import helper\n" + tool("run"), "helper.py": ""})
    (tmp_path / "home" / "helper.py").unlink()
    (tmp_path / "home" / "helper.py").symlink_to(outside)
    assert "helper.py is a link that leads out of the directory" in await refused(tools, "impl:x.py")
    (tmp_path / "home" / "x.py").unlink()
    (tmp_path / "home" / "x.py").symlink_to(outside)
    assert tools.version
    with pytest.raises(ToolError, match=r"x\.py is a link that leads out of the directory"):
        tools.bind("impl:x.py")


async def test_a_file_that_is_missing_is_found_once_it_is_there(tmp_path: Path) -> None:
    tools = caller(tmp_path)
    version = tools.version
    for impl in ("impl:x.py", "impl:x.py:run"):
        with pytest.raises(ToolError, match=r"there is no file x\.py"):
            tools.bind(impl)
    assert tools.version == version
    written(tmp_path, {"x.py": tool("run")})
    assert tools.version != version
    assert await call(tools, "impl:x.py")
    assert await call(tools, "impl:x.py:run")


async def test_what_a_module_prints_goes_to_standard_error(tmp_path: Path, capsys: Any) -> None:
    await call(
        caller(tmp_path, {"x.py": "print('importing')\ndef run(args):\n    print('calling')\n" + GIVES % 1}),
        "impl:x.py",
    )
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "importing\ncalling\n")


# --- among the other tools, and in a run -------------------------------------------------------------


async def test_other_tools_are_those_of_the_caller_underneath(tmp_path: Path) -> None:
    def double(n: int) -> int:
        """Twice."""
        return 2 * n

    box = Toolbox([double])
    tools = caller(tmp_path, base=Runner(box, timeout=7))
    assert await call(tools, "double", {"n": 2}) == 4
    with pytest.raises(ToolNotFound):
        tools.bind("duble")
    assert tools.bind("double") is tools.base.bind("double")
    version = tools.version
    box.touch()
    assert tools.version != version
    written(tmp_path, {"x.py": tool("run")})
    assert tools.bind("impl:x.py").timeout == 7
    tools.kinds["made"] = lambda tool_id: tool_id.upper()
    assert tools.bind("made:x") == "MADE:X"


def program(*, impl: str = "impl:x.py") -> Graph:
    also = obj(_state=Ref("state", ()))
    steps = (
        node("a", Call(tool=impl, args=obj(add=lit(1)), also=also), writes=Ref("out", ("a", "state_delta"))),
        node("b", Call(tool=impl, args=obj(add=lit(2)), also=also), writes=Ref("out", ("b", "state_delta"))),
    )
    return Graph(nodes=steps, ordered=True, result=Ref("state", ()))


@every_way
@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_modules_run_in_every_kind_of_program(tmp_path: Path, way: Any, kind: str) -> None:
    source = f"{kind} run(args):\n    return {{'state_delta': {{'n': args['_state']['n'] + args['add']}}}}\n"
    ended = await way(flow(program(), state={"n": 0}), caller(tmp_path, {"x.py": source}))
    assert ended["value"] == {"n": 3}


@every_way
async def test_a_failure_in_a_run_names_node_and_file(tmp_path: Path, way: Any) -> None:
    """MODULE-3"""
    tools = caller(
        tmp_path, {"x.py": "async def run(args):\n    raise ValueError('no')\n", "y.py": "def run(args): pass\n"}
    )
    ended = await way(flow(program(), state={"n": 0}), tools)
    assert ended["error"] == "NodeFailed: a: x.py:2: ValueError: no"
    ended = await way(flow(program(impl="impl:y.py"), state={"n": 0}), tools)
    assert ended["error"] == "NodeFailed: a: y.py: gave nothing, not an object with state_delta"


async def test_a_program_is_compiled_again_when_a_module_has_changed(tmp_path: Path) -> None:
    source = "def run(args):\n    return {'state_delta': {'n': 1}}\n"
    tools, engine = caller(tmp_path, {"x.py": source}), Engine(MemoryStore())

    async def value(run_id: str) -> Any:
        made = flow(program(), state={"n": 0})
        new = NewRun(id=run_id, kind="f", fingerprint="one")
        job = Job(new=new, flow=made, caller=tools, render=lambda ending: {"value": ending.value})
        return (await engine.run(job))["value"]

    assert await value("one") == {"n": 1}
    written(tmp_path, {"x.py": source.replace("1", "7")})
    assert await value("two") == {"n": 7}


def test_an_import_in_another_thread_does_not_disturb_the_look_for_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = written(tmp_path, {"a.py": tool("a"), "b.py": tool("b")})
    package = imports.current_package(root)
    package.module(root / "a.py")
    stamp = imports.file_stamp

    def slow_stamp(file: Path) -> imports.FileStamp | None:
        monkeypatch.setattr(imports, "file_stamp", stamp)
        other = threading.Thread(target=package.module, args=[root / "b.py"])
        other.start()
        other.join()
        return stamp(file)

    monkeypatch.setattr(imports, "file_stamp", slow_stamp)
    assert imports.current_package(root) is package

"""JavaScript tool modules, with the real Node.js: the contract, results and failures."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from engine.lab import every_way, flow, lit, node, obj
from modules.folder import call, caller, needs_node, refused
from ropewalk.errors import ToolError, ToolTimeout
from ropewalk.expr.ast import Ref
from ropewalk.ir import Graph, Policy, Retry
from ropewalk.ops import Call, Map
from ropewalk.tools.directory import javascript
from ropewalk.tools.directory.directory import DirectoryCaller

pytestmark = [pytest.mark.process, needs_node]


async def result_of(root: Path, source: str, args: dict[str, Any] | None = None, **options: Any) -> Any:
    """What a module `tools/x.mjs` gives."""
    tools = caller(root, {"tools/x.mjs": source}, **options)
    try:
        return await call(tools, "impl:./tools/x.mjs", args)
    finally:
        await tools.close()


def giving(expression: str) -> str:
    return f"export default async function tool(args) {{ return {expression} }}"


GREET = giving("{ state_delta: { greeting: `hello, ${args.name}` } }")
COMMON = "module.exports = (args) => ({ state_delta: { greeting: `hello, ${args.name}` } })"
PLAIN = "import { hello } from './lib.mjs'\nexport default (args) => ({ state_delta: { greeting: hello(args.name) } })"


@pytest.mark.parametrize(
    ("file", "files"),
    [
        ("tools/x.mjs", {"tools/x.mjs": GREET}),
        ("tools/x.mjs", {"tools/x.mjs": PLAIN, "tools/lib.mjs": "export const hello = (who) => `hello, ${who}`"}),
        ("tools/x.js", {"tools/x.js": GREET, "package.json": '{"type": "module"}'}),
        ("tools/x.js", {"tools/x.js": COMMON, "package.json": "{}"}),
        ("my tools/ü #1?.mjs", {"my tools/ü #1?.mjs": GREET}),
    ],
)
async def test_the_default_export_is_the_tool(tmp_path: Path, file: str, files: dict[str, str]) -> None:
    """MODULE-12"""
    tools = caller(tmp_path, files)
    assert await call(tools, f"impl:./{file}", {"name": "World"}) == {"state_delta": {"greeting": "hello, World"}}
    await tools.close()


async def test_it_gets_arguments_state_and_inputs_and_gives_output_and_metrics(tmp_path: Path) -> None:
    args = {
        "x": [1, {"y": None}], "_state": {"rows": [{"a": 1}], "n": 2}, "_edge_inputs": {"before": {"b": 3}},
        "_item": "i", "_item_index": 0, "__proto__": {"polluted": True},
    }  # fmt: skip
    gives = "{ state_delta: { polluted: {}.polluted ?? null }, edge_output: args, metrics: { tokens_in: 1 } }"
    assert await result_of(tmp_path, giving(gives), args) == {
        "state_delta": {"polluted": None}, "edge_output": args, "metrics": {"tokens_in": 1},
    }  # fmt: skip


async def test_the_state_is_a_snapshot_however_it_is_read_or_changed(tmp_path: Path) -> None:
    source = """
    export default (args) => {
      const s = args._state
      const ways = [JSON.parse(JSON.stringify(s)), { ...s }, Object.fromEntries(Object.entries(s)), structuredClone(s),
        Object.assign({}, s), { rows: s.rows, n: s.n }]
      const same = ways.every((way) => JSON.stringify(way) === '{"rows":[{"a":1}],"n":2}')
      const once = s.rows === s.rows
      s.rows.push('mine'); s.rows[0].a = 9; s.n = 7; s.added = 1; delete s.gone
      args._edge_inputs.before.push(1)
      return { state_delta: { same, once, mine: s, keys: Object.keys(s), array: Array.isArray(s.rows) } }
    }"""
    tools = caller(tmp_path, {"x.mjs": source})
    args = {"_state": {"rows": [{"a": 1}], "n": 2}, "_edge_inputs": {"before": []}}
    for _ in range(2):
        assert (await call(tools, "impl:x.mjs", args))["state_delta"] == {
            "same": True, "once": True, "array": True, "mine": {"rows": [{"a": 9}, "mine"], "n": 7, "added": 1},
            "keys": ["rows", "n", "added"],
        }  # fmt: skip
    assert args == {"_state": {"rows": [{"a": 1}], "n": 2}, "_edge_inputs": {"before": []}}
    await tools.close()


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("undefined", "tools/x.mjs: gave undefined, not an object with state_delta"),
        ("null", "tools/x.mjs: gave nothing, not an object with state_delta"),
        ("[1]", "tools/x.mjs: gave a list, not an object with state_delta"),
        ("{ rows: [] }", "tools/x.mjs: its result has no state_delta"),
        ("{ state_delta: undefined }", "tools/x.mjs: its result has no state_delta"),
        ("{ state_delta: [1] }", "tools/x.mjs: state_delta is a list"),
        ("{ state_delta: { a: NaN } }", "tools/x.mjs: result.state_delta.a is NaN, which is not JSON; use null"),
        ("{ state_delta: { a: [1, -Infinity] } }", "result.state_delta.a[1] is -Infinity"),
        ("{ state_delta: { a: undefined } }", "tools/x.mjs: result.state_delta.a is undefined"),
        ("{ state_delta: {}, edge_output: [undefined] }", "result.edge_output[0] is undefined"),
        ("{ state_delta: { a: 10n } }", "result.state_delta.a is a BigInt (10), which is not JSON"),
        ("{ state_delta: { a: { b: tool } } }", "result.state_delta.a.b is the function tool, which is not JSON"),
        ("{ state_delta: { a: () => 1 } }", "which is not JSON"),
        ("{ state_delta: { a: Symbol('x') } }", "is a symbol"),
        ("{ state_delta: { a: new Map([[1, 2]]) } }", "result.state_delta.a is a Map, which is not JSON"),
        ("{ state_delta: { a: new Set([1]) } }", "is a Set"),
        ("{ state_delta: { a: new Error('x') } }", "is an Error"),
        ("{ state_delta: { a: Promise.resolve(1) } }", "is a Promise"),
        ("{ state_delta: { a: new Uint8Array(2) } }", "is a Uint8Array"),
        ("(() => { const a = []; a.push({ a }); return { state_delta: { a } } })()",
         "tools/x.mjs: result.state_delta.a[0].a contains itself"),
        ("(() => { let a = 1; for (let i = 0; i < 300; i++) a = [a]; return { state_delta: { a } } })()",
         "is nested deeper than 200"),
        ("{ state_delta: { a: '\\ud800' } }", "tools/x.mjs: its result is not usable"),
        ("{ state_delta: { a: 'x\\0y' } }", "tools/x.mjs: result.state_delta.a: string with a NUL character"),
        ("{ state_delta: { a: 2 ** 63 } }", "tools/x.mjs: result.state_delta.a: integer past 64 bits"),
        ("{ state_delta: {}, metrics: { cost_usd: 'x' } }", "tools/x.mjs: metrics.cost_usd is a string"),
        ("{ get state_delta() { throw new TypeError('trap') } }", "tools/x.mjs:1:"),
    ],
)  # fmt: skip
async def test_a_result_that_is_none_is_refused_with_the_file(tmp_path: Path, expression: str, said: str) -> None:
    """MODULE-18"""
    with pytest.raises(ToolError) as caught:
        await result_of(tmp_path, giving(expression))
    assert said in caught.value.reason
    assert caught.value.reason.startswith("tools/x.mjs:")


async def test_what_json_writes_or_leaves_out_is_as_in_json(tmp_path: Path) -> None:
    gives = (
        "{ state_delta: { at: new Date(0), o: { u: undefined, n: -0 } }, edge_output: undefined, metrics: undefined }"
    )
    assert await result_of(tmp_path, giving(gives)) == {
        "state_delta": {"at": "1970-01-01T00:00:00.000Z", "o": {"n": 0}}
    }


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("export const run = () => 1", "tools/x.mjs: it has no default export (it exports run); write `export default"),
        ("export default { run() {} }", "tools/x.mjs: its default export is an Object, not a function"),
        (
            "const x = 1\nexport default function (args) { return ] }",
            "tools/x.mjs:2: SyntaxError: Unexpected token ']'",
        ),
        (
            "import './nothing.mjs'\nexport default () => 1",
            "tools/x.mjs: importing it failed: Error: Cannot find module",
        ),
        ("import 'no-such-package'\nexport default () => 1", "Cannot find package 'no-such-package'"),
        ("const x = 1\nthrow new Error('at once')", "tools/x.mjs:2:7: importing it failed: Error: at once"),
    ],
)
async def test_a_module_that_is_no_tool_is_told_so_and_not_tried_again(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        await result_of(tmp_path, source)
    assert said in caught.value.reason
    assert not caught.value.retryable


async def test_a_js_file_with_exports_is_told_what_makes_it_a_module(tmp_path: Path) -> None:
    files = {"x.js": "export default () => ({ state_delta: {} })", "package.json": '{"type": "commonjs"}'}
    tools = caller(tmp_path, files)
    said = await refused(tools, "impl:x.js")
    assert said.startswith("x.js:1: SyntaxError: Unexpected token 'export'; for import and export name it .mjs, or put")
    await tools.close()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("throw new TypeError('bad thing')", "tools/x.mjs:2:7: TypeError: bad thing"),
        ("return fails()", "tools/lib.mjs:1:36: RangeError: in the library"),
        ("throw 'a text'", "tools/x.mjs: it threw 'a text', which is no Error"),
        ("throw undefined", "tools/x.mjs: it threw undefined, which is no Error"),
        ("throw { code: 7 }", "tools/x.mjs: it threw { code: 7 }, which is no Error"),
        ("return Promise.reject(new Error('later'))", "tools/x.mjs:2:23: Error: later"),
        ("JSON.parse('{')", "tools/x.mjs:2:6: SyntaxError:"),
        ("throw new Error('outer', { cause: new Error('inner') })", "Error: outer; the cause: Error: inner"),
        (
            "throw Object.create(Error.prototype, { message: { get() { throw 1 } } })",
            "tools/x.mjs: it threw what cannot",
        ),
        ("throw new Error('\\x1b[31mred\\x07')", "Error: red"),
    ],
)
async def test_a_failure_names_the_file_and_the_place(tmp_path: Path, statement: str, said: str) -> None:
    """MODULE-19"""
    lib = {"tools/lib.mjs": "export const fails = () => { throw new RangeError('in the library') }"}
    source = f"import {{ fails }} from './lib.mjs'; export default function tool(args) {{\n{statement}\n}}"
    tools = caller(tmp_path, {"tools/x.mjs": source, **lib})
    assert said in await refused(tools, "impl:./tools/x.mjs")
    await tools.close()


async def test_an_error_can_say_that_it_is_final(tmp_path: Path) -> None:
    for flag in (False, True):
        source = f"throw Object.assign(new Error('x'), {{ retryable: {str(flag).lower()} }})"
        with pytest.raises(ToolError) as caught:
            await result_of(tmp_path, f"export default () => {{ {source} }}")
        assert caught.value.retryable is flag


async def test_what_modules_print_is_kept_as_log_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """MODULE-15"""
    source = """
    import { writeSync } from 'node:fs'
    export default (args) => {
      console.log('one', { a: 1 })
      console.error('two')
      process.stdout.write('{"op":"done","id":1}\\n')
      process.stdout.write(Buffer.from([0, 0, 0, 2, 0, 0, 0, 0, 123, 125, 10]))
      writeSync(1, 'written\\n')
      console.log('\\x1b]0;title\\x07three')
      console.log(args._state)
      process.stdout.write('no end of line')
      return { state_delta: {} }
    }"""
    with caplog.at_level(logging.INFO, "ropewalk.modules"):
        assert await result_of(tmp_path, source, {"_state": {"rows": [1]}}) == {"state_delta": {}}
    lines = [record.message for record in caplog.records if record.name == "ropewalk.modules"]
    for said in (
        "r: one { a: 1 }",
        "r: two",
        'r: {"op":"done","id":1}',
        "r: written",
        "r: { rows: [ 1 ] }",
        "r: no end of line",
    ):
        assert said in lines
    assert not any("\x1b" in line for line in lines)


async def test_console_output_without_end_fills_nothing(tmp_path: Path) -> None:
    source = "export default () => { process.stdout.write('x'.repeat(20_000_000)); return { state_delta: {} } }"
    assert await result_of(tmp_path, source) == {"state_delta": {}}


async def test_what_is_printed_last_is_waited_for_when_the_run_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = """export default () => {
      for (let i = 0; i < 5_000; i++) console.log('line ' + i)
      console.error('x'.repeat(2_000_000))
      return { state_delta: {} }
    }"""
    with caplog.at_level(logging.INFO, "ropewalk.modules"):
        await result_of(tmp_path, source)
    lines = [record.message for record in caplog.records if record.name == "ropewalk.modules"]
    assert [line for line in lines if "line" in line[:10]] == [f"r: line {i}" for i in range(5_000)]
    (long,) = [line for line in lines if "xxx" in line]
    assert long == f"r: {'x' * 10_000} ... (1,990,000 more bytes of this line are left out)"


async def test_of_a_process_that_is_busy_when_its_run_ends_it_is_said_that_output_may_be_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(javascript, "_PING_TIMEOUT", 0.2)  # it stays busy, however long anybody waits
    # `setImmediate` comes after the answer is written, and before anything else is read.
    source = "export default () => { setImmediate(() => { for (;;); }); return { state_delta: {} } }"
    with caplog.at_level(logging.INFO, "ropewalk.modules"):
        await result_of(tmp_path, source)
    assert any("the last output may be missing" in record.message for record in caplog.records)


async def test_an_integer_that_javascript_would_round_is_an_error_where_it_is_used(tmp_path: Path) -> None:
    big = 2**53 + 1
    said = "contains an integer beyond 2^53, which JavaScript would round"
    with pytest.raises(ToolError, match=rf"tools/x\.mjs: ids {re.escape(said)}") as caught:
        await result_of(tmp_path, giving("{ state_delta: { n: 1 } }"), {"ids": [1, {"n": big}]})
    assert not caught.value.retryable
    state = {"list": [big], "one": -big, "fine": 2**53 - 1}
    for field in ("list", "one"):
        with pytest.raises(ToolError, match=rf"tools/x\.mjs: _state\.{field} {re.escape(said)}"):
            await result_of(tmp_path, giving(f"{{ state_delta: {{ n: args._state.{field} }} }}"), {"_state": state})
    got = await result_of(tmp_path, giving("{ state_delta: { n: args._state.fine } }"), {"_state": state})
    assert got == {"state_delta": {"n": 2**53 - 1}}


async def test_modules_find_an_empty_standard_input(tmp_path: Path) -> None:
    source = """export default async () => {
      let text = ''
      for await (const part of process.stdin) text += part
      return { state_delta: { text } }
    }"""
    assert await result_of(tmp_path, source) == {"state_delta": {"text": ""}}


async def test_calls_of_one_run_overlap_in_one_process(tmp_path: Path) -> None:
    source = """
    let open
    const both = new Promise((resolve) => { open = resolve })
    let here = 0
    export default async (args) => {
      if (++here === 2) open()
      await both
      return { state_delta: { pid: process.pid, n: args.n } }
    }"""
    tools = caller(tmp_path, {"x.mjs": source})
    one, two = await asyncio.gather(*(call(tools, "impl:x.mjs", {"n": n}, f"r/{n}") for n in (1, 2)))
    assert one["state_delta"]["pid"] == two["state_delta"]["pid"]
    assert (one["state_delta"]["n"], two["state_delta"]["n"]) == (1, 2)
    await tools.close()


async def test_results_of_fifty_megabytes_arrive_and_larger_ones_than_may_be_do_not(tmp_path: Path) -> None:
    """MODULE-18"""
    source = giving("{ state_delta: { text: 'x'.repeat(args.n) } }")
    tools = caller(tmp_path, {"x.mjs": source})
    assert len((await call(tools, "impl:x.mjs", {"n": 50_000_000}))["state_delta"]["text"]) == 50_000_000
    said = await refused(tools, "impl:x.mjs", {"n": 100_000_001})
    assert said.startswith("x.mjs: its result is 1000000")
    assert (await call(tools, "impl:x.mjs", {"n": 1}))["state_delta"] == {"text": "x"}
    await tools.close()


async def test_large_arguments_arrive_too(tmp_path: Path) -> None:
    rows = [{"n": i, "text": "x" * 100} for i in range(100_000)]
    gives = "{ state_delta: { n: args._state.rows.length + args.rows.length } }"
    assert await result_of(tmp_path, giving(gives), {"_state": {"rows": rows}, "rows": rows}) == {
        "state_delta": {"n": 200_000}
    }


async def test_a_slow_module_is_given_up_at_its_time_and_others_go_on(tmp_path: Path) -> None:
    files = {
        "slow.mjs": "export default () => new Promise(() => {})",
        "x.mjs": giving("{ state_delta: { pid: process.pid } }"),
    }
    tools = caller(tmp_path, files)
    hurried = DirectoryCaller(tools.base, tmp_path, timeout=0.1)
    hurried._node = tools._node  # the same process, with less time
    before = await call(tools, "impl:x.mjs")
    with pytest.raises(ToolTimeout):
        await call(hurried, "impl:slow.mjs")
    assert await call(tools, "impl:x.mjs") == before, "it answers, so it is kept"
    await tools.close()


# --- in a run --------------------------------------------------------------------------------------


def ran(tools: DirectoryCaller, way: Any, *nodes: Any, state: dict[str, Any]) -> Any:
    return way(flow(Graph(nodes=nodes, ordered=True, result=Ref("state", ())), state=state), tools)


@every_way
async def test_modules_of_both_languages_run_in_one_graph(tmp_path: Path, way: Any) -> None:
    tools = caller(tmp_path, {
        "load.py": "def load(args):\n    return {'state_delta': {'rows': [1, 2, 3]}}\n",
        "sum.mjs": giving("{ state_delta: { total: args._state.rows.reduce((a, b) => a + b, 0) } }"),
    })  # fmt: skip
    also = obj(_state=Ref("state", ()))
    ended = await ran(
        tools, way,
        node("a", Call(tool="impl:load.py", args=obj(), also=also), writes=Ref("out", ("a", "state_delta"))),
        node("b", Call(tool="impl:sum.mjs", args=obj(), also=also), writes=Ref("out", ("b", "state_delta"))),
        state={"rows": [], "total": 0},
    )  # fmt: skip
    await tools.close()
    assert ended["value"] == {"rows": [1, 2, 3], "total": 6}


@every_way
async def test_a_failure_in_a_run_names_node_and_file_and_is_tried_again(tmp_path: Path, way: Any) -> None:
    source = "let n = 0\nexport default () => {\n  if (++n < 3) throw new Error(`no ${n}`)\n}"
    tools = caller(tmp_path, {"x.mjs": source})
    step = node("a", Call(tool="impl:x.mjs", args=obj()), writes=Ref("out", ("a", "state_delta")),
                policy=Policy(retry=Retry(attempts=2)))  # fmt: skip
    ended = await ran(tools, way, step, state={"n": 0})
    assert ended["error"] == "NodeFailed: a@2: x.mjs:3:22: Error: no 2"
    await tools.close()


@every_way
async def test_every_round_of_a_map_calls_the_module(tmp_path: Path, way: Any) -> None:
    tools = caller(tmp_path, {"x.mjs": giving("{ state_delta: { n: args.item * args._state.factor } }")})
    inner = node("i", Call(tool="impl:x.mjs", args=obj(item=Ref("item", ())), also=obj(_state=Ref("state", ()))))
    body = Graph(nodes=(inner,), ordered=True, result=Ref("out", ("i", "state_delta", "n")))
    steps = (node("m", Map(items=lit(list(range(20))), body=body, limit=4)),)
    ended = await way(flow(Graph(nodes=steps, ordered=True, result=Ref("out", ("m",))), state={"factor": 3}), tools)
    await tools.close()
    assert ended["value"] == [3 * i for i in range(20)]

"""The same work in other libraries, each only where it is importable.

An adapter is written the way the library's own documents show, with nothing switched on that is not
on by default. It gives the last value of a chain, the sorted values of a fan-out, the value of a
loop. To add a peer, write a class like those below and name it in PEERS.
"""

from __future__ import annotations

import importlib
import itertools
import operator
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypedDict

Tool = Callable[..., Awaitable[int]]
Work = Callable[[], Awaitable[Any]]


class LangGraph:
    module: ClassVar = "langgraph.graph"

    def chain(self, nodes: int, tool: Tool) -> Work:
        from langgraph.graph import END, START, StateGraph

        async def step(state: _Value) -> _Value:
            return {"value": await tool(x=state["value"])}

        graph = StateGraph(_Value)
        for i in range(nodes):
            graph.add_node(f"n{i}", step)
            graph.add_edge(f"n{i - 1}" if i else START, f"n{i}")
        graph.add_edge(f"n{nodes - 1}", END)
        app = graph.compile()

        async def run() -> int:
            return int((await app.ainvoke({"value": 0}, {"recursion_limit": nodes + 10}))["value"])

        return run

    def fan_out(self, nodes: int, tool: Tool) -> Work:
        from langgraph.graph import END, START, StateGraph
        from langgraph.types import Send

        async def step(state: _Value) -> dict[str, list[int]]:
            return {"values": [await tool(x=state["value"])]}

        graph = StateGraph(_Values)
        graph.add_node("step", step)
        graph.add_conditional_edges(START, lambda _: [Send("step", {"value": i}) for i in range(nodes)], ["step"])
        graph.add_edge("step", END)
        app = graph.compile()

        async def run() -> list[int]:
            return sorted((await app.ainvoke({"values": []}))["values"])

        return run

    def loop(self, rounds: int, tool: Tool) -> Work:
        from langgraph.graph import END, START, StateGraph

        async def step(state: _Value) -> _Value:
            return {"value": await tool(x=state["value"])}

        graph = StateGraph(_Value)
        graph.add_node("step", step)
        graph.add_edge(START, "step")
        graph.add_conditional_edges("step", lambda state: END if state["value"] >= rounds else "step")
        app = graph.compile()

        async def run() -> int:
            return int((await app.ainvoke({"value": 0}, {"recursion_limit": rounds + 10}))["value"])

        return run


class PydanticGraph:
    module: ClassVar = "pydantic_graph"

    def chain(self, nodes: int, tool: Tool) -> Work:
        from pydantic_graph import GraphBuilder, StepContext

        graph = GraphBuilder(input_type=int, output_type=int)

        async def step(ctx: StepContext[None, None, int]) -> int:
            return await tool(x=ctx.inputs)

        steps = [graph.step(step, node_id=f"n{i}") for i in range(nodes)]
        for before, after in zip([graph.start_node, *steps], [*steps, graph.end_node], strict=True):
            graph.add(graph.edge_from(before).to(after))
        built = graph.build()

        async def run() -> int:
            return await built.run(inputs=0)

        return run

    def fan_out(self, nodes: int, tool: Tool) -> Work:
        from pydantic_graph import GraphBuilder, StepContext, reduce_list_append

        graph = GraphBuilder(input_type=list[int], output_type=list[int])

        async def step(ctx: StepContext[None, None, int]) -> int:
            return await tool(x=ctx.inputs)

        one = graph.step(step, node_id="step")
        join = graph.join(reduce_list_append, initial_factory=list[int])
        graph.add(
            graph.edge_from(graph.start_node).map().to(one),
            graph.edge_from(one).to(join),
            graph.edge_from(join).to(graph.end_node),
        )
        built = graph.build()

        async def run() -> list[int]:
            return sorted(await built.run(inputs=list(range(nodes))))

        return run


class Haystack:
    module: ClassVar = "haystack"

    def chain(self, nodes: int, tool: Tool) -> Work:
        from haystack import Pipeline

        step = _haystack_step(tool)
        pipeline = Pipeline()
        for i in range(nodes):
            pipeline.add_component(f"n{i}", step())
            if i:
                pipeline.connect(f"n{i - 1}.value", f"n{i}.x")

        async def run() -> int:
            return int((await pipeline.run_async({"n0": {"x": 0}}))[f"n{nodes - 1}"]["value"])

        return run

    def fan_out(self, nodes: int, tool: Tool) -> Work:
        from haystack import Pipeline

        step = _haystack_step(tool)
        pipeline = Pipeline()
        for i in range(nodes):
            pipeline.add_component(f"n{i}", step())
        data = {f"n{i}": {"x": i} for i in range(nodes)}

        async def run() -> list[int]:
            return sorted(out["value"] for out in (await pipeline.run_async(data, concurrency_limit=nodes)).values())

        return run


class LlamaIndex:
    module: ClassVar = "workflows"

    def __init__(self) -> None:
        from workflows.events import Event, StartEvent, StopEvent

        # The library reads the annotations of a step from its module: its names must be there.
        globals().update(StartEvent=StartEvent, StopEvent=StopEvent, LlamaNext=type("LlamaNext", (Event,), {}))

    def chain(self, nodes: int, tool: Tool) -> Work:
        return self.loop(nodes, tool)  # a chain as long as you like is an event that comes round again

    def loop(self, rounds: int, tool: Tool) -> Work:
        from workflows import Workflow, step

        class Flow(Workflow):
            @step
            async def begin(self, event: StartEvent) -> LlamaNext:  # type: ignore[name-defined] # noqa: F821
                return LlamaNext(value=0)  # type: ignore[name-defined] # noqa: F821

            @step
            async def go(self, event: LlamaNext) -> LlamaNext | StopEvent:  # type: ignore[name-defined] # noqa: F821
                value = await tool(x=event.value)
                done = value >= rounds
                return StopEvent(result=value) if done else LlamaNext(value=value)  # type: ignore[name-defined] # noqa: F821

        flow = Flow(timeout=None)

        async def run() -> int:
            return int(await flow.run())

        return run


class Burr:
    module: ClassVar = "burr.core"

    def chain(self, nodes: int, tool: Tool) -> Work:
        from burr.core import ApplicationBuilder, State
        from burr.core.action import action

        @action(reads=["value"], writes=["value"])
        async def step(state: State) -> State:
            return state.update(value=await tool(x=state["value"]))

        names = [f"n{i}" for i in range(nodes)]
        transitions = list(itertools.pairwise(names))

        def build() -> Any:
            builder = ApplicationBuilder().with_actions(**dict.fromkeys(names, step)).with_transitions(*transitions)
            return builder.with_entrypoint("n0").with_state(value=0)

        async def run() -> int:
            app = await build().abuild()  # an application runs once
            _, _, state = await app.arun(halt_after=[names[-1]])
            return int(state["value"])

        return run

    def loop(self, rounds: int, tool: Tool) -> Work:
        from burr.core import ApplicationBuilder, State, expr
        from burr.core.action import action

        @action(reads=["value"], writes=["value"])
        async def step(state: State) -> State:
            return state.update(value=await tool(x=state["value"]))

        @action(reads=["value"], writes=[])
        async def end(state: State) -> State:
            return state

        async def run() -> int:
            builder = ApplicationBuilder().with_actions(step=step, end=end)
            builder = builder.with_transitions(("step", "end", expr(f"value >= {rounds}")), ("step", "step"))
            app = await builder.with_entrypoint("step").with_state(value=0).abuild()
            _, _, state = await app.arun(halt_after=["end"])
            return int(state["value"])

        return run


class Prefect:
    module: ClassVar = "prefect"
    durable: ClassVar = True

    def durable_chain(self, nodes: int, tool: Tool, folder: Path) -> Work:
        os.environ.setdefault("PREFECT_HOME", str(folder / "prefect"))
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
        from prefect import flow, task

        @task
        async def step(x: int) -> int:
            return await tool(x=x)

        @flow
        async def run() -> int:
            value = 0
            for _ in range(nodes):
                value = await step(value)
            return value

        return run


class Dbos:
    module: ClassVar = "dbos"

    def durable_chain(self, nodes: int, tool: Tool, folder: Path) -> Work:
        from dbos import DBOS

        where = f"sqlite:///{folder / 'dbos.sqlite'}"
        DBOS(config={"name": "bench", "system_database_url": where, "log_level": "ERROR"})

        @DBOS.step()
        async def step(x: int) -> int:
            return await tool(x=x)

        @DBOS.workflow()
        async def flow() -> int:
            value = 0
            for _ in range(nodes):
                value = await step(value)
            return value

        DBOS.launch()

        async def run() -> int:
            return await flow()

        return run


class _Value(TypedDict):
    value: int


class _Values(TypedDict):
    values: Annotated[list[int], operator.add]


def _haystack_step(tool: Tool) -> Any:
    from haystack import component

    @component
    class Step:
        @component.output_types(value=int)
        def run(self, x: int) -> dict[str, int]:
            raise NotImplementedError("only run_async is timed")

        @component.output_types(value=int)
        async def run_async(self, x: int) -> dict[str, int]:
            return {"value": await tool(x=x)}

    return Step


PEERS: dict[str, Any] = {
    "LangGraph": LangGraph,
    "pydantic-graph": PydanticGraph,
    "Haystack": Haystack,
    "LlamaIndex": LlamaIndex,
    "Burr": Burr,
    "Prefect": Prefect,
    "DBOS": Dbos,
}


def installed() -> tuple[dict[str, Any], dict[str, str]]:
    """The peers that are here, and why the others are not."""
    os.environ.update(HAYSTACK_TELEMETRY_ENABLED="False", DO_NOT_TRACK="1", BURR_NO_ANALYTICS="1")
    here: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, peer in PEERS.items():
        try:
            importlib.import_module(peer.module)
            here[name] = peer()
        except ImportError as error:
            missing[name] = str(error)
    return here, missing

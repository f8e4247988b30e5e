"""Streams end in done or error, and progress is told in order whatever the callback does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ropewalk.errors import ExecutionFailed, StreamNotSupported, ToolError, ToolTimeout, ValidationFailed
from ropewalk.tools.runner import Runner
from ropewalk.tools.tool import ProgressEvent, StreamEvent, Tool, ToolBackend
from ropewalk.tools.toolbox import Toolbox

T = Tool("t", "", {"type": "object", "properties": {"q": {"type": "integer"}}}, namespace="ns")


def local(handler: Any, **more: Any) -> Runner:
    box = Toolbox()
    box.register(T, handler)
    return Runner(box, **more)


def streamed(runner: Runner, args: Any = None, **more: Any) -> list[StreamEvent]:
    async def case() -> list[StreamEvent]:
        return [event async for event in runner.run_stream("ns:t", args, **more)]

    return asyncio.run(case())


def giving(*events: Any) -> Any:
    async def handler() -> AsyncIterator[Any]:
        for event in events:
            if isinstance(event, BaseException):
                raise event
            yield event

    return handler


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ((), ["done"]),
        ((1, "two", None), ["chunk", "chunk", "chunk", "done"]),
        ((StreamEvent("progress", data={"progress": 1}), 2), ["progress", "chunk", "done"]),
        ((StreamEvent("done", data=3), 4), ["done"]),
        ((1, StreamEvent("error", data="broke"), 2), ["chunk", "error"]),
        ((1, RuntimeError("broke")), ["chunk", "error"]),
        ((1, {2}), ["chunk", "error"]),
        ((StreamEvent("chunk", data={2}),), ["error"]),
        ((StreamEvent("odd"),), ["error"]),  # type: ignore[arg-type]
    ],
)
def test_events_pass_in_order_and_the_last_is_done_or_error(given: tuple[Any, ...], kinds: list[str]) -> None:
    events = streamed(local(giving(*given)))
    assert [event.kind for event in events] == kinds
    assert all(event.tool_id == "ns:t" for event in events)


def test_present_tool_id_is_kept() -> None:
    events = streamed(local(giving(StreamEvent("chunk", "other:tool", 1))))
    assert [event.tool_id for event in events] == ["other:tool", "ns:t"]


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (StreamEvent("error", error="bad"), "bad"),  # type: ignore[arg-type]
        (StreamEvent("error", error="bad", data="more"), "bad"),  # type: ignore[arg-type]
        (StreamEvent("error", error={"message": "bad"}), "bad"),  # type: ignore[arg-type]
        (StreamEvent("error", error=ValueError("bad")), "bad"),
        (StreamEvent("error", data={"message": "bad"}), "bad"),
        (StreamEvent("error", error=SystemExit("bad")), "it raised SystemExit: bad"),
        (StreamEvent("error"), "the stream ended in an error"),
    ],
)
def test_what_an_error_event_says_is_the_same_in_a_stream_and_in_a_call(event: StreamEvent, said: str) -> None:
    (last,) = streamed(local(giving(event)))
    assert isinstance(last.error, ExecutionFailed)
    assert last.error.reason == said
    with pytest.raises(ExecutionFailed) as caught:
        asyncio.run(local(giving(event)).run("ns:t"))
    assert caught.value.reason == said
    assert isinstance(caught.value.__cause__, Exception)


@pytest.mark.parametrize("given", [RuntimeError("broke"), StreamEvent("error", data={"message": "broke"})])
def test_error_event_carries_a_tool_error_with_its_cause(given: Any) -> None:
    (event,) = streamed(local(giving(given)))
    assert isinstance(event.error, ExecutionFailed)
    assert event.error.message == "tool ns:t: broke"
    assert event.error.matches(RuntimeError)


def test_arguments_are_checked_first() -> None:
    started: list[int] = []

    async def handler(q: int) -> AsyncIterator[int]:
        started.append(q)
        yield q

    with pytest.raises(ValidationFailed):
        streamed(local(handler), {"q": "one"})
    assert started == []


class NoStream:
    async def call_tool(self, *_: Any) -> Any:
        return None


class NoneStream(NoStream):
    def call_tool_stream(self, *_: Any) -> Any:
        return None


class RefusingStream(NoStream):
    async def call_tool_stream(self, server: str, name: str, args: Any) -> Any:
        raise StreamNotSupported(name, "stream", "not today")


@pytest.mark.parametrize("executor", [NoStream(), NoneStream(), RefusingStream()])
def test_backend_without_streams_says_so(executor: Any) -> None:
    runner = Runner(tool_resolver=lambda _: T, backends_resolver=lambda _: [ToolBackend.mcp("s")], mcp=executor)
    with pytest.raises(StreamNotSupported) as caught:
        streamed(runner)
    assert caught.value.message.startswith("tool ns:t: ")


def test_plain_handlers_do_not_stream() -> None:
    async def coroutine() -> int:
        return 1

    for handler in (lambda: 1, coroutine):
        with pytest.raises(StreamNotSupported):
            streamed(local(handler))


@pytest.mark.parametrize("style", ["generator", "coroutine"])
def test_executor_streams(style: str) -> None:
    async def events(server: str, name: str, args: Any) -> AsyncIterator[StreamEvent]:
        yield StreamEvent("progress", data={"progress": 1, "total": 2})
        yield StreamEvent("done", data=[server, name, args])

    async def later(server: str, name: str, args: Any) -> AsyncIterator[StreamEvent]:
        return events(server, name, args)

    class Streaming(NoStream):
        call_tool_stream = staticmethod(events if style == "generator" else later)

    runner = Runner(tool_resolver=lambda _: T, backends_resolver=lambda _: [ToolBackend.mcp("s")], mcp=Streaming())
    assert [event.data for event in streamed(runner, {"q": 1})] == [{"progress": 1, "total": 2}, ["s", "t", {"q": 1}]]


def test_silence_ends_a_stream_with_a_timeout_and_closes_its_source() -> None:
    closed: list[bool] = []

    async def silent() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def case() -> list[StreamEvent]:
        events = [event async for event in local(silent).run_stream("ns:t", timeout=0.05)]
        assert closed == [True]
        return events

    events = asyncio.run(case())
    assert [event.kind for event in events] == ["chunk", "error"]
    assert isinstance(events[-1].error, ToolTimeout)


def test_source_is_closed_when_the_stream_has_ended() -> None:
    class Source:
        def __init__(self) -> None:
            self.closed = False

        def __aiter__(self) -> Source:
            return self

        async def __anext__(self) -> StreamEvent:
            return StreamEvent("done")

        async def aclose(self) -> None:
            self.closed = True

    source = Source()

    class Streaming(NoStream):
        def call_tool_stream(self, *_: Any) -> Any:
            return source

    runner = Runner(tool_resolver=lambda _: T, backends_resolver=lambda _: [ToolBackend.mcp("s")], mcp=Streaming())
    assert [event.kind for event in streamed(runner)] == ["done"]
    assert source.closed


def test_consumer_that_leaves_closes_the_source() -> None:
    closed: list[bool] = []

    async def endless() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    async def case() -> None:
        events = local(endless).run_stream("ns:t")
        assert (await anext(events)).data == 1
        await events.aclose()
        assert closed == [True]

    asyncio.run(case())


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ((1, 2), [1, 2]),
        ((1, StreamEvent("done", data={"n": 2})), {"n": 2}),
        ((StreamEvent("chunk", data=1),), [1]),
        ((), []),
    ],
)
def test_streaming_handler_called_plainly_gives_its_chunks_or_its_result(given: Any, value: Any) -> None:
    assert asyncio.run(local(giving(*given)).run("ns:t")).structured == value


def test_streaming_handler_called_plainly_fails_with_its_error() -> None:
    with pytest.raises(ExecutionFailed, match="broke"):
        asyncio.run(local(giving(1, StreamEvent("error", error=OSError("broke")))).run("ns:t"))


# --- progress --------------------------------------------------------------------------------


def told(handler: Any, callback: Any) -> None:
    asyncio.run(local(handler).run_with_progress("ns:t", {}, callback))


def test_progress_is_started_then_completed() -> None:
    events: list[ProgressEvent] = []
    told(lambda: 1, events.append)
    assert events == [ProgressEvent(0, 1, "started"), ProgressEvent(1, 1, "completed")]


def test_progress_of_a_failure_is_started_then_error() -> None:
    events: list[ProgressEvent] = []
    with pytest.raises(ToolError):
        told(lambda: 1 / 0, events.append)
    assert events == [ProgressEvent(0, 1, "started"), ProgressEvent(1, 1, "error")]


def test_progress_of_an_unknown_tool_is_told_too() -> None:
    events: list[ProgressEvent] = []
    with pytest.raises(ToolError):
        asyncio.run(local(print).run_with_progress("nobody", {}, events.append))
    assert [event.message for event in events] == ["started", "error"]


def test_what_a_tool_reports_comes_between() -> None:
    events: list[ProgressEvent] = []
    steps = [StreamEvent("progress", data={"progress": n, "total": 2, "message": "half"}) for n in (1, 2)]
    told(giving(*steps), events.append)
    assert [(event.progress, event.total) for event in events] == [(0, 1), (1, 2), (2, 2), (1, 1)]


def test_callback_that_raises_does_not_break_the_run(caplog: pytest.LogCaptureFixture) -> None:
    def breaks(event: ProgressEvent) -> None:
        raise ValueError(event.message)

    async def breaks_later(event: ProgressEvent) -> None:
        raise ValueError(event.message)

    for callback in (breaks, breaks_later):
        caplog.clear()
        told(lambda: 1, callback)
        assert len(caplog.records) == 2


def test_async_callback_sees_every_event_in_order_before_the_result() -> None:
    seen: list[str | None] = []

    async def callback(event: ProgressEvent) -> None:
        for _ in range(3 if event.message == "started" else 0):
            await asyncio.sleep(0)
        seen.append(event.message)

    told(lambda: 1, callback)
    assert seen == ["started", "completed"]


def test_no_callback_is_fine() -> None:
    told(lambda: 1, None)

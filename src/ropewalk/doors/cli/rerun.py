"""`runs retry` repeats the failed steps of a run, `runs fork` starts a new run from an earlier one.

`test` runs recorded runs again with the recorded results of their tools.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import orjson
from cyclopts import Parameter

from ...errors import NotFound, RopewalkError, display_path
from ...events import Event
from ...journal.run_ids import new_run_id
from ...source.document import escape_invisible, json_text
from ...source.load import dump
from .arguments import read_input, read_pairs, saved
from .dispatch import DONE, FAILED, Answer, UsageError, explain, failure
from .options import Changed, Engine, Input, Json, Project, StoreAddress, Upgrade, Watch
from .output import first_line
from .run import followed, warn_of_changed_file
from .session import Interrupts, naming_store, store_options, with_app
from .signals import Wait

if TYPE_CHECKING:
    from ...app.app import App


def accepted_results(options: tuple[str, ...]) -> dict[str, Any]:
    """Read `--accept NODE` and `--accept NODE=JSON`: by node the result to use, or RECORDED."""
    from ...app.runs.accept import RECORDED

    values = read_pairs([item for item in options if "=" in item], "--accept")
    return {**dict.fromkeys((item for item in options if "=" not in item), RECORDED), **values}


def retry(
    run_id: str,
    source: Changed = None,
    /,
    *,
    upgrade: Upgrade = False,
    from_: Annotated[
        tuple[str, ...],
        Parameter(name="--from", negative=(), help="Rerun this node (id or path) and everything after it; repeatable."),
    ] = (),
    accept: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help="Use the rejected result of this node (NODE), or another value (NODE=JSON), instead of calling its"
            " tool again; repeatable.",
        ),
    ] = (),
    json: Json = False,
    store: StoreAddress = None,
    watch: Watch = False,
    engine: Engine = None,
    wait: Wait = False,
    project: Project = None,
) -> Answer:
    """Retry the failed steps of a finished run. Recorded steps are not repeated.

    A tool that ran, but whose result was rejected, is called again unless you accept the result with --accept.
    """
    accept_results = accepted_results(accept)

    async def start(app: App, on_event: Callable[[Event], None]) -> Any:
        if source is None and not upgrade:
            await warn_of_changed_file(app, run_id)
        return await app.runs.retry(
            run_id, from_, definition=source, upgrade=upgrade, on_event=on_event, park=not wait, accept=accept_results
        )

    work = followed(
        start,
        source=source,
        quiet=json,
        watch=watch,
        options=store_options(store, project),
        engine=engine,
        stays=wait,
    )
    return with_app(work, run=run_id, project=project, store=store, engine=engine)


def fork(
    run_id: str,
    /,
    *,
    input: Input = None,
    definition: Annotated[Path | None, Parameter(help="Changed definition to run (default: the recorded one).")] = None,
    from_: Annotated[
        tuple[str, ...],
        Parameter(name="--from", negative=(), help="Rerun this node (id or path) and everything after it; repeatable."),
    ] = (),
    id: Annotated[str | None, Parameter(name="--id", help="Id of the new run (default: a new one).")] = None,
    json: Json = False,
    store: StoreAddress = None,
    watch: Watch = False,
    engine: Engine = None,
    wait: Wait = False,
    project: Project = None,
) -> Answer:
    """Start a new run from an earlier one. A recorded call with the same arguments is reused, not repeated."""
    arguments = {} if input is None else {"input": read_input(input)}
    new_id = new_run_id() if id is None else id

    async def start(app: App, on_event: Callable[[Event], None]) -> Any:
        return await app.runs.fork(
            run_id, **arguments, definition=definition, at=from_, new_id=new_id, on_event=on_event, park=not wait
        )

    follow = followed(
        start,
        source=definition,
        quiet=json,
        watch=watch,
        options=store_options(store, project),
        engine=engine,
        stays=wait,
    )

    async def work(app: App, interrupts: Interrupts) -> Answer:
        interrupts.starting(new_id)
        return await follow(app, interrupts)

    return with_app(work, run=run_id, project=project, store=store, engine=engine)


_ENDING = (".test.yaml", ".test.yml", ".test.json")
_MOST = 20  # differences of one case that are shown
T = TypeVar("T")


def replay(
    *paths: Annotated[
        Path, Parameter(help="Test files, or directories to search for *.test.yaml (default: the working directory).")
    ],
    update: Annotated[
        bool, Parameter(negative=(), help="Update the tests that differ with the current results.")
    ] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Replay recorded runs as regression tests and show every difference.

    No tool is called, and pauses take no time. `ropewalk runs export RUN --as-test` records a test.
    """
    files = list(_files(paths or (Path(),)))
    if not files:
        where = f"below {', '.join(map(str, paths))}" if paths else "here or in a subdirectory"
        raise UsageError(
            f"there is no recorded test {where} (files *{_ENDING[0]}); to record a run as a test:"
            " ropewalk runs export RUN --as-test > NAME.test.yaml"
        )

    async def work(app: App) -> list[dict[str, Any]]:
        return [await _replay_file(app, file, update) for file in files]

    def opened() -> App:
        from ...app.app import App

        return App.open(project or Path.cwd(), store="memory")

    done = in_quick_time(work, opened)
    counts = Counter("passed" if item["passed"] else "updated" if item.get("updated") else "failed" for item in done)
    failed = counts["failed"]
    text = [line for item in done for line in _test_lines(item)]
    text.append(", ".join(f"{counts[word]} {word}" for word in ("passed", "updated", "failed") if counts[word]))
    return Answer(exit=FAILED if failed else DONE, data={"tests": done, "failed": failed}, text="\n".join(text))


def in_quick_time(work: Callable[[App], Awaitable[T]], opened: Callable[[], App]) -> T:
    """Run work on an event loop where time passes at once."""

    # The app is opened inside, because its engine keeps the clocks that it finds.
    from .fake_clock import fake_clock

    with fake_clock() as loop:

        async def main() -> T:
            async with opened() as app:
                with naming_store(app):
                    return await work(app)

        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(main())


def _files(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.name.endswith(_ENDING))
        elif path.suffix == ".py":
            raise UsageError(f"{path} is a Python file, not a recorded test (a file *{_ENDING[0]}); run it with pytest")
        elif path.exists():
            yield path
        else:
            raise NotFound("file", str(path))


async def _replay_file(app: App, file: Path, update: bool) -> dict[str, Any]:
    from ...testing.recording import read_case, update_case
    from ...testing.recording import replay as replayed_as

    try:
        case, _ = read_case(file)
        flow = case["flow"]
        loaded = await app.load_async(file.parent / flow if isinstance(flow, str) else flow)
        replayed = await replayed_as(case, loaded)
        differences, is_updated = replayed.differences, False
        # Without the answer of a call, an update would replace recorded answers by a failure.
        unrecorded = ", ".join(replayed.unrecorded) if update else ""
        if differences and update and not unrecorded:
            updated = update_case(case, replayed)
            saved(file, case_text(file, updated))
            # What an update cannot know still differs.
            remaining = (await replayed_as(updated, loaded)).differences
            differences, is_updated = remaining or differences, not remaining
    except RopewalkError as error:
        return {"file": str(file), "passed": False, "differences": [], **failure(error), "said": explain(error)}
    rows = [difference.to_dict() for difference in differences]
    result: dict[str, Any] = {"file": str(file), "passed": not rows, "updated": is_updated, "differences": rows}
    if unrecorded:
        result["said"] = escape_invisible(f"not updated, because no answer is recorded for these calls: {unrecorded}")
    return result


def case_text(file: Path, case: dict[str, Any]) -> str:
    """Return a test case as the text of its file."""
    if file.suffix == ".json":
        return json_text(case) + "\n"
    return dump(case)


def _test_lines(result: dict[str, Any]) -> Iterator[str]:
    mark = "✓" if result["passed"] else "↻" if result.get("updated") else "✗"
    note = ": accepted, the file now expects" if mark == "↻" else ""
    yield escape_invisible(f"{mark} {display_path(result['file'])}{note}")
    if "said" in result:
        yield result["said"]
    for difference in result["differences"][:_MOST]:
        yield escape_invisible(f"  {difference['path'] or 'outcome'}: {difference['message']}")
        for word in ("was", "now"):
            if difference["was"] is not None or difference["now"] is not None:
                yield escape_invisible(f"    {word} {first_line(orjson.dumps(difference[word]).decode(), 300)}")
    if len(result["differences"]) > _MOST:
        yield f"  and {len(result['differences']) - _MOST:,} more differences; --json has all"

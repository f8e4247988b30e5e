"""`test`: recorded runs, run again with what their tools gave."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import orjson
from cyclopts import Parameter

from ...errors import NotFound, RopewalkError
from ...source import dump, visible
from .answer import Answer
from .exits import DONE, FAILED, UsageError, explain, failure
from .files import saved
from .options import Json, Project
from .table import first_line

if TYPE_CHECKING:
    from ...app import App

_ENDING = (".test.yaml", ".test.yml", ".test.json")
_MOST = 20  # differences of one case that are shown
T = TypeVar("T")


def replay(
    *paths: Annotated[Path, Parameter(help="Files, or directories with *.test.yaml below them (default: here).")],
    update: Annotated[bool, Parameter(negative=(), help="Write what is now into the cases that differ.")] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Run recorded runs again, each with what its tools gave then, and show every difference. No tool is called,
    and no pause is waited for. `ropewalk runs export RUN --as-test` makes a case of a run."""
    files = list(_files(paths or (Path(),)))
    if not files:
        where = f"below {', '.join(map(str, paths))}" if paths else "here or in a directory below"
        raise UsageError(
            f"there is no recorded test {where}: one is a file *{_ENDING[0]}, and"
            " `ropewalk runs export RUN --as-test > NAME.test.yaml` makes it of a run"
        )

    async def work(app: App) -> list[dict[str, Any]]:
        return [await _one(app, file, update) for file in files]

    def opened() -> App:
        from ...app import App

        return App.open(project or Path.cwd(), store="memory")

    done = in_quick_time(work, opened)
    failed = sum(not one["passed"] for one in done)
    text = [line for one in done for line in _told(one)]
    text.append(f"{len(done) - failed} passed" + (f", {failed} failed" if failed else ""))
    return Answer(exit=FAILED if failed else DONE, data={"tests": done, "failed": failed}, text="\n".join(text))


def in_quick_time(work: Callable[[App], Awaitable[T]], opened: Callable[[], App]) -> T:
    """The work, on a loop where time passes at once. The app is opened there: its engine takes the clocks there are."""
    from .quick import quick_time

    with quick_time() as loop:

        async def main() -> T:
            async with opened() as app:
                return await work(app)

        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(main())


def _files(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.name.endswith(_ENDING))
        elif path.exists():
            yield path
        else:
            raise NotFound("file", str(path))


async def _one(app: App, file: Path, update: bool) -> dict[str, Any]:
    from ...testing.recording import read_case, updated
    from ...testing.recording import replay as replayed_as

    try:
        case, _ = read_case(file)
        flow = case["flow"]
        loaded = app.load(file.parent / flow if isinstance(flow, str) else flow)
        replayed = await replayed_as(case, loaded)
    except RopewalkError as error:
        return {"file": str(file), "passed": False, "differences": [], **failure(error), "said": explain(error)}
    differences = [difference.to_dict() for difference in replayed.differences]
    differ = bool(differences)
    if differ and update:
        saved(file, written(file, updated(case, replayed)))
    return {"file": str(file), "passed": not differ, "updated": differ and update, "differences": differences}


def written(file: Path, case: dict[str, Any]) -> str:
    """A case as the text of its file."""
    if file.suffix == ".json":
        return orjson.dumps(case, option=orjson.OPT_INDENT_2).decode() + "\n"
    return dump(case)


def _told(one: dict[str, Any]) -> Iterator[str]:
    yield visible(f"{'✓' if one['passed'] else '✗'} {one['file']}")
    if "said" in one:
        yield one["said"]
    for difference in one["differences"][:_MOST]:
        yield visible(f"  {difference['path'] or 'outcome'}: {difference['message']}")
        for word in ("was", "now"):
            if difference["was"] is not None or difference["now"] is not None:
                yield visible(f"    {word} {first_line(orjson.dumps(difference[word]).decode(), 300)}")
    if one.get("updated"):
        yield visible(f"  written: {one['file']} now expects what is now")
    if len(one["differences"]) > _MOST:
        yield f"  and {len(one['differences']) - _MOST:,} more differences; --json has all"

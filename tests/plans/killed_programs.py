"""Random programs in a process that is killed at random moments and started again, until every program has ended.

`Campaign(folder, url, texts)` prepares a folder; `advance(folder)` is what each process executes. Each call appends a
line to a file when it begins and when it succeeds, with the process and the call's idempotency key. Before it makes
new calls, each process writes down which calls the journal has.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

import fork_server
from ropewalk import App, IdempotencyKey, tool
from ropewalk.app.runs.program_rows import rows_of
from ropewalk.engine.compile.durable import failure_from_json
from ropewalk.engine.program_host import failure_in_program
from ropewalk.errors import NothingToRetry
from ropewalk.journal.address import open_store
from ropewalk.journal.protocol import Store
from ropewalk.plans.program import Program
from ropewalk.plans.rows import Row, step_key

from .grammar import PARAMETERS, Grammar
from .simulation import Simulation
from .test_grammar import world

CONCURRENT: Final = re.compile(r"create_task\(|gather\(|TaskGroup\(|as_completed\(|wait\(")
_UNCERTAIN: Final = re.compile(rf"{CONCURRENT.pattern}|timeout|wait_for|fail\(")
"""A program with this may have another result when its calls take longer, or when they are mended."""
NODE: Final = "program"
"""The node of the program in the flow of a plan."""
FURTHER: Final = (
    "await fail(value=1)",
    'task = asyncio.create_task(save("cancelled", 1))\nawait same(value=1)\ntask.cancel()',
    "try:\n    async with asyncio.timeout(1):\n        await asyncio.gather(asyncio.sleep(2), same(value=1))\n"
    'except TimeoutError:\n    out.append("timeout")',
    "results = await asyncio.gather(*(fail(value=n) for n in range(4)), return_exceptions=True)",
    "",
)
"""Statements that are added to the programs in turn: a failure that a retry helps, a cancellation, a timeout."""


async def programs(first: int, number: int) -> list[tuple[str, bool]]:
    """Return programs, of which every second one is concurrent, and whether it is."""
    found: list[tuple[str, bool]] = []
    async with App("memory", tools=tools_of(Notes(Path(os.devnull), 0))) as app:
        for seed in count(first):
            text, _, end = timed(Grammar(seed).program()).rpartition("\n")
            body, concurrent = text.partition("queue = asyncio.Queue()")[2], len(found) % 2 == 1
            if "(await" not in body or bool(CONCURRENT.search(body)) is not concurrent:
                continue
            text = f"{text}\n{FURTHER[len(found) % len(FURTHER)]}\n{end}"
            if not (await app.validate({"kind": "plan", "code": text, "function": True})).problems:
                found.append((text, concurrent))
            if len(found) == number:
                break
    return found


def timed(text: str) -> str:
    """Return a program whose short times are seconds, so that its timers are in its rows."""
    return re.sub(r"/ (?:10|20|30)\b", "* 1", text)


class Notes:
    """The file of calls, which outlives every process."""

    # dies_after: The process dies so many seconds after its first call.

    def __init__(self, folder: Path, process: int, dies_after: float | None = None) -> None:
        self._dies_after = dies_after
        self.folder, self.path, self.process = folder, folder / "calls.jsonl", process
        self._known = {note["key"]: note["result"] for note in self.all() if note["word"] == "succeeded"}
        self._saved = Counter(key.partition("/")[0] for key in self._known if key.endswith("/save"))

    def all(self) -> list[dict[str, Any]]:
        return list(map(json.loads, self.path.read_text().splitlines())) if self.path.exists() else []

    def mend(self, run: str) -> None:
        """Let no call of a run fail from now on."""
        (self.folder / f"mended-{run}").touch()

    def is_mended(self, run: str) -> bool:
        return (self.folder / f"mended-{run}").exists()

    def write(self, word: str, key: str, **more: Any) -> None:
        if self._dies_after is not None:
            threading.Timer(self._dies_after, os.kill, (os.getpid(), signal.SIGKILL)).start()
            self._dies_after = None
        note = {"word": word, "process": self.process, "key": key, **more}
        with self.path.open("a") as file:
            file.write(json.dumps(note) + "\n")

    def save(self, key: str) -> int:
        """Return how many values the run of a call has saved; a repeated call saves nothing."""
        if key in self._known:
            return int(self._known[key])
        run = key.partition("/")[0]
        self._saved[run] += 1
        self._known[key] = self._saved[run]
        return self._saved[run]


def tools_of(notes: Notes) -> list[Any]:
    """Return the tools of programs of the grammar; each call takes some milliseconds, and its success is noted."""

    async def call(call_key: str, result: Callable[[], Any]) -> Any:
        notes.write("begun", call_key)
        await asyncio.sleep(random.Random(call_key).random() / 50)
        value = result()
        notes.write("succeeded", call_key, result=value)
        return value

    @tool
    async def same(call_key: IdempotencyKey, value: Any) -> Any:
        """Return the value."""
        return await call(call_key, lambda: value)

    @tool
    async def save(call_key: IdempotencyKey, key: Any, value: Any) -> int:
        """Count what is saved."""
        return int(await call(call_key, lambda: notes.save(call_key)))

    @tool
    async def fail(call_key: IdempotencyKey, value: Any) -> Any:
        """Fail for odd numbers, until the run is mended."""

        def result() -> Any:
            if value % 2 and not notes.is_mended(call_key.partition("/")[0]):
                raise ValueError(f"bad {value}")
            return value

        return await call(call_key, result)

    return [same, save, fail]


# --- a process -------------------------------------------------------------------------------------


async def advance(folder: Path, process: int, dies_after: float | None) -> None:
    """Bring every program of a folder to its end; the process dies after some seconds, unless they are None."""
    notes = Notes(folder, process, dies_after)
    setting = json.loads((folder / "setting.json").read_text())
    async with App(setting["store"], tools=tools_of(notes)) as app:
        rows = [app.store.get_run(run) for run in setting["documents"]]
        recorded = {
            "interrupted": sum(row is not None and row.ended_at is None for row in rows),
            "calls": [key for run in setting["documents"] for key in recorded_calls(app.store, run)],
        }
        (folder / f"recorded-{process}.json").write_text(json.dumps(recorded))
        await asyncio.gather(*(bring_to_end(app, notes, *item) for item in setting["documents"].items()))
        if dies_after is not None:
            os.kill(os.getpid(), signal.SIGKILL)  # all programs have ended before the moment


async def bring_to_end(app: App, notes: Notes, run: str, document: dict[str, Any]) -> None:
    """Start, resume or retry a run until it has ended and cannot be retried."""
    row = app.store.get_run(run)
    if row is None:
        outcome = await app.run(document, run_id=run)
    else:
        outcome = await app.resume(run)
    if outcome["status"] != "completed":
        notes.mend(run)
        try:
            await app.runs.retry(run)
        except NothingToRetry:
            return


def recorded_calls(store: Store, run: str) -> list[str]:
    """Return the idempotency keys of the calls whose results are in the journal of a run."""
    return [f"{run}/{entry.path}" for entry in store.history(run) if entry.kind == "call"]


if __name__ == "__main__":
    seconds = float(sys.argv[3])
    asyncio.run(advance(Path(sys.argv[1]), int(sys.argv[2]), seconds if seconds >= 0 else None))


# --- a campaign ------------------------------------------------------------------------------------


class Campaign:
    """Some programs that are killed together, as runs of one store."""

    # counts: What happened.
    # faults: What must not have happened.

    def __init__(self, folder: Path, url: str, texts: list[tuple[str, bool]], prefix: str = "r") -> None:
        self.folder, self.url = folder, url
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        folder.mkdir(parents=True)
        self.documents: dict[str, dict[str, Any]] = {
            f"{prefix}{number}": {"kind": "plan", "code": text, "function": True}
            for number, (text, _) in enumerate(texts)
        }
        for document in islice(self.documents.values(), 0, None, 3):
            document["origin"] = "model"
        (folder / "setting.json").write_text(json.dumps({"store": url, "documents": self.documents}))
        self.counts["programs"], self.counts["concurrent"] = len(texts), sum(concurrent for _, concurrent in texts)

    def run(self, kills: int, longest: float, seed: int) -> None:
        """Kill the process at random moments, then let it end, and look for faults."""
        chance = random.Random(seed)
        for process in range(kills + 1):
            dies_after = chance.uniform(0, longest) if process < kills else -1
            words = [str(self.folder), str(process), str(dies_after)]
            command = [sys.executable, "-m", f"plans.{Path(__file__).stem}", *words]
            done = fork_server.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=600)
            if done.returncode != (-signal.SIGKILL if process < kills else 0):
                self.faults.append(f"process {process} ended with {done.returncode}: {done.stderr[-2000:]}")
                return
            self.counts["kills"] += process < kills
        store = open_store(self.url)
        try:
            self._judge(store, Notes(self.folder, kills + 1))
        finally:
            store.close()

    def _judge(self, store: Store, notes: Notes) -> None:
        begun, succeeded = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
        calls = {key: count for run in self.documents for key, count in known_calls(store, run).items()}
        for note in notes.all():
            place = note["process"], note["key"]
            (begun if note["word"] == "begun" else succeeded)[place] += 1
            if note["word"] == "succeeded" and succeeded[place] > calls.get(note["key"], 1):
                self.faults.append(f"{place} is called again in one process, although it has succeeded")
        for process in sorted({process for process, _ in begun}):
            recorded = json.loads((self.folder / f"recorded-{process}.json").read_text())
            known = set(recorded["calls"])
            self.counts["interrupted runs"] += recorded["interrupted"]
            self.counts["recorded calls at starts"] += len(known)
            again = {key for number, key in begun if number == process and key in known and calls.get(key, 1) == 1}
            self.faults += [f"{key} is recorded, and process {process} calls it again" for key in sorted(again)]
        made = {key for _, key in succeeded}
        self.counts["calls"] += len(made)
        for run, document in self.documents.items():
            keys = recorded_calls(store, run)
            self.faults += [f"{key} is recorded, and no call has succeeded" for key in keys if key not in made]
            self._compare(store, run, document["code"])

    def _compare(self, store: Store, run: str, text: str) -> None:
        """Compare the end of a run with a replay of its rows, which calls nothing."""
        row, rows = store.get_run(run), complete_rows(store, run)
        assert row is not None
        self.counts[row.status] += 1
        for status in ("cancelled", "failed", "due", "late"):
            self.counts[f"{status} rows"] += sum(recorded.status == status for recorded in rows)
        simulation = Simulation(PARAMETERS, lambda tool, arguments: None)
        outcome, _ = simulation.run(Program(text, PARAMETERS, function=True), rows=rows)
        result: Any = row.result
        if simulation.calls:
            self.faults.append(f"{run}: a replay of its rows calls {simulation.calls}")
        elif (outcome.status == "completed") != (row.status == "completed"):
            self.faults.append(f"{run} is {row.status}, and its replay {outcome.status}: {result['errors']}, {outcome}")
        elif outcome.status == "completed" and result["result"] != outcome.result:
            self.faults.append(f"{run} has the result {result['result']}, and its replay {outcome.result}")
        elif outcome.status == "completed" and not _UNCERTAIN.search(text.partition("queue = asyncio.Queue()")[2]):
            whole, _ = Simulation(PARAMETERS, world()).run(Program(text, PARAMETERS, function=True))
            self.counts["results compared with a run without kills"] += 1
            if whole.result != outcome.result:
                self.faults.append(f"{run} has the result {outcome.result}, and {whole.result} without a kill")


def known_calls(store: Store, run: str) -> dict[str, int]:
    """Return how many calls of a place the journal of a run has, by idempotency key."""
    # After a retry another place may take the result of a call, and its own place may make the call once more.
    begins: dict[str, set[float]] = {}
    for entry in store.history(run):
        place = entry.path
        if entry.kind == "row" and re.fullmatch(r".*\[offer-\d+\]", place):
            data: Any = entry.data
            place = f"{NODE}[{step_key(data[0])}]/{data[2]}"
        elif entry.kind != "call":
            continue
        begins.setdefault(f"{run}/{place}", set()).add(entry.started)
    return {key: len(times) for key, times in begins.items()}


def complete_rows(store: Store, run: str) -> list[Row]:
    """Return the rows of the program of a run; the result of a call comes from the entry of the call."""
    history = store.history(run)
    results = {entry.path: entry.data for entry in history if entry.kind == "call"}
    rows = []
    for row in rows_of(history).get(NODE, []):
        place = f"{NODE}[{step_key(row.path)}]/{row.name}"
        value: Any = row.value
        if row.kind == "call" and row.status == "ok" and place in results:
            value = json.dumps(results[place])
        elif row.status in ("failed", "late_failed"):
            value = json.dumps(failure_in_program(failure_from_json(value)))
        rows.append(replace(row, value=value))
    return rows

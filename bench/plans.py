"""Figures of plans: random programs, gold plans of public sets, mutants, sizes, times, and kills at every call.

    python bench/plans.py random --count 20000 --seed 0
    python bench/plans.py compile --count 500
    python bench/plans.py kills --count 200
    python bench/plans.py chain --count 50
    python bench/plans.py corpus
    python bench/plans.py gold --set nestful=DIR --set bfcl=DIR --set tau=DIR --set seal=DIR
    python bench/plans.py mutants --count 2000 --set nestful=DIR ...
    python bench/plans.py size --set nestful=DIR ...
    python bench/plans.py monty --count 300 --set bfcl=DIR

`random` executes each program with asyncio and as a plan and compares result, calls, printed text and error. `compile`
measures parsing, compiling and checking. `kills` kills the process before every call of each program and resumes it.
`chain` compares the run time of plans with chains of the same calls.
`corpus` compiles the programs of `tests/plans/corpus`. `gold` and `mutants` take the folder of each data set:
`plans_sets.py` and `plans_simulators.py` name their sources. `size` counts programs and stubs. `monty` times the check
of the same programs by Ropewalk and by Monty (`pip install pydantic-monty`).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import plans_chain
import plans_corpus
import plans_gold
import plans_kills
import plans_monty
import plans_mutants
import plans_random
import plans_sets
import plans_simulators
import plans_size
from plans.oracle import World, tools_of
from plans.programs import Writer
from ropewalk import App


async def measure_compile(count: int) -> None:
    """Print the CPU time to compile and check a program, in milliseconds."""
    took = []
    async with App("memory", tools=tools_of(World())) as app:
        for number in range(count):
            code = Writer(number).program()
            began = time.process_time()
            await app.validate({"kind": "plan", "code": code, "function": True})
            took.append(1000 * (time.process_time() - began))
    percentiles = statistics.quantiles(took, n=100)
    print(f"{count} programs: p50 {statistics.median(took):.2f} ms, p99 {percentiles[98]:.2f} ms")


SETS: dict[str, Callable[[Path], Iterator[plans_gold.Gold]]] = {
    "nestful": plans_sets.nestful,
    "seal": plans_sets.seal,
    "bfcl": plans_simulators.bfcl,
    "tau": plans_simulators.tau,
}
"""The readers of public data sets, by the name for `--set`."""


def run_gold(folders: dict[str, Path]) -> bool:
    """Compile and run the gold plans of each set; print what is excluded, refused or different, and the counts."""
    right = True
    for name, folder in folders.items():
        tally = asyncio.run(plans_gold.compare(SETS[name](folder)))
        print("\n".join([*tally.lines, tally.text(name)]))
        right &= tally.sound == tally.compiled == tally.identical
    return right


def golds_of(folders: list[tuple[str, Path]]) -> list[plans_gold.Gold]:
    """Return the sequences of all sets."""
    return [gold for name, folder in folders for gold in SETS[name](folder)]


def folder_of_set(text: str) -> tuple[str, Path]:
    """Return the name and the folder of `NAME=DIR`."""
    name, _, folder = text.partition("=")
    if name not in SETS or not Path(folder).is_dir():
        raise argparse.ArgumentTypeError(f"must be NAME=DIR with a name of {', '.join(SETS)} and a folder that exists")
    return name, Path(folder)


PARTS = ("random", "compile", "kills", "chain", "corpus", "gold", "mutants", "size", "monty")


def main() -> None:
    """Run the part that the command line names; exit with 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--count", type=int, default=500, help="programs")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of random programs")
    parser.add_argument("--seconds", type=float, default=86_400, help="stop `random` and `kills` after this time")
    parser.add_argument("--parallel", choices=["none", "reads"], default="none", help="calls of `random` that overlap")
    parser.add_argument("--set", type=folder_of_set, action="append", default=[], help="NAME=DIR of a data set")
    options = parser.parse_args()
    if options.part == "random":
        different = plans_random.compare(options.count, options.seed, options.seconds, options.parallel)
        raise SystemExit(different > 0)
    if options.part == "compile":
        asyncio.run(measure_compile(options.count))
    elif options.part == "kills":
        raise SystemExit(not plans_kills.measure(options.count, options.seconds))
    elif options.part == "chain":
        asyncio.run(plans_chain.measure(options.count))
    elif options.part == "corpus":
        raise SystemExit(not asyncio.run(plans_corpus.report()))
    elif options.part == "gold":
        raise SystemExit(not run_gold(dict(options.set)))
    elif options.part == "mutants":
        raise SystemExit(not asyncio.run(plans_mutants.measure(golds_of(options.set), options.count, options.seed)))
    elif options.part == "size":
        raise SystemExit(not plans_size.measure(golds_of(options.set)))
    elif options.part == "monty":
        asyncio.run(plans_monty.measure(golds_of(options.set), options.count))


if __name__ == "__main__":
    main()

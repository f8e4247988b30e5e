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
    python bench/plans.py grammar --count 20000 --seed 0
    python bench/plans.py programs --folder DIR
    python bench/plans.py cuts --count 500
    python bench/plans.py times --count 400
    python bench/plans.py attacks --bombs 150 --count 2000

`random` executes each program with asyncio and as a plan and compares result, calls, printed text and error. `compile`
measures parsing, compiling and checking. `kills` kills the process before every call of each program and resumes it.
`chain` compares the run time of plans with chains of the same calls.
`corpus` compiles the programs of `tests/plans/corpus`. `gold` and `mutants` take the folder of each data set:
`plans_sets.py` and `plans_simulators.py` name their sources. `size` counts programs and stubs. `monty` times the check
of the same programs by Ropewalk and by Monty (`pip install pydantic-monty`).

The last five are about the machine that interprets programs. `grammar` compares programs made from Python's grammar
with Python. `programs` does so with the corpus, or with the programs of another folder that call the same tools. `cuts`
cuts and resumes programs after every row, retries those that failed, and replays others while answers come in another
order. `times` measures checks, and calls in the process and in a child. `attacks` runs programs in children that want
time, memory, depth or output.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import plans_attacks
import plans_chain
import plans_corpus
import plans_cuts
import plans_gold
import plans_kills
import plans_machine
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
OF_MACHINE: dict[str, Callable[[argparse.Namespace], bool]] = {
    "grammar": lambda options: plans_machine.compare_grammar(options.count, options.seed, options.seconds),
    "programs": lambda options: plans_machine.compare_programs(options.folder),
    "cuts": lambda options: plans_cuts.cut_programs(options.count, options.seed, options.seconds),
    "times": lambda options: asyncio.run(plans_machine.measure_times(options.count)),
    "attacks": lambda options: asyncio.run(plans_attacks.attack(options.bombs, options.count, options.seed)),
}
"""The parts about the machine that interprets programs; each returns True if its aims are reached."""


def main() -> None:
    """Run the part that the command line names; exit with 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, *OF_MACHINE])
    parser.add_argument("--count", type=int, default=500, help="programs")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of random programs")
    parser.add_argument("--seconds", type=float, default=86_400, help="stop `random` and `kills` after this time")
    parser.add_argument("--parallel", choices=["none", "reads"], default="none", help="calls of `random` that overlap")
    parser.add_argument("--set", type=folder_of_set, action="append", default=[], help="NAME=DIR of a data set")
    parser.add_argument("--folder", type=Path, help="the folder of `programs`; the corpus without it")
    parser.add_argument("--bombs", type=int, default=150, help="programs of `attacks` that want too much")
    options = parser.parse_args()
    if options.part in OF_MACHINE:
        raise SystemExit(not OF_MACHINE[options.part](options))
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

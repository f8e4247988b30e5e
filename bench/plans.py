"""The figures of plans. Every program runs in an `App`, and Python itself is the judge.

    python bench/plans.py gold --set nestful=DIR --set bfcl=DIR --set tau=DIR --set seal=DIR
    python bench/plans.py graphs --set worf=DIR
    python bench/plans.py random --count 20000
    python bench/plans.py corpus
    python bench/plans.py mutants --count 2000 --set nestful=DIR ...
    python bench/plans.py checks
    python bench/plans.py cuts
    python bench/plans.py kills
    python bench/plans.py bombs --bombs 150 --count 2000
    python bench/plans.py times
    python bench/plans.py size --set nestful=DIR ...
    python bench/plans.py monty --count 300 --set bfcl=DIR
    python bench/plans.py all

`gold` runs the plans of public data sets, and `mutants` checks them with one fault each: `plans_sets.py` and
`plans_simulators.py` name the sources of the sets. `graphs` runs task graphs (`plans_graphs.py`). `random` compares
programs of Python's grammar with Python, in virtual time. `corpus` does so with programs as models and people write
them. `checks` measures check and compile. `cuts` cuts runs after every row, and `kills` kills real processes on SQLite
and Postgres; both are campaigns of the tests. `bombs` sends programs that want too much to `ropewalk serve` and
`ropewalk mcp --http --plans`. `times` measures runs in the process and in a child. `size` counts programs and stubs.
`monty` compares the time of the check with Monty's (`pip install pydantic-monty`). `all` runs everything that needs no
set, unless sets are named.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import plans_bombs
import plans_corpus
import plans_gold
import plans_graphs
import plans_monty
import plans_mutants
import plans_random
import plans_sets
import plans_simulators
import plans_size
import plans_times

ROOT = Path(__file__).parents[1]
SETS: dict[str, Callable[[Path], Iterator[plans_gold.Gold]]] = {
    "nestful": plans_sets.nestful,
    "seal": plans_sets.seal,
    "bfcl": plans_simulators.bfcl,
    "tau": plans_simulators.tau,
}
"""The readers of public data sets, by the name for `--set`."""
Options = argparse.Namespace


def gold(options: Options) -> bool:
    """Compile and run the gold plans of each set; print what is excluded, refused or different, and the counts."""
    right = True
    for name, folder in options.set:
        if name not in SETS:
            continue
        tally = asyncio.run(plans_gold.compare(SETS[name](folder)))
        print("\n".join([*tally.lines, tally.text(name)]))
        right &= tally.sound == tally.compiled == tally.identical
    return right


def corpus(options: Options) -> bool:
    """Check and run the programs of both folders."""
    passes = True
    for folder in plans_corpus.FOLDERS:
        is_accepted, found = asyncio.run(plans_corpus.report(folder))
        passes &= plans_corpus.compare(folder, found) and is_accepted
    return passes


def mutants(options: Options) -> bool:
    """Check gold plans with one fault each."""
    return asyncio.run(plans_mutants.measure(golds_of(options), options.count or 2000, options.seed))


def times(options: Options) -> bool:
    """Measure runs, and the evaluator."""
    return all([asyncio.run(plans_times.measure_runs()), plans_times.measure_evaluator()])


def campaign(name: str, file: str) -> Callable[[Options], bool]:
    """Return the part that runs the tests of a file with the full counts of their campaign."""

    def run(options: Options) -> bool:
        words = ["-q", "-s", "-n0", "-p", "no:cacheprovider", "--campaign", name, "--seed", str(options.seed + 1), file]
        return subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, check=False).returncode == 0

    return run


def monty(options: Options) -> bool:
    """Compare the time of the check with that of Monty."""
    asyncio.run(plans_monty.measure(golds_of(options), options.count or 300))
    return True


def golds_of(options: Options) -> list[plans_gold.Gold]:
    """Return the sequences of all sets."""
    return [gold for name, folder in options.set if name in SETS for gold in SETS[name](folder)]


def folder_of_set(text: str) -> tuple[str, Path]:
    """Return the name and the folder of `NAME=DIR`."""
    name, _, folder = text.partition("=")
    if name not in (*SETS, "worf") or not Path(folder).is_dir():
        names = ", ".join((*SETS, "worf"))
        raise argparse.ArgumentTypeError(f"must be NAME=DIR with a name of {names} and a folder that exists")
    return name, Path(folder)


def graphs(options: Options) -> bool:
    """Run the task graphs of a folder."""
    return all(asyncio.run(plans_graphs.compare(folder)) for name, folder in options.set if name == "worf")


NEED_SETS = ("gold", "graphs", "mutants", "size", "monty")
PARTS: dict[str, Callable[[Options], bool]] = {
    "gold": gold,
    "graphs": graphs,
    "random": lambda options: plans_random.compare(options.count or 20_000, options.seed, options.seconds),
    "corpus": corpus,
    "mutants": mutants,
    "checks": lambda options: asyncio.run(plans_times.measure_checks()),
    "cuts": campaign("plans", "tests/plans/test_machine_cuts.py"),
    "kills": campaign("recovery", "tests/plans/test_plan_kills.py"),
    "bombs": lambda options: plans_bombs.attack(options.bombs, options.count or 2000, options.seed, options.seconds),
    "times": times,
    "size": lambda options: plans_size.measure(golds_of(options)),
    "monty": monty,
}
"""The parts; each returns True if its aims are reached."""


def main() -> None:
    """Run the parts that the command line names; exit with 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, "all"])
    parser.add_argument("--count", type=int, help="programs")
    parser.add_argument("--seed", type=int, default=0, help="the first seed of random programs")
    parser.add_argument("--seconds", type=float, default=86_400, help="stop `random` and each server of `bombs` then")
    parser.add_argument("--set", type=folder_of_set, action="append", default=[], help="NAME=DIR of a data set")
    parser.add_argument("--bombs", type=int, default=150, help="programs of `bombs` that want too much")
    options = parser.parse_args()
    names = [options.part]
    if options.part == "all":
        names = [name for name in PARTS if name != "monty" and (options.set or name not in NEED_SETS)]
    elif options.part in NEED_SETS and not options.set:
        print(f"{options.part} needs the folder of a data set: --set NAME=DIR")
        return
    missed = []
    for name in names:
        print(f"--- {name}", flush=True)
        missed += [] if PARTS[name](options) else [name]
    if missed:
        raise SystemExit(f"aims missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()

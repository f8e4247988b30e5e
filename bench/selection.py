"""How well and how fast tools are selected, beside BM25, the documented formula, and other libraries.

    python bench/select.py FOLDER... [--minilm [MODEL.onnx]] [--multilingual] [--only NAME...] [--misspelt]
        [--languages] [--learnt] [--json OUT]
    python bench/select.py FOLDER FOLDER... --reliability

A folder holds tools.jsonl {name, description, category?, inputSchema?} and queries.jsonl {query, gold: [names],
alts?: {gold: [names as good]}, cands?: [names]}; `cands` gives the restricted choice. Times are CPU per query.
Nothing is learnt while it is measured.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

from select_data import MEASURES, Set, in_other_languages, load, mean, measure
from select_peers import CONTENDERS, Contender, Missing

SHOWN = ("hit@1", "recall@1", "recall@3", "recall@5", "recall@10", "all@5", "MRR", "nDCG@10")


def resident() -> float:
    """Megabytes in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
    return pages * 4096 / 1e6


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def measured(contender: Contender, one: Set, most: int | None = None) -> dict[str, Any]:
    before, start = resident(), time.process_time()
    contender.build(one.tools)
    row: dict[str, Any] = {"build s": time.process_time() - start, "memory MB": resident() - before}
    queries = one.queries if most is None else one.queries[:: max(1, len(one.queries) // most)]
    figures, times, chosen = [], [], []
    contender.rank(queries[0]["query"], 10)  # what is loaded at first use is no query's
    for query in queries:
        begin = time.process_time()
        ranked = contender.rank(query["query"], 10)
        times.append((time.process_time() - begin) * 1000)
        figures.append(measure(ranked, query))
        if query.get("cands") and contender.restricts:
            among = contender.rank(query["query"], 10, query["cands"])
            chosen.append(measure(among, query)[0])
    row.update(zip(MEASURES, mean(figures), strict=True))
    row |= {"p50 ms": percentile(times, 0.5), "p99 ms": percentile(times, 0.99), "queries": len(queries)}
    if chosen:
        row["restricted hit@1"] = sum(chosen) / len(chosen)
    return row


def line(name: str, row: dict[str, Any]) -> str:
    text = f"{name:24}" + "".join(f"{row[what]:>10.3f}" for what in SHOWN)
    text += f"{row['p50 ms']:>9.2f}{row['p99 ms']:>9.2f}{row['build s']:>9.2f}{row['memory MB']:>9.1f}"
    return text + (f"{row['restricted hit@1']:>12.3f}" if "restricted hit@1" in row else "")


def heading(one: Set) -> str:
    head = f"\n{one.name}: {len(one.tools)} tools, {len(one.queries)} queries\n{'':24}"
    return head + "".join(f"{what:>10}" for what in (*SHOWN,)) + "   p50 ms   p99 ms  build s       MB  restricted"


def misspelt(text: str, share: float, chance: random.Random) -> str:
    """A text with a slip in so many of its long words: a letter left out, doubled, changed, or two swapped."""
    made = []
    for word in text.split(" "):
        if len(word) >= 6 and word.isalpha() and chance.random() < share:
            at = chance.randrange(1, len(word) - 2)
            letter = chance.choice("abcdefghijklmnopqrstuvwxyz")
            kind = chance.randrange(4)
            word = [
                word[:at] + word[at + 1 :],
                word[:at] + word[at] + word[at:],
                word[:at] + letter + word[at + 1 :],
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            ][kind]
        made.append(word)
    return " ".join(made)


def with_slips(one: Set) -> Set:
    chance = random.Random(7)
    queries = [{**query, "query": misspelt(query["query"], 0.25, chance), "cands": None} for query in one.queries]
    return Set(f"{one.name}, a quarter of long words misspelt", one.tools, queries)


def learnt(contender: Any, one: Set, each: int = 8) -> dict[str, Any]:
    """What eight remembered requests of each tool change: they are taken from the queries, the others are measured."""
    seen: dict[str, int] = {}
    teach, ask = [], []
    for query in random.Random(3).sample(one.queries, len(one.queries)):
        gold = query["gold"][0]
        if len(query["gold"]) == 1 and seen.get(gold, 0) < each:
            seen[gold] = seen.get(gold, 0) + 1
            teach.append(query)
        else:
            ask.append(query)
    rest = Set(one.name, one.tools, ask)
    plain = measured(contender, rest)
    contender.build(one.tools)
    for query in teach:
        contender.record(query["query"], query["gold"][0])
    figures = mean([measure(contender.rank(query["query"], 10), query) for query in ask])
    return {
        "plain": plain,
        "learnt": dict(zip(MEASURES, figures, strict=True)),
        "taught": len(teach),
        "asked": len(ask),
    }


def show(one: Set, given: argparse.Namespace) -> dict[str, Any]:
    print(heading(one), flush=True)
    rows: dict[str, Any] = {}
    for name, make in CONTENDERS.items():
        if given.only and name not in given.only:
            continue
        try:
            contender = make(given)
        except Missing as why:
            rows[name] = {"skipped": str(why)}
            print(f"{name:24}skipped: {why}", flush=True)
            continue
        rows[name] = measured(contender, one, contender.most)
        note = f"  (every {len(one.queries) // rows[name]['queries']}th query)" if contender.most else ""
        print(line(name, rows[name]) + note, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="select.py", description="How well and how fast tools are selected.")
    parser.add_argument("folders", nargs="+", help="folders with tools.jsonl and queries.jsonl")
    parser.add_argument("--minilm", nargs="?", const="", help="MiniLM too: an ONNX file, else the packaged one")
    parser.add_argument("--multilingual", action="store_const", const=True, help="the multilingual model too")
    parser.add_argument("--only", nargs="+", choices=list(CONTENDERS), help="only these")
    parser.add_argument("--misspelt", action="store_true", help="also with a quarter of the long words misspelt")
    parser.add_argument("--languages", action="store_true", help="also with requests in other languages than English")
    parser.add_argument("--learnt", action="store_true", help="also with eight remembered requests for each tool")
    parser.add_argument("--reliability", action="store_true", help="only what scores are worth on sets not fitted on")
    parser.add_argument("--json", help="write the figures here too")
    given = parser.parse_args()
    out: dict[str, Any] = {}
    if given.reliability:
        if len(given.folders) < 2:
            parser.error("--reliability needs two folders or more: it fits on all but one, and measures that one")
        from select_reliability import reliability
        from select_reliability import show as show_reliability

        rows = reliability([load(folder) for folder in given.folders])
        show_reliability(rows)
        out["reliability"] = rows
    for folder in given.folders if not given.reliability else ():
        one = load(folder)
        out[one.name] = show(one, given)
        for other in in_other_languages(one) if given.languages else ():
            out[other.name] = show(other, given)
        if given.misspelt:
            slips = with_slips(one)
            contender = CONTENDERS["ropewalk"](given)
            out[slips.name] = {"ropewalk": measured(contender, slips)}
            print(line("misspelt", out[slips.name]["ropewalk"]), flush=True)
        if given.learnt:
            got = learnt(CONTENDERS["ropewalk learning"](given), one)
            out[f"{one.name}, learnt"] = got
            told = [
                f"{name} hit@1 {got[name]['hit@1']:.3f} recall@5 {got[name]['recall@5']:.3f}"
                for name in ("plain", "learnt")
            ]
            print(f"{got['taught']} requests remembered, {got['asked']} asked: " + "; ".join(told), flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps(out, indent=1))

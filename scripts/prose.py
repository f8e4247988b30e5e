"""Check the English of docs, CLI help, messages and docstrings against the rules of this project's style.

    python scripts/prose.py                 # everything, with the limits; exit code 1 above one of them
    python scripts/prose.py docs/waits.md   # every finding in these files; exit code 1 if there are any

Rules: at most 5 % of the sentences have more than 30 words, no sentence uses a phrase of PHRASES, and a page has at
most 1,200 words outside code. CLI help is read in docs/reference/commands.md, which is made from it.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

PROJECT: Final = Path(__file__).resolve().parents[1]
SENTENCE_WORDS: Final = 30
FEWEST_WORDS: Final = 4  # shorter ones, such as table cells, do not count as sentences
PAGE_WORDS: Final = 1_200
GENERATED: Final = frozenset(f"docs/reference/{name}.md" for name in ("commands", "definitions", "http"))

# Pages that are still longer than PAGE_WORDS. Remove a page when it is shorter; add none.
LONG_PAGES: Final[frozenset[str]] = frozenset()

# The limits of each group: the share of long sentences, and the number of phrases to reword. Never raise one.
LIMITS: Final = {
    "docs": (0.01, 0),
    "help": (0.01, 0),
    "docstrings": (0.01, 0),
    "messages": (0.01, 0),
}

# A phrase (a regular expression without regard to case), and what to write instead.
PHRASES: Final = {
    r"(?:(?:is|are|was|be|been|being) )?\btold\b": "reported, emitted, shown",
    r"\b(?:goes|going|went|gone) on\b|\bgo on with\b|\bgo on\b": "continue, resume",
    r"\blets? go of\b|\bletting go of\b": "release",
    r"\banew\b": "again; restart",
    r"\bst(?:ands?|ood|anding) (?:in|at|on|there|twice|before|after|behind|beside|where|here)\b": "is in",
    r"\bbeside\b": "next to, in addition to",
    r"\bso many\b": "N, the given number",
    r"\bmend(?:s|ed|ing)?\b": "fix, repair",
    r"\bbroken off\b|\bbreaks? off\b|\bbroke off\b": "interrupted",
    r"\bunder way\b": "in progress, running",
    r"\bin line\b": "queued",
    r"\btime line\b": "timeline",
    r"\bcircles?\b": "cycle",
    r"\bstrays\b": "orphaned runs",
    r"\btoo dear\b|\bwhat is dear\b": "expensive",
    r"\b(?:as|with|by) that\.": "end with the noun",
    r"\bof before\b": "earlier, previous",
    r"\b(?:a|the|one|is|are) (?:\w+ ){0,2}called so\b": "of this name",
    r"(?<!there )(?<!there')\b(?:is|are) no (?!longer\b|more\b|need\b|way\b|limit\b|guarantee\b)\w+": "is not a ...",
    r"\ball else\b": "everything else",
    r"\bis had\b|\bare had\b|\bto be had\b": "is available",
}
# Words for the inside of Ropewalk, which pages for users do not need.
USER_PHRASES: Final = {
    r"\bregions?\b": "block",
    r"\b(?:a|the|every|each|all|which|other) doors?\b": "interface: CLI, HTTP, MCP, web UI",
    r"\bthe page shows\b": "the web UI shows",
    r"\brun[- ]?chains?\b": "composite tool",
    r"\b(?:every|each|other|all) formats?\b|\bthe format's\b": "notation",
    r"\b(?:an|the|each|every|whole|past|earlier) executions?\b": "run",
}
# Names, also in code, that users no longer see, and the pages on which they keep their meaning.
FORMER_NAMES: Final = {
    r"\bexecutionId\b": frozenset({"docs/chains.md", "docs/chains-api.md", "docs/compositions-api.md"}),
    r"\bkind\W{1,3}(?:runchain|flow)\b": frozenset(),
}
OPENINGS: Final = re.compile(r"(?:What|Who|That which|Of which)\b(?!.*\?$)")
ENDINGS: Final = re.compile(r"\b(?:so|as that|of before)\.$")


def _compiled(phrases: dict[str, str]) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in phrases.items()]


_PHRASES = _compiled(PHRASES)
_USER_PHRASES = _compiled(USER_PHRASES)
_ANY_PHRASE = re.compile("|".join((*PHRASES, *USER_PHRASES)), re.IGNORECASE)
_END = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[*`]*[A-Z0-9`$<])")
_WORD = re.compile(r"[A-Za-z0-9][\w'’.,%-]*")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|no|approx)\.", re.IGNORECASE)
_CODE = "`code`"


@dataclass(frozen=True)
class Text:
    """A piece of prose: a paragraph, a list item, a table cell, a docstring or a message."""

    path: str
    line: int
    text: str
    is_heading: bool = False

    def sentences(self) -> Iterator[str]:
        plain = _ABBREVIATION.sub(r"\1", " ".join(self.text.split()))
        yield from (sentence.strip() for sentence in _END.split(plain) if _WORD.search(sentence))


@dataclass(frozen=True)
class Finding:
    """A breach of a rule."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Report:
    """What a group of texts holds."""

    sentences: int
    long: tuple[Finding, ...]
    phrases: tuple[Finding, ...]

    @property
    def long_share(self) -> float:
        return len(self.long) / self.sentences if self.sentences else 0.0


def examine(texts: Iterable[Text]) -> Report:
    """Find long sentences and phrases of PHRASES."""
    count = 0
    long: list[Finding] = []
    phrases: list[Finding] = []
    for text in texts:
        for sentence in text.sentences():
            words = len(_WORD.findall(sentence))
            count += words >= FEWEST_WORDS
            if words > SENTENCE_WORDS:
                long.append(Finding(text.path, text.line, f"{words} words: {sentence[:100]}..."))
            phrases += [Finding(text.path, text.line, message) for message in phrase_problems(sentence, text)]
    return Report(count, tuple(long), tuple(phrases))


def phrase_problems(sentence: str, text: Text) -> Iterator[str]:
    is_for_users = text.path.startswith(("docs/", "README"))
    patterns = [*_PHRASES, *(_USER_PHRASES if is_for_users else ())] if _ANY_PHRASE.search(sentence) else ()
    for pattern, advice in patterns:
        if match := pattern.search(sentence):
            yield f"'{match[0]}' (write: {advice}): {sentence[:100]}"
    is_title = text.is_heading or (len(sentence) < 50 and sentence[-1] not in ".:;")
    if not is_title and OPENINGS.match(sentence):
        yield f"opens with '{sentence.split()[0]}': {sentence[:100]}"
    if ENDINGS.search(sentence):
        yield f"ends with '{sentence.split()[-1]}': {sentence[-100:]}"


# --- Markdown ---------------------------------------------------------------------------------------------------------


def markdown_texts(path: Path) -> Iterator[Text]:
    """Yield the prose of a Markdown page; code is left out."""
    name = path.relative_to(PROJECT).as_posix()
    tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    line = 1
    for index, token in enumerate(tokens):
        if token.map:
            line = token.map[0] + 1
        if token.type == "inline":
            text = _inline_text(token.children or [])
            if text.strip() and text.strip() != _CODE:
                yield Text(name, line, text, tokens[index - 1].type == "heading_open")


def _inline_text(children: list[Token]) -> str:
    parts = {"code_inline": lambda token: _CODE, "softbreak": lambda token: " ", "text": lambda token: token.content}
    return "".join(parts[token.type](token) for token in children if token.type in parts)


def count_words(path: Path) -> int:
    """Return the number of words of a page outside code blocks."""
    return sum(len(text.text.split()) for text in markdown_texts(path))


def pages() -> list[Path]:
    names = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "examples/README.md", "bench/README.md")
    return [*(PROJECT / name for name in names), *sorted((PROJECT / "docs").rglob("*.md"))]


# --- Python -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _definitions(node: ast.AST) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield a module and what it defines at any depth; expressions, which define nothing with a docstring, are left
    out."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        inner = getattr(node, field, ())
        for child in inner if isinstance(inner, list) else ():
            yield from _definitions(child)


def docstrings(path: Path) -> Iterator[Text]:
    """Yield the paragraphs and entries of all docstrings of a module."""
    name = path.relative_to(PROJECT).as_posix()
    for node in _definitions(_tree(path)):
        if text := ast.get_docstring(node):
            line = node.body[0].lineno
            yield from (Text(name, line, paragraph) for paragraph in docstring_paragraphs(text))


def docstring_paragraphs(text: str) -> Iterator[str]:
    """Split a docstring at empty lines, list items and entries of sections; code and drawings are left out."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"``[^`]+``|`[^`]+`", _CODE, text)
    for block in re.split(r"\n\s*\n", text):
        if re.search(r"[│├└]|^\s*>>>|^ {4,}\S", block) and not re.match(r"\w+:\n", block):
            continue
        entries = re.split(r"\n(?=\s*(?:[-*] |\**\w+(?: \([^)]*\))?: ))|(?<=:)\n(?=\s{4})", block)
        yield from (" ".join(textwrap.dedent(entry).split()) for entry in entries if entry.strip())


_NO_PROSE = re.compile(
    r"\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|PRAGMA|BEGIN|WITH|DROP|FROM|WHERE)\b|[{}\\]|<\w+"
)


def messages(path: Path) -> Iterator[Text]:
    """Yield the texts of a module that look like messages to people: strings of four words or more."""
    name = path.relative_to(PROJECT).as_posix()
    for line, text in _strings(_tree(path)):
        if len(_WORD.findall(text)) >= 4 and not _NO_PROSE.search(text):
            yield Text(name, line, text)


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings below a node that are not docstrings; the values in an f-string count as one word each."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    elif isinstance(node, ast.JoinedStr):
        yield node.lineno, "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
    elif not isinstance(node, ast.Name | ast.expr_context):
        for child in ast.iter_child_nodes(node):
            yield from _strings(child)


def source_files() -> list[Path]:
    return sorted((PROJECT / "src").rglob("*.py"))


# --- the whole --------------------------------------------------------------------------------------------------------


def groups() -> dict[str, list[Text]]:
    """Return all texts of the project by the groups of LIMITS."""
    commands = PROJECT / "docs" / "reference" / "commands.md"
    of_files = [(list(docstrings(file)), list(messages(file))) for file in source_files()]
    return {
        "docs": [text for page in pages() if page != commands for text in markdown_texts(page)],
        "help": list(markdown_texts(commands)),
        "docstrings": [text for texts, _ in of_files for text in texts],
        "messages": [text for _, texts in of_files for text in texts],
    }


def long_pages() -> Iterator[Finding]:
    """Find pages of docs/ with more than PAGE_WORDS words, those of LONG_PAGES included."""
    for page in sorted((PROJECT / "docs").rglob("*.md")):
        name = page.relative_to(PROJECT).as_posix()
        words = count_words(page)
        if name not in GENERATED and words > PAGE_WORDS:
            yield Finding(name, 1, f"{words:,} words; a page has at most {PAGE_WORDS:,}")


def former_names() -> Iterator[Finding]:
    """Find the names of FORMER_NAMES in docs, examples, templates and the web UI."""
    folders = ("docs", "examples", "page/src", "src/ropewalk/doors/cli/template")
    files = [file for folder in folders for file in sorted((PROJECT / folder).rglob("*.*"))]
    for file in (PROJECT / "README.md", *files):
        name = file.relative_to(PROJECT).as_posix()
        if file.suffix not in (".md", ".yaml", ".txt", ".ts", ".tsx", ".py", ".json", ".toml"):
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            for pattern, pages in FORMER_NAMES.items():
                if name not in pages and (match := re.search(pattern, line)):
                    yield Finding(name, number, f"{match[0]!r} is a former name")


def problems() -> Iterator[str]:
    """Yield what is above its limit, with examples."""
    for name, texts in groups().items():
        report = examine(texts)
        share, most_phrases = LIMITS[name]
        if report.long_share > share:
            yield f"{name}: {report.long_share:.1%} of the sentences exceed {SENTENCE_WORDS} words; limit {share:.1%}"
            yield from (f"  {finding}" for finding in report.long[:20])
        if len(report.phrases) > most_phrases:
            yield f"{name}: {len(report.phrases)} phrases to reword; limit {most_phrases}"
            yield from (f"  {finding}" for finding in report.phrases[:20])
    yield from map(str, former_names())
    yield from (str(finding) for finding in long_pages() if finding.path not in LONG_PAGES)


def summary() -> Iterator[str]:
    for name, texts in groups().items():
        report = examine(texts)
        yield (
            f"{name}: {report.sentences:,} sentences, {report.long_share:.1%} longer than {SENTENCE_WORDS} words, "
            f"{len(report.phrases)} phrases to reword"
        )
        counts = Counter(finding.path for finding in (*report.long, *report.phrases))
        yield from (f"  {count:4} {path}" for path, count in counts.most_common(5))


def findings_in(path: Path) -> Iterator[Finding]:
    """Yield every finding in one file."""
    texts = [*docstrings(path), *messages(path)] if path.suffix == ".py" else list(markdown_texts(path))
    report = examine(texts)
    yield from sorted((*report.long, *report.phrases), key=lambda finding: finding.line)


def main(arguments: list[str]) -> int:
    if arguments:
        lines = [str(finding) for argument in arguments for finding in findings_in(Path(argument).resolve())]
    else:
        lines = list(problems())
        sys.stdout.write("\n".join(summary()) + "\n")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

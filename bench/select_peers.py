"""Who is measured by selection.py: Ropewalk's strategies, BM25, and other libraries where they are installed.

Each library is used the way its own documents show. To add one, write a class with `build` and `rank` and name it in
CONTENDERS.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any


class Missing(Exception):
    """A contender that is not installed, or not asked for."""


def needs(module: str, what: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Missing(f"pip install {what} ({error})") from error


def text_of(tool: dict[str, Any]) -> str:
    """A tool as plain text: name, description, parameters."""
    properties = (tool.get("inputSchema") or {}).get("properties", {})
    said = [f"{name} {inner.get('description', '')}" for name, inner in properties.items() if isinstance(inner, dict)]
    return f"{tool['name']} {tool['description']} {' '.join(said)}"


class Contender:
    """Something that ranks tools. `most` bounds how many queries it is asked; `restricts`: it takes a list to choose
    from."""

    most: int | None = None
    restricts = False

    def build(self, tools: list[dict[str, Any]]) -> None:
        raise NotImplementedError

    def rank(self, query: str, most: int, among: Sequence[str] | None = None) -> list[str]:
        raise NotImplementedError


class Ropewalk(Contender):
    restricts = True

    def __init__(self, given: Any, strategy: str = "hybrid", model: str = "none", learn: bool = False) -> None:
        self.strategy, self.learn, self.embedder = strategy, learn, model
        if strategy != "hybrid":
            self.most = 300
        if model != "none" and vars(given)[model] is None:
            raise Missing(f"not asked for: --{model}")
        if model == "minilm" and given.minilm:
            from ropewalk.select.embedding import MiniLM

            self.embedder = MiniLM(given.minilm)

    def build(self, tools: list[dict[str, Any]]) -> None:
        from ropewalk.select.selector import Selector

        self.selector = Selector(tools, embedder=self.embedder, learn=self.learn)

    def rank(self, query: str, most: int, among: Sequence[str] | None = None) -> list[str]:
        options: dict[str, Any] = {"strategy": self.strategy, "maxResults": most, "threshold": 0}
        if among is not None:
            options["allowTools"] = among
        return [one["name"] for one in self.selector.select(query, options)._data["results"]]

    def record(self, query: str, tool: str) -> None:
        self.selector.record(query, tool, True)


class AsShipped(Ropewalk):
    """With the default threshold and number of results."""

    restricts = False

    def rank(self, query: str, most: int, among: Sequence[str] | None = None) -> list[str]:
        return [one["name"] for one in self.selector.select(query)._data["results"]]


class Bm25s(Contender):
    def __init__(self, given: Any) -> None:
        self.bm25s = needs("bm25s", "bm25s")
        import Stemmer

        self.stemmer = Stemmer.Stemmer("english")

    def build(self, tools: list[dict[str, Any]]) -> None:
        self.names = [tool["name"] for tool in tools]
        tokens = self.bm25s.tokenize(
            [text_of(t) for t in tools], stopwords="en", stemmer=self.stemmer, show_progress=False
        )
        self.index = self.bm25s.BM25()
        self.index.index(tokens, show_progress=False)

    def rank(self, query: str, most: int, among: Sequence[str] | None = None) -> list[str]:
        tokens = self.bm25s.tokenize([query], stopwords="en", stemmer=self.stemmer, show_progress=False)
        found, scores = self.index.retrieve(tokens, k=min(most, len(self.names)), show_progress=False)
        return [self.names[n] for n, score in zip(found[0], scores[0], strict=True) if score > 0]


class FastMcp(Contender):
    """`BM25SearchTransform`, which a FastMCP server puts in the place of its list of tools."""

    most = 300

    def __init__(self, given: Any) -> None:
        self.search = needs("fastmcp.server.transforms.search", "fastmcp")
        self.tools = needs("fastmcp.tools", "fastmcp")

    def build(self, tools: list[dict[str, Any]]) -> None:
        empty = {"type": "object", "properties": {}}
        make = self.tools.Tool
        self.known = [
            make(name=t["name"], description=t["description"], parameters=t.get("inputSchema") or empty) for t in tools
        ]
        self.transform = self.search.BM25SearchTransform(max_results=10)

    def rank(self, query: str, most: int, among: Sequence[str] | None = None) -> list[str]:
        return [tool.name for tool in asyncio.run(self.transform._search(self.known, query))][:most]


class LlamaIndex(Contender):
    most = 500

    def __init__(self, given: Any) -> None:
        self.bm25 = needs("llama_index.retrievers.bm25", "llama-index-retrievers-bm25")
        self.schema = needs("llama_index.core.schema", "llama-index-core")

    def build(self, tools: list[dict[str, Any]]) -> None:
        node = self.schema.TextNode
        nodes = [node(text=text_of(tool), id_=str(n)) for n, tool in enumerate(tools)]
        self.names = [tool["name"] for tool in tools]
        self.retriever = self.bm25.BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=min(10, len(nodes)))

    def rank(self, query: str, most: int, among: Sequence[str] | None = None) -> list[str]:
        return [self.names[int(found.node.node_id)] for found in self.retriever.retrieve(query)][:most]


class Haystack(Contender):
    """`SearchableToolset`: its search tool, called as a model would."""

    most = 300

    def __init__(self, given: Any) -> None:
        self.tools = needs("haystack.tools", "haystack-ai")
        if not hasattr(self.tools, "SearchableToolset"):
            raise Missing("pip install -U haystack-ai: this one has no SearchableToolset")

    def build(self, tools: list[dict[str, Any]]) -> None:
        empty = {"type": "object", "properties": {}}
        made = []
        for tool in tools:
            schema = json.loads(json.dumps(tool.get("inputSchema") or empty))
            try:
                made.append(self.tools.Tool(tool["name"], tool["description"], schema, function=lambda **_: None))
            except ValueError:  # a schema it does not take
                made.append(self.tools.Tool(tool["name"], tool["description"], empty, function=lambda **_: None))
        self.toolset = self.tools.SearchableToolset(catalog=made, top_k=10)
        self.toolset.warm_up()

    def rank(self, query: str, most: int, among: Sequence[str] | None = None) -> list[str]:
        found = self.toolset._document_store.bm25_retrieval(query=query, top_k=most)
        return [document.meta["tool_name"] for document in found]


CONTENDERS: dict[str, Callable[[Any], Contender]] = {
    "ropewalk": Ropewalk,
    "ropewalk, defaults": AsShipped,
    "ropewalk + MiniLM": lambda given: Ropewalk(given, model="minilm"),
    "ropewalk + multilingual": lambda given: Ropewalk(given, model="multilingual"),
    "ropewalk learning": lambda given: Ropewalk(given, learn=True),
    "documented formula": lambda given: Ropewalk(given, strategy="legacy_hybrid"),
    "bm25s": Bm25s,
    "FastMCP": FastMcp,
    "LlamaIndex BM25": LlamaIndex,
    "Haystack": Haystack,
}

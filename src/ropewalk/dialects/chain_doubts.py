"""What a chain says that can hardly be meant, times past that of the chain, fallbacks that are missing."""

from __future__ import annotations

from collections.abc import Iterator

from ..values import Json
from .chain import ChainDocument, ChainNode
from .fields import Report, join, say

_OUTSIDE = ("tool", "wait")  # what fails by what is outside of the chain


def doubts(chain: ChainDocument, report: Report) -> None:
    """Report the times that can never be over, and the nodes without a fallback where others have one."""
    nodes = list(_all(chain.nodes))
    _times(nodes, chain.fields["timeout"], report)
    if chain.fields["errorStrategy"] == "fallback":
        without = [n for n in nodes if n.type in _OUTSIDE and not _handled(n)]
        if not any("fallback" in n.fields and _strategy(n) == "fallback" and not n.get("onError") for n in nodes):
            say(report, "errorStrategy", "no node has a fallback, so that this is the same as stop")
            return
        for node in without:
            say(report, node.path, "has no fallback, so that its failure stops the chain; `fallback: null` gives null")


def _all(nodes: list[ChainNode]) -> Iterator[ChainNode]:
    for node in nodes:
        yield node
        for body in node.bodies.values():
            yield from _all(body)


def _strategy(node: ChainNode) -> Json:
    return node.get("errorStrategy") or "fallback"


def _handled(node: ChainNode) -> bool:
    """Whether a failure of the node has somewhere to go, or it says itself what is to be done."""
    return bool("fallback" in node.fields or node.get("onError") or node.get("errorStrategy"))


def _times(nodes: list[ChainNode], limit: Json, report: Report) -> None:
    if not limit:
        return  # none
    has = f"of the chain, {limit} ms"
    for node in nodes:
        delay, own = node.get("delay"), node.get("timeout")
        if node.type == "delay" and type(delay) in (int, float):
            if own and delay >= own:
                say(report, join(node.path, "delay"), f"is never over: the timeout of this node is {own} ms")
            elif delay >= limit:
                say(report, join(node.path, "delay"), f"is never over: that is past the timeout {has}; raise that")
        if node.type != "wait" and own and own > limit:
            say(report, join(node.path, "timeout"), f"is never reached: it is past the timeout {has}; raise that")

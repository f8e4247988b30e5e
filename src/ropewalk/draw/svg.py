"""A flow as an SVG picture: one file without scripts, fonts or links, on light and dark pages.

`draw.draw` calls `svg`. First the flow is measured from the inside out, because a box is as large as the regions in it
(`_measure_region`, `_measure_node`; `layout.py` gives the nodes of a region their places). Then it is drawn from the
outside in, when the place of each box is known.
"""

from __future__ import annotations

import html
import re
import unicodedata
import zlib
from dataclasses import dataclass, field

from ..ir import Flow
from .diagram import size_of, view_of
from .layout import Placed, Point, Size, place
from .view import Facts, Region

_STYLE = (
    # Texts: .id and .k are the id and the kind of a node, .c is a condition, .h and .l are the id and the other lines
    # of a node with regions. Shapes: .n is a node, .g a node with regions, .b a region, .e an edge, .a its arrow.
    "text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1f2328}"
    ".id{font-weight:600;font-size:13px}.k{fill:#57606a}.c{fill:#9a6700;font-style:italic}"
    ".h{fill:#7d8590;font-weight:600;font-size:13px}.l{fill:#7d8590}"
    ".n{fill:#fff;stroke:#c4cad1}.g{fill:#8c959f;fill-opacity:.10;stroke:#8c959f;stroke-opacity:.55}"
    ".b{fill:none;stroke:#8c959f;stroke-opacity:.45;stroke-dasharray:4 4}"
    ".e{fill:none;stroke:#8c959f;stroke-width:1.4}.a{fill:#8c959f}"
)
_COLOURS = ("#2f81f7", "#8957e5", "#1a7f6b", "#bf8700", "#cf5630", "#bf4b8a", "#57809f", "#5f8a2d")
_SPREAD = 4414  # gives each kind in ops.py a colour of its own, and any new one some colour
# All lengths are pixels.
_LINE, _PAD, _BAR = 17.0, 10.0, 4.0  # height of a line of text; space around the text; width of the coloured bar
_MARGIN, _HEAD, _INSIDE = 16.0, 14.0, 14.0  # space around the picture; between regions; inside a region
_MOST_TEXT = 34
"""The longest text that is drawn, in characters."""
_DEEPEST = 64
"""The deepest region that is drawn; a deeper one is only counted."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(slots=True)
class _Box:
    """A node measured and drawn around its own corner; `bodies` are the regions inside it."""

    facts: Facts
    lines: list[tuple[str, str]]
    size: Size
    bodies: list[_Body] = field(default_factory=list)


@dataclass(slots=True)
class _Body:
    """A region measured: its boxes at their places in it, and the size with its label."""

    label: str
    boxes: list[_Box]
    placed: Placed
    size: Size


def svg(flow: Flow) -> str:
    """Draw the flow as a complete SVG document; regions are groups, and every name in it is text."""
    body = _measure_region("", flow.body, 0)
    width, height = body.placed.width + 2 * _MARGIN, body.placed.height + 2 * _MARGIN
    body_parts: list[str] = []
    _draw_body(body, (_MARGIN, _MARGIN), body_parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">\n<title>{_escape(flow.name)}</title>\n'
        f"<style>{_STYLE}</style>\n" + "\n".join(body_parts) + "\n</svg>\n"
    )


# --- measuring: from the inside out --------------------------------------------------------------


def _measure_region(label: str, graph: Region, depth: int) -> _Body:
    view = view_of(graph)
    boxes = [_measure_node(facts, depth) for facts in view.nodes]
    placed = place([box.size for box in boxes], view.edges)
    head = _LINE if label else 0.0
    width = max(placed.width, _width(_shorten(label), 12) if label else 0.0)
    return _Body(label, boxes, placed, (width, placed.height + head))


def _measure_node(facts: Facts, depth: int) -> _Box:
    bodies = [(label, graph) for label, graph in facts.bodies if graph.nodes]
    lines = [("id", facts.id), ("k", facts.title)]
    lines += [("c", condition) for condition in facts.conditions]
    lines += [("l" if bodies else "k", detail) for detail in facts.details if not detail.startswith("writes")][:2]
    if bodies and depth >= _DEEPEST:
        lines.append(("l", f"({sum(size_of(graph) for _, graph in bodies)} nodes inside)"))
        bodies = []
    lines = [(style, _shorten(text)) for style, text in lines]
    inner = [_measure_region(label, graph, depth + 1) for label, graph in bodies]
    width = max(_width(text, 13 if style == "id" else 12) for style, text in lines) + 2 * _PAD + _BAR
    height = len(lines) * _LINE + 2 * _PAD - 3
    if not inner:
        return _Box(facts, lines, (max(width, 110.0), height))
    across = sum(body.size[0] + 2 * _INSIDE for body in inner) + _HEAD * (len(inner) - 1)
    down = max(body.size[1] for body in inner) + 2 * _INSIDE
    return _Box(facts, lines, (max(width, across + 2 * _HEAD), height + down + _HEAD), inner)


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def _width(text: str, size: int) -> float:
    """About how wide a text is: fonts differ, so a little more than most need."""
    units = 0.0
    for character in text:
        if character in "iljtfr.,:;'|!()[] ":
            units += 0.38
        elif character.isupper() or character in "mwMW@%—…<>=+~":
            units += 0.78
        elif ord(character) > 0x2E7F and unicodedata.east_asian_width(character) in "WF":
            units += 1.05
        else:
            units += 0.62
    return units * size * (1.1 if size > 12 else 1.0)  # the larger one is bold


# --- drawing: from the outside in ----------------------------------------------------------------


def _draw_body(body: _Body, corner: Point, parts: list[str]) -> None:
    """Draw the edges and the nodes of a region whose corner is at a place of the picture."""
    x, y = corner
    # Narrower than its label: in the middle of it.
    x += (body.size[0] - body.placed.width) / 2 if body.label else 0.0
    for route in body.placed.routes:
        _draw_edge([(px + x, py + y) for px, py in route], parts)
    for box, (bx, by) in zip(body.boxes, body.placed.corners, strict=True):
        _draw_box(box, (x + bx, y + by), parts)


def _draw_box(box: _Box, corner: Point, parts: list[str]) -> None:
    """Draw a node and the regions in it."""

    # `parts` collects the elements of the picture.
    (x, y), (width, height) = corner, box.size
    colour = _COLOURS[zlib.crc32(box.facts.kind.encode()) // _SPREAD % len(_COLOURS)]
    parts.append(f"<g><title>{_escape(chr(10).join(box.facts.lines))}</title>")
    style = "g" if box.bodies else "n"
    parts.append(f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6"/>')
    # A bar in the colour of the kind, and the lines of text next to it.
    bar = len(box.lines) * _LINE + 2 * _PAD - 3
    parts.append(
        f'<rect x="{x:.1f}" y="{y + 6:.1f}" width="{_BAR:.0f}" height="{bar - 12:.1f}" rx="2" fill="{colour}"/>'
    )
    for i, (kind, text) in enumerate(box.lines):
        kind = ("h" if kind == "id" else "l") if box.bodies and kind != "c" else kind
        at = y + _PAD + 10 + i * _LINE
        parts.append(f'<text class="{kind}" x="{x + _PAD + _BAR:.1f}" y="{at:.1f}">{_escape(text)}</text>')
    parts.append("</g>")
    # The regions of the node side by side below its text, in the middle of the box.
    total = sum(body.size[0] + 2 * _INSIDE for body in box.bodies) + _HEAD * (len(box.bodies) - 1)
    left = x + (width - total) / 2
    for body in box.bodies:
        top = y + bar
        wide, high = body.size[0] + 2 * _INSIDE, height - bar - _HEAD
        if len(box.bodies) > 1 or body.label:
            parts.append(
                f'<rect class="b" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="5"/>'
            )
        inside = top + _INSIDE
        if body.label:
            parts.append(
                f'<text class="l" x="{left + _INSIDE:.1f}" y="{inside + 4:.1f}">{_escape(_shorten(body.label))}</text>'
            )
            inside += _LINE
        _draw_body(body, (left + _INSIDE, inside), parts)
        left += wide + _HEAD


def _draw_edge(points: list[Point], parts: list[str]) -> None:
    """Draw an edge through these points, with curves where it moves sideways, and an arrow at its end."""
    (x, y), (end_x, end_y) = points[0], points[-1]
    path = [f"M{x:.1f} {y:.1f}"]
    for i, (to_x, to_y) in enumerate(points[1:]):
        last = i == len(points) - 2
        to_y -= 5 if last else 0
        if abs(to_x - x) < 0.5:
            path.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            bend = (to_y - y) / 2
            path.append(f"C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    parts.append(f'<path class="e" d="{"".join(path)}"/>')
    parts.append(f'<path class="a" d="M{end_x - 4:.1f} {end_y - 7:.1f}h8l-4 7z"/>')


def _escape(text: str) -> str:
    return html.escape(_CONTROL.sub("\ufffd", text), quote=True)

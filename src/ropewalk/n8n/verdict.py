"""The verdict on a workflow: our own checks, and the answer of n8n-mcp without the errors that are known to be wrong.

n8n-mcp searches the text of a Code node for `return`. It takes for the result what an inner function, a comment, or a
literal with a method (`['a'].map(...)`) returns, and it overlooks `return[...]`. Such an error stays an error only if
the last `return` of the code confirms it; otherwise it is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ..fast_dataclass import dataclass
from ..values import Json

_NO_RETURN: Final = "Code must return data for the next node"
_WRONG_ITEMS: Final = "Array items must be objects with json property"
_NO_ARRAY: Final = "Cannot return primitive values directly"
_LITERAL: Final = r"""(?:'[^'\n]*'|"[^"\n]*"|`[^`]*`|[+-]?[\d.]\w*|true|false|null|undefined|True|False|None)"""
_CONFIRMED: Final = {
    _WRONG_ITEMS: re.compile(rf"\breturn\s*\[\s*{_LITERAL}\s*[,\]][^\]]*\]?[\s;)]*\Z"),
    _NO_ARRAY: re.compile(rf"\breturn\b[\s(]*{_LITERAL}[\s;)]*\Z"),
}
"""By message: the end of a code of which it is true."""
_RETURNS: Final = re.compile(r"\breturn[\[(]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on a workflow."""

    # None if nobody validated it.
    valid: bool | None
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def make_verdict(own_problems: list[str], judgement: Mapping[str, Any], workflow: Mapping[str, Any]) -> Verdict:
    """Combine our own problems with the answer of n8n-mcp."""
    errors: list[str] = []
    wrong: list[str] = []
    codes = {node["name"]: _code(node) for node in workflow["nodes"]}
    for error in judgement["errors"]:
        is_wrong = _is_wrong(error["message"], codes.get(error.get("node"), ""))
        (wrong if is_wrong else errors).append(_problem_text(error))
    problems = [*own_problems, *errors]
    if not judgement["valid"] and not problems and not wrong:
        problems = ["n8n-mcp considers it invalid, without a reason"]
    warnings = [f"{message} (n8n-mcp is probably wrong about this code)" for message in wrong]
    return Verdict(
        valid=not problems,
        problems=tuple(problems),
        warnings=(*warnings, *map(_problem_text, judgement["warnings"])),
    )


def _code(node: Mapping[str, Any]) -> str:
    parameters: Mapping[str, Any] = node["parameters"] if node["type"].endswith(".code") else {}
    return str(parameters.get("jsCode") or parameters.get("pythonCode") or "")


def _is_wrong(message: Json, code: str) -> bool:
    """Return True if an error of n8n-mcp about a code is not true."""
    if message == _NO_RETURN:
        return _RETURNS.search(code) is not None
    confirmed = _CONFIRMED.get(message) if isinstance(message, str) else None
    return confirmed is not None and bool(code) and confirmed.search(code, max(code.rfind("return"), 0)) is None


def _problem_text(problem: Mapping[str, Any]) -> str:
    message, node = str(problem["message"]), problem.get("node")
    return message if node in (None, "", "workflow") else f"{node}: {message}"

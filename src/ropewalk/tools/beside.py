"""Whether the files that the nodes of a flow name as their tools are there: looked at, never imported or run.

The functions take nodes whose op is a Call; a problem's path is the node's, with the document's name of the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from ..errors import Problem
from ..expr.ast import Lit, Obj
from .inside import WrongPath, find, find_impl

LOCAL: Final = ("impl:", "dataset:", "experience:", "cli-agent:")
"""How the ids of tools begin that are found in the directory of the definition, not in the toolbox."""


def check_files(nodes: Iterable[Any], root: str) -> Iterator[Problem]:
    """A problem for each file or directory that a node names and may not have. Nothing of it is imported."""
    for node in nodes:
        kind, _, path = node.op.tool.partition(":")
        if kind == "impl":
            wrong = _module(Path(root), path) if path else None  # one that is not given has been reported
        elif kind == "experience":
            wrong = _wrong(root, path, directory=True)
        elif kind == "cli-agent":
            yield from _workdir(node, root)
            continue
        else:
            if kind == "dataset":
                yield from _sources(node, root)
            continue
        if wrong is not None:
            yield Problem(path=f"{node.meta.source}.impl", message=wrong)


def _module(root: Path, path: str) -> str | None:
    from .outline import outline_problem

    try:
        impl = find_impl(root, path)
    except WrongPath as wrong:
        return str(wrong)
    return outline_problem(root, impl) if impl.language == "python" else None


def _sources(node: Any, root: str) -> Iterator[Problem]:
    """The same for the files of a dataset, as far as they are written down and not worked out."""
    from .dataset import source_problem

    written = _written(node.op.args)
    found = source_problem(Path(root), written.get("source")) if isinstance(written, dict) else None
    if found is not None:
        yield Problem(path=f"{node.meta.source}.source.{found[0]}", message=found[1])


def _workdir(node: Any, root: str) -> Iterator[Problem]:
    written = _written(node.op.args)
    workdir = written.get("workdir") if isinstance(written, dict) else None
    if workdir is None:
        return
    try:
        find(Path(root), workdir, directory=True)
    except WrongPath as wrong:
        yield Problem(path=f"{node.meta.source}.workdir", message=str(wrong))


def _written(expr: Any) -> Any:
    """The value of an expression where it is written down; None, also inside, for what is worked out."""
    if isinstance(expr, Obj):
        return {key: _written(inner) for key, inner in expr.fields}
    return expr.value if isinstance(expr, Lit) else None


def directories_of(nodes: Iterable[Any], root: str) -> Iterator[tuple[Any, Path]]:
    """Each node that runs the experience of another directory, with that directory, where it is one."""
    for node in nodes:
        kind, _, path = node.op.tool.partition(":")
        if kind == "experience" and _wrong(root, path, directory=True) is None:
            yield node, find(Path(root), path, directory=True)


def _wrong(root: str, path: str, *, directory: bool = False) -> str | None:
    try:
        found = find(Path(root), path, directory=directory)
    except WrongPath as wrong:
        return str(wrong)
    return "an experience cannot run itself; name a directory inside its own" if found == Path(root).resolve() else None


def homeless(nodes: Iterable[Any]) -> Iterator[Problem]:
    """A problem for each node that names a file or starts a program where the definition came from no directory."""
    for node in nodes:
        if node.op.tool.startswith(LOCAL):
            field = node.meta.labels.get("tool", "tool")
            what = "starts a program" if node.op.tool.startswith("cli-agent:") else "names a file"
            message = f"{what}, and this definition comes from no directory; run it from its file"
            yield Problem(path=f"{node.meta.source}.{field}", message=message)

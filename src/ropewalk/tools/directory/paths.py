"""Find the files that a definition names, and read which function of a Python module is the tool.

`find` and `read` accept only regular files inside the definition's own directory: no absolute paths, no `..`, no links
that lead out. Paths are checked with the definition and again when it runs. `read` checks once more after opening, so
that a link created in between reveals nothing.

`outline_problem` parses the text of a Python module and imports nothing. It reports only certain problems: a name that
is assigned, imported, decorated or defined under a condition may be the tool's function.
"""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from ...fast_dataclass import dataclass
from ...values import did_you_mean

MODULES: Final = {".py": "python", ".mjs": "javascript", ".js": "javascript"}
"""The language of a tool module, by its suffix."""

_TYPESCRIPT: Final = frozenset((".ts", ".mts", ".cts", ".tsx"))


class PathError(ValueError):
    """A path of a definition is invalid, leads out of its directory, or does not exist."""

    retryable = False


@dataclass(frozen=True, slots=True)
class Impl:
    """An existing tool module."""

    # The file, with all links followed.
    file: Path
    # The path for messages.
    display: str
    language: str
    # The name after the colon, if there is one.
    function: str | None = None


def find_impl(root: Path, impl: object) -> Impl:
    """Return the module that `impl` names, such as `./tools/x.py` or `./tools/x.py:function`."""
    path, function = impl, None
    if isinstance(impl, str):
        head, colon, name = impl.rpartition(":")
        if colon and head.endswith(tuple(MODULES)):
            path, function = head, name
    display = _check_path(path)

    # The suffix decides the language; TypeScript needs a compiler that only the project has.
    suffix = PurePosixPath(display).suffix
    if suffix in _TYPESCRIPT:
        raise PathError(f"{display} is TypeScript; compile it with tsc, and name the .mjs or .js file")
    language = MODULES.get(suffix)
    if language is None:
        raise PathError(f"{display}: the name of a tool module must end in {', '.join(MODULES)}")
    if function is not None:
        if language != "python":
            raise PathError(f"{display}: only Python modules can have a :function; JavaScript uses the default export")
        if not function.isidentifier():
            raise PathError(f"{display}: {function!r} is not a valid function name")
    return Impl(find(root, path), display, language, function)


def find(root: Path, path: object, *, directory: bool = False) -> Path:
    """Return a file or directory inside `root`, with every link followed."""
    display = _check_path(path)
    home = root.resolve()
    unresolved = home / display
    try:
        resolved = unresolved.resolve()
        mode = resolved.stat().st_mode if resolved.is_relative_to(home) else 0
    except (FileNotFoundError, NotADirectoryError):
        raise PathError(_describe_missing(home, display, directory)) from None
    except (OSError, RuntimeError, ValueError) as error:  # a link to itself, a name that is too long
        raise PathError(f"could not open {display}: {error}") from error
    if not mode:
        raise PathError(f"{display} is a link that leads out of the directory of the definition")
    if directory:
        if not stat.S_ISDIR(mode):
            raise PathError(f"{display} is not a directory")
    elif not stat.S_ISREG(mode):
        raise PathError(
            f"{display} is {'a directory' if stat.S_ISDIR(mode) else 'a device, pipe or socket'}, not a file"
        )
    return resolved


def read(root: Path, path: object, max_bytes: int) -> bytes:
    """Return the content of a file inside `root`."""
    resolved = find(root, path)
    display = _check_path(path)
    try:
        handle = os.open(resolved, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        raise PathError(f"could not read {display}: {error.strerror}") from error
    with open(handle, "rb") as file:
        opened = os.fstat(handle)
        # The file may have been replaced between the check and the opening.
        if not os.path.samestat(opened, find(root, path).stat()):
            raise PathError(f"{display} was replaced while it was being opened")
        if opened.st_size > max_bytes:
            raise PathError(f"{display} has {opened.st_size:,} bytes; the limit is {max_bytes:,} bytes")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise PathError(f"{display} has more than {max_bytes:,} bytes, the limit")
    return data


def _check_path(path: object) -> str:
    """Return a path for messages, without `./`."""

    # Raises PathError if its text alone is not allowed.
    if not isinstance(path, str) or not path.strip():
        raise PathError(f"a path must be a string such as ./tools/name.py, not {path!r}")
    if "\0" in path or "\\" in path:
        raise PathError(f"{path!r} is not a valid path; separate its parts by /, without escapes")
    pure = PurePosixPath(path)
    if pure.is_absolute() or path[1:2] == ":":
        raise PathError(f"{path} is an absolute path; write it relative to the definition, such as ./tools/name.py")
    if ".." in pure.parts:
        raise PathError(f"{path}: '..' is not allowed; use a path inside the directory of the definition")
    return str(pure)


def _describe_missing(home: Path, display: str, directory: bool) -> str:
    """Return the message for a path that does not exist, with the most similar name at the first missing part."""
    directory_reached = home
    for i, part in enumerate(parts := PurePosixPath(display).parts):
        last = i == len(parts) - 1
        if (directory_reached / part).exists() and not last:
            directory_reached = directory_reached / part
            continue
        try:
            names = [entry.name for entry in directory_reached.iterdir() if entry.is_dir() == (directory or not last)]
        except OSError:  # not a directory, or not readable
            names = []
        suggestion = did_you_mean(part, names)
        hint = f"; did you mean {'/'.join((*parts[:i], suggestion, *parts[i + 1 :]))}?" if suggestion else ""
        noun = "directory" if directory else "file"
        return f"there is no {noun} {display}{hint}"
    return f"there is no file {display}"


MAX_MODULE_BYTES: Final = 10_000_000
_DYNAMIC_NAMES: Final = frozenset(("globals", "vars", "locals", "exec", "eval", "setattr", "__getattr__"))
"""A module that uses these names may define others that its text does not show."""


def outline_problem(root: Path, impl: Impl) -> str | None:
    """Return the problem of a Python module as a tool; None if there is none, or it is not certain."""
    try:
        tree = ast.parse(read(root, impl.display, MAX_MODULE_BYTES))
    except SyntaxError as error:
        return f"{impl.display}:{error.lineno or 1}: {error.msg}"
    except PathError as error:
        return str(error)
    except (ValueError, RecursionError, MemoryError):
        return None  # cannot be parsed here: the run reports the error of its import

    # Plain functions are certain; other bound names may or may not be functions.
    functions = [
        statement.name for statement in tree.body if isinstance(statement, _FUNCTIONS) and not statement.decorator_list
    ]
    other_names = list(
        _bound_names(
            statement for statement in tree.body if not isinstance(statement, _FUNCTIONS) or statement.decorator_list
        )
    )
    names = {*functions, *(name for name, _ in other_names)}
    if names & _DYNAMIC_NAMES or any(
        isinstance(node, ast.Name) and node.id in _DYNAMIC_NAMES for node in ast.walk(tree)
    ):
        return None
    if impl.function is not None:
        return (
            None
            if impl.function in names
            else f"{impl.display}: {describe_missing_function(impl.function, public_names(functions))}"
        )
    if names & {"run", "main"} or public_names(name for name, may_be_function in other_names if may_be_function):
        return None
    candidates = public_names(functions)
    return f"{impl.display}: {describe_ambiguity(impl.display, candidates)}" if len(candidates) != 1 else None


def public_names(names: Iterable[str]) -> list[str]:
    """Return the names without a leading underscore, each one once."""
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def describe_missing_function(name: str, names: Iterable[str]) -> str:
    """Return the message for a function that a module does not have."""
    suggestion = did_you_mean(name, names)
    return f"it has no function {name}" + (f"; did you mean {suggestion}?" if suggestion else "")


def describe_ambiguity(display: str, names: Sequence[str]) -> str:
    """Return the message for a module with no function or several that could be the tool."""
    if not names:
        return "it defines no public function; write `def run(args):` that returns {'state_delta': {...}}"
    return (
        f"which function is the tool? It defines {', '.join(names)}: call one `run`, begin the names of the others "
        f"with an underscore, or name it as {display}:{names[0]}"
    )


_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_CONSTANTS: Final = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.Dict)


def _bound_names(statements: Iterable[ast.AST]) -> Iterator[tuple[str, bool]]:
    """Yield the names that statements bind; True if the name may be a function that the module defines."""
    pending = list(statements)
    while pending:
        node = pending.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield node.name, not isinstance(node, ast.ClassDef)
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                yield ("globals" if name.name == "*" else name.asname or name.name), False
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, True
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, _CONSTANTS):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, False) for target in targets if isinstance(target, ast.Name))
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))

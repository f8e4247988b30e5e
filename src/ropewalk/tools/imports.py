"""Importing the Python modules of a directory, apart from those of every other directory.

Each directory is a package of its own name in `sys.modules`; nothing is added to `sys.path`. Modules in it find
each other as scripts do: `import helper` looks beside the file and in the directory of the definition (after the
standard library, so that a file called `csv.py` hides nothing), `from . import helper` works too. A directory one of
whose files has changed is imported anew. Refused: files that a link brings in from outside.

This runs the user's code with the user's rights: never while a definition is only checked.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from ..values import MAX_BYTES
from .inside import WrongPath, read

_PREFIX: Final = "ropewalk_directory_"
Mark = tuple[int, int, int, int]


class Package:
    """The modules of one directory. `files` are those imported so far, as they were then."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = root, name
        self.files: dict[Path, Mark | None] = {}
        self._spelt: dict[str, str] = {}  # file names by how they are spelt in a module's name: dots separate there

    def module(self, file: Path) -> ModuleType:
        """The module of a file inside the directory, imported when it is first asked for."""
        parts = file.relative_to(self.root).with_suffix("").parts
        spelt = [part.replace(".", "_dot_") for part in parts]
        self._spelt.update(zip(spelt, parts, strict=True))
        return importlib.import_module(".".join((self.name, *spelt)))

    def changed(self) -> bool:
        """Whether a file imported before is another one now."""
        return any(mark_of(file) != mark for file, mark in self.files.items())

    def forget(self) -> None:
        """Take the modules out of the interpreter; functions that still run go on."""
        for name in [name for name in sys.modules if name == self.name or name.startswith(f"{self.name}.")]:
            del sys.modules[name]

    def find(self, name: str) -> Path | None:
        """The file or folder of a module by its full name."""
        base = self.root.joinpath(*(self._spelt.get(part, part) for part in name.split(".")[1:]))
        for file in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if file.is_file():
                return file
        return base if base.is_dir() else None

    def locate(self, importer: Mapping[str, Any], head: str) -> str | None:
        """The package in which a module (its globals) finds `head`: beside it, or in the directory itself."""
        for package in dict.fromkeys((importer.get("__package__") or self.name, self.name)):
            full = f"{package}.{head}"
            found = self.find(full) if full != importer.get("__name__") else None
            # A folder without Python in it that has the name of an installed package is not meant.
            if found is not None and (found.is_file() or not _installed(head)):
                return package
        return None


class _Finder:
    """Finds what the packages of directories hold; one for all of them, asked for nothing else."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(_PREFIX):
            return None
        package = _packages.get(name.partition(".")[0])
        if package is None:
            return None
        if name == package.name:
            return _folder(name, package.root)
        found = package.find(name)
        if found is None:
            return None
        if found.is_dir():
            return _folder(name, found)
        inside = [str(found.parent)] if found.name == "__init__.py" else None
        loader = _Loader(name, str(found), package)
        return importlib.util.spec_from_file_location(name, found, loader=loader, submodule_search_locations=inside)


class _Loader(SourceFileLoader):
    """Reads, compiles and runs one file. Compiled code is not written beside it: a file that is edited twice
    in a second would be mistaken for what it was."""

    def __init__(self, name: str, file: str, package: Package) -> None:
        super().__init__(name, file)
        self._package = package

    def get_code(self, fullname: str) -> CodeType:
        file = Path(self.path)
        self._package.files[file] = mark_of(file)
        try:
            source = read(self._package.root, file.relative_to(self._package.root).as_posix(), MAX_BYTES)
        except WrongPath as wrong:
            raise ImportError(str(wrong), name=fullname, path=self.path) from wrong
        return compile(source, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        vars(module)["__builtins__"] = {
            **vars(builtins),
            "__import__": _importer(self._package),
            "print": _print,  # standard output belongs to the answer of whoever runs this
        }
        exec(code, vars(module))


def _importer(package: Package) -> Any:
    """`__import__` as the modules of this package have it."""

    def imported(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        head = name.partition(".")[0]
        if level == 0 and head not in sys.stdlib_module_names:
            home = package.locate(globals or {}, head)
            if home is not None:
                full = f"{home}.{name}"
                if fromlist:
                    return builtins.__import__(full, globals, locals, fromlist, 0)
                importlib.import_module(full)
                return sys.modules[f"{home}.{head}"]
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    return imported


def _print(*values: Any, file: Any = None, **options: Any) -> None:
    print(*values, file=sys.stderr if file is None else file, **options)


def _folder(name: str, folder: Path) -> ModuleSpec:
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    return spec


def _installed(head: str) -> bool:
    try:
        return importlib.util.find_spec(head) is not None
    except (ImportError, ValueError):
        return False


def mark_of(file: Path) -> Mark | None:
    """What tells a file from the one that stood there before; None when it is gone."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


_packages: dict[str, Package] = {}
_current: dict[Path, Package] = {}
_lock = threading.RLock()
_count = 0


def renewed(root: Path) -> bool:
    """Whether files imported from a directory have changed; from now on they are imported anew."""
    known = _current.get(root)
    return known is not None and package_of(root) is not known


def package_of(root: Path) -> Package:
    """The package of a directory: the one of before unless one of its files has changed."""
    global _count
    with _lock:
        known = _current.get(root)
        if known is not None and not known.changed():
            return known
        if not _packages:
            sys.meta_path.insert(0, _Finder())
        if known is not None:
            known.forget()
            del _packages[known.name]
        _count += 1
        made = _current[root] = Package(root, f"{_PREFIX}{_count}")
        _packages[made.name] = made
        return made

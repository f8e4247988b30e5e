"""Import the Python modules of a directory, separate from those of every other directory.

Each directory is a package with its own name in `sys.modules`; nothing is added to `sys.path`. Modules find each other
as scripts do: `import helper` looks in the folder of the file and in the directory of the definition, after the
standard library, so that a file called `csv.py` hides nothing. `from . import helper` works too. If an imported file
changes, the whole directory is imported again. Links that lead out of the directory are refused.

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

from ...values import MAX_BYTES
from .paths import PathError, read

_PREFIX: Final = "ropewalk_directory_"
FileStamp = tuple[int, int, int, int]


class Package:
    """The modules of one directory."""

    # `files` has the imported files, with their stamps at that time.

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = root, name
        self.files: dict[Path, FileStamp | None] = {}
        self._original_names: dict[str, str] = {}  # by their spelling in module names, where a dot is a separator

    def module(self, file: Path) -> ModuleType:
        """Return the module of a file inside the directory, and import it at the first use."""
        parts = file.relative_to(self.root).with_suffix("").parts
        safe_parts = [part.replace(".", "_dot_") for part in parts]
        self._original_names.update(zip(safe_parts, parts, strict=True))
        return importlib.import_module(".".join((self.name, *safe_parts)))

    def has_changed(self) -> bool:
        """Return True if an imported file has changed."""
        return any(file_stamp(file) != mark for file, mark in list(self.files.items()))  # Other threads import.

    def forget(self) -> None:
        """Remove the modules from `sys.modules`."""

        # Functions in progress continue to run.
        for name in [name for name in list(sys.modules) if name == self.name or name.startswith(f"{self.name}.")]:
            del sys.modules[name]

    def find(self, name: str) -> Path | None:
        """Return the file or folder of a module by its full name; None if there is none."""
        base = self.root.joinpath(*(self._original_names.get(part, part) for part in name.split(".")[1:]))
        for file in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if file.is_file():
                return file
        return base if base.is_dir() else None

    def locate(self, importer: Mapping[str, Any], top_name: str) -> str | None:
        """Return the package in which a module finds `top_name`: its own folder, or the directory itself."""
        for package in dict.fromkeys((importer.get("__package__") or self.name, self.name)):
            full_name = f"{package}.{top_name}"
            file = self.find(full_name) if full_name != importer.get("__name__") else None
            # An installed package wins over a mere folder of the same name.
            if file is not None and (file.is_file() or not _is_installed(top_name)):
                return package
        return None


class _Finder:
    """Finds the modules of all directories; ignores every other name."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(_PREFIX):
            return None
        package = _package_by_name.get(name.partition(".")[0])
        if package is None:
            return None
        if name == package.name:
            return _folder_spec(name, package.root)
        file = package.find(name)
        if file is None:
            return None
        if file.is_dir():
            return _folder_spec(name, file)
        search_path = [str(file.parent)] if file.name == "__init__.py" else None
        loader = _Loader(name, str(file), package)
        return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=search_path)


class _Loader(SourceFileLoader):
    """Reads, compiles and runs one file."""

    # It writes no bytecode cache, which would be out of date for a file that is edited twice within a second.

    def __init__(self, name: str, file: str, package: Package) -> None:
        super().__init__(name, file)
        self._package = package

    def get_code(self, fullname: str) -> CodeType:
        file = Path(self.path)
        self._package.files[file] = file_stamp(file)
        try:
            source = read(self._package.root, file.relative_to(self._package.root).as_posix(), MAX_BYTES)
        except PathError as error:
            raise ImportError(str(error), name=fullname, path=self.path) from error
        return compile(source, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        vars(module)["__builtins__"] = {
            **vars(builtins),
            "__import__": _make_import(self._package),
            "print": _print,  # standard output belongs to the program that runs this
        }
        exec(code, vars(module))


def _make_import(package: Package) -> Any:
    """Make the `__import__` of a package's modules."""

    def import_module(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        top_name = name.partition(".")[0]
        if level == 0 and top_name not in sys.stdlib_module_names:
            package_name = package.locate(globals or {}, top_name)
            if package_name is not None:
                full_name = f"{package_name}.{name}"
                if fromlist:
                    return builtins.__import__(full_name, globals, locals, fromlist, 0)
                importlib.import_module(full_name)
                return sys.modules[f"{package_name}.{top_name}"]
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    return import_module


def _print(*values: Any, file: Any = None, **options: Any) -> None:
    from ..capture import stream_of_prints  # loaded late: many modules print nothing

    print(*values, file=stream_of_prints() if file is None else file, **options)


def _folder_spec(name: str, folder: Path) -> ModuleSpec:
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    return spec


def _is_installed(head: str) -> bool:
    try:
        return importlib.util.find_spec(head) is not None
    except (ImportError, ValueError):
        return False


def file_stamp(file: Path) -> FileStamp | None:
    """Return a stamp that differs after a file was changed or replaced; None if it does not exist."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


_package_by_name: dict[str, Package] = {}
_package_by_root: dict[Path, Package] = {}
_lock = threading.RLock()
_package_count = 0


def reload_if_changed(root: Path) -> bool:
    """Return True if imported files of a directory have changed; they will then be imported again."""
    package = _package_by_root.get(root)
    return package is not None and current_package(root) is not package


def current_package(root: Path) -> Package:
    """Return the package of a directory: a new one if an imported file has changed."""
    global _package_count
    with _lock:
        package = _package_by_root.get(root)
        if package is not None and not package.has_changed():
            return package
        if not _package_by_name:
            sys.meta_path.insert(0, _Finder())
        if package is not None:
            package.forget()
            del _package_by_name[package.name]
        _package_count += 1
        new_package = _package_by_root[root] = Package(root, f"{_PREFIX}{_package_count}")
        _package_by_name[new_package.name] = new_package
        return new_package

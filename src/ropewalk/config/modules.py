"""Import the Python modules that a project names, and collect their tools.

`App.open` calls `import_tools`; `import_object` imports a class that a setting names. Both run the user's code with
the user's rights; nothing else in this package does. The other functions find the module's file and explain a failed
import.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from ..errors import ConfigError, Place, describe_exception, display_path
from ..values import did_you_mean
from .settings import Config
from .toml import TomlFile, raise_all

Setting: TypeAlias = tuple[str, str]
"""The section and the key of a setting, for messages."""
_MODULES: Final = ("tools", "modules")
_MARKER = "__ropewalk_tool__"
_NEVER_FRESH = ("ropewalk", "__main__")
_DIRECTORIES = "ropewalk_directory_"
"""The beginning of the names of modules in directories of definitions, which look after their own files."""


def is_marked(value: Any) -> bool:
    """Return True if `@tool` decorates the value."""
    return not isinstance(value, type) and getattr(value, _MARKER, None) is not None


def import_tools(config: Config, is_tool: Callable[[Any], bool] = is_marked) -> list[Any]:
    """Import the configured modules and return their tools."""

    tools: list[Any] = []
    errors: list[ConfigError] = []
    for name in config.modules:
        try:
            with printing_to_stderr():
                module = _import_module(name, config, _MODULES)
        except ConfigError as error:
            errors.append(error)
            continue
        for value in vars(module).values():
            if is_tool(value) and not any(value is known for known in tools):
                tools.append(value)
    raise_all(errors)
    return tools


def import_object(name: str, config: Config, setting: Setting) -> Any:
    """Import `MODULE:NAME`, which a setting names, and return what the module has by that name."""
    module_name, _, attribute = name.partition(":")
    with printing_to_stderr():
        module = _import_module(module_name, config, setting)
    if not hasattr(module, attribute):
        near = did_you_mean(attribute, vars(module))
        hint = f"; did you mean {near}?" if near else ""
        raise setting_error(f"module {module_name!r} has no {attribute!r}{hint}", config, setting)
    return getattr(module, attribute)


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Let a module that is imported in the block print to standard error: standard output is for results."""

    # The stream is that of the whole process. Another thread may not replace it while tools run.
    is_main = threading.current_thread() is threading.main_thread()
    with redirect_stdout(sys.stderr) if is_main else nullcontext():
        yield


@contextmanager
def fresh_modules(directory: Path) -> Iterator[None]:
    """Import the modules of a project again in the block, and put the earlier ones back if it raises."""

    # Nothing is reloaded in place: functions of the earlier modules that are running keep their globals.
    earlier = _modules_in(directory)
    for name in earlier:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        for name in _modules_in(directory):
            del sys.modules[name]
        sys.modules.update(earlier)
        raise


def imported_files(directory: Path) -> set[str]:
    """Return the real paths of the modules that were imported from a project."""
    files = (getattr(module, "__file__", None) for module in _modules_in(directory).values())
    return {os.path.realpath(file) for file in files if file is not None}


def _modules_in(directory: Path) -> dict[str, ModuleType]:
    """Return the imported modules of a project by name, without those of an environment inside its directory."""
    start = os.path.join(os.path.realpath(directory), "")
    environments = [os.path.join(os.path.realpath(prefix), "") for prefix in (sys.prefix, sys.base_prefix)]
    others = tuple(prefix for prefix in environments if prefix.startswith(start))
    result = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None and hasattr(module, "__path__"):  # a folder without a file of its own keeps its old modules
            file = next((f"{folder}/" for folder in module.__path__), None)
        if not isinstance(file, str) or name.partition(".")[0] in _NEVER_FRESH or name.startswith(_DIRECTORIES):
            continue
        if file.startswith(start) and not file.startswith(others) and "site-packages" not in file[len(start) :]:
            result[name] = module
    return result


def _import_module(name: str, config: Config, setting: Setting) -> ModuleType:
    # The directory of `ropewalk.toml` is importable.
    if str(config.directory) not in sys.path:
        sys.path.insert(0, str(config.directory))
    if not all(name.split(".")) or any(sign in name for sign in "/\\\0"):
        raise _invalid_name_error(name, config, setting)
    project_file = _own_file(name, config.directory)
    if project_file is None and _module_of_path(name, config) is not None:
        raise _not_found_error(name, config, setting)  # Importing `t.py` would import `t` first.
    try:
        imported = sys.modules.get(name)
        if imported is not None and project_file is not None and not _comes_from(imported, project_file):
            # Another project in this process has a module of this name. Keep both.
            return _load_under_name(f"{name}@{config.directory}", project_file)
        importlib.invalidate_caches()
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise _not_found_error(name, config, setting) from None
        raise import_error(f"importing {name!r}", error, config, setting) from error
    except (Exception, SystemExit) as error:  # a module can raise anything while it is imported
        raise import_error(f"importing {name!r}", error, config, setting) from error


def _own_file(name: str, directory: Path) -> Path | None:
    base = directory.joinpath(*name.split("."))
    for file in (base.with_name(base.name + ".py"), base / "__init__.py"):
        if os.path.isfile(file):  # Path.is_file would raise for a name that is too long
            return file
    return None


def _comes_from(module: ModuleType, file: Path) -> bool:
    loaded = getattr(module, "__file__", None)
    return loaded is not None and Path(loaded).resolve() == file.resolve()


def _load_under_name(name: str, file: Path) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    package_folder = [str(file.parent)] if file.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=package_folder)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _module_of_path(name: str, config: Config) -> str | None:
    """Return the module of the project that a file path such as `tools/t.py` denotes; None if there is none."""
    module = name.removesuffix(".py").replace("\\", "/").replace("/", ".")
    fits = name.endswith(".py") and "\0" not in name and all(module.split("."))
    return module if fits and _own_file(module, config.directory) is not None else None


def _invalid_name_error(name: str, config: Config, setting: Setting) -> ConfigError:
    stem = name.replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".py")
    right = stem if stem and all(stem.split(".")) and "\0" not in stem else "mytools"
    module = _module_of_path(name, config)
    if module is not None:
        return setting_error(f"{name!r} is a file; its module is {module!r}", config, setting)
    return setting_error(
        f"{name!r} is not the name of a module; write a name such as {right!r} or "
        f"'package.{right}', which is searched for in {config.directory} and on the Python path",
        config,
        setting,
    )


def _not_found_error(name: str, config: Config, setting: Setting) -> ConfigError:
    here = [p.stem for p in config.directory.glob("*.py")] + [
        p.parent.name for p in config.directory.glob("*/__init__.py")
    ]
    near = _module_of_path(name, config) or did_you_mean(name, here)
    hint = f"; did you mean {near}?" if near else f"; it is searched for in {config.directory} and on the Python path"
    return setting_error(f"there is no module {name!r}{hint}", config, setting)


def import_error(work: str, error: BaseException, config: Config, setting: Setting) -> ConfigError:
    """Return the error for code of the project that raised."""
    why, place = describe_import_error(error, config.directory)
    return setting_error(f"{work} failed: {why}", config, setting, place)


def setting_error(message: str, config: Config, setting: Setting, place: Place | None = None) -> ConfigError:
    """Return the error for a setting, at a place or where `ropewalk.toml` has the setting."""
    if place is None and config.file is not None:
        place = TomlFile(config.file).place_of(setting)
    section, key = setting
    name = f"[{section}] {key}" if config.file is not None else f"{section} {key}"
    return ConfigError(f"{name}: {message}", place=place)


def describe_import_error(error: BaseException, directory: Path) -> tuple[str, Place | None]:
    """Return why an import failed, and where in a directory; None if the error comes from elsewhere."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        file = display_path(Path(error.filename))
        return error.msg, Place(file, error.lineno, error.offset or 1, (error.text or "").rstrip())
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(directory)]
    if not frames:
        return describe_exception(error), None
    frame = frames[-1]
    file, line = display_path(Path(frame.filename)), frame.lineno or 1
    place = Place(file, line, (frame.colno or 0) + 1, _source_line(Path(frame.filename), line))
    return describe_exception(error), place


def _source_line(file: Path, number: int) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()[number - 1]
    except (OSError, IndexError):  # gone or changed meanwhile: the place is still useful
        return ""

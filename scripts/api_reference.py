"""Write the Python API reference as Markdown pages, from signatures and docstrings.

    python scripts/api_reference.py [FOLDER]

scripts/build_site.py puts the pages into the site; without a folder this prints them. PAGES lists what each page holds.
Docstrings are Markdown with the sections of the Google style (Args, Returns, Raises, ...).
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe

FOLDER = "reference/python"
LINE = 88  # characters of a signature on one line

# Per page: file name, title, introduction, and the objects as "module:name". "module:*" means the names in `__all__`,
# or all public names that are defined in the module, and "module:!" its exceptions. "name=module:object" shows an
# object under another name.
PAGES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "ropewalk",
        "ropewalk",
        "Import these names from `ropewalk`. An `App` holds tools and a store, and runs flows.",
        (
            *("ropewalk:App", "ropewalk:Outcome", "ropewalk:Event", "ropewalk:tool", "ropewalk:Tool"),
            *("ropewalk:Toolbox", "ropewalk:Runner", "ropewalk:*"),
        ),
    ),
    (
        "services",
        "Services of an App",
        "An `App` has one service for each kind of work: `app.runs`, `app.chains`, `app.compositions`, "
        "`app.plans`, `app.selector`, `app.workers` and `app.schedules`.",
        (
            "app.runs=ropewalk.app.runs.queries:RunService",
            "app.chains=ropewalk.app.chains:Chains",
            "app.chains.execute_chain=ropewalk.app.chains:ChainService.execute_chain",
            "app.compositions=ropewalk.app.compositions:Compositions",
            "app.compositions.execute_composition=ropewalk.app.compositions:CompositionService.execute_composition",
            "app.plans=ropewalk.app.plans:Plans",
            "app.selector=ropewalk.select.selector:Selector",
            "app.workers=ropewalk.workers.workers:Workers",
            "app.schedules=ropewalk.workers.schedules:Schedules",
        ),
    ),
    (
        "builder",
        "ropewalk.flow",
        'Write flows in Python: `from ropewalk import flow`, then `with flow("report", topic=str) as f:`. '
        "`flow` is the class `FlowBuilder`. "
        "The guide is [flows in Python](../../python.md).",
        ("ropewalk.builder.flow:FlowBuilder", "ropewalk.builder.flow:Built", "ropewalk.builder.refs:Ref"),
    ),
    (
        "toolchain",
        "ropewalk.toolchain",
        "Functions for stored chains and compositions. They use the app of the working directory; "
        "`configure` sets another one.",
        ("ropewalk.toolchain:*",),
    ),
    (
        "agents",
        "ropewalk.agents",
        "Let a model call tools. The guide is [Call tools with a model](../../models.md).",
        ("ropewalk.agents:*",),
    ),
    (
        "testing",
        "ropewalk.testing",
        "Parts for tests: scripted tools, a scripted model, shuffled timing, and stores that fail at a chosen write. "
        "The guide is [testing](../../testing.md).",
        (
            *("ropewalk.testing:ScriptedTools", "ropewalk.testing:ScriptedModel", "ropewalk.testing:results_in"),
            *("ropewalk.testing:wants", "ropewalk.testing:*", "ropewalk.testing:DyingStore"),
            "ropewalk.testing:check_store",
        ),
    ),
    (
        "n8n",
        "ropewalk.n8n.builder",
        "Build workflows for n8n from a prompt. The guide is [workflows for n8n](../../n8n.md).",
        ("ropewalk.n8n.builder:WorkflowBuilder", "ropewalk.n8n.builder:Built"),
    ),
    (
        "extend",
        "ropewalk.extend",
        "Add tool backends, stores, node types and expression functions. "
        "The guide is [extending Ropewalk](../../extending.md).",
        ("ropewalk.extend:*",),
    ),
    (
        "content",
        "ropewalk.content and ropewalk.telemetry",
        "Pass images, audio and files between steps, and send traces and metrics to OpenTelemetry.",
        (
            *("ropewalk.content:content", "ropewalk.content:content_bytes"),
            *("ropewalk.telemetry:instrument", "ropewalk.telemetry:from_environment", "ropewalk.telemetry:Telemetry"),
        ),
    ),
    (
        "modules",
        "Names of other modules",
        "The guides import these names from modules of `ropewalk`.",
        (
            *("ropewalk.config.settings:WorkerSettings", "ropewalk.config.settings:Queue"),
            *("ropewalk.tools.mcp.servers:McpServers", "ropewalk.tools.mcp.local_client:Elicitation"),
            *("ropewalk.tools.directory.directory:DirectoryCaller", "ropewalk.api.composite:workflow_tools"),
            *("ropewalk.telemetry.logs:log_as_json", "ropewalk.check:check", "ropewalk.check:ToolCard"),
            *("ropewalk.draw:mermaid", "ropewalk.draw:svg", "ropewalk.draw:text"),
            *("ropewalk.ir:Flow", "ropewalk.ir:Graph", "ropewalk.ir:Node", "ropewalk.ir:Policy", "ropewalk.ir:Channel"),
        ),
    ),
    (
        "errors",
        "ropewalk.errors",
        "Every error that Ropewalk raises on purpose is a `RopewalkError`. Errors carry data.",
        (
            "ropewalk.errors:RopewalkError",
            "ropewalk.errors:Problem",
            "ropewalk.errors:Place",
            "ropewalk.errors:!",
        ),
    ),
)


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page as its name (without ending) and its Markdown."""
    for name, title, introduction, objects in PAGES:
        lines = [f"# {title}", "", introduction, ""]
        if name == "errors":
            lines += ["```text", *_error_tree(), "```", ""]
        for shown, value in _objects(objects):
            lines += [f"## {shown}", "", *_described(shown, value)]
        yield f"{FOLDER}/{name}", "\n".join(lines).rstrip() + "\n"


def rendered() -> set[tuple[str, str]]:
    """Return the module and the qualified name of everything whose docstring a page shows."""
    names = set()
    for _, _, _, objects in PAGES:
        for _, value in _objects(objects):
            names.add(_place(value))
            if inspect.isclass(value):
                for name, member in _members(value):
                    # A method without a docstring shows that of the base class.
                    owners = [vars(base)[name] for base in value.__mro__ if name in vars(base)]
                    names |= {_place(member), *(_place(owner) for owner in owners)}
    return names


def _place(value: Any) -> tuple[str, str]:
    function = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", value)
    function = inspect.unwrap(function) if callable(function) else function
    return getattr(function, "__module__", ""), getattr(function, "__qualname__", "")


def _objects(entries: Iterable[str]) -> Iterator[tuple[str, Any]]:
    listed: set[int] = set()
    for entry in entries:
        shown, _, place = entry.rpartition("=")
        module_name, _, name = place.partition(":")
        module = import_module(module_name)
        for each in _public_names(module) if name in ("*", "!") else [name]:
            value = attrgetter(each)(module)
            if name == "!" and not (inspect.isclass(value) and issubclass(value, Exception)):
                continue
            if inspect.ismodule(value) or id(value) in listed or _has_own_page(module, value):
                continue
            listed.add(id(value))
            yield shown or each, value


def _public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module, functions first and enumerations last."""
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return sorted(declared, key=lambda name: _rank(getattr(module, name)))
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def _rank(value: Any) -> int:
    if not inspect.isclass(value):
        return 0
    return 2 if issubclass(value, enum.Enum) else 1


def _has_own_page(module: ModuleType, value: Any) -> bool:
    """Return True for errors and the flow builder, which the page of the package leaves to theirs."""
    if module.__name__ != "ropewalk":
        return False
    return (inspect.isclass(value) and issubclass(value, Exception)) or value is module.flow


def _error_tree() -> Iterator[str]:
    errors = import_module("ropewalk.errors")
    classes = [getattr(errors, name) for name in _public_names(errors)]

    def lines(parent: type, indent: str) -> Iterator[str]:
        yield f"{indent}{parent.__name__}"
        for child in classes:
            if inspect.isclass(child) and parent in child.__bases__:
                yield from lines(child, indent + "    ")

    return lines(errors.RopewalkError, "")


def _described(shown: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _class(shown, value)
    elif callable(value):
        yield from _function(shown, value)
    else:
        yield from (f"`{value!r}`", "")


def _class(shown: str, cls: type) -> Iterator[str]:
    bases = [base.__name__ for base in cls.__bases__ if base is not object and not base.__name__.startswith("_")]
    if issubclass(cls, enum.Enum):
        yield from _docstring(cls, cls.__doc__)
        yield from ("| member | value |", "|---|---|")
        yield from (f"| `{member.name}` | `{member.value!r}` |" for member in cls)
        yield ""
        return
    if issubclass(cls, Exception):
        yield from (f"Base class: {', '.join(f'`{base}`' for base in bases)}", "")
    is_made_by_users = "." not in shown and not getattr(cls, "_is_protocol", False)
    if is_made_by_users:
        yield from _signature(cls, cls.__name__, drop_self=False)
    yield from _docstring(cls, cls.__doc__ if "__doc__" in vars(cls) else None)
    for name, member in _members(cls):
        title = f"{shown}.{name}" if "." in shown else f"{cls.__name__}.{name}"
        yield from (f"### {title}", "")
        if isinstance(member, property) or hasattr(member, "func"):
            getter = member.fget if isinstance(member, property) else member.func
            kind = inspect.signature(getter).return_annotation
            yield from (f"Property: `{_annotation(kind)}`.", "")
            yield from _docstring(getter, getter.__doc__)
        else:
            yield from _function(title, member)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield documented public methods and properties, also those of base classes in Ropewalk."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("ropewalk"):
            continue
        if base is not cls and issubclass(cls, Exception):
            continue  # the base class has a section of its own
        for name, member in vars(base).items():
            is_member = (
                inspect.isfunction(member)
                or isinstance(member, property | staticmethod | classmethod)
                or type(member).__name__ == "cached_property"
            )
            if not name.startswith("_") and is_member and name not in seen and inspect.getdoc(member):
                seen.add(name)
                yield name, getattr(cls, name) if isinstance(member, staticmethod | classmethod) else member


def _function(shown: str, function: Any) -> Iterator[str]:
    yield from _signature(function, shown, drop_self=True)
    yield from _docstring(function, inspect.getdoc(function))


def _signature(value: Any, shown: str, *, drop_self: bool) -> Iterator[str]:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return
    parameters = list(signature.parameters.values())
    if drop_self and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    parts = list(_parameters(parameters))
    returns = "" if inspect.isclass(value) else _typed(signature.return_annotation, " -> ")
    function = inspect.unwrap(value)
    word = "async " if inspect.iscoroutinefunction(function) else ""
    line = f"{word}{shown}({', '.join(parts)}){returns}"
    if len(line) > LINE and parts:
        line = f"{word}{shown}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"
    yield from ("```python", line, "```", "")


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    kinds = inspect.Parameter
    star = False
    for index, parameter in enumerate(parameters):
        if parameter.kind is kinds.VAR_POSITIONAL:
            star = True
        if parameter.kind is kinds.KEYWORD_ONLY and not star:
            star = True
            yield "*"
        mark = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = f"{mark}{parameter.name}{_typed(parameter.annotation)}"
        if parameter.default is not kinds.empty:
            text += f"{' = ' if parameter.annotation is not kinds.empty else '='}{_short(parameter.default)}"
        yield text
        following = parameters[index + 1].kind if index + 1 < len(parameters) else None
        if parameter.kind is kinds.POSITIONAL_ONLY and following is not kinds.POSITIONAL_ONLY:
            yield "/"


def _typed(annotation: Any, before: str = ": ") -> str:
    return "" if annotation is inspect.Signature.empty else f"{before}{_annotation(annotation)}"


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:typing|collections\.abc|ropewalk(?:\.\w+)*)\.(?=\w)", "", text)


def _short(default: Any) -> str:
    """Return a default as it is read: a name for objects whose `repr` has an address or is long."""
    text = getattr(default, "__name__", None) or repr(default)
    if text.startswith("<") or " object at 0x" in text:
        return str(default) if isinstance(default, enum.Enum) else "..."
    return text if len(text) <= 60 else "..."


def _docstring(owner: Any, text: str | None) -> Iterator[str]:
    if not text or _is_made_by_dataclass(owner, text):
        return
    for section in griffe.Docstring(inspect.cleandoc(text), lineno=1).parse("google", warnings=False):
        yield from _section(section, owner)


def _is_made_by_dataclass(owner: Any, text: str) -> bool:
    return inspect.isclass(owner) and text.startswith(f"{owner.__name__}(")


def _section(section: Any, owner: Any) -> Iterator[str]:
    kind = section.kind.value
    if kind == "text":
        yield from (_markdown(section.value), "")
    elif kind == "examples":
        yield from ("**Example**", "")
        for each, text in section.value:
            is_code = each.value == "examples" and not text.lstrip().startswith("```")
            yield from (["```python", text, "```", ""] if is_code else [_markdown(text), ""])
    elif kind == "admonition":
        yield from (f"**{section.title}** {_markdown(section.value.description)}", "")
    elif isinstance(section.value, list):
        title = section.title or {"parameters": "Arguments", "other parameters": "More arguments"}.get(kind, kind)
        yield from (f"**{title.capitalize()}**", "")
        for entry in section.value:
            yield f"- {_entry(kind, entry, owner)}"
        yield ""


def _entry(kind: str, entry: Any, owner: Any) -> str:
    text = " ".join(_markdown(entry.description).split("\n")).strip()
    if kind in ("parameters", "other parameters", "attributes"):
        return f"`{entry.name}`: {text}"
    annotation = str(entry.annotation) if entry.annotation and kind == "raises" else ""
    return f"`{annotation}`: {text}" if annotation else text


def _markdown(text: str) -> str:
    """Return the text of a docstring as Markdown: what looks like HTML outside code stays text."""
    parts = re.split(r"(^```.*?^```|``[^`]+``|`[^`]*`)", text, flags=re.MULTILINE | re.DOTALL)
    plain = [
        part if index % 2 else part.replace("<", "&lt;").replace("::\n", ":\n") for index, part in enumerate(parts)
    ]
    return "".join(plain)


def main(folder: Path | None = None) -> None:
    for name, text in pages():
        if folder is None:
            sys.stdout.write(text)
        else:
            path = folder / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))

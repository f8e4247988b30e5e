"""Write the reference pages from the code, docs/reference/commands.md, definitions.md and http.md, and the help of
commands, src/ropewalk/doors/cli/help.txt.

    python scripts/reference.py [FOLDER]

A test holds the files to what this writes.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- made by scripts/reference.py; change the code instead -->\n"


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""
    from ropewalk.doors.cli.commands import COMMANDS, program

    yield "# Commands\n"
    yield MADE
    yield (
        "Every command with its options. Examples are in [the command line](../cli.md).\n\n"
        "Exit codes: 0 completed or partial, 1 run failed, 2 usage, "
        "3 invalid definition, 4 waiting, 124 timeout, 130 interrupted, 141 output not taken.\n"
    )
    root = program()
    for words in COMMANDS:
        command = root
        for word in words.split():
            command = command[word]
        yield f"## ropewalk {words}\n"
        yield f"{_text(command.help)}\n"
        rows = [
            _row(argument)
            for argument in command.assemble_argument_collection()
            if argument.parameter.show is not False
        ]
        if rows:
            yield "| | |\n|---|---|"
            yield "\n".join(rows) + "\n"


def _row(argument: Any) -> str:
    parameter = argument.parameter
    own = [name for name in argument.names if not name.startswith("--no-")]
    names = own or list(argument.names)  # an option may be nothing but "--no-x"
    names = [name for name in names if name.startswith("-")] or [name.upper() for name in names]
    said = _text(parameter.help or "")
    if argument.required:
        said = f"{said} Required." if said else "Required."
    elif argument.field_info.default not in (None, False, (), argument.field_info.empty):
        said = f"{said} Default: `{argument.field_info.default}`.".strip()
    return f"| {', '.join(f'`{name}`' for name in names)} | {said} |"


def _text(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def help_of_commands() -> str:
    """Return the help of every command and group as the command line prints it, one page after another."""
    from rich.console import Console

    from ropewalk.doors.cli.commands import COMMANDS, GROUPS, program
    from ropewalk.doors.cli.help import MARK, WIDTH

    root, pages = program(), list[str]()
    for words in (*COMMANDS, *GROUPS):
        text = io.StringIO()
        root.help_print(words.split(), console=Console(file=text, width=WIDTH, color_system=None, force_terminal=False))
        pages.append(f"{MARK}{words}\n{text.getvalue()}")
    return "".join(pages)


def http() -> Iterator[str]:
    """Every route with its parameters and what it takes."""
    from ropewalk.app.app import App
    from ropewalk.doors.http.site import api_of

    document = api_of(App("memory"))
    yield "# HTTP routes\n"
    yield MADE
    yield (
        "How to reach them, and what errors look like, is in [HTTP](../http.md). The server itself describes them at\n"
        "`/api/openapi.json`.\n"
    )
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            yield f"## {method.upper()} {path}\n"
            yield f"{about['summary']}. {_text(about.get('description') or '')}".strip() + "\n"
            rows = [_parameter(one) for one in about.get("parameters", ())]
            rows += list(_body(about, document))
            if rows:
                yield "| | | |\n|---|---|---|"
                yield "\n".join(rows) + "\n"


def _parameter(one: dict[str, Any]) -> str:
    said = one.get("description") or one["schema"].get("description") or ""
    return _line(one["name"], one["in"], bool(one.get("required")), one["schema"], said)


def _line(name: str, place: str, required: bool, schema: dict[str, Any], said: str) -> str:
    told = ". ".join(part for part in (_kind(schema), _text(said)) if part)
    return f"| `{name}` | {place}{', required' if required else ''} | {told} |"


def _body(about: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    content = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if content is None:
        return
    model = _resolved(content, document)
    needed = model.get("required", [])
    for name, schema in model.get("properties", {}).items():
        yield _line(name, "body", name in needed, schema, schema.get("description") or "")


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return dict(found)
    return schema


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"] if one.get("type") != "null")
    return str(schema.get("type", "any JSON"))


PARTS = {
    "chain": ("branch",),
    "experience": ("graph", "edge", "loop", "pipeline", "phase", "runtime", "state", "field", "source"),
    "every format": ("on_error", "for_each", "wait", "undo", "budget"),
}
"""The objects inside of definitions, by format."""


def definitions() -> Iterator[str]:
    """Every key of every format, as the JSON Schemas describe it."""
    from ropewalk.notations.descriptions import DESCRIPTIONS
    from ropewalk.notations.json_schema import schema_of

    yield "# Keys of definitions\n"
    yield MADE
    yield (
        "Every key, with the text that [editors](../editors.md#keys-and-tools-in-yaml) show. Examples and rules are\n"
        "on the pages of the formats; [Nodes in every notation](../node-fields.md) says what they share.\n"
    )
    for kind in ("chain", "composition", "composite", "experience", "agent", "plan"):
        schema = schema_of(kind)
        yield from _keys(f"## {kind}", schema["properties"])
        node = schema["$defs"].get("node") or schema["properties"].get("steps", {}).get("items")
        if node is not None:
            yield from _keys(f"## {kind}: {'node' if 'node' in schema['$defs'] else 'step'}", node["properties"])
        own: dict[tuple[str, str], list[str]] = {}
        for rule in node["allOf"] if "node" in schema["$defs"] else ():
            if "then" in rule:
                ((_, pattern),) = rule["if"]["patternProperties"].items()
                word = re.sub(r"\[(.).\]|\\s\*|[\^$]", r"\1", pattern["pattern"]).replace("[-_]", "-")
                for key, value in rule["then"]["properties"].items():
                    own.setdefault((key, value["description"]), []).append(f"`{word}`")
        if own:
            title = f"## {kind}: keys of one {'kind' if kind == 'experience' else 'type'} of node"
            yield from _keys(title, {f"{key}` of {', '.join(words)}": text for (key, text), words in own.items()})
        for part in PARTS.get(kind, ()):
            yield from _keys(f"## {kind}: {part}", DESCRIPTIONS[part])
    for part in PARTS["every format"]:
        yield from _keys(f"## {part}", DESCRIPTIONS[part])


def _keys(title: str, texts: dict[str, Any]) -> Iterator[str]:
    yield f"{title}\n\n| key | meaning |\n|---|---|"
    for key, text in texts.items():
        yield f"| `{key}{'' if '`' in key else '`'} | {_text(text if isinstance(text, str) else text['description'])} |"
    yield ""


PAGES = {"commands.md": commands, "definitions.md": definitions, "http.md": http}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text("\n".join(page()), encoding="utf-8")


def write_help() -> None:
    from ropewalk.doors.cli.help import FILE

    FILE.write_text(help_of_commands(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
    write_help()

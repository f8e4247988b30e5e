"""The commands `new`, `preview`, `graph`, `convert` and `schema`: definitions, without running them.

`new` copies files of `template/`: each kind of definition is one of them, named `KIND.yaml`. The other
commands read a definition and print what `App` says of it; no tool is called.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from cyclopts import Parameter

from ...errors import install_command
from ...source.document import escape_invisible, json_text, render_problem
from ...source.load import create_file, dump
from ..errors import problem_payload
from ..remedies import Door
from .arguments import saved
from .cached_lists import Fresh
from .dispatch import Answer, UsageError
from .options import Definition, Json, NoCode, Project
from .output import first_line, notify
from .session import Interrupts, with_app

if TYPE_CHECKING:
    from ...app.app import App


def preview(source: Definition, /, *, no_code: NoCode = False, json: Json = False, project: Project = None) -> Answer:
    """Show the nodes that would run, their order, tools and types. No tool is called."""

    async def work(app: App, _: Interrupts) -> Answer:
        planned = await app.preview(source)
        return Answer(data=planned.to_dict(), text=planned.text())

    return with_app(work, near=source, project=project, store="memory", code=not no_code)


def graph(
    source: Definition,
    /,
    *,
    format: Annotated[
        Literal["mermaid", "svg", "text"], Parameter(name=["--format", "-f"], help="Format of the drawing.")
    ] = "text",
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Output file.")] = None,
    no_code: NoCode = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Draw the graph of a definition."""

    async def work(app: App, _: Interrupts) -> Answer:
        drawing = escape_invisible(app.draw(await app.load_async(source), format))
        if output is None:
            return Answer(data={"format": format, "graph": drawing}, text=drawing)
        message = saved(output, drawing if drawing.endswith("\n") else drawing + "\n")
        return Answer(data={"format": format, "file": str(output)}, text=message)

    return with_app(work, near=source, project=project, store="memory", code=not no_code)


def convert(
    source: Definition,
    /,
    *,
    to: Annotated[
        str,
        Parameter(name="--to", help="Target notation: chain, composite, composition, experience or plan."),
    ],
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Output file.")] = None,
    allow_loss: Annotated[
        bool, Parameter(negative=(), help="Convert what the notation supports, and list the losses on standard error.")
    ] = False,
    no_code: NoCode = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Translate a definition to another notation, or list everything that the notation does not support."""

    async def work(app: App, _: Interrupts) -> Answer:
        converted = app.convert(await app.load_async(source), to, allow_loss=allow_loss)
        document = dict(converted)
        text = dump(document, "json" if output is not None and output.suffix == ".json" else "yaml")
        losses = converted.losses if allow_loss else ()
        for loss in losses:
            sys.stderr.write(f"lost: {render_problem(loss)}\n")
        lost: dict[str, Any] = {"losses": [problem_payload(loss, Door.CLI) for loss in losses]} if allow_loss else {}
        if output is None:
            return Answer(data={"document": document, **lost} if allow_loss else document, text=text)
        return Answer(data={"kind": to, "file": str(output), **lost}, text=saved(output, text))

    return with_app(work, near=source, project=project, store="memory", code=not no_code)


_AGENT_SETUP = """\
## Set up

Install the client of your model and set its key. For Claude:

```
$install
export ANTHROPIC_API_KEY=...
```

For a model of another provider, such as OpenAI or Gemini:

```
$install_models
export OPENAI_API_KEY=...
```

Then write it in `ropewalk.toml`:

```
[model]
model = "openai:gpt-5"
```

"""
_INSTALL: Final = {"install": install_command("claude"), "install_models": install_command("models")}
_OTHER: Final = "       or choose another model: see README.md"
_AGENT_TESTING = """\
```
pip install pytest
python -m pytest
```

`tests/$test` runs the agent with a script in place of the model. It needs no key.
"""
_TESTING = """\
```
ropewalk test
```

`tests/$test` is a recorded run: each tool call with its result, and the expected outcome. `ropewalk test`
replays it without calling a tool. To record another run as a test:

```
ropewalk runs ls
ropewalk runs export RUN_ID --as-test --flow $definition -o tests/NAME.test.yaml
```
"""
Kind: TypeAlias = Literal["chain", "composition", "experience", "agent"]
_TOOL_FILES = {"ropewalk.toml": "ropewalk.toml", "tools.py": "tools.py.txt"}
_EXPERIENCE_FILES = {"tools/greet.py": "greet.py.txt", "tools/sum_up.py": "sum_up.py.txt"}


def new(
    directory: Path,
    /,
    *,
    kind: Annotated[Kind, Parameter(help="Kind of definition to create.")] = "chain",
    json: Json = False,
) -> Answer:
    """Create a new project in DIRECTORY: tools in Python, a definition that runs, a test and a README."""
    if _is_occupied(directory):
        raise UsageError(f"{directory} already exists and is not empty; name a new directory")
    definition, is_agent, is_experience = f"{kind}.yaml", kind == "agent", kind == "experience"
    test = "test_agent.py" if is_agent else f"{kind}.test.yaml"
    templates = {
        "README.md": "README.md.txt",
        **(_EXPERIENCE_FILES if is_experience else _TOOL_FILES),
        definition: definition,
        f"tests/{test}": f"{test}.txt" if is_agent else test,
    }
    names = {
        "title": directory.resolve().name,
        "definition": "." if is_experience else definition,
        "file": definition,
        "tools": "`tools/`" if is_experience else "`tools.py`",
        "setup": Template(_AGENT_SETUP).substitute(_INSTALL) if is_agent else "",
    }
    # The section on tests uses the other names, so it is filled in after them.
    names["testing"] = Template(_AGENT_TESTING if is_agent else _TESTING).substitute(names, test=test)
    try:
        created = _create_files(directory, templates, names)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or directory}: {error.strerror or error}") from error
    run = f"cd {shlex.quote(str(directory))} && ropewalk run {names['definition']}"
    preparation = [f"first: {_INSTALL['install']}", "       export ANTHROPIC_API_KEY=...", _OTHER] if is_agent else []
    return Answer(
        data={"directory": str(directory), "files": created, "next": run},
        text="\n".join([*created, "", *preparation, f"next: {run}"]),
    )


def _is_occupied(directory: Path) -> bool:
    try:
        return directory.exists() and (not directory.is_dir() or any(directory.iterdir()))
    except OSError as error:
        raise UsageError(f"cannot read {directory}: {error.strerror or error}") from error


def _create_files(directory: Path, templates: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    """Write the files of a new project."""
    folder = files(__package__).joinpath("template")
    created = []
    directory.mkdir(parents=True, exist_ok=True)
    for name, template in templates.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        content = folder.joinpath(template).read_bytes()
        if name == "README.md":
            content = Template(content.decode()).substitute(names).encode()
        create_file(path, content)
        created.append(str(path))
    return created


SchemaKind: TypeAlias = Literal["agent", "chain", "composite", "composition", "experience", "plan", "runchain"]
_COMPLETED = "Let editors complete the ids of the project's tools; servers are asked as by `tools ls`."
_KINDS = "Definition kind: agent, chain, composite, composition, experience or plan."


def schema(
    kind: Annotated[SchemaKind, Parameter(show_choices=False, help=_KINDS)],
    /,
    *,
    tools: Annotated[bool, Parameter(name="--tools", negative=(), help=_COMPLETED)] = False,
    fresh: Fresh = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Print the JSON Schema of a kind of definition, for editors and other validators."""
    from ...notations.json_schema import schema_of  # imports every notation
    from .tools import failure_lines, list_tools

    if not tools:
        document = schema_of(kind)
        return Answer(data=document, text=json_text(document))

    async def work(app: App, _: Interrupts) -> Answer:
        for line in [*await list_tools(app, project, fresh), *failure_lines(app)]:
            notify(line)  # the standard output is the schema alone
        known = {tool.id: first_line(tool.description or "") for tool in app.toolbox.list()}
        document = schema_of(kind, {id: known[id] for id in sorted(known)})
        return Answer(data=document, text=json_text(document))

    return with_app(work, project=project, store="memory")

"""Runs the experience directories in a folder with a scripted model and stand-in programs, one line for each.

    python bench/experiences.py FOLDER

FOLDER holds directories with an `experience.yaml`, at any depth: a copy of somebody's examples, say. Each runs in a
copy, so nothing in FOLDER changes. The model and the stand-ins for `claude`, `codex` and `gemini` answer with the
smallest value that fits the schema of the node. So this shows that a directory is read, that its modules run and that
every answer reaches its field; it says nothing about the answers of real models. The exit code is 1 unless every run
is completed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ropewalk import App
from ropewalk.errors import InvalidFlow, RopewalkError
from ropewalk.testing import ScriptedModel

PROGRAMS = ("claude", "codex", "gemini")
STAND_IN = """#!{python}
import json, re, sys
prompt = max(sys.argv[1:], key=len)
for pattern, answer in json.load(open({answers!r})):
    if re.fullmatch(pattern, prompt, re.DOTALL):
        break
else:
    sys.exit("no node has this prompt")
if "json" in sys.argv:
    answer = json.dumps({{"type": "result", "result": answer}})
sys.stdout.write(answer)
"""


def sample(schema: Any) -> Any:
    """The smallest value that fits the common part of a JSON Schema, with every property."""
    if not isinstance(schema, dict):
        return "text"
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: sample(inner) for name, inner in (schema.get("properties") or {}).items()}
    if kind == "array":
        return [sample(schema.get("items", {})) for _ in range(max(1, schema.get("minItems", 1)))]
    return {"number": 1, "integer": 1, "boolean": True, "null": None}.get(kind, "text")


def answer(request: Any) -> str:
    """What the scripted model says: JSON that fits where the node asks for it, else a text."""
    return "a text" if request.schema is None else json.dumps(sample(request.schema))


def install(folder: Path, document: dict[str, Any]) -> None:
    """Write the stand-ins, which know each node by its prompt."""
    answers = []
    for node in document["graph"]["nodes"]:
        if str(node.get("kind")).replace("_", "-") == "cli-agent":
            parts = re.split(r"\{\{.*?\}\}", str(node["prompt"]))
            wanted = node.get("schema", node.get("output_schema"))
            says = json.dumps(sample(wanted)) if node.get("output_format") == "json" else "a text"
            answers.append((".*".join(map(re.escape, parts)), says))
    (folder / "answers.json").write_text(json.dumps(answers), "utf-8")
    for name in PROGRAMS:
        program = folder / name
        program.write_text(STAND_IN.format(python=sys.executable, answers=str(folder / "answers.json")), "utf-8")
        program.chmod(0o755)


async def run(home: Path, programs: Path) -> str:
    """Run one directory and say how it ended."""
    async with App(model=ScriptedModel(answer)) as app:
        try:
            loaded = app.load(home)
            app.ensure(loaded)
            install(programs, loaded.document)
            given = sample(loaded.flow.input_schema) if loaded.flow.input_schema is not None else None
            result = await app.run(loaded, given)
        except InvalidFlow as error:
            return f"invalid: {error.problems[0]}" + (f" (+{len(error.problems) - 1})" * (len(error.problems) > 1))
        except RopewalkError as error:
            return f"refused: {error}"
    if result.status != "completed":
        return f"{result.status}: {result.errors[0]['nodeId']}: {result.errors[0]['message']}"
    return f"completed: {', '.join(result.final_state)}"


def main() -> int:
    """Run every directory of the folder; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    homes = sorted(file.parent for file in folder.rglob("experience.y*ml"))
    completed = 0
    with tempfile.TemporaryDirectory() as scratch:
        programs = Path(scratch, "programs")
        programs.mkdir()
        os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
        for i, home in enumerate(homes):
            copy = Path(scratch, str(i), home.name)
            shutil.copytree(home, copy)
            began = time.perf_counter()
            ended = asyncio.run(run(copy, programs))
            completed += ended.startswith("completed")
            print(f"{home.name:28} {time.perf_counter() - began:6.2f} s  {ended}", flush=True)
    print(f"{completed} of {len(homes)} completed")
    return 0 if homes and completed == len(homes) else 1


if __name__ == "__main__":
    sys.exit(main())

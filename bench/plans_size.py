"""Sizes: a program next to the same calls as plain Python, and stubs next to JSON Schema definitions of the same tools.

Tokens are counted with `anthropic-tokenizer` where it is installed (its vocabulary is in the package), else characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from plans_gold import Gold, Schema, program_of, unsound
from ropewalk.notations.plan.tools import python_name
from ropewalk.tools.stubs import stub
from ropewalk.tools.tool import Tool


def counter() -> tuple[str, Callable[[str], int]]:
    """Return what is counted, and the function that counts it."""
    try:
        from anthropic_tokenizer import count_tokens
    except ImportError:
        return "characters", len
    return "tokens of anthropic-tokenizer", count_tokens


def definition(name: str, schema: Schema) -> str:
    """Return a tool as a model API takes it: compact JSON with the schemas."""
    fields = {"name": name, "description": schema.description, "input_schema": schema.parameters}
    return json.dumps(fields | ({"output_schema": schema.returns} if schema.returns else {}), separators=(",", ":"))


def measure(golds: Iterable[Gold]) -> bool:
    """Print both ratios of each set; return True if each aim is met."""
    unit, count = counter()
    programs: dict[str, list[int]] = {}
    tools: dict[str, dict[str, Schema]] = {}
    for gold in golds:
        name = gold.id.split("/")[0]
        tools.setdefault(name, {}).update(gold.tools)
        if unsound(gold) is None:
            code = program_of(gold)
            sums = programs.setdefault(name, [0, 0])
            sums[0] += count(code)
            sums[1] += count(re.sub(r"\bawait ", "", code))
    print(f"counted in {unit}")
    met = True
    for name, (plan, plain) in programs.items():
        ratio = plan / plain
        stubs = sum(
            count(stub(Tool(tool, schema.description, schema.parameters, schema.returns), python_name(tool)))
            for tool, schema in tools[name].items()
        )
        schemas = sum(count(definition(tool, schema)) for tool, schema in tools[name].items())
        print(
            f"{name}: program {ratio:.2f} of plain Python; "
            f"stubs {stubs / schemas:.2f} of JSON Schema ({stubs} of {schemas})"
        )
        met &= ratio <= 1.1 and stubs <= 0.4 * schemas
    return met

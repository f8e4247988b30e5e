"""The manifests for the MCP registry and Claude Code: their format, and that they start this version of Ropewalk."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.sdist import SdistBuilder

from ropewalk.doors.cli.commands import program
from ropewalk.schema import compile_schema

PROJECT = Path(__file__).parents[1]
MANIFESTS = ("server.json", ".claude-plugin/plugin.json", ".claude-plugin/marketplace.json")

# What https://modelcontextprotocol.io/registry and the revision 2025-12-11 of its schema document for these fields.
TEXT = {"type": "string", "minLength": 1}
VERSION = {**TEXT, "maxLength": 255, "pattern": r"^\d+\.\d+\.\d+$"}
ARGUMENT = {
    "type": "object",
    "properties": {"type": {"enum": ["named", "positional"]}, "name": TEXT, "value": TEXT, "valueHint": TEXT},
    "required": ["type"],
    "oneOf": [
        {"properties": {"type": {"const": "named"}}, "required": ["name"]},
        {
            "properties": {"type": {"const": "positional"}},
            "anyOf": [{"required": ["value"]}, {"required": ["valueHint"]}],
        },
    ],
}
PACKAGE = {
    "type": "object",
    "properties": {
        "registryType": {"enum": ["npm", "pypi", "oci", "nuget", "mcpb", "maven"]},
        "identifier": TEXT,
        "version": {**VERSION, "not": {"const": "latest"}},
        "runtimeHint": TEXT,
        "runtimeArguments": {"type": "array", "items": ARGUMENT},
        "packageArguments": {"type": "array", "items": ARGUMENT},
        "transport": {"type": "object", "properties": {"type": {"const": "stdio"}}, "required": ["type"]},
    },
    "required": ["registryType", "identifier", "transport"],
    "dependentRequired": {"runtimeArguments": ["runtimeHint"]},
    "additionalProperties": False,
}
SERVER = {
    "type": "object",
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"type": "string", "minLength": 3, "maxLength": 200, "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"},
        "title": {**TEXT, "maxLength": 100},
        "description": {**TEXT, "maxLength": 100},
        "version": VERSION,
        "packages": {"type": "array", "items": PACKAGE, "minItems": 1},
    },
    "required": ["$schema", "name", "description", "version", "packages"],
    "additionalProperties": False,
}
PLUGIN = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z][a-z0-9]*(-[a-z0-9]+)*$"},
        "version": VERSION,
        "description": {**TEXT, "maxLength": 200},
        "author": {"type": "object", "required": ["name"]},
        "license": TEXT,
        "keywords": {"type": "array", "items": TEXT},
        "mcpServers": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"command": TEXT, "args": {"type": "array", "items": TEXT}},
                "required": ["command"],
            },
        },
    },
    "required": ["name", "version", "mcpServers"],
    "additionalProperties": False,
}


def manifest(name: str) -> Any:
    """The content of a manifest."""
    return json.loads((PROJECT / name).read_text("utf-8"))


def arguments(listed: list[dict[str, str]]) -> list[str]:
    """The words of a command line that a client makes of the arguments in `server.json`."""
    return [word for entry in listed for word in (entry.get("name"), entry["value"]) if word is not None]


def test_the_manifests_have_the_documented_formats() -> None:
    for name, schema in (("server.json", SERVER), (".claude-plugin/plugin.json", PLUGIN)):
        assert compile_schema(schema).problems(manifest(name), name) == []


def test_the_manifests_have_the_version_and_the_requirement_of_this_package() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    server, plugin = manifest("server.json"), manifest(".claude-plugin/plugin.json")
    (package,) = server["packages"]
    assert {server["version"], package["version"], plugin["version"]} == {project["version"]}
    assert (package["identifier"], plugin["name"]) == (project["name"], project["name"])
    assert plugin["license"] == project["license"]
    assert arguments(package["runtimeArguments"]) == ["--with", f"{project['name']}[mcp]"]
    # The registry looks for this line in the description of the package, as proof of its owner.
    assert f"<!-- mcp-name: {server['name']} -->" in (PROJECT / "README.md").read_text("utf-8").splitlines()


def test_the_commands_in_the_manifests_are_those_of_the_command_line() -> None:
    (package,) = manifest("server.json")["packages"]
    entry = manifest(".claude-plugin/plugin.json")["mcpServers"]["ropewalk"]
    assert entry["command"] == package["identifier"]
    for words in (arguments(package["packageArguments"]), entry["args"]):
        command, _, _ = program().parse_args(words, exit_on_error=False, print_error=False)
        assert command.__module__ == "ropewalk.doors.cli.serve"


def test_the_marketplace_lists_the_plugin() -> None:
    (listed,) = manifest(".claude-plugin/marketplace.json")["plugins"]
    assert listed["name"] == manifest(".claude-plugin/plugin.json")["name"]
    assert (PROJECT / listed["source"] / ".claude-plugin" / "plugin.json").is_file()


def test_the_source_distribution_has_the_manifests() -> None:
    files = {file.distribution_path for file in SdistBuilder(str(PROJECT)).recurse_included_files()}
    assert set(MANIFESTS) <= files

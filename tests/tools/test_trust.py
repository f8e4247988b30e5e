"""Hints of tools count only where the project declares the tool or trusts its server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import fork_server
from agreement import AGREED
from ropewalk import App
from ropewalk.config.project import read_config
from ropewalk.errors import ConfigError
from ropewalk.tools.annotations import counted_annotations, is_repeatable
from ropewalk.tools.backends.openapi import read_openapi
from ropewalk.tools.mcp.config import server_config
from ropewalk.tools.toolbox import Toolbox

SHIFTY = Path(__file__).parent.parent / "mcp_servers" / "shifty.py"
SAFE = {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False, "openWorldHint": False}
CAREFUL = {"readOnlyHint": False, "idempotentHint": False, "destructiveHint": True, "openWorldHint": True}


@pytest.mark.parametrize("claim", [{name: value} for name, value in SAFE.items()])
def test_a_reassuring_hint_counts_only_with_trust(claim: dict[str, Any]) -> None:
    given = {"title": "T", **claim}
    assert counted_annotations(given, trusted=False) == {"title": "T"}
    assert counted_annotations(given, trusted=True) == given


@pytest.mark.parametrize("claim", ["true", 1, None, []])
def test_a_hint_that_is_no_boolean_counts_for_nothing(claim: Any) -> None:
    assert counted_annotations(dict.fromkeys(SAFE, claim), trusted=False) == {}


def test_a_warning_counts_without_trust() -> None:
    assert counted_annotations(CAREFUL, trusted=False) == CAREFUL
    assert counted_annotations(None, trusted=False) == {}


@pytest.mark.parametrize(("trust", "trusted"), [({}, False), ({"trust": "hints"}, True)])
def test_hints_of_a_server_that_calls_everything_read_only(tmp_path: Path, trust: Any, trusted: bool) -> None:
    listed = [{"name": "wipe", "description": "", "inputSchema": {"type": "object"}, "annotations": SAFE}]
    (tmp_path / "tools.json").write_text(json.dumps(listed))
    server = {
        "command": fork_server.program("python"),
        "args": [str(SHIFTY), str(tmp_path / "tools.json")],
        **trust,
    }

    async def case() -> None:
        async with Toolbox(mcp={"s": server}) as box:
            tool = box.get("s:wipe")
            assert tool is not None
            assert tool.has_side_effects is not trusted
            assert is_repeatable(tool) is trusted
            assert (tool.annotations or {}) == (SAFE if trusted else {})

    asyncio.run(case())


@pytest.mark.parametrize(("line", "trusted"), [("", False), ('trust = "hints"', True)])
def test_trust_is_a_setting_of_a_server_in_ropewalk_toml(tmp_path: Path, line: str, trusted: bool) -> None:
    (tmp_path / "ropewalk.toml").write_text(f'[mcp.s]\ncommand = "x"\n{line}\n')
    app = App.open(tmp_path, store="memory")
    assert app.toolbox.trusts_hints("s") is trusted


@pytest.mark.parametrize("given", ['"hint"', "true", '"all"', "1", '""'])
def test_another_trust_is_refused(tmp_path: Path, given: str) -> None:
    (tmp_path / "ropewalk.toml").write_text(f'[mcp.s]\ncommand = "x"\ntrust = {given}\n')
    with pytest.raises(ConfigError, match=r'\[mcp\.s\] trust: must be "hints", or left out') as caught:
        read_config(tmp_path)
    (problem,) = caught.value.problems
    assert problem.place is not None
    assert problem.place.line == 3
    with pytest.raises(ConfigError, match="trust must be 'hints'"):
        server_config("s", {"command": "x", "trust": json.loads(given)})


@pytest.mark.parametrize(
    ("given", "trust"), [({}, None), ({"trust": "hints"}, "hints"), ({"trust": True}, None), ({"trust": False}, None)]
)
def test_trust_in_a_servers_file(tmp_path: Path, given: Any, trust: str | None) -> None:
    """A `trust` of true is another program's setting, and says nothing about hints."""
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": {"command": "x", **given}}}))
    config = read_config(tmp_path, environ=AGREED)
    assert config.failures == {}
    assert config.servers["s"].trust == trust


def test_another_trust_in_a_servers_file_breaks_that_server(tmp_path: Path) -> None:
    servers = {"s": {"command": "x", "trust": "hint"}, "t": {"command": "x"}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    config = read_config(tmp_path, environ=AGREED)
    assert 'trust must be "hints"' in config.failures["s"]
    assert list(config.servers) == ["t"]


METHODS = ("get", "head", "options", "post", "put", "delete", "patch")


def api(**more: Any) -> Any:
    item = {method: {"operationId": f"{method}_x", "responses": {}} for method in METHODS}
    return read_openapi({"openapi": "3.1.0", "paths": {"/x": item}}, name="p", url="http://h", **more)


def test_an_operation_is_not_read_only_by_its_method() -> None:
    assert all(one.has_side_effects and not is_repeatable(one) for one in api().tools)


def test_the_project_says_which_operations_are_read_only(tmp_path: Path) -> None:
    assert [one.name for one in api(read_only=["get_*", "head_x"]).tools if not one.has_side_effects] == [
        "get_x",
        "head_x",
    ]
    document = {"openapi": "3.1.0", "paths": {"/x": {"get": {"operationId": "look", "responses": {}}}}}
    (tmp_path / "api.json").write_text(json.dumps(document))
    lines = '[providers.p]\nurl = "http://h"\nopenapi = "api.json"\nread_only = ["look"]\n'
    (tmp_path / "ropewalk.toml").write_text(lines)
    look = App.open(tmp_path, store="memory").toolbox.get("p:look")
    assert look is not None
    assert not look.has_side_effects


def test_read_only_names_operations_that_there_are() -> None:
    with pytest.raises(ConfigError, match="'get_y' matches no operation; did you mean 'get_x'"):
        api(read_only=["get_y"])
    with pytest.raises(ConfigError, match="read_only needs openapi"):
        Toolbox(providers={"p": {"url": "http://h", "read_only": ["x"]}})
    with pytest.raises(ConfigError, match="read_only must be a list"):
        Toolbox(providers={"p": {"url": "http://h", "openapi": {}, "read_only": "x"}})

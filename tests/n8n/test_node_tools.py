"""The ten tools, each over the real n8n-mcp."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk.errors import ToolError, ValidationFailed
from ropewalk.n8n.node_tools import NAMESPACE, SERVER, TOOLS, Server, register
from ropewalk.tools.runner import Runner
from ropewalk.tools.toolbox import Toolbox

from .conftest import Lab

pytestmark = pytest.mark.node
FLOW = {
    "nodes": [
        {
            "id": "1",
            "name": "A",
            "type": "n8n-nodes-base.webhook",
            "typeVersion": 2,
            "position": [0, 0],
            "parameters": {},
        }
    ],
    "connections": {"A": {"main": [[{"node": "B", "type": "main", "index": 0}]]}},
}
CALLS: dict[str, dict[str, Any]] = {
    "search_node_properties": {"nodeType": "n8n-nodes-base.httpRequest", "query": "auth", "maxResults": 2},
    "get_node_documentation": {"nodeType": "slack"},
    "validate_node_minimal": {"nodeType": "httpRequest", "config": {}},
    "validate_workflow": {"workflow": FLOW},
    "check_connections": {"workflow": FLOW},
    "get_input_schema": {"nodeType": "nodes-base.httpRequest"},
    "get_output_schema": {"nodeType": "nodes-base.if"},
    "search_nodes": {"query": "slack", "limit": 2},
    "get_node_info": {"nodeType": "@n8n/n8n-nodes-langchain.agent"},
    "list_node_types": {"category": "trigger", "limit": 5},
}


def test_each_asks_what_n8n_mcp_offers(lab: Lab) -> None:
    async def run() -> dict[str, Any]:
        toolbox = Toolbox()
        toolbox.add_mcp(SERVER, lab.config)
        register(toolbox, Server(toolbox, lab.home))
        runner = Runner(index=toolbox)
        try:
            found = {name: (await runner.run(f"{NAMESPACE}:{name}", given)).structured for name, given in CALLS.items()}
            found["all"] = (await runner.run(f"{NAMESPACE}:list_node_types")).structured
            with pytest.raises(ToolError, match=r"nodes-base\.nope"):
                await runner.run(f"{NAMESPACE}:get_node_info", {"nodeType": "nope"})
            with pytest.raises(ValidationFailed, match="query"):
                await runner.run(f"{NAMESPACE}:search_nodes", {})
        finally:
            await toolbox.close()
        return found

    found = asyncio.run(run())
    assert list(CALLS) == list(TOOLS)
    assert len(found["search_node_properties"]["matches"]) == 2
    assert "# Slack node" in found["get_node_documentation"]["documentation"]
    assert found["validate_node_minimal"]["missingRequiredFields"] == ["URL"]
    said = {
        name: {one["message"] for one in found[name]["errors"]} for name in ("validate_workflow", "check_connections")
    }
    lost = 'Connection to non-existent node: "B" from "A"'
    assert said["validate_workflow"] >= {lost, "Webhook path is required"}
    assert said["check_connections"] == {lost}
    assert [one["name"] for one in found["get_input_schema"]["requiredProperties"]] == ["url"]
    assert found["get_output_schema"] == {
        "nodeType": "nodes-base.if",
        "outputs": found["get_output_schema"]["outputs"],
        "outputNames": ["true", "false"],
    }
    assert len(found["search_nodes"]["results"]) == 2
    assert found["get_node_info"]["nodeType"] == "nodes-langchain.agent"
    assert {one["category"] for one in found["list_node_types"]["nodes"]} == {"trigger"}
    assert len(found["list_node_types"]["nodes"]) == 5
    assert len(found["all"]["nodes"]) == 50

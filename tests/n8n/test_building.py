"""What code decides of a workflow, and what it refuses; no server, no model."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.errors import InvalidValue
from ropewalk.n8n.draft import draft_problems, make_draft
from ropewalk.n8n.node_tools import Facts
from ropewalk.n8n.node_types import full_type, short_type
from ropewalk.n8n.repairs import OPERATIONS, apply_repairs
from ropewalk.n8n.workflow import make_workflow, read_workflow


def node(id: str, type: str = "nodes-base.set", name: str = "", **parameters: Any) -> dict[str, Any]:
    return {"id": id, "type": type, "name": name or id, "parameters": parameters}


def draft(*nodes: dict[str, Any], lines: str = "") -> dict[str, Any]:
    """`a-b c-d` are connections."""
    ends = [line.split("-") for line in lines.split()]
    return {"name": "w", "nodes": list(nodes), "connections": [{"from": a, "to": b} for a, b in ends]}


def test_the_same_draft_gives_the_same_workflow() -> None:
    one = draft(node("t", "nodes-base.webhook"), node("a"), lines="t-a")
    assert make_workflow(one).workflow == make_workflow(one).workflow


def test_names_are_made_unique_and_connections_follow() -> None:
    one = draft(node("t", "webhook"), node("a", name="Set"), node("b", name="Set"), lines="t-a a-b")
    flow: Any = make_workflow(one).workflow
    assert [one["name"] for one in flow["nodes"]] == ["t", "Set", "Set1"]
    assert flow["connections"]["Set"] == {"main": [[{"node": "Set1", "type": "main", "index": 0}]]}


def test_a_name_that_is_made_never_takes_one_that_was_given() -> None:
    one = draft(node("a", name="Set"), node("b", name="Set"), node("c", name="Set1"))
    assert sorted(make_workflow(one).names.values()) == ["Set", "Set1", "Set2", "Start"]


def test_without_a_trigger_a_manual_one_leads_to_what_nothing_leads_to() -> None:
    made = make_workflow(draft(node("a"), node("b"), node("c"), lines="a-b"))
    flow: Any = made.workflow
    assert flow["nodes"][0]["type"] == "n8n-nodes-base.manualTrigger"
    assert [line["node"] for line in flow["connections"]["Start"]["main"][0]] == ["a", "c"]
    assert draft_problems(made.draft, made.triggers) == []


def test_a_second_output_and_what_serves_an_agent() -> None:
    one = draft(node("t", "webhook"), node("if", "if"), node("no"), node("agent"), node("model"), lines="t-if")
    one["connections"] += [
        {"from": "if", "to": "no", "output": 1},
        {"from": "if", "to": "agent"},
        {"from": "model", "to": "agent", "type": "ai_languageModel"},
    ]
    made = make_workflow(one)
    flow: Any = made.workflow
    assert [[line["node"] for line in out] for out in flow["connections"]["if"]["main"]] == [["agent"], ["no"]]
    assert list(flow["connections"]["model"]) == ["ai_languageModel"]
    assert draft_problems(made.draft, made.triggers) == []
    places = [tuple(one["position"]) for one in flow["nodes"]]
    assert len(set(places)) == len(places)


WHOLE = {
    "typeVersion": 1.5,
    "position": [10, -20],
    "onError": "continueErrorOutput",
    "retryOnFail": True,
    "maxTries": 5,
    "waitBetweenTries": 2000,
    "alwaysOutputData": True,
    "executeOnce": True,
    "disabled": True,
    "notes": "for the auditor",
    "notesInFlow": True,
    "credentials": {"slackApi": {"id": "7", "name": "Slack"}},
    "webhookId": "w",
    "anything": {"else": [1]},
}


def test_the_answers_of_the_model_carry_the_whole_node_connection_and_workflow() -> None:
    found = {
        "name": "w",
        "nodes": [{"id": id, "type": "set", "name": id, "purpose": "p", "notes": "old"} for id in "ab"],
    }
    configured = {
        "nodes": [{"id": "a", "parameters": {"x": 1}, **WHOLE}],
        "connections": [{"from": "a", "to": "b", "output": 1}] * 2 + [{"from": "b", "to": "a", "kind": "late"}],
        "settings": {"timezone": "UTC"},
        "pinData": {"a": []},
    }
    one, wrong = make_draft(found, configured)
    made = make_workflow(one)
    flow: Any = made.workflow
    assert wrong == []
    assert flow["nodes"][0] == {"id": "a", "name": "a", "type": "n8n-nodes-base.set", "parameters": {"x": 1}, **WHOLE}
    assert (flow["settings"], flow["pinData"]) == ({"executionOrder": "v1", "timezone": "UTC"}, {"a": []})
    assert flow["connections"]["a"] == {"main": [[], [{"node": "b", "type": "main", "index": 0}]]}
    assert flow["connections"]["b"] == {"main": [[{"node": "a", "type": "main", "index": 0, "kind": "late"}]]}
    assert (flow["nodes"][1]["notes"], "purpose" in flow["nodes"][1]) == ("old", False)
    assert made.credentials == [{"node": "a", "types": ["slackApi"]}]
    added, _ = apply_repairs(
        draft(node("t", "webhook")), [{"op": "add_node", "node": {"id": "a", "type": "set", "name": "a", **WHOLE}}]
    )
    again: Any = make_workflow(added).workflow
    assert {key: again["nodes"][1][key] for key in WHOLE} == WHOLE


def test_places_that_nodes_have_are_left_to_them() -> None:
    one = draft(node("t", "webhook"), node("a"), node("b"), lines="t-a t-b")
    one["nodes"][2]["position"] = [240, 0]
    flow: Any = make_workflow(one).workflow
    assert [node["position"] for node in flow["nodes"]] == [[0, 0], [240, 180], [240, 0]]


@pytest.mark.parametrize(
    ("type", "written"),
    [
        ("nodes-base.scheduleTriger", "n8n-nodes-base.scheduleTrigger"),
        ("scheduletrigger", "n8n-nodes-base.scheduleTrigger"),
        ("nodes-base.schedule", "n8n-nodes-base.scheduleTrigger"),
        ("nodes-base.webhookTrigger", "n8n-nodes-base.webhook"),
        ("nodes-base.cronTrigger", "n8n-nodes-base.cron"),
        ("nodes-base.gmailTrigr", "n8n-nodes-base.gmailTrigr"),  # not known here, but no second one is added
    ],
)
def test_a_misspelt_trigger_is_corrected_and_no_second_one_added(type: str, written: str) -> None:
    made = make_workflow(draft(node("t", type), node("a"), lines="t-a"))
    flow: Any = made.workflow
    assert [node["type"] for node in flow["nodes"]] == [written, "n8n-nodes-base.set"]
    assert len(made.corrections) == (0 if written.endswith("Trigr") else 1)


def test_only_n8n_itself_has_its_types_corrected() -> None:
    flow: Any = make_workflow(draft(node("t", "n8n-nodes-acme.scheduleTriger"))).workflow
    assert [node["type"] for node in flow["nodes"]] == ["n8n-nodes-acme.scheduleTriger"]


def test_a_workflow_that_is_read_has_unique_ids_and_keeps_what_names_nothing() -> None:
    nodes = [{"id": "1", "name": "A", "type": "n8n-nodes-base.set"}, {"id": "1", "name": "A"}, {"name": "B"}]
    lines = {"A": {"error": [None, [{"node": "gone", "type": "main", "index": 2}]]}}
    one = read_workflow({"nodes": nodes, "connections": lines, "pinData": {}})
    assert [node["id"] for node in one["nodes"]] == ["1", "11", "B"]
    assert one["connections"] == [
        {"from": "1", "to": "gone", "output": 1, "input": 2, "type": "error", "inputType": "main"}
    ]
    assert one["pinData"] == {}
    with pytest.raises(InvalidValue, match="not a workflow of n8n"):
        read_workflow({"nodes": {}})


def test_types_are_spelt_both_ways() -> None:
    for short, full in (
        ("nodes-base.slack", "n8n-nodes-base.slack"),
        ("nodes-langchain.agent", "@n8n/n8n-nodes-langchain.agent"),
        ("n8n-nodes-acme.acme", "n8n-nodes-acme.acme"),
    ):
        assert (short_type(full), full_type(short), full_type(full)) == (short, full, full)
    assert full_type("slack") == "n8n-nodes-base.slack"


def test_credentials_are_those_that_the_parameters_ask_for() -> None:
    asked = [
        {"name": "slackApi", "required": True, "displayOptions": {"show": {"authentication": ["accessToken"]}}},
        {"name": "slackOAuth2Api", "required": True, "displayOptions": {"show": {"authentication": ["oAuth2"]}}},
    ]
    facts = Facts(
        type="n8n-nodes-base.slack",
        version=2.3,
        trigger=False,
        essentials={},
        credentials=tuple(asked),
        defaults={"authentication": "accessToken"},
    )
    assert facts.needs({}) == ["slackApi"]
    assert facts.needs({"authentication": "oAuth2"}) == ["slackOAuth2Api"]
    assert facts.needs({"authentication": "x", "genericAuthType": "httpHeaderAuth"}) == ["httpHeaderAuth"]


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (draft(), ["the workflow is empty: it has no nodes"]),
        (draft(node("n", "nodes-base.stickyNote")), ["the workflow has no node that does anything"]),
        (draft(node("a"), node("a")), ["several nodes have the id 'a'"]),
        (draft(node("t"), lines="t-tt"), ["a connection goes to node 'tt', which does not exist; did you mean 't'?"]),
        (draft(node("t"), node("a"), node("b"), lines="t-a"), ["node 'b' is not reachable from a trigger"]),
        (draft(node("t"), node("a"), lines="t-a a-t"), []),
    ],
)
def test_drafts_that_are_refused(one: dict[str, Any], said: list[str]) -> None:
    assert draft_problems(one, ["t"]) == said


def test_a_ring_without_a_trigger_is_refused() -> None:
    made = make_workflow(draft(node("a"), node("b"), lines="a-b b-a"))
    assert draft_problems(made.draft, made.triggers) == [f"node {id!r} is not reachable from a trigger" for id in "ab"]


def test_what_was_configured_and_never_found_is_said() -> None:
    found = {"name": "w", "nodes": [{"id": "get", "type": "set", "name": "Get"}]}
    configured = {"nodes": [{"id": "gets", "parameters": {"a": 1}}], "connections": []}
    one, said = make_draft(found, configured)
    assert said == ["configured node 'gets', which does not exist; did you mean 'get'?"]
    assert one["nodes"][0]["parameters"] == {}


LINE = {"from": "a", "to": "b"}
STUCK = "the id of a node cannot change, because connections name it"
RENAME = {"op": "set_fields", "id": "a", "fields": {"name": "A"}}


@pytest.mark.parametrize(
    ("operation", "changed"),
    [
        ({"op": "add_node", "node": {"id": "c", "type": "set", "name": "C"}}, {"ids": "abc"}),
        ({"op": "remove_node", "id": "b"}, {"ids": "a", "lines": []}),
        ({"op": "set_parameters", "id": "a", "parameters": {"y": 2}}, {"parameters": {"x": 1, "y": 2}}),
        ({"op": "replace_parameters", "id": "a", "parameters": {"y": 2}}, {"parameters": {"y": 2}}),
        ({"op": "set_fields", "id": "a", "fields": {"name": "A", "maxTries": 3}}, {"name": "A", "maxTries": 3}),
        ({"op": "connect", "connection": {"from": "b", "to": "a"}}, {"lines": [LINE, {"from": "b", "to": "a"}]}),
        ({"op": "disconnect", "connection": {**LINE, "type": "main", "output": 0}}, {"lines": []}),
    ],
    ids=list(OPERATIONS),
)
def test_operations(operation: dict[str, Any], changed: dict[str, Any]) -> None:
    before = draft(node("a", x=1), node("b"), lines="a-b")
    after, wrong = apply_repairs(before, [operation])
    first = after["nodes"][0]
    seen = {"ids": "".join(one["id"] for one in after["nodes"]), "lines": after["connections"], **first}
    assert wrong == []
    assert {key: seen[key] for key in changed} == changed
    assert before == draft(node("a", x=1), node("b"), lines="a-b")  # what was given stays


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ({"op": "add_node", "node": node("a")}, "there is already a node 'a'"),
        ({"op": "remove_node", "id": "x"}, "it names node 'x', which does not exist"),
        ({"op": "set_parameters", "id": "a"}, "it needs parameters"),
        ({"op": "set_parametres"}, "unknown operation; did you mean set_parameters?"),
        ({"op": "set_fields", "id": "a", "fields": {"id": "b"}}, STUCK),
        ({"op": "connect", "connection": {**LINE, "output": 0}}, "'a' and 'b' are already connected"),
        ({"op": "disconnect", "connection": {**LINE, "input": 1}}, "no such connection from 'a' to 'b'"),
    ],
)
def test_operations_that_fit_nothing_are_said_and_the_others_hold(operation: dict[str, Any], said: str) -> None:
    after, wrong = apply_repairs(draft(node("a"), node("b"), lines="a-b"), [operation, RENAME])
    assert wrong == [f"operation 1 ({operation['op']}): {said}"]
    assert after["nodes"][0]["name"] == "A"

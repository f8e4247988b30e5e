"""Made-up flows: the check judges each without raising, codec and drawings take each as it is."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ropewalk.check import Checked, ToolCard, check
from ropewalk.codec import fingerprint, flow_from_json, flow_to_json
from ropewalk.draw import mermaid, svg, text
from ropewalk.ir import Flow
from tiers import examples

from .flows import call, dag, flow, out
from .generated import flows, json_values

words = (
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "anyOf",
    "allOf",
    "$ref",
    "enum",
    "additionalProperties",
)
schemas = st.recursive(
    json_values | st.sampled_from(["object", "#", "#/$defs/a", "array"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(words), inner, max_size=4),
    max_leaves=12,
)


@settings(examples(80), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(flows, schemas, schemas)
def test_no_flow_and_no_schema_makes_the_check_raise(flow: Flow, takes: Any, gives: Any) -> None:
    found = check(flow, lambda name: ToolCard(takes, gives))
    assert isinstance(found, Checked)
    assert all(str(p) for p in (*found.problems, *found.warnings))
    again = check(flow, lambda name: ToolCard(takes, gives))
    assert (again.problems, again.warnings) == (found.problems, found.warnings)


@settings(examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(flows)
def test_every_flow_can_be_drawn_and_named(flow: Flow) -> None:
    ET.fromstring(svg(flow))
    assert mermaid(flow)
    assert text(flow)
    assert len(fingerprint(flow)) == 32


@pytest.mark.parametrize("junk", [3, "x", [], {"type": {}}, {"required": "q"}, {"$ref": 3}, {"anyOf": [3]}])
def test_junk_for_a_schema_is_no_reason_to_fail(junk: Any) -> None:
    body = dag(call("a"), call("b", args_=out("a", "x", "y")))
    found = check(flow(body, input_schema=junk, output_schema=junk), lambda name: ToolCard(junk, junk))
    # Those of the flow are told where they cannot be compiled; whoever registers a tool is told of its own.
    assert {problem.path.partition("_schema")[0] for problem in found.problems} == {"input", "output"}


@settings(examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(flows)
def test_a_flow_written_and_read_is_equal_with_meta_and_columns(flow: Flow) -> None:
    document = flow_to_json(flow)
    again = flow_from_json(orjson.loads(orjson.dumps(document)))
    assert again == flow
    assert flow_to_json(again) == document  # also what equality leaves out: meta and columns
    assert fingerprint(again) == fingerprint(flow)
    assert flow_from_json(json.loads(json.dumps(document, sort_keys=True))) == flow

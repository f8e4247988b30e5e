"""A definition that sets no `timeout` has no overall timeout, in every notation and however it is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk import App, flow
from ropewalk.notations.registry import notation_of

CALL = {"id": "a", "type": "tool", "tool": "t"}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "chain": {"kind": "chain", "nodes": [CALL]},
    "chain in loop mode": {"kind": "chain", "mode": "loop", "nodes": [CALL]},
    "chain with timeout 0": {"kind": "chain", "timeout": 0, "nodes": [CALL]},
    "chain with timeout null": {"kind": "chain", "timeout": None, "nodes": [CALL]},
    "composition": {"kind": "composition", "nodes": [CALL]},
    "composite": {"kind": "composite", "name": "c", "mode": "compose", "steps": [{"name": "a", "tool": "t"}]},
    "experience": {
        "kind": "experience", "name": "e", "version": "1.0.0", "state": {"schema": {}},
        "graph": {"nodes": [{"id": "a", "kind": "call", "tool": "t"}]},
    },
    "agent": {"kind": "agent", "name": "a", "prompt": "Say hello."},
}  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=list(DOCUMENTS))
def test_a_document_without_timeout_has_none(document: dict[str, Any]) -> None:
    assert notation_of(document).compile(document).flow.timeout is None


def test_a_flow_in_python_without_timeout_has_none() -> None:
    with flow("f") as f:
        f.sleep(1)
    assert f.done().flow.timeout is None


def test_a_stored_chain_without_timeout_has_none() -> None:
    """CHAIN-CONFIG-2"""

    async def main() -> None:
        async with App("memory") as app:
            await app.chains.create_chain({"id": "c", "nodes": [CALL]})
            await app.chains.clone_chain("c", {"id": "d"})
            text = await app.chains.export_chain("c")
            assert text is not None
            imported = await app.chains.import_chain(text)
            for chain in [*(await app.chains.list_chains()), {"id": imported.id}]:
                kept = await app.chains.get_chain(chain["id"])
                assert kept is not None
                assert notation_of(kept.to_dict()).compile(kept.to_dict()).flow.timeout is None

    asyncio.run(main())

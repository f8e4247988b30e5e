# ruff: noqa: E501 - documents in few lines
"""`bench/foreign.py FOLDER` loads documents of other makers, and its table says what can be used of each."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "foreign.py"


@pytest.fixture(scope="module")
def foreign() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_foreign", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def api(**paths: Any) -> str:
    return json.dumps({"openapi": "3.1.0", "paths": {f"/{name}": item for name, item in paths.items()}})


BAD = {"operationId": "bad", "parameters": [{"$ref": "#/none"}]}
FOLDER = {
    "good.json": api(a={"get": {}, "post": {}}),
    "part.json": api(a={"get": {}, "put": BAD}, b={"$ref": "more.yaml#/item"}),
    "more.yaml": "item: {get: {}, delete: {}}\n",
    "swagger/old.yaml": "swagger: '2.0'\npaths: {/a: {get: {operationId: x}}}\n",
    "refused.json": '{"openapi": "9.0.0", "paths": {}}',
    "broken.json": '{"openapi": "3.0.0", "paths": {',
    ".vscode/mcp.json": '{"servers": {"a": {"command": "x"}, "b": {"type": "sse", "url": "http://b"}, "c": {"url": "${UNSET_HERE}"}}}',
    "list.json": '[{"name": "t", "parameters": {"type": "object"}}]',
    "form.json": '{"tools": [{"title": "no form that is known", "inputs": 3}]}',
    "other.json": '{"a": 1}',
}
ROWS = {
    "good.json": ("openapi", 2, 0, "ok"),
    "part.json": ("openapi", 3, 1, "ok"),
    "swagger/old.yaml": ("openapi", 1, 0, "ok"),
    "refused.json": ("openapi", 0, 0, "provider 'api': openapi: only OpenAPI 3.x"),
    "broken.json": ("openapi", 0, 0, "/broken.json:1:"),
    ".vscode/mcp.json": ("mcp", 1, 2, "ok"),
    "list.json": ("tools", 1, 0, "ok"),
    "form.json": ("tools", 0, 0, ""),
}


def test_the_table_has_a_row_for_each_document_with_its_verdict(
    foreign: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FOLDER.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "argv", ["foreign.py", str(tmp_path), "--reasons"])
    assert foreign.main() == 1
    lines = capsys.readouterr().out.splitlines()
    rows = {line[:44].strip(): line[44:].split(maxsplit=4) for line in lines[1:] if not line.startswith("    ")}
    assert rows.keys() == ROWS.keys()
    for name, (kind, used, left_out, verdict) in ROWS.items():
        row = rows[name]
        assert (row[0], int(row[1]), int(row[2])) == (kind, used, left_out), row
        assert row[4].replace(str(tmp_path), "").startswith(verdict), row
        assert row[4] == "ok" or verdict != "ok"
    reasons = [line.strip() for line in lines if line.startswith("    ")]
    assert any(reason.startswith("1  the reference '#/none' has no target") for reason in reasons)
    assert any("environment variable UNSET_HERE is not set" in reason for reason in reasons)


def test_a_folder_in_which_everything_adds_up_ends_well_and_a_lost_operation_does_not(
    foreign: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.json").write_text(FOLDER["good.json"])
    monkeypatch.setattr(sys, "argv", ["foreign.py", str(tmp_path)])
    assert foreign.main() == 0
    monkeypatch.setattr(foreign, "count_operations", lambda *_: 3)
    assert foreign.main() == 1
    assert "2 of 3 operations" in capsys.readouterr().out


def test_a_crash_of_a_reader_is_a_row(foreign: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise KeyError("lost")

    monkeypatch.setitem(foreign.READERS, "tools", crash)
    assert foreign.load(tmp_path / "x.json", "tools").verdict == "CRASH KeyError: 'lost'"

"""An app inside other programs: without async, in FastAPI, in Starlette."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from ropewalk import App, flow
from ropewalk.errors import FlowFailed

from .functions import get_team, overspenders


def test_run_sync_shares_one_loop() -> None:
    with App("memory") as app:
        values = [app.run_sync(overspenders, {"department": "sales"}).value for _ in range(3)]
    assert values == [[{"name": "Ann", "spent": 230}]] * 3


def test_run_sync_inside_a_running_loop() -> None:
    async def cell() -> Any:
        return App("memory").run_sync(overspenders, {"department": "sales"}).status

    assert asyncio.run(cell()) == "completed"


def test_raise_if_failed() -> None:
    async def fails() -> int:
        """Fail."""
        raise ValueError("no stock")

    with flow("f") as f:
        f.call(fails)
    with App("memory") as app:
        outcome = app.run_sync(f)
        with pytest.raises(FlowFailed, match="no stock"):
            outcome.raise_if_failed()
        with flow("g") as g:
            g.call(get_team, department="x")
        fine = app.run_sync(g)
    assert fine.raise_if_failed() is fine


@pytest.mark.parametrize("framework", [FastAPI, Starlette])
def test_the_api_is_mounted(framework: Any) -> None:
    app = App("memory", tools=[get_team])
    app.toolbox.register(app.as_tool(overspenders))
    inner = app.asgi(hosts=["testserver"])
    if framework is FastAPI:
        site: Any = FastAPI()
        site.get("/hello")(lambda: "hi")
        site.mount("/flows", inner)
    else:
        site = Starlette(routes=[Mount("/flows", inner)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = TestClient(site)
    names = [tool["name"] for tool in client.get("/flows/api/tools").json()["tools"]]
    assert sorted(names) == ["get_amounts", "get_team", "overspenders"]
    if framework is FastAPI:
        assert client.get("/hello").json() == "hi"
    assert "<html" in client.get("/flows/").text


def test_a_mounted_api_with_a_token_and_without_a_host() -> None:
    app = App("memory")
    site = FastAPI()
    site.mount("/flows", app.asgi(token="secret-token", hosts=["testserver"]))
    site.mount("/other", app.asgi())
    client = TestClient(site)
    refused = client.get("/flows/api/tools")
    assert refused.status_code == 401
    assert "app.asgi(token=...)" in refused.json()["error"]["message"]
    login = client.get("/flows/", headers={"accept": "text/html"}).text
    assert "app.asgi(token=...)" in login
    assert "ropewalk serve" not in login
    assert client.get("/flows/api/tools", headers={"authorization": "Bearer secret-token"}).status_code == 200
    unknown = client.get("/other/api/tools")
    assert unknown.status_code == 421
    assert unknown.json()["error"]["message"].endswith("pass it to app.asgi(hosts=['testserver'])")


def test_notebooks_show_flows_and_outcomes() -> None:
    with flow("f") as f:
        f.call(get_team, department="<x>")
    assert f.done()._repr_svg_().startswith("<svg")
    assert overspenders._repr_svg_().startswith("<svg")
    with App("memory") as app:
        html = app.run_sync(f)._repr_html_()
    assert "<td>completed</td>" in html
    assert "&lt;x&gt;-1" in html
    assert "<x>" not in html

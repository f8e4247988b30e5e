"""What tests of the page look for in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .server import Served
from .test_http_api import fresh

if TYPE_CHECKING:
    from playwright.sync_api import Page


def box(page: Page, path: str) -> Any:
    """A node of the graph."""
    return page.locator(f'.react-flow__node[data-id="{path}"] > .box')


def shows(page: Page, path: str, status: str) -> None:
    box(page, path).and_(page.locator(f".is-{status}")).wait_for()


def status(page: Page, said: str) -> None:
    """The run's own status."""
    page.locator(f".about .status.is-{said}").wait_for()


def begin(served: Served, document: dict[str, Any], **more: Any) -> str:
    """A run; gives its id."""
    id = fresh()
    begun = served.post("/api/runs", {"document": document, "runId": id, **more})
    assert begun.status_code in (200, 202), begun.text
    return id

"""The page: files that were built once and lie beside this package (`doors/web/static`, sources in `page/`).

Every path that is not one of the API is a place of the page, so that its addresses can be opened and reloaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse

STATIC: Final = Path(__file__).parents[1] / "web" / "static"
LOST: Final = STATIC / "token.html"
_ASSETS: Final = {file.name: file for file in sorted((STATIC / "assets").glob("*"))}
_KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False)


@router.get("/assets/{name}")
def asset(name: str) -> FileResponse:
    """A file whose name has a hash of what is in it, so that it may be kept."""
    if name not in _ASSETS:  # a path is never put together from a request
        raise HTTPException(404, f"no file {name!r}")
    file = _ASSETS[name]
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return FileResponse(file, media_type=_KINDS[file.suffix], headers=headers)


@router.get("/{path:path}")
def index(path: str) -> FileResponse:
    if path.partition("/")[0].lower() == "api":
        raise HTTPException(404, "Not Found")
    return FileResponse(
        STATIC / "index.html", media_type="text/html; charset=utf-8", headers={"cache-control": "no-store"}
    )

"""Content of runs over HTTP: images and audio to be shown, everything else to be saved."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Path
from fastapi.responses import Response

from .answers import Route, Served
from .runs import RunId

router = APIRouter(prefix="/api/runs", tags=["runs"], route_class=Route)
_SHOWN: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"))
"""Images that hold no script: SVG does."""


@router.get(
    "/{run_id:path}/content/{hash}",
    summary="Get content of a run",
    response_class=Response,
    responses={200: {"content": {"*/*": {}}, "description": "The bytes, with their media type."}},
)
def content(
    run_id: RunId,
    hash: Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The SHA-256 of the bytes: `$content.blob`.")],
    app: Served,
) -> Response:
    """An image, audio or a file that a value of the run refers to."""
    found = app.runs.content(run_id, hash)
    mime = found.mime_type.partition(";")[0].strip().lower()
    shown = mime in _SHOWN or (mime.startswith("audio/") and mime.isascii())
    headers = {
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
        "cache-control": "private, max-age=31536000, immutable",
    }
    if not shown:
        name = quote(found.name or hash[:16], safe="")
        headers["content-disposition"] = f"attachment; filename*=UTF-8''{name}"
    return Response(found.data, media_type=mime if shown else "application/octet-stream", headers=headers)

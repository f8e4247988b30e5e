"""The tools of an OpenAPI document (3.0 to 3.2) or a Swagger 2.0 document: one per operation, called over HTTP.

`operations.py` reads a document, `references.py` follows its references, `schemas.py` converts its schemas,
`parameters.py` and `bodies.py` write requests, `security.py` adds credentials, `provider.py` sends the calls.
"""

from __future__ import annotations

from .document import parse_fetched
from .operations import read_openapi
from .provider import OpenApiProvider

__all__ = ["OpenApiProvider", "parse_fetched", "read_openapi"]

"""Answers over HTTP as values: JSON as it is, text in its own encoding, anything else as content with its media type.

The content type says what a body is. A body that is not what it is called is kept as it is, with a warning, because the
provider has carried out the request. `retry_after` reads when a refused request may be sent again.
"""

from __future__ import annotations

import codecs
import re
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Final

import orjson

from ...config.secrets import Secrets
from ...content import content
from ...errors import InvalidValue
from ...values import Json, StandIn, parse_answer

_JSON: Final = re.compile(r"(?:application|text)/(?:json|[\w.+-]+\+json)")
_TEXT: Final = re.compile(
    r"text/.*|application/(?:xml|[\w.-]+\+xml|yaml|x-yaml|javascript|ecmascript|graphql|sql|toml|x-sh"
    r"|x-www-form-urlencoded|x-ndjson|jsonl|jsonlines|json-seq)"
)
PAGES: Final = ("text/html", "application/xhtml+xml")
"""The media types of pages, which a proxy, a login or a wrong address gives in place of an answer."""
_NEVER_JSON: Final = ("text/", "image/", "audio/", "video/", "font/")
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ENCODING: Final = re.compile(
    rb"""\A\s*<\?xml[^>]*?\sencoding=["']([\w.-]+)|<meta[^>]*?charset=["']?\s*([\w.-]+)""", re.IGNORECASE
)
_HEAD: Final = 1024  # bytes in which a document names its encoding


def read_answer(body: bytes, content_type: str, secrets: Secrets | None = None, *, address: str | None = None) -> Json:
    """Return the value of a body that is not empty, with `secrets` masked; with `address`, a page is unusual."""
    header = Message()
    header["content-type"] = content_type
    # Without a slash it is no media type; the library would call it text.
    kind = header.get_content_type() if content_type.partition(";")[0].count("/") == 1 else ""
    charset = header.get_content_charset()
    is_json, why = bool(_JSON.fullmatch(kind)), "not JSON"
    if is_json or not kind.startswith(_NEVER_JSON):  # many providers do not say that their answers are JSON
        try:
            return _masked(parse_answer(_in_utf8(body, charset)), secrets)
        except orjson.JSONDecodeError:
            pass
        except InvalidValue as error:
            why = error.message
    # Bytes that nobody can read as text stay bytes: a wrong encoding would change them for good.
    text = decode(body, charset) if is_json or not kind or _TEXT.fullmatch(kind) else None
    if text is None:
        data = body if secrets is None else secrets.redact_bytes(body)
        return content(data, kind or "application/octet-stream")
    text = str(_masked(text, secrets))
    if address is not None and kind in PAGES:
        return StandIn(text, f"an answer of the type {kind} from {address}")
    source = "" if address is None else f", from {address},"
    return StandIn(text, f"an answer of the type {kind} that is {why}{source}") if is_json else text


def _masked(value: Json, secrets: Secrets | None) -> Json:
    return value if secrets is None else secrets.redact_value(value)


def _in_utf8(body: bytes, charset: str | None) -> bytes | str:
    """Return a body for the parser of JSON, which reads UTF-8."""
    if charset in (None, "utf-8", "us-ascii") and b"\0" not in body[:4]:
        return body
    text = decode(body, charset)
    return body if text is None else text


def decode(body: bytes, charset: str | None) -> str | None:
    """Decode a text by its byte order mark, the encoding of its header or the one that it names; None if none fits."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return _decoded(body, encoding)
    if charset is not None:
        return _decoded(body, charset)
    named = _ENCODING.search(body[:_HEAD])
    inside = None if named is None else _decoded(body, (named[1] or named[2]).decode())
    return _decoded(body, "utf-8") if inside is None else inside


def _decoded(body: bytes, encoding: str) -> str | None:
    try:
        return body.decode(encoding)
    except (ValueError, LookupError):  # ValueError: a name with NUL
        return None


def retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds of a `Retry-After` header, which are a number or a date; None for any other value."""
    text = (value or "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", text):
        return float(text)
    try:
        due = parsedate_to_datetime(text)
        due = due if due.tzinfo is not None else due.replace(tzinfo=UTC)
        return max(0.0, (due - (now or datetime.now(UTC))).total_seconds())
    except (TypeError, ValueError, OverflowError):  # OverflowError: of its offset from UTC
        return None

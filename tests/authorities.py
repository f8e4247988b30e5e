"""Read the certificate authorities of the machine once in a process: for each HTTP client this takes 20 ms."""

from __future__ import annotations

import functools
import os
import ssl

import httpcore2

_read = httpcore2.default_ssl_context


def share() -> None:
    """Give all HTTP clients of this process, and of those that it forks, the same authorities."""
    httpcore2.default_ssl_context = _shared
    _shared()


def _shared(*, _trust_env: bool = True) -> ssl.SSLContext:
    return _read_once(_trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.cache
def _read_once(trust_env: bool, *paths: str | None) -> ssl.SSLContext:
    return _read(_trust_env=trust_env)

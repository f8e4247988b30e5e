"""How the conformance client logs in: the settings that a scenario wants, and a browser that agrees to everything."""

from __future__ import annotations

import json
from typing import Any

import httpx2

from ropewalk.tools.mcp.login import Loopback

METADATA = "https://conformance-test.local/client-metadata.json"


async def browse(address: str, _: Loopback) -> None:
    """Open the address as a browser does, and follow it back to our own loopback address."""
    async with httpx2.AsyncClient(follow_redirects=True, timeout=None) as browser:
        await browser.get(address)


async def settings(scenario: str, url: str, context: dict[str, Any]) -> dict[str, Any]:
    """The `auth` with which a user would configure the server of a scenario."""
    if not scenario.startswith("auth/"):
        return {}
    name = scenario.removeprefix("auth/")
    if name == "pre-registration":
        return {"auth": {"client_id": context["client_id"], "client_secret": context["client_secret"],
                         "issuer": context["issuer"]}}  # fmt: skip
    if name == "client-credentials-basic":
        return {"auth": {"type": "client_credentials", "client_id": context["client_id"],
                         "client_secret": context["client_secret"], "issuer": await issuer(url)}}  # fmt: skip
    if name == "client-credentials-jwt":
        return {"auth": {"type": "client_credentials", "client_id": context["client_id"],
                         "private_key": context["private_key_pem"], "algorithm": context["signing_algorithm"],
                         "issuer": await issuer(url)}}  # fmt: skip
    if name == "wif-jwt-bearer":
        return {"auth": {"type": "workload", "client_id": context["client_id"], "assertion": context["valid_jwt"],
                         "issuer": await issuer(url)}}  # fmt: skip
    if name == "enterprise-managed-authorization":
        return {"auth": {"type": "enterprise", "client_id": context["client_id"],
                         "client_secret": context["client_secret"], "issuer": await issuer(url),
                         "idp_client_id": context["idp_client_id"], "id_token": context["idp_id_token"],
                         "idp_token_url": context["idp_token_endpoint"]}}  # fmt: skip
    auth = {"type": "oauth", "client_metadata_url": METADATA} if name == "basic-cimd" else {"type": "oauth"}
    return {"auth": {**auth, "dpop": True} if name.startswith("dpop") else auth}


async def issuer(url: str) -> str:
    """What an administrator knows: the authorization server of a server."""
    origin, _, path = url.partition("/mcp")
    async with httpx2.AsyncClient(timeout=None) as client:
        for at in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
            response = await client.get(origin + at)
            if response.status_code == 200:
                return str(json.loads(response.content)["authorization_servers"][0])
    raise AssertionError(f"the server at {url}{path} names no authorization server")

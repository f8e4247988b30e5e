"""Addresses that come from data: which are refused, and that the connection goes to the one that was checked."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ropewalk import Toolbox
from ropewalk.config.network import AddressPolicy
from ropewalk.config.project import read_config
from ropewalk.errors import ConfigError, InvalidInput
from ropewalk.tools.directory.dataset import Datasets
from ropewalk.tools.directory.rows import DatasetFailed
from ropewalk.tools.runner import Runner
from tools.raw_server import RawServer, raw_server

Resolve = Callable[..., list[str]]


def fetched(url: str, *allow: str) -> Any:
    async def case() -> Any:
        return await Datasets(Path(), Toolbox(allow_hosts=list(allow))).read({"http": url, "format": "json"})

    return asyncio.run(case())


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Answers of the resolver by name, one after another; the last one stays. Gives the names that were asked."""
    real = socket.getaddrinfo

    def answering(**answers: list[str]) -> list[str]:
        asked: list[str] = []

        def answer(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
            name = host.decode() if isinstance(host, bytes) else host
            key = str(name).replace(".", "_")
            if key not in answers:
                return real(host, port, *rest, **more)
            asked.append(name)
            known = answers[key]
            address = known.pop(0) if len(known) > 1 else known[0]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in address.split()]

        monkeypatch.setattr(socket, "getaddrinfo", answer)
        return asked

    return answering


FORMS = (
    "127.0.0.1", "127.1", "2130706433", "0177.0.0.1", "0x7f.1", "0x7f000001", "0.0.0.0", "localhost", "[::1]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "10.0.0.1", "172.16.0.1",
    "192.168.1.1", "169.254.169.254", "[fe80::1]", "[fd00::1]", "100.64.0.1", "224.0.0.1", "255.255.255.255",
    "user@127.0.0.1",
)  # fmt: skip


@pytest.mark.parametrize("host", FORMS)
def test_an_address_that_is_not_public_is_refused_in_every_form(host: str) -> None:
    with raw_server() as server:
        with pytest.raises(
            DatasetFailed, match=r"must be public; to allow it, add it to \[network\] allow|Invalid IPv4 address"
        ) as caught:
            fetched(f"http://{host}:{server.port}/")
        assert not caught.value.retryable
        assert server.received == []


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_a_public_address_is_allowed(address: str) -> None:
    assert AddressPolicy().refusal(address, 443) is None


def test_a_name_that_leads_to_a_private_address_is_refused(resolve: Resolve) -> None:
    resolve(inner_test=["10.0.0.1"], both_test=["127.0.0.1 169.254.169.254"])
    with pytest.raises(DatasetFailed, match=r"inner\.test is at 10\.0\.0\.1, a private address"):
        fetched("http://inner.test/")
    with pytest.raises(DatasetFailed, match=r"both\.test is at 127\.0\.0\.1, a loopback address"):
        fetched("http://both.test/")


def test_the_connection_goes_to_the_address_that_was_checked(resolve: Resolve) -> None:
    """The name means another address a moment later (DNS rebinding)."""
    with raw_server("127.0.0.2") as good, raw_server("127.0.0.3", good.port) as bad:
        asked = resolve(rebind_test=["127.0.0.2", "127.0.0.3"])
        assert fetched(f"http://rebind.test:{good.port}/x", "127.0.0.2") == {}
        assert asked == ["rebind.test"]
        assert f"\r\nhost: rebind.test:{good.port}\r\n" in good.taken().decode().lower()
        with pytest.raises(DatasetFailed, match=r"at 127\.0\.0\.3, a loopback address"):
            fetched(f"http://rebind.test:{good.port}/x", "127.0.0.2")
        assert bad.received == []


def test_only_the_allowed_ones_of_several_addresses_are_used(resolve: Resolve) -> None:
    with raw_server("127.0.0.2") as good, raw_server("127.0.0.3", good.port) as bad:
        resolve(mixed_test=["127.0.0.3 127.0.0.2"])
        assert fetched(f"http://mixed.test:{good.port}/", "127.0.0.2") == {}
        assert (len(good.received), bad.received) == (1, [])


def test_the_next_address_is_tried_where_one_does_not_answer(resolve: Resolve) -> None:
    with raw_server("127.0.0.2") as good:
        resolve(two_test=["127.0.0.4 127.0.0.2"])
        assert fetched(f"http://two.test:{good.port}/", "127.0.0.0/8") == {}


@pytest.mark.parametrize("allow", ["127.0.0.1", "127.0.0.0/8", "127.0.0.1:PORT", "::/0 127.0.0.1", "localhost:PORT"])
def test_settings_allow_an_address(allow: str) -> None:
    with raw_server() as server:
        host = "localhost" if "localhost" in allow else "127.0.0.1"
        assert fetched(f"http://{host}:{server.port}/", *allow.replace("PORT", str(server.port)).split()) == {}


@pytest.mark.parametrize("allow", ["127.0.0.2", "127.0.0.1:1", "localhost", "10.0.0.0/8", "localhost:1"])
def test_settings_allow_only_what_they_name(allow: str) -> None:
    with raw_server() as server:
        with pytest.raises(DatasetFailed, match="loopback"):
            fetched(f"http://127.0.0.1:{server.port}/", allow)
        assert server.received == []


def test_no_proxy_resolves_an_address_of_data_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(DatasetFailed, match="private"):
            fetched("http://10.0.0.1/")
        assert proxy.received == []


def test_a_name_that_the_settings_allow_uses_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        assert fetched("http://intranet.test/x", "intranet.test") == {}
        assert proxy.taken().startswith(b"GET http://intranet.test/x HTTP/1.1\r\n")


def certificate(folder: Path, name: str) -> ssl.SSLContext:
    """A server's context with a certificate for this name, which `folder/cert.pem` vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_tls_verifies_the_name_and_not_the_address(
    resolve: Resolve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = certificate(tmp_path, "good.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    resolve(good_test=["127.0.0.1"], other_test=["127.0.0.1"])
    with raw_server(context=context) as server:
        assert fetched(f"https://good.test:{server.port}/", "127.0.0.1") == {}
        server.received.clear()
        with pytest.raises(DatasetFailed, match="CERTIFICATE_VERIFY_FAILED"):
            fetched(f"https://other.test:{server.port}/", "127.0.0.1")
        assert server.received == []


# --- what else names an address ----------------------------------------------------------------


def document(server: str) -> bytes:
    paths = '{"/x": {"get": {"operationId": "x", "responses": {}}}}'
    return f'{{"openapi": "3.0.0", "servers": [{{"url": "{server}"}}], "paths": {paths}}}'.encode()


def described(at: RawServer, text: bytes, *allow: str, **more: Any) -> tuple[dict[str, str], str]:
    """What is wrong with a provider whose document is at a server, and what its call says."""
    at.answer = text

    async def case() -> tuple[dict[str, str], str]:
        given = {"openapi": f"http://127.0.0.1:{at.port}/api.json", **more}
        async with Toolbox(providers={"p": given}, allow_hosts=list(allow)) as box:
            said = ""
            try:
                await Runner(box).run("p:x", {})
            except Exception as error:  # noqa: BLE001 - every reason is looked at
                said = str(error)
            return dict(box.failures), said

    return asyncio.run(case())


def test_a_server_that_a_fetched_document_names_passes_the_policy() -> None:
    with raw_server() as at, raw_server() as inner:
        text = document(f"http://127.0.0.1:{inner.port}/v1")
        failures, said = described(at, text)
        assert (failures, inner.received) == ({}, [])
        assert "127.0.0.1 is a loopback address" in said
        assert described(at, text, f"127.0.0.1:{inner.port}") == ({}, "")
        assert inner.taken().startswith(b"GET /v1/x HTTP/1.1\r\n")


def test_configured_headers_go_to_no_server_that_only_a_fetched_document_names() -> None:
    with raw_server() as at, raw_server() as inner:
        text = document(f"http://127.0.0.1:{inner.port}")
        headers = {"Authorization": "Bearer secret"}
        failures, _ = described(at, text, "127.0.0.1", headers=headers)
        assert "headers are only sent to" in failures["p"]
        assert "set url to the server that should get them" in failures["p"]
        assert inner.received == []
        assert described(at, text, headers=headers, url=f"http://127.0.0.1:{inner.port}") == ({}, "")
        assert b"Bearer secret" in inner.taken()


def test_the_server_of_a_fetched_document_may_be_where_it_was() -> None:
    with raw_server() as at:
        failures, said = described(at, document(f"http://127.0.0.1:{at.port}/v1"), headers={"X-Key": "k"})
        assert (failures, said) == ({}, "")


# --- the setting -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry", ["", "127.1", "0x7f.1", "2130706433", "http://x", "a b", "x:99999", "x:0", "*", "a/b"]
)
def test_an_entry_that_names_nothing_is_refused_with_its_place(tmp_path: Path, entry: str) -> None:
    (tmp_path / "ropewalk.toml").write_text(f'[network]\nallow = ["localhost:80", "{entry}"]\n')
    with pytest.raises(ConfigError, match="is not a host name, an IP address or a range") as caught:
        read_config(tmp_path)
    (problem,) = caught.value.problems
    assert problem.place is not None
    assert problem.place.line == 2


def test_the_setting_reaches_the_toolbox(tmp_path: Path) -> None:
    from ropewalk import App

    (tmp_path / "ropewalk.toml").write_text('[network]\nallow = ["intranet.example", "10.0.0.0/8"]\n')
    network = App.open(tmp_path, store="memory").toolbox.network
    assert network.allows_host("Intranet.Example.", 443)
    assert network.refusal("10.2.3.4", 80) is None
    assert network.refusal("192.168.0.1", 80) == "private"


@pytest.mark.parametrize("given", ["localhost", None, 3, [3]])
def test_what_is_no_list_of_hosts_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match="allow_hosts"):
        Toolbox(allow_hosts=given)

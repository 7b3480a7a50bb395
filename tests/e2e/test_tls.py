"""TLS of the TCP address: who gets a connection, with which certificates, and after they changed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import structs

from plait.client import AsyncPlaitClient, PlaitRpcError
from plait.domain.errors import TlsMissing, TlsUnusable
from plait.settings import ServerSettings, Settings
from plait.supervisor import token_file
from server.app import App
from server.grpc.server import Server, running
from server.grpc.tls import credentials
from tests.processes import LIMIT_S

PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates; `pem` is its own."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def made(cls) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(key, _signed("authority", key, "authority", key, ca=True))

    def write_own(self, path: Path) -> str:
        path.write_bytes(self.certificate.public_bytes(PEM))
        return str(path)

    def write(self, folder: Path, name: str) -> tuple[str, str]:
        """Another certificate and its key, as files; in the place of those of before."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _signed(name, key, "authority", self.key, ca=False)
        private = key.private_bytes(
            PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        files = folder / f"{name}.pem", folder / f"{name}.key"
        for path, data in zip(files, (made.public_bytes(PEM), private), strict=True):
            draft = path.with_suffix(".new")
            draft.touch(0o600)
            draft.write_bytes(data)
            draft.replace(path)
        return str(files[0]), str(files[1])


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    signer: ec.EllipticCurvePrivateKey,
    *,
    ca: bool,
) -> x509.Certificate:
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(signer, hashes.SHA256())
    )


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.made()


Serve = Callable[..., AbstractAsyncContextManager[Server]]


@pytest.fixture
def serve(app: App, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """A server of the session's stores over TCP, with these settings of its own."""

    @asynccontextmanager
    async def with_(**changes: str) -> AsyncIterator[Server]:
        changed = structs.replace(settings.server, **changes)
        monkeypatch.setattr(app, "settings", structs.replace(settings, server=changed))
        async with running(app, host="127.0.0.1", port=0) as started:
            yield started

    return with_


def client(server: Server, settings: Settings, **tls: str) -> AsyncPlaitClient:
    token = token_file.read(settings.home / "server" / "token").current
    told = structs.replace(settings, client=structs.replace(settings.client, **tls))
    return AsyncPlaitClient(f"localhost:{server.port}", token=token, settings=told)


async def answers(server: Server, settings: Settings, **tls: str) -> bool:
    """Whether a client with these files gets an answer, rather than no connection."""
    async with client(server, settings, **tls) as made:
        try:
            return await made.healthy(timeout_s=LIMIT_S)
        except PlaitRpcError as exc:
            if exc.code is not grpc.StatusCode.UNAVAILABLE:
                raise
            return False


async def serial(
    server: Server, authority: Authority, version: ssl.TLSVersion | None = None
) -> int:
    """Of the certificate that the server shows. Raises: OSError."""
    context = ssl.create_default_context(
        cadata=authority.certificate.public_bytes(PEM).decode("ascii")
    )
    context.set_alpn_protocols(["h2"])
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # this side would refuse old versions by itself
    if version is not None:
        context.minimum_version = context.maximum_version = version
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(shown).serial_number
    finally:
        writer.transport.abort()


def open_to_others(path: Path) -> None:
    path.chmod(0o644)


def remove(path: Path) -> None:
    path.unlink()


async def test_tls_its_versions_and_another_certificate_while_it_runs(
    serve: Serve, settings: Settings, authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.write(tmp_path, "server")
    ca = authority.write_own(tmp_path / "ca.pem")
    stranger = Authority.made().write_own(tmp_path / "stranger.pem")
    async with serve(tls_certificate=certificate, tls_key=key) as server:
        async with client(server, settings, tls_ca=ca) as made:
            await made.list_repositories()
            assert not await answers(server, settings, tls_ca=stranger)
            assert not await answers(server, settings)  # without TLS
            first = await serial(server, authority)
            await serial(server, authority, ssl.TLSVersion.TLSv1_2)
            with (
                pytest.warns(DeprecationWarning, match="TLSv1_1"),
                pytest.raises((ssl.SSLError, ConnectionError)),
            ):
                await serial(server, authority, ssl.TLSVersion.TLSv1_1)
            authority.write(tmp_path, "server")
            assert await serial(server, authority) != first
            second = await serial(server, authority)
            # What can't be used leaves the last one that could.
            open_to_others(Path(key))
            assert await serial(server, authority) == second
            remove(Path(key))
            assert await serial(server, authority) == second
            await made.list_repositories()


async def test_a_client_shows_a_certificate_where_one_is_asked_for(
    serve: Serve, settings: Settings, authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.write(tmp_path, "server")
    ca = authority.write_own(tmp_path / "ca.pem")
    mine, my_key = authority.write(tmp_path, "client")
    foreign, foreign_key = Authority.made().write(tmp_path, "foreign")
    async with serve(tls_certificate=certificate, tls_key=key, tls_client_ca=ca) as server:
        shown = {"tls_ca": ca, "tls_certificate": mine, "tls_key": my_key}
        async with client(server, settings, **shown) as made:
            await made.list_repositories()
        assert not await answers(server, settings, tls_ca=ca)
        shown = {"tls_ca": ca, "tls_certificate": foreign, "tls_key": foreign_key}
        assert not await answers(server, settings, **shown)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "build.example.com", ""])
def test_beyond_this_machine_there_is_no_server_without_tls(host: str) -> None:
    with pytest.raises(TlsMissing, match=r"server\.tls_certificate"):
        credentials(ServerSettings(), host)


def test_this_machine_needs_none() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert credentials(ServerSettings(), host) is None


def test_files_that_will_not_do(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.write(tmp_path, "server")
    _, other = authority.write(tmp_path, "other")
    ca = tmp_path / "not.pem"
    ca.write_text("nothing")

    def refused(match: str, **files: str) -> None:
        with pytest.raises(TlsUnusable, match=match):
            credentials(structs.replace(ServerSettings(), **files), "0.0.0.0")

    refused("tls_key` is empty", tls_certificate=certificate)
    refused("tls_certificate` is empty", tls_key=key)
    refused("can't be read", tls_certificate=certificate, tls_key=str(tmp_path / "none"))
    refused("don't go together", tls_certificate=certificate, tls_key=other)
    refused("no PEM file", tls_certificate=certificate, tls_key=key, tls_client_ca=str(ca))
    Path(key).chmod(0o640)
    refused("chmod 600", tls_certificate=certificate, tls_key=key)

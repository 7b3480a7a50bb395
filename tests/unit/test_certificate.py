"""The server's own certificate: made once, private, for the names asked, and good for gRPC."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509

from plait.domain.errors import InvalidInput
from server.access import certificate
from server.access.certificate import ensure
from tests.processes import LIMIT_S


def test_it_is_made_once_and_only_its_owner_reads_the_key(tmp_path: Path) -> None:
    pair = ensure(tmp_path)
    first = pair.certificate.read_bytes(), pair.key.read_bytes()
    assert pair.key.stat().st_mode & 0o777 == 0o600
    assert pair.key.parent.stat().st_mode & 0o777 == 0o700
    assert ensure(tmp_path) == pair
    assert (pair.certificate.read_bytes(), pair.key.read_bytes()) == first


def test_another_name_is_a_reason_to_make_another(tmp_path: Path) -> None:
    first = ensure(tmp_path).certificate.read_bytes()
    pair = ensure(tmp_path, ("plait.example.org", "192.0.2.7"))
    assert pair.certificate.read_bytes() != first
    made = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    held = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"plait.example.org", "localhost", "plait"} <= set(
        held.get_values_for_type(x509.DNSName)
    )
    assert {"192.0.2.7", "127.0.0.1", "::1"} == {
        str(one) for one in held.get_values_for_type(x509.IPAddress)
    }
    again = pair.certificate.read_bytes()
    ensure(tmp_path)  # for less than it holds
    assert pair.certificate.read_bytes() == again


@pytest.mark.parametrize("broken", ["certificate", "key"])
@pytest.mark.parametrize("how", ["gone", "cut", "of another"])
def test_a_pair_that_is_none_is_made_anew(tmp_path: Path, broken: str, how: str) -> None:
    pair = ensure(tmp_path)
    path: Path = getattr(pair, broken)
    if how == "gone":
        path.unlink()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:50])
    else:
        other = ensure(tmp_path / "other")
        path.write_bytes(getattr(other, broken).read_bytes())
    ensure(tmp_path)
    assert certificate._fits(pair, certificate._alternatives(certificate.NAMES))


def test_one_that_ends_soon_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "VALID", certificate.LEFT - timedelta(hours=1))
    first = ensure(tmp_path).certificate.read_bytes()
    monkeypatch.undo()
    assert ensure(tmp_path).certificate.read_bytes() != first


@pytest.mark.parametrize("name", ["", "a b", "a,b", "http://x", "host:50051", "ü.example"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        ensure(tmp_path, (name,))
    assert not certificate.paths(tmp_path).key.exists()


async def test_grpc_takes_it_from_who_trusts_it_and_from_nobody_else(tmp_path: Path) -> None:
    pair, other = ensure(tmp_path / "a"), ensure(tmp_path / "b")
    server = grpc.aio.server()
    credentials = grpc.ssl_server_credentials(
        [(pair.key.read_bytes(), pair.certificate.read_bytes())]
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        for name in ("localhost", "127.0.0.1"):
            trust = grpc.ssl_channel_credentials(pair.certificate.read_bytes())
            async with grpc.aio.secure_channel(f"{name}:{port}", trust) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await ask(channel)
                assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        trust = grpc.ssl_channel_credentials(other.certificate.read_bytes())
        async with grpc.aio.secure_channel(f"localhost:{port}", trust) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask(channel)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        await server.stop(None)


async def ask(channel: grpc.aio.Channel) -> None:
    """A call that no server has. Raises: AioRpcError."""
    await channel.unary_unary("/none/None", bytes, bytes)(b"", timeout=LIMIT_S)

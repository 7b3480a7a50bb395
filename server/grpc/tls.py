"""TLS of the TCP address: certificates from files, read again when they change."""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from plait.domain.errors import TlsMissing, TlsUnusable
from plait.settings import ServerSettings

logger = logging.getLogger(__name__)


def credentials(settings: ServerSettings, host: str) -> grpc.ServerCredentials | None:
    """What the server shows and asks for on `host`; None: no TLS, which is for this machine alone.

    Raises: TlsMissing, TlsUnusable.
    """
    if not (settings.tls_certificate or settings.tls_key or settings.tls_client_ca):
        if not is_loopback(host):
            raise TlsMissing(
                f"{host or 'that address'} can be reached from other machines, and without TLS the token and "
                "the code would cross the network in the clear; add `--make-certificate`, set "
                "`server.tls_certificate` and `server.tls_key` (PEM files), or listen on 127.0.0.1 behind something that has TLS",
                host=host,
            )
        return None
    files = _Files(settings)
    # None means "as before", which the stubs of gRPC don't know.
    changed: Callable[[], Any] = files.changed
    return grpc.dynamic_ssl_server_credentials(
        files.read(), changed, require_client_authentication=bool(settings.tls_client_ca)
    )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Files:
    """Of one server. gRPC asks `changed` at each handshake, from a thread of its own."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._seen: tuple[tuple[int, int, int], ...] = ()

    def read(self) -> grpc.ServerCertificateConfiguration:
        """Raises: TlsUnusable."""
        self._seen = self._state()
        settings = self._settings
        key = _pem(settings.tls_key, "server.tls_key", private=True)
        chain = _pem(settings.tls_certificate, "server.tls_certificate")
        authority = None
        if settings.tls_client_ca:
            authority = _pem(settings.tls_client_ca, "server.tls_client_ca")
        _check_pair(settings.tls_certificate, settings.tls_key)
        return grpc.ssl_server_certificate_configuration([(key, chain)], authority)

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """What the files hold now; None where they did not change, or hold nothing that can be used."""
        try:
            if self._state() == self._seen:
                return None
            logger.info("certificates read again")
            return self.read()
        except TlsUnusable as exc:
            logger.warning("certificates not read again", extra={"error": exc.message})
            return None

    def _state(self) -> tuple[tuple[int, int, int], ...]:
        settings = self._settings
        found = []
        for name in (settings.tls_certificate, settings.tls_key, settings.tls_client_ca):
            try:
                about = Path(name).stat() if name else None
            except OSError:
                about = None
            found.append((about.st_ino, about.st_ctime_ns, about.st_size) if about else (0, 0, 0))
        return tuple(found)


def _pem(name: str, setting: str, *, private: bool = False) -> bytes:
    """Raises: TlsUnusable."""
    if not name:
        raise TlsUnusable(f"`{setting}` is empty; name a PEM file", setting=setting)
    try:
        with Path(name).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read()
    except OSError as exc:
        raise TlsUnusable(
            f"`{setting}`: {name} can't be read: {exc.strerror}", setting=setting, path=name
        ) from exc
    if private and mode & 0o077:
        raise TlsUnusable(
            f"`{setting}`: other accounts have rights on {name}; run `chmod 600 {name}`",
            setting=setting,
            path=name,
        )
    if b"-----BEGIN " not in data:
        raise TlsUnusable(f"`{setting}`: {name} is no PEM file", setting=setting, path=name)
    return data


def _check_pair(certificate: str, key: str) -> None:
    """Raises: TlsUnusable, unless the key is the certificate's. gRPC would say so at no handshake."""
    import ssl

    def no_password() -> str:
        raise ssl.SSLError("the key is encrypted; gRPC takes keys without a pass phrase")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, no_password)
    except (ssl.SSLError, OSError) as exc:
        raise TlsUnusable(
            f"`server.tls_certificate` {certificate} and `server.tls_key` {key} don't go together ({exc})",
            setting="server.tls_key",
            path=key,
        ) from exc

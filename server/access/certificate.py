"""A certificate of the server's own, for where nobody brings one: made once, kept in the home.

Who connects is given the certificate itself to trust (`client.tls_ca`): there is no authority behind it.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from plait.domain.errors import InvalidInput
from plait.supervisor.files import private_folder, write_private

if TYPE_CHECKING:
    from cryptography import x509

logger = logging.getLogger(__name__)

# Of this machine, and of the service in docker-compose.yml.
NAMES = ("localhost", "127.0.0.1", "::1", "plait")
# Long: who trusts this very certificate must be given the next one by hand.
VALID = timedelta(days=3650)
LEFT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Pair:
    """PEM files."""

    certificate: Path
    key: Path


def paths(home: Path) -> Pair:
    """Where the certificate of a home and its key are."""
    folder = home / "server" / "tls"
    return Pair(folder / "certificate.pem", folder / "key.pem")


def ensure(home: Path, names: Iterable[str] = ()) -> Pair:
    """The certificate of `home` for `names` and this machine's; made where there is none that fits, lasts
    30 days yet and is of the key beside it.

    Raises: InvalidInput, for a name that is none; HomeUnusable, StoreFull.
    """
    pair, wanted = paths(home), _alternatives((*NAMES, *names))
    if _fits(pair, wanted):
        return pair
    replaces = pair.certificate.exists()
    private_folder(pair.certificate.parent)
    key, certificate = _make(wanted)
    write_private(pair.key, key)
    write_private(pair.certificate, certificate)
    logger.warning(
        "made a certificate; who connects needs it as client.tls_ca",
        extra={"path": str(pair.certificate), "replaces_another": replaces},
    )
    return pair


def _alternatives(names: Iterable[str]) -> list[x509.GeneralName]:
    """Raises: InvalidInput."""
    from cryptography import x509

    found: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            if not name.isascii() or not name or any(c.isspace() or c in ",/:" for c in name):
                raise InvalidInput(
                    f"{name[:60]!r} is neither a host's name nor an address; a certificate is for names "
                    "as `plait.example.org` and addresses as `192.0.2.7`",
                    field="names",
                ) from None
            found.append(x509.DNSName(name))
    return found


def _fits(pair: Pair, wanted: list[x509.GeneralName]) -> bool:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        key = load_pem_private_key(pair.key.read_bytes(), None)
        held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return (
        certificate.public_key() == key.public_key()
        and certificate.not_valid_after_utc - datetime.now(UTC) > LEFT
        and set(wanted) <= set(held)
    )


def _make(names: list[x509.GeneralName]) -> tuple[str, str]:
    """A private key and a certificate signed with it, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "plait")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks of two machines
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # It signs nothing but itself: who trusts it trusts this one server.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private.decode(), certificate.public_bytes(encoding).decode()

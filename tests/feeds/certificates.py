"""Certificates for receivers on loopback and for their clients."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.certificates.uploads import weak_key


@dataclass(frozen=True)
class Pair:
    """A certificate and its key as PEM."""

    certificate: str
    key: str

    def write(self, folder: Path, name: str) -> Path:
        """Write the certificate and the key into one file."""
        path = folder / name
        path.write_text(self.certificate + self.key)
        return path


@cache
def self_signed(name: str, *, is_weak: bool = False) -> Pair:
    """A self-signed certificate of the host `name`."""
    key, now = weak_key() if is_weak else ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
    names = [x509.DNSName(name), x509.IPAddress(ip_address("127.0.0.1"))]
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return Pair(certificate, private)


def server_context(folder: Path, pair: Pair, *, of_clients: str = "") -> ssl.SSLContext:
    """TLS context of a server.

    With `of_clients`, an authority in PEM, the server requires a client certificate of it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.write(folder, "server.pem"))
    if of_clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=of_clients)
    return context

"""A certificate authority for the peers, like the authority of a tenant: a root and an issuing CA. All keys are ECDSA
P-256.

The certificates contain URLs of CRLs and OCSP, although no server uses these URLs. The URLs are a fifth of the size of
a device's certificates. Therefore a handshake needs an extra packet.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from nac.kit.clock import utc_now
from pki.issuance import IssuerLocations, add_locations

_AUTHORITY = "http://127.0.0.1:8461/{}/00000000-0000-4000-8000-000000000000"
_LOCATIONS = IssuerLocations(
    certificate=_AUTHORITY.format("ca") + ".cer", ocsp=_AUTHORITY.format("ocsp"), crl=_AUTHORITY.format("crl") + ".crl"
)


@dataclass(frozen=True, slots=True)
class ClientFiles:
    identity: str
    # PEM files of a client: its certificate with the issuing CA, and its private key.
    certificate: Path
    key: Path
    serial: str


@dataclass(frozen=True, slots=True)
class _Issuer:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


class BenchAuthority:
    """Writes root.pem, server.pem and server.key into a folder. `client` also writes the files of a client."""

    def __init__(self, folder: Path, name: str = "Bench") -> None:
        self._folder = folder
        root_key = ec.generate_private_key(ec.SECP256R1())
        root = _Issuer(_certificate(f"{name} Root", root_key, None, path_length=1), root_key)
        issuing_key = ec.generate_private_key(ec.SECP256R1())
        self._issuing = _Issuer(_certificate(f"{name} Issuing", issuing_key, root, path_length=0), issuing_key)
        # Name of the issuing CA in OpenSSL's one-line format, which radiusd uses.
        self.issuer = f"/CN={name} Issuing"
        self.certificates = (root.certificate, self._issuing.certificate)
        self.root_pem = root.certificate.public_bytes(Encoding.PEM).decode()
        (folder / "root.pem").write_text(self.root_pem)
        server = self._issue("server", "radius.bench.invalid", ExtendedKeyUsageOID.SERVER_AUTH)
        self.server_serial = _serial(server)
        self.server_certificate = server.public_bytes(Encoding.DER)

    def server_pem(self) -> bytes:
        """Key, certificate and issuing authority, in PEM."""
        return (self._folder / "server.key").read_bytes() + (self._folder / "server.pem").read_bytes()

    def client(self, identity: str) -> ClientFiles:
        serial = _serial(self._issue(identity, identity, ExtendedKeyUsageOID.CLIENT_AUTH))
        return ClientFiles(identity, self._folder / f"{identity}.pem", self._folder / f"{identity}.key", serial)

    def _issue(self, stem: str, name: str, usage: x509.ObjectIdentifier) -> x509.Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, self._issuing, usage=usage)
        chain = (certificate, self._issuing.certificate)
        (self._folder / f"{stem}.pem").write_bytes(b"".join(one.public_bytes(Encoding.PEM) for one in chain))
        (self._folder / f"{stem}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate


def _serial(certificate: x509.Certificate) -> str:
    digits = f"{certificate.serial_number:x}"
    return digits.rjust(len(digits) + len(digits) % 2, "0")


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: _Issuer | None,
    *,
    path_length: int | None = None,
    usage: x509.ObjectIdentifier | None = None,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now, authority = utc_now(), path_length is not None
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=path_length), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if issuer is not None:
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()), critical=False
        )
        builder = add_locations(builder, _LOCATIONS, of_itself=True)
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return builder.sign(issuer.key if issuer else key, hashes.SHA256())

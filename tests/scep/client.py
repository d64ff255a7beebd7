"""A SCEP client for tests. It can also send invalid messages."""

import itertools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from cryptography.x509.oid import AttributeOID

from pki import cms, der
from pki.cms_envelopes import AES_128, ContentCipher, find_recipient, open_envelope, read_envelope, seal_envelope

PKCS_REQ, RENEWAL_REQ, CERT_POLL, GET_CERT, GET_CRL = "19", "17", "20", "21", "22"
# Values of failInfo (RFC 8894 3.2.1.4.5).
BAD_ALG, BAD_MESSAGE_CHECK, BAD_REQUEST, BAD_CERT_ID = "0", "1", "2", "4"
_OIDS = "2.16.840.1.113733.1.9"


class _Keys:
    """RSA keys, cached because their generation is slow. The keys of one test differ, and the next test reuses them."""

    def __init__(self) -> None:
        self._made: list[rsa.RSAPrivateKey] = []
        self.rewind()

    def rewind(self) -> None:
        self._numbers = itertools.count()

    def take(self) -> rsa.RSAPrivateKey:
        number = next(self._numbers)
        while len(self._made) <= number:
            self._made.append(rsa.generate_private_key(public_exponent=65537, key_size=2048))
        return self._made[number]


KEYS = _Keys()
rsa_key = KEYS.take


def name_of(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)] if common_name else [])


def self_signed(key: CertificateIssuerPrivateKeyTypes, common_name: str = "SCEP") -> x509.Certificate:
    now = datetime.now(UTC)
    name = name_of(common_name)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256())


def signing_request(
    key: CertificateIssuerPrivateKeyTypes,
    common_name: str,
    challenge: str = "",
    sans: tuple[x509.GeneralName, ...] = (),
) -> bytes:
    builder = x509.CertificateSigningRequestBuilder(name_of(common_name))
    if challenge:
        builder = builder.add_attribute(AttributeOID.CHALLENGE_PASSWORD, challenge.encode())
    if sans:
        builder = builder.add_extension(x509.SubjectAlternativeName(sans), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def printable(text: str) -> bytes:
    return der.encode(der.PRINTABLE_STRING, text.encode())


@dataclass
class Device:
    """Holds a key and sends requests."""

    common_name: str = "laptop"
    key: rsa.RSAPrivateKey = field(default_factory=rsa_key)
    # The certificate of the signer, at first self-signed.
    identity: x509.Certificate = None
    transaction_id: str = field(default_factory=lambda: secrets.token_hex(16))
    nonce: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    def __post_init__(self) -> None:
        self.identity = self.identity or self_signed(self.key)

    def message(
        self,
        content: bytes,
        authority: x509.Certificate,
        *,
        kind: str = PKCS_REQ,
        cipher: ContentCipher = AES_128,
        changes: Mapping[str, bytes] | None = None,
    ) -> bytes:
        return self.signed(seal_envelope(content, authority, cipher), kind=kind, changes=changes)

    def signed(self, envelope: bytes, *, kind: str = PKCS_REQ, changes: Mapping[str, bytes] | None = None) -> bytes:
        attributes: dict[str, bytes] = {
            f"{_OIDS}.2": printable(kind),
            f"{_OIDS}.7": printable(self.transaction_id),
            f"{_OIDS}.5": der.encode(der.OCTET_STRING, self.nonce),
        }
        return cms.sign_content(
            envelope, attributes=attributes | dict(changes or {}), certificate=self.identity, key=self.key
        )

    def enrol(self, authority: x509.Certificate, challenge: str, *, sans: Any = (), **changes: Any) -> bytes:
        """A PKCSReq message."""
        return self.message(signing_request(self.key, self.common_name, challenge, sans), authority, **changes)

    def renew(self, authority: x509.Certificate, key: rsa.RSAPrivateKey, common_name: str = "") -> bytes:
        """A RenewalReq message for a new key, signed with the current certificate."""
        request = signing_request(key, common_name or self.common_name)
        return self.message(request, authority, kind=RENEWAL_REQ)


@dataclass
class Reply:
    status: str
    fail_info: str
    text: str
    transaction_id: str
    recipient_nonce: bytes
    signer: x509.Certificate
    content: bytes

    def certificate(self, device: Device) -> x509.Certificate:
        """The certificate in the envelope. Only the key of the device decrypts it."""
        envelope = read_envelope(self.content)
        recipient = find_recipient(envelope, device.identity)
        assert recipient is not None
        [certificate] = pkcs7.load_der_pkcs7_certificates(open_envelope(envelope, recipient, device.key))
        return certificate


def read_reply(data: bytes) -> Reply:
    """Parse a reply and verify its signature with the certificate in the message."""
    signed = cms.read_signed(data)
    cms.verify_signature(signed)

    def text(oid: str) -> str:
        found = signed.attributes.get(oid)
        return found.content.decode() if found else ""

    assert text(f"{_OIDS}.2") == "3"
    return Reply(
        status=text(f"{_OIDS}.3"),
        fail_info=text(f"{_OIDS}.4"),
        text=text("1.3.6.1.5.5.7.24.1"),
        transaction_id=text(f"{_OIDS}.7"),
        recipient_nonce=signed.attributes[f"{_OIDS}.6"].content,
        signer=signed.signer,
        content=signed.content,
    )

"""Client certificates with unusual names, signed by an authority that the cell trusts.

External authorities issue names in T.61 or UTF-16, with characters beyond ASCII, and with bytes that are no text.
"""

from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pki import der
from pki.keys import PrivateKey, generate_key
from pki.serials import random_serial
from tests.pki import raw_certificates
from tests.radius.tenants import Authorities, ClientFiles

EMAIL, DNS, URI = 0x81, 0x82, 0x86
_UPN = der.encode(der.OBJECT_IDENTIFIER, bytes.fromhex("2b060104018237140203"))
_ECDSA_SHA256 = der.encode(der.SEQUENCE, der.encode(der.OBJECT_IDENTIFIER, bytes.fromhex("2a8648ce3d040302")))
_ECDSA_SHA1 = der.encode(der.SEQUENCE, der.encode(der.OBJECT_IDENTIFIER, bytes.fromhex("2a8648ce3d0401")))
_CLIENT_AUTH = der.encode(der.OBJECT_IDENTIFIER, bytes.fromhex("2b06010505070302"))
_GENERALIZED_TIME = 0x18
_UTC_TIME = 0x17


def general_name(kind: int, content: bytes) -> bytes:
    return der.encode(kind, content)


def upn(text: bytes) -> bytes:
    """A userPrincipalName as GeneralName (RFC 5280 4.2.1.6: otherName)."""
    return der.encode(0xA0, _UPN + der.encode(0xA0, der.encode(der.UTF8_STRING, text)))


def odd_client(
    authorities: Authorities,
    file_name: str,
    *subject: list[raw_certificates.Attribute],
    names: bytes = b"",
    serial: int = 0,
    generalized_end: bool = False,
    key: PrivateKey | None = None,
    uses_sha1: bool = False,
) -> ClientFiles:
    """Create a client certificate. `subject` is an argument of raw.name. `names` are encoded GeneralNames."""
    key = key or generate_key()
    algorithm = _ECDSA_SHA1 if uses_sha1 else _ECDSA_SHA256
    begin, end = authorities.now - timedelta(hours=1), authorities.now + timedelta(days=30)
    times = der.encode(_UTC_TIME, begin.strftime("%y%m%d%H%M%SZ").encode())
    if generalized_end:
        times += der.encode(_GENERALIZED_TIME, b"20701231235959Z")
    else:
        times += der.encode(_UTC_TIME, end.strftime("%y%m%d%H%M%SZ").encode())
    issuer = authorities.issuing.certificate
    to_be_signed = der.encode(
        der.SEQUENCE,
        der.encode(0xA0, der.encode(der.INTEGER, b"\x02"))
        + der.encode(der.INTEGER, _integer(serial or random_serial()))
        + algorithm
        + issuer.subject.public_bytes()
        + der.encode(der.SEQUENCE, times)
        + raw_certificates.name(*subject)
        + key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        + der.encode(0xA3, der.encode(der.SEQUENCE, _extensions(names))),
    )
    assert isinstance(authorities.issuing.key, ec.EllipticCurvePrivateKey)
    digest = hashes.SHA1() if uses_sha1 else hashes.SHA256()  # noqa: S303 -- to be refused
    signature = authorities.issuing.key.sign(to_be_signed, ec.ECDSA(digest))
    encoded = der.encode(der.SEQUENCE, to_be_signed + algorithm + der.encode(der.BIT_STRING, b"\0" + signature))
    return authorities.write_client(file_name, x509.load_der_x509_certificate(encoded), key)


def _integer(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1)


def _extensions(names: bytes) -> bytes:
    found = _extension("551d25", der.encode(der.SEQUENCE, _CLIENT_AUTH))
    return found + _extension("551d11", der.encode(der.SEQUENCE, names)) if names else found


def _extension(oid: str, content: bytes) -> bytes:
    return der.encode(der.SEQUENCE, der.encode(der.OBJECT_IDENTIFIER, bytes.fromhex(oid)) + der.encode(0x04, content))

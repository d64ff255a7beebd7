"""Cryptographic Message Syntax (RFC 5652), as far as enrolment needs it: SignedData by one signer with attributes.

Envelopes are in `pki.cms_envelopes`. Reading proves nothing: call `verify_signature` before you trust a message.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from asn1crypto import algos, cms, core
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7

from pki import der
from pki.errors import AlgorithmRefused, CmsDamaged, DerDamaged, KeyNotAllowed, SignatureRefused
from pki.keys import require_acceptable

# A request with its envelope has 2 to 5 kB, plus the signer's chain.
MAX_MESSAGE_BYTES = 64 * 1024
_MAX_CERTIFICATES = 10
_MAX_ATTRIBUTES = 32
_SET_OF, _IMPLICIT_SET = 0x31, 0xA0

_DATA = "1.2.840.113549.1.7.1"
_CONTENT_TYPE = "1.2.840.113549.1.9.3"
_MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
_RSA = "1.2.840.113549.1.1.1"
# By object identifier; SHA-1 and MD5 are rejected.
_DIGESTS: Mapping[str, tuple[str, hashes.HashAlgorithm]] = {
    "2.16.840.1.101.3.4.2.1": ("sha256", hashes.SHA256()),
    "2.16.840.1.101.3.4.2.2": ("sha384", hashes.SHA384()),
    "2.16.840.1.101.3.4.2.3": ("sha512", hashes.SHA512()),
}
# PKCS#1 v1.5 with the signer's digest, as one identifier or two (RFC 8017 A.2.4).
_SIGNATURES: Mapping[str, str] = {
    "1.2.840.113549.1.1.11": "2.16.840.1.101.3.4.2.1",
    "1.2.840.113549.1.1.12": "2.16.840.1.101.3.4.2.2",
    "1.2.840.113549.1.1.13": "2.16.840.1.101.3.4.2.3",
}


@contextmanager
def translate_parse_errors(what: str) -> Iterator[None]:
    """Convert errors of the parsers on invalid bytes to CmsDamaged."""
    try:
        yield
    except (
        *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError),
        *(DerDamaged, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension),
    ) as exc:
        raise CmsDamaged(f"The message is not readable: {what}.") from exc


@dataclass(frozen=True, slots=True)
class SignedAttribute:
    """One value: its tag and content in DER."""

    tag: int
    content: bytes


@dataclass(frozen=True, slots=True)
class SignedData:
    """Parsed SignedData by one signer."""

    # "" without content: a failure response has none.
    content: bytes
    # By dotted object identifier; only signed ones.
    attributes: Mapping[str, SignedAttribute]
    signer: x509.Certificate
    # Dotted object identifiers.
    digest: str
    signature_algorithm: str
    signature: bytes
    # The DER that was signed (RFC 5652 5.4).
    signed_bytes: bytes

    @property
    def digest_name(self) -> str:
        """Name of the digest, such as "sha256". Raises AlgorithmRefused for weak ones."""
        return _require_digest(self.digest)[0]


def read_signed(data: bytes) -> SignedData:
    """Parse SignedData. Raises CmsDamaged."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise CmsDamaged(f"The message has {len(data)} bytes; the maximum is {MAX_MESSAGE_BYTES}.")
    with translate_parse_errors("no SignedData by one signer"):
        signed = load_content(data, "signed_data")
        [signer_info] = signed["signer_infos"]
        if len(signed["certificates"]) > _MAX_CERTIFICATES or len(signer_info["signed_attrs"]) > _MAX_ATTRIBUTES:
            raise ValueError("too many parts")
        attributes = signer_info["signed_attrs"]
        stood = attributes.dump()
        if not stood or stood[0] != _IMPLICIT_SET:
            raise ValueError("no signed attributes")
        encapsulated = signed["encap_content_info"]
        if encapsulated["content_type"].dotted != _DATA:
            raise ValueError("the content has another type than data")
        content = encapsulated["content"]
        return SignedData(
            content=content.native or b"",
            attributes=dict(_read_attribute(attribute) for attribute in attributes),
            signer=_find_signer(signed["certificates"], signer_info["sid"]),
            digest=signer_info["digest_algorithm"]["algorithm"].dotted,
            signature_algorithm=signer_info["signature_algorithm"]["algorithm"].dotted,
            signature=signer_info["signature"].native,
            signed_bytes=bytes((_SET_OF,)) + stood[1:],
        )


def load_content(data: bytes, kind: str) -> core.Asn1Value:
    """The content of a ContentInfo of that kind, without trailing data. Use inside `translate_parse_errors`."""
    info = cms.ContentInfo.load(data, strict=True)
    if info["content_type"].native != kind:
        raise ValueError(f"no {kind}")
    return info["content"]


def _read_attribute(attribute: cms.CMSAttribute) -> tuple[str, SignedAttribute]:
    [value] = attribute["values"]
    element, _ = der.read_element(value.dump())
    return attribute["type"].dotted, SignedAttribute(element.tag, element.content)


def _find_signer(certificates: cms.CertificateSet, identifier: cms.SignerIdentifier) -> x509.Certificate:
    for choice in certificates:
        if choice.name != "certificate":
            continue
        certificate = choice.chosen
        if identifier_matches(identifier, certificate):
            return x509.load_der_x509_certificate(certificate.dump())
    raise ValueError("the signer's certificate is missing")


def identifier_matches(identifier: core.Choice, certificate: asn1_x509.Certificate) -> bool:
    """Whether a SignerIdentifier or RecipientIdentifier identifies this certificate."""
    if identifier.name == "issuer_and_serial_number":
        chosen = identifier.chosen
        return bool(
            chosen["issuer"] == certificate.issuer and chosen["serial_number"].native == certificate.serial_number
        )
    return certificate.key_identifier is not None and identifier.chosen.native == certificate.key_identifier


def verify_signature(signed: SignedData) -> None:
    """Verify the signature over this content with the signer's key and strong algorithms.

    Does not check the signer's permissions. Raises AlgorithmRefused or SignatureRefused.
    """
    _, algorithm = _require_digest(signed.digest)
    if signed.signature_algorithm != _RSA and _SIGNATURES.get(signed.signature_algorithm) != signed.digest:
        raise AlgorithmRefused("The signature must be RSA (PKCS#1 v1.5) with the digest that the message names.")
    with translate_parse_errors("the signer's key"):
        key = signed.signer.public_key()
    try:
        require_acceptable(key)
    except KeyNotAllowed as exc:
        raise AlgorithmRefused(str(exc)) from exc
    if not isinstance(key, rsa.RSAPublicKey):
        raise AlgorithmRefused("The signer's key must be RSA, because the response is encrypted to it.")
    hasher = hashes.Hash(algorithm)
    hasher.update(signed.content)
    expected = {
        _CONTENT_TYPE: SignedAttribute(der.OBJECT_IDENTIFIER, core.ObjectIdentifier(_DATA).contents),
        _MESSAGE_DIGEST: SignedAttribute(0x04, hasher.finalize()),
    }
    if any(signed.attributes.get(oid) != value for oid, value in expected.items()):
        raise SignatureRefused("The signature is for other content.")
    try:
        key.verify(signed.signature, signed.signed_bytes, padding.PKCS1v15(), algorithm)
    except InvalidSignature as exc:
        raise SignatureRefused("The signature is invalid.") from exc


def _require_digest(dotted: str) -> tuple[str, hashes.HashAlgorithm]:
    if (known := _DIGESTS.get(dotted)) is None:
        raise AlgorithmRefused("The digest must be SHA-256, SHA-384 or SHA-512.")
    return known


def sign_content(
    content: bytes,
    *,
    attributes: Mapping[str, core.Asn1Value],
    certificate: x509.Certificate,
    key: rsa.RSAPrivateKey,
    digest: str = "sha256",
) -> bytes:
    """A ContentInfo of SignedData with the signer's certificate. Empty content is omitted.

    The signature algorithm is written as rsaEncryption, the only one that strict clients accept in a SignerInfo.
    """
    algorithm = next(known for name, known in _DIGESTS.values() if name == digest)
    hasher = hashes.Hash(algorithm)
    hasher.update(content)
    every: dict[str, object] = {_CONTENT_TYPE: "data", _MESSAGE_DIGEST: hasher.finalize(), **attributes}
    signed_attributes = cms.CMSAttributes(
        [cms.CMSAttribute({"type": oid, "values": [value]}) for oid, value in every.items()]
    )
    signer = asn1_certificate(certificate)
    digest_algorithm = algos.DigestAlgorithm({"algorithm": digest})
    signer_info = cms.SignerInfo(
        {
            "version": "v1",
            "sid": cms.SignerIdentifier({"issuer_and_serial_number": issuer_and_serial(signer)}),
            "digest_algorithm": digest_algorithm,
            "signed_attrs": signed_attributes,
            "signature_algorithm": algos.SignedDigestAlgorithm({"algorithm": "rsassa_pkcs1v15"}),
            "signature": key.sign(signed_attributes.dump(), padding.PKCS1v15(), algorithm),
        }
    )
    encapsulated: dict[str, object] = {"content_type": "data"}
    if content:
        encapsulated["content"] = content
    signed = cms.SignedData(
        {
            "version": "v1",
            "digest_algorithms": [digest_algorithm],
            "encap_content_info": encapsulated,
            "certificates": [signer],
            "signer_infos": [signer_info],
        }
    )
    return bytes(cms.ContentInfo({"content_type": "signed_data", "content": signed}).dump())


def asn1_certificate(certificate: x509.Certificate) -> asn1_x509.Certificate:
    return asn1_x509.Certificate.load(certificate.public_bytes(Encoding.DER))


def issuer_and_serial(certificate: asn1_x509.Certificate) -> cms.IssuerAndSerialNumber:
    return cms.IssuerAndSerialNumber({"issuer": certificate.issuer, "serial_number": certificate.serial_number})


def certificates_only(certificates: Sequence[x509.Certificate]) -> bytes:
    """A SignedData without signatures that carries certificates (RFC 5652 5, "degenerate")."""
    return pkcs7.serialize_certificates(list(certificates), Encoding.DER)

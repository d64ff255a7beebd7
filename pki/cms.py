"""The part of Cryptographic Message Syntax (RFC 5652) that enrolment needs: SignedData with exactly one signer.

The signature covers the content and the signed attributes. `read_signed` does not verify the signature: call
`verify_signature` before you trust a message. For encrypted messages, see `pki.cms_envelopes`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.asn1 import TLV, Null, SetOf, decode_der, encode_der
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7

from pki import cms_structures as structures
from pki import der
from pki.errors import AlgorithmRefused, CmsDamaged, DerDamaged, KeyNotAllowed, SignatureRefused
from pki.keys import require_acceptable
from pki.openssl_names import canonicalize_name

# An enrolment request in its envelope takes 2 to 5 kB, plus the certificate chain of the signer.
MAX_MESSAGE_BYTES = 64 * 1024
_MAX_CERTIFICATES = 10
_MAX_ATTRIBUTES = 32

_CONTENT_TYPE = "1.2.840.113549.1.9.3"
_MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
_RSA = structures.RSA_ENCRYPTION.dotted_string
# Accepted digests by object identifier, without SHA-1 and MD5.
_DIGESTS: Mapping[str, tuple[str, hashes.HashAlgorithm]] = {
    "2.16.840.1.101.3.4.2.1": ("sha256", hashes.SHA256()),
    "2.16.840.1.101.3.4.2.2": ("sha384", hashes.SHA384()),
    "2.16.840.1.101.3.4.2.3": ("sha512", hashes.SHA512()),
}
# Maps each signature algorithm that includes the digest (PKCS#1 v1.5, RFC 8017 A.2.4) to the digest. A signer may also
# name the algorithm rsaEncryption, which includes no digest.
_SIGNATURES: Mapping[str, str] = {
    "1.2.840.113549.1.1.11": "2.16.840.1.101.3.4.2.1",
    "1.2.840.113549.1.1.12": "2.16.840.1.101.3.4.2.2",
    "1.2.840.113549.1.1.13": "2.16.840.1.101.3.4.2.3",
}
_DATA_OCTETS = der.read_element(encode_der(structures.DATA))[0].content
_Content = TypeVar("_Content")


@contextmanager
def translate_parse_errors(what: str) -> Iterator[None]:
    """Convert parser errors about invalid bytes to CmsDamaged. `what` names the damaged part of the message."""
    try:
        yield
    except (
        *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError),
        *(DerDamaged, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension),
    ) as exc:
        raise CmsDamaged(f"The message is not readable: {what}.") from exc


@dataclass(frozen=True, slots=True)
class SignedAttribute:
    """An attribute's value: the tag, and the content in DER."""

    tag: int
    content: bytes


@dataclass(frozen=True, slots=True)
class SignedMessage:
    """Parsed SignedData with one signer."""

    # Empty if the message has no content, as in a failure response.
    content: bytes
    # Signed attributes by dotted object identifier, without unsigned attributes.
    attributes: Mapping[str, SignedAttribute]
    signer: x509.Certificate
    # Digest and signature algorithm as dotted object identifiers.
    digest: str
    signature_algorithm: str
    signature: bytes
    # The DER bytes that the signature covers (RFC 5652 5.4).
    signed_bytes: bytes

    @property
    def digest_name(self) -> str:
        """Name of the digest, such as "sha256". Raises AlgorithmRefused for a weak digest."""
        return _require_digest(self.digest)[0]


def read_signed(data: bytes) -> SignedMessage:
    """Parse SignedData. Raises CmsDamaged."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise CmsDamaged(f"The message has {len(data)} bytes; the maximum is {MAX_MESSAGE_BYTES}.")
    with translate_parse_errors("no SignedData by one signer"):
        signed = decode_content(data, structures.SIGNED_DATA, structures.SignedData)
        [signer_info] = signed.signer_infos.as_list()
        certificates, attributes = signed.certificates or [], signer_info.signed_attributes
        if len(certificates) > _MAX_CERTIFICATES or len(attributes) > _MAX_ATTRIBUTES:
            raise ValueError("too many parts")
        if signed.encapsulated.content_type != structures.DATA:
            raise ValueError("the content has another type than data")
        return SignedMessage(
            content=signed.encapsulated.content or b"",
            attributes=dict(_read_attribute(attribute.parse(structures.Attribute)) for attribute in attributes),
            signer=_find_signer(certificates, signer_info.sid),
            digest=signer_info.digest_algorithm.algorithm.dotted_string,
            signature_algorithm=signer_info.signature_algorithm.algorithm.dotted_string,
            signature=signer_info.signature,
            signed_bytes=der.encode(der.SET, b"".join(map(encode_der, attributes))),
        )


def decode_content(data: bytes, kind: x509.ObjectIdentifier, structure: type[_Content]) -> _Content:
    """Decode the content of a ContentInfo that has the content type `kind`.

    Call the function in a `with translate_parse_errors(...)` block, which converts the parser errors.
    """
    info = decode_der(structures.ContentInfo, convert_to_der(data))
    if info.content_type != kind:
        raise ValueError(f"the content type is not {kind.dotted_string}")
    content: _Content = info.content.parse(structure)
    return content


def _read_attribute(attribute: structures.Attribute) -> tuple[str, SignedAttribute]:
    [value] = attribute.values.as_list()
    return attribute.type.dotted_string, SignedAttribute(int.from_bytes(value.tag_bytes), bytes(value.data))


def _find_signer(certificates: Sequence[TLV], identifier: structures.CertificateIdentifier) -> x509.Certificate:
    for choice in certificates:
        # Skip obsolete kinds of certificates, which have other tags (RFC 5652 10.2.2).
        if choice.tag_bytes == bytes((der.SEQUENCE,)):
            certificate = x509.load_der_x509_certificate(encode_der(choice))
            if is_identified_by(certificate, identifier):
                return certificate
    raise ValueError("the signer's certificate is missing")


def is_identified_by(certificate: x509.Certificate, identifier: structures.CertificateIdentifier) -> bool:
    """Whether `identifier` (a SignerIdentifier or RecipientIdentifier) identifies this certificate."""
    if isinstance(identifier, bytes):
        return identifier == _read_key_identifier(certificate)
    issuer, _ = der.read_names(certificate.tbs_certificate_bytes)
    return identifier.serial_number == certificate.serial_number and (
        canonicalize_name(encode_der(identifier.issuer)) == canonicalize_name(issuer)
    )


def _read_key_identifier(certificate: x509.Certificate) -> bytes | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    except x509.ExtensionNotFound:
        return None


def verify_signature(signed: SignedMessage) -> None:
    """Verify the signature with the signer's key, and require strong algorithms.

    Does not check whether the signer has any permission. Raises AlgorithmRefused or SignatureRefused.
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
        raise AlgorithmRefused("The signer's key must be RSA, because the response is encrypted to this key.")
    hasher = hashes.Hash(algorithm)
    hasher.update(signed.content)
    expected = {
        _CONTENT_TYPE: SignedAttribute(der.OBJECT_IDENTIFIER, _DATA_OCTETS),
        _MESSAGE_DIGEST: SignedAttribute(der.OCTET_STRING, hasher.finalize()),
    }
    if any(signed.attributes.get(oid) != value for oid, value in expected.items()):
        raise SignatureRefused("The signature does not belong to this content.")
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
    attributes: Mapping[str, bytes],
    certificate: x509.Certificate,
    key: rsa.RSAPrivateKey,
    digest: str = "sha256",
) -> bytes:
    """Build a ContentInfo with SignedData and the signer's certificate. If `content` is empty, omits it.

    `attributes` maps dotted object identifiers to DER values. The SignerInfo names the signature algorithm
    rsaEncryption, because strict clients reject any other value.
    """
    dotted, algorithm = next((oid, known) for oid, (name, known) in _DIGESTS.items() if name == digest)
    hasher = hashes.Hash(algorithm)
    hasher.update(content)
    every = {
        _CONTENT_TYPE: encode_der(structures.DATA),
        _MESSAGE_DIGEST: encode_der(hasher.finalize()),
        **attributes,
    }
    # DER orders the members of a SET OF by their encoding (X.690 11.6).
    signed_attributes = sorted(_encode_attribute(oid, value) for oid, value in every.items())
    digest_algorithm = _build_algorithm(x509.ObjectIdentifier(dotted))
    issuer, _ = der.read_names(certificate.tbs_certificate_bytes)
    signer_info = structures.SignerInfo(
        version=1,
        sid=structures.IssuerAndSerialNumber(issuer=decode_der(TLV, issuer), serial_number=certificate.serial_number),
        digest_algorithm=digest_algorithm,
        signed_attributes=[decode_der(TLV, attribute) for attribute in signed_attributes],
        signature_algorithm=_build_algorithm(structures.RSA_ENCRYPTION),
        signature=key.sign(der.encode(der.SET, b"".join(signed_attributes)), padding.PKCS1v15(), algorithm),
        unsigned_attributes=None,
    )
    signed = structures.SignedData(
        version=1,
        digest_algorithms=SetOf([digest_algorithm]),
        encapsulated=structures.EncapsulatedContentInfo(content_type=structures.DATA, content=content or None),
        certificates=[decode_der(TLV, certificate.public_bytes(Encoding.DER))],
        revocation_lists=None,
        signer_infos=SetOf([signer_info]),
    )
    content_info = structures.ContentInfo(
        content_type=structures.SIGNED_DATA, content=decode_der(TLV, encode_der(signed))
    )
    return encode_der(content_info)


def _encode_attribute(oid: str, value: bytes) -> bytes:
    attribute = structures.Attribute(type=x509.ObjectIdentifier(oid), values=SetOf([decode_der(TLV, value)]))
    return encode_der(attribute)


def _build_algorithm(identifier: x509.ObjectIdentifier) -> structures.AlgorithmIdentifier:
    return structures.AlgorithmIdentifier(algorithm=identifier, parameters=Null())


def certificates_only(certificates: Sequence[x509.Certificate]) -> bytes:
    """Build SignedData that contains only certificates and no signature (RFC 5652 5, "degenerate")."""
    return pkcs7.serialize_certificates(list(certificates), Encoding.DER)


_CONSTRUCTED = 0x20
_INDEFINITE = b"\x80"
_END_OF_CONTENTS = b"\0\0"
# A certificate inside a message is about ten levels deep.
_MAX_DEPTH = 32


def convert_to_der(data: bytes) -> bytes:
    """Convert BER to DER: each length gets the shortest definite form, and each octet string becomes one piece.

    Does not change the order of elements or the contents of other primitive elements. Raises DerDamaged.
    """
    converted, end = _convert(data, 0, _MAX_DEPTH)
    if end != len(data):
        raise DerDamaged(f"{len(data) - end} bytes follow the element")
    return converted


def _convert(data: bytes, at: int, depth: int) -> tuple[bytes, int]:
    """Convert the element at byte `at` of `data`. Returns the converted element, and the position after the element."""
    if depth == 0:
        raise DerDamaged(f"elements are nested more than {_MAX_DEPTH} deep")
    members = []
    if data[at + 1 : at + 2] == _INDEFINITE:
        tag, end = data[at], at + 2
        if not tag & _CONSTRUCTED:
            raise DerDamaged(f"byte {at}: a primitive element has an indefinite length")
        while data[end : end + 2] != _END_OF_CONTENTS:
            member, end = _convert(data, end, depth - 1)
            members.append(member)
        return _join(tag, members), end + 2
    element, end = der.read_element(data, at)
    if not element.tag & _CONSTRUCTED:
        return der.encode(element.tag, element.content), end
    position = 0
    while position < len(element.content):
        member, position = _convert(element.content, position, depth - 1)
        members.append(member)
    return _join(element.tag, members), end


def _join(tag: int, members: list[bytes]) -> bytes:
    if tag != der.OCTET_STRING | _CONSTRUCTED:
        return der.encode(tag, b"".join(members))
    chunks = (der.require_tag(der.read_element(member)[0], der.OCTET_STRING).content for member in members)
    return der.encode(der.OCTET_STRING, b"".join(chunks))

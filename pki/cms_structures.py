"""ASN.1 structures of Cryptographic Message Syntax (RFC 5652), which the package `cryptography` decodes and encodes.

The classes have the names of the RFC's types. For a SET OF under an implicit tag, the class declares a list, because
some clients do not sort the members. A list has the same encoding as a SET OF, but accepts members in any order.
"""

from typing import Annotated

from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.hazmat.asn1 import TLV, Explicit, Implicit, Null, SetOf, Size

DATA = x509.ObjectIdentifier("1.2.840.113549.1.7.1")
SIGNED_DATA = x509.ObjectIdentifier("1.2.840.113549.1.7.2")
ENVELOPED_DATA = x509.ObjectIdentifier("1.2.840.113549.1.7.3")
RSA_ENCRYPTION = x509.ObjectIdentifier("1.2.840.113549.1.1.1")


@asn1.sequence
class ContentInfo:
    content_type: x509.ObjectIdentifier
    content: Annotated[TLV, Explicit(0)]


@asn1.sequence
class AlgorithmIdentifier:
    algorithm: x509.ObjectIdentifier
    parameters: Null | TLV | None


@asn1.sequence
class IssuerAndSerialNumber:
    issuer: TLV
    serial_number: int


# The RFC's types SignerIdentifier and RecipientIdentifier. The bytes are a subject key identifier.
CertificateIdentifier = IssuerAndSerialNumber | Annotated[bytes, Implicit(0)]


@asn1.sequence
class Attribute:
    type: x509.ObjectIdentifier
    # All attributes of RFC 5652 and RFC 8894 have exactly one value.
    values: Annotated[SetOf[TLV], Size.exact(1)]


@asn1.sequence
class SignerInfo:
    version: int
    sid: CertificateIdentifier
    digest_algorithm: AlgorithmIdentifier
    # DER of each Attribute that the signature covers. RFC 8894 3.1 requires signed attributes.
    signed_attributes: Annotated[list[TLV], Implicit(0)]
    signature_algorithm: AlgorithmIdentifier
    signature: bytes
    unsigned_attributes: Annotated[list[TLV] | None, Implicit(1)]


@asn1.sequence
class EncapsulatedContentInfo:
    content_type: x509.ObjectIdentifier
    content: Annotated[bytes | None, Explicit(0)]


@asn1.sequence
class SignedData:
    version: int
    digest_algorithms: SetOf[AlgorithmIdentifier]
    encapsulated: EncapsulatedContentInfo
    certificates: Annotated[list[TLV] | None, Implicit(0)]
    revocation_lists: Annotated[list[TLV] | None, Implicit(1)]
    signer_infos: Annotated[SetOf[SignerInfo], Size.exact(1)]


@asn1.sequence
class KeyTransRecipientInfo:
    version: int
    rid: CertificateIdentifier
    key_encryption_algorithm: AlgorithmIdentifier
    encrypted_key: bytes


@asn1.sequence
class EncryptedContentInfo:
    content_type: x509.ObjectIdentifier
    algorithm: AlgorithmIdentifier
    # The ciphertext: one octet string, or several pieces (X.690 8.7.3.2).
    content: Annotated[bytes | None, Implicit(0)]
    chunks: Annotated[list[bytes] | None, Implicit(0)]


@asn1.sequence
class EnvelopedData:
    version: int
    originator: Annotated[list[TLV] | None, Implicit(0)]
    # A SET of several kinds of recipients, in any order.
    recipient_infos: TLV
    encrypted: EncryptedContentInfo
    unprotected_attributes: Annotated[list[TLV] | None, Implicit(1)]

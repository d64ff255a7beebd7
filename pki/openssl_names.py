"""Distinguished names in OpenSSL's one-line form (X509_NAME_oneline), and hashes of names (X509_NAME_hash).

radiusd reports subjects and issuers in the one-line form. OpenSSL in radiusd uses the hash of a name to find an
authority's file in a `ca_path` directory.
"""

import hashlib
from typing import NamedTuple

from cryptography import x509

from pki import der
from pki.errors import DerDamaged

# OpenSSL's short names of the attribute types below id-at (2.5.4), and of other types in certificates. For all types
# that are not in this table, the dotted form is used, as in OpenSSL.
SHORT_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.4": "SN",
    "2.5.4.5": "serialNumber",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "street",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.12": "title",
    "2.5.4.13": "description",
    "2.5.4.14": "searchGuide",
    "2.5.4.15": "businessCategory",
    "2.5.4.16": "postalAddress",
    "2.5.4.17": "postalCode",
    "2.5.4.18": "postOfficeBox",
    "2.5.4.19": "physicalDeliveryOfficeName",
    "2.5.4.20": "telephoneNumber",
    "2.5.4.21": "telexNumber",
    "2.5.4.22": "teletexTerminalIdentifier",
    "2.5.4.23": "facsimileTelephoneNumber",
    "2.5.4.24": "x121Address",
    "2.5.4.25": "internationaliSDNNumber",
    "2.5.4.26": "registeredAddress",
    "2.5.4.27": "destinationIndicator",
    "2.5.4.28": "preferredDeliveryMethod",
    "2.5.4.29": "presentationAddress",
    "2.5.4.30": "supportedApplicationContext",
    "2.5.4.31": "member",
    "2.5.4.32": "owner",
    "2.5.4.33": "roleOccupant",
    "2.5.4.34": "seeAlso",
    "2.5.4.35": "userPassword",
    "2.5.4.36": "userCertificate",
    "2.5.4.37": "cACertificate",
    "2.5.4.38": "authorityRevocationList",
    "2.5.4.39": "certificateRevocationList",
    "2.5.4.40": "crossCertificatePair",
    "2.5.4.41": "name",
    "2.5.4.42": "GN",
    "2.5.4.43": "initials",
    "2.5.4.44": "generationQualifier",
    "2.5.4.45": "x500UniqueIdentifier",
    "2.5.4.46": "dnQualifier",
    "2.5.4.47": "enhancedSearchGuide",
    "2.5.4.48": "protocolInformation",
    "2.5.4.49": "distinguishedName",
    "2.5.4.50": "uniqueMember",
    "2.5.4.51": "houseIdentifier",
    "2.5.4.52": "supportedAlgorithms",
    "2.5.4.53": "deltaRevocationList",
    "2.5.4.54": "dmdName",
    "2.5.4.65": "pseudonym",
    "2.5.4.72": "role",
    "2.5.4.97": "organizationIdentifier",
    "2.5.4.98": "c3",
    "2.5.4.99": "n3",
    "2.5.4.100": "dnsName",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.3": "mail",
    "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "emailAddress",
    "1.2.840.113549.1.9.2": "unstructuredName",
    "1.2.840.113549.1.9.8": "unstructuredAddress",
    "1.3.6.1.4.1.311.60.2.1.1": "jurisdictionL",
    "1.3.6.1.4.1.311.60.2.1.2": "jurisdictionST",
    "1.3.6.1.4.1.311.60.2.1.3": "jurisdictionC",
}
# OpenSSL cuts the dotted form of an unknown type to 79 characters, because its buffer has 80 bytes.
_TYPE_LIMIT = 79
_CODECS = {
    der.UTF8_STRING: "utf-8",
    der.BMP_STRING: "utf-16-be",
    der.UNIVERSAL_STRING: "utf-32-be",
    # Types that OpenSSL reads as one byte per character, including T.61.
    der.PRINTABLE_STRING: "latin-1",
    der.T61_STRING: "latin-1",
    der.IA5_STRING: "latin-1",
}
_BLANKS = " \t\n\v\f\r"
_UPPER_TO_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


class _NameAttribute(NamedTuple):
    type: der.Element
    value: der.Element


def _relative_names(name: bytes) -> list[list[_NameAttribute]]:
    outer, end = der.read_element(name)
    if end != len(name):
        raise DerDamaged(f"{len(name) - end} bytes follow the name")
    relative_names = []
    for relative in der.iter_children(der.require_tag(outer, der.SEQUENCE).content):
        entries = []
        for pair in der.iter_children(der.require_tag(relative, der.SET).content):
            parts = list(der.iter_children(der.require_tag(pair, der.SEQUENCE).content))
            if len(parts) != 2:
                raise DerDamaged("an attribute of a name must be a type and a value")
            entries.append(_NameAttribute(der.require_tag(parts[0], der.OBJECT_IDENTIFIER), parts[1]))
        relative_names.append(entries)
    return relative_names


def _displayed_octets(value: der.Element) -> bytes:
    """Return the bytes of a value that OpenSSL displays.

    Omits the first octet of a BIT STRING (x500UniqueIdentifier), which is the number of unused bits.
    """
    return value.content[1:] if value.tag == der.BIT_STRING else value.content


def _escape(octet: int) -> str:
    if not 0x20 <= octet <= 0x7E:
        return f"\\x{octet:02X}"
    return f"\\{chr(octet)}" if octet in b"/+" else chr(octet)


def format_one_line(name: x509.Name | bytes) -> str:
    """Format a name (or its DER) as OpenSSL 3's X509_NAME_oneline does: "/O=Alpha/CN=Alpha Issuing CA"."""
    parts = []
    for entries in _relative_names(name if isinstance(name, bytes) else name.public_bytes()):
        for index, entry in enumerate(entries):
            oid = der.decode_oid(entry.type.content)
            value = "".join(map(_escape, _displayed_octets(entry.value)))
            parts.append(f"{'+' if index else '/'}{SHORT_NAMES.get(oid, oid)[:_TYPE_LIMIT]}={value}")
    return "".join(parts)


def _canonical_value(value: der.Element) -> bytes:
    codec = _CODECS.get(value.tag)
    if codec is None:
        return value.encoded
    try:
        text = value.content.decode(codec)
        # Change only ASCII characters, as OpenSSL does. `str.lower` and `str.split` also change characters outside
        # ASCII.
        return der.encode(der.UTF8_STRING, _fold(text).encode())
    except UnicodeError as exc:
        raise DerDamaged(f"a string of a name is not valid {codec}") from exc


def _fold(text: str) -> str:
    text = text.strip(_BLANKS).translate(_UPPER_TO_LOWER)
    folded = []
    for character in text:
        if character not in _BLANKS:
            folded.append(character)
        elif folded[-1] != " ":
            folded.append(" ")
    return "".join(folded)


def canonicalize_name(name: x509.Name | bytes) -> bytes:
    """Convert a name to the form in which OpenSSL compares names: equal bytes mean equal names.

    Each string becomes a UTF8String with ASCII letters in lower case, without outer blanks, and with single blanks
    between words. The result has no outer SEQUENCE.
    """
    canonical = bytearray()
    for entries in _relative_names(name if isinstance(name, bytes) else name.public_bytes()):
        pairs = (der.encode(der.SEQUENCE, entry.type.encoded + _canonical_value(entry.value)) for entry in entries)
        # DER orders the members of a SET OF by their encoding (X.690 11.6).
        canonical += der.encode(der.SET, b"".join(sorted(pairs)))
    return bytes(canonical)


def compute_name_hash(name: x509.Name | bytes) -> str:
    """Compute OpenSSL's X509_NAME_hash: the first four bytes (little-endian) of the SHA-1 of the canonical name.

    Returns 8 hexadecimal digits.
    """
    # The hash is part of a file name and protects nothing.
    digest = hashlib.sha1(canonicalize_name(name), usedforsecurity=False).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}"


def subject_line(certificate: x509.Certificate) -> str:
    return format_one_line(der.read_names(certificate.tbs_certificate_bytes)[1])


def issuer_line(certificate: x509.Certificate) -> str:
    return format_one_line(der.read_names(certificate.tbs_certificate_bytes)[0])


def subject_hash(certificate: x509.Certificate) -> str:
    return compute_name_hash(der.read_names(certificate.tbs_certificate_bytes)[1])

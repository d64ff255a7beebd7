"""Checked subjects and alternative names for certificates (RFC 5280 4.1.2.6, 4.2.1.6)."""

import ipaddress
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.x509.oid import NameOID

from pki import der
from pki.errors import NameNotAllowed

SanKind = Literal["dns", "email", "uri", "upn", "ip"]
SAN_KINDS: tuple[SanKind, ...] = get_args(SanKind)

# Upper bounds of RFC 5280 appendix A.1.
_COMMON_NAME_LIMIT = _ORGANISATION_LIMIT = _SERIAL_NUMBER_LIMIT = 64
_DNS_LIMIT = 253
_TEXT_LIMIT = 255
_URI_LIMIT = 1024
_SANS_LIMIT = 20
# Microsoft's userPrincipalName: an otherName whose value is a UTF8String.
UPN_OID = x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3")

_DNS_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
_EMAIL_LOCAL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}")
_URI_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_URI_CHARACTERS = re.compile(r"[!-~]+")
_PRINTABLE = re.compile(r"[A-Za-z0-9 '()+,./:=?-]*")
# Unicode categories that names cannot contain: control, format (invisible or changes the text direction), surrogate,
# private use, unassigned, line separator and paragraph separator.
_REFUSED_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


@dataclass(frozen=True, slots=True)
class San:
    """A subject alternative name. Create it with `parse_san` or `build_san`, because these functions check the name."""

    kind: SanKind
    value: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}"


def clean_text(value: str, *, what: str, limit: int) -> str:
    """Return `value` in Unicode's composed form (NFC).

    Raises NameNotAllowed if the value is empty, has more than `limit` characters, has characters that are not
    printable, or begins or ends with a blank.
    """
    value = unicodedata.normalize("NFC", value)
    if not value or value != value.strip():
        raise NameNotAllowed(f"{what}: {value!r} is empty or begins or ends with a blank.")
    if len(value) > limit:
        raise NameNotAllowed(f"{what}: {len(value)} characters; at most {limit} are allowed.")
    for character in value:
        if unicodedata.category(character) in _REFUSED_CATEGORIES:
            raise NameNotAllowed(f"{what}: the character U+{ord(character):04X} is not allowed.")
    return value


def subject_name(common_name: str, *, organisation: str = "", serial_number: str = "") -> x509.Name:
    """Subject with O, serialNumber and CN in this order, each in its own relative distinguished name (RDN)."""
    attributes = []
    if organisation:
        checked = clean_text(organisation, what="organisation", limit=_ORGANISATION_LIMIT)
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, checked))
    if serial_number:
        checked = clean_text(serial_number, what="serial number", limit=_SERIAL_NUMBER_LIMIT)
        if not _PRINTABLE.fullmatch(checked):
            raise NameNotAllowed(f"serial number: {checked!r} has characters that a PrintableString cannot have.")
        attributes.append(x509.NameAttribute(NameOID.SERIAL_NUMBER, checked))
    checked = clean_text(common_name, what="common name", limit=_COMMON_NAME_LIMIT)
    # The limit applies to octets, too: OpenSSL and RFC 5280 count characters, but other software counts octets.
    if (octets := len(checked.encode())) > _COMMON_NAME_LIMIT:
        raise NameNotAllowed(f"common name: {octets} octets of UTF-8; at most {_COMMON_NAME_LIMIT} are allowed.")
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, checked))
    return x509.Name(attributes)


def build_san(kind: SanKind, value: str) -> San:
    """Build a checked alternative name. DNS names become lower case."""
    match kind:
        case "dns":
            return San(kind, _check_dns(value))
        case "email":
            return San(kind, _check_email(value))
        case "uri":
            return San(kind, _check_uri(value))
        case "upn":
            return San(kind, _check_upn(value))
        case "ip":
            return San(kind, _check_ip(value))


def parse_san(text: str) -> San:
    """Parse "dns:host.example", "email:a@b.example", "uri:urn:x", "upn:a@b.example" or "ip:192.0.2.1"."""
    kind, separator, value = text.partition(":")
    for known in SAN_KINDS:
        if separator and kind == known:
            return build_san(known, value)
    raise NameNotAllowed(f"alternative name: {text!r} must begin with one of {', '.join(f'{k}:' for k in SAN_KINDS)}")


def _check_dns(value: str) -> str:
    name = value.lower()
    if len(name) > _DNS_LIMIT or not all(_DNS_LABEL.fullmatch(label) for label in name.split(".")):
        raise NameNotAllowed(
            f"dns name: {value!r} is not a host name of letters, digits and hyphens"
            " (RFC 1123 2.1; write international names as xn--...)."
        )
    return name


def _check_email(value: str) -> str:
    local, _, domain = value.rpartition("@")
    if len(value) > _TEXT_LIMIT or not _EMAIL_LOCAL.fullmatch(local):
        raise NameNotAllowed(f"email: {value!r} is not an address of ASCII characters (RFC 5280 4.2.1.6).")
    return f"{local}@{_check_dns(domain)}"


def _check_uri(value: str) -> str:
    try:
        parts = urlsplit(value)
    except ValueError as exc:
        raise NameNotAllowed(f"uri: {value!r} is not readable.") from exc
    complete = _URI_SCHEME.fullmatch(parts.scheme) and (parts.netloc or parts.path)
    if not complete or len(value) > _URI_LIMIT or not _URI_CHARACTERS.fullmatch(value):
        raise NameNotAllowed(f"uri: {value!r} is not an absolute URI of ASCII characters (RFC 3986).")
    return value


def _check_upn(value: str) -> str:
    checked = clean_text(value, what="upn", limit=_TEXT_LIMIT)
    local, _, domain = checked.rpartition("@")
    if not local or not domain:
        raise NameNotAllowed(f"upn: {value!r} must have the form name@domain.")
    return checked


def _check_ip(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError as exc:
        raise NameNotAllowed(f"ip: {value!r} is not an IPv4 or IPv6 address.") from exc


def build_general_names(sans: Iterable[San]) -> list[x509.GeneralName]:
    names = [_build_general_name(item) for item in dict.fromkeys(sans)]
    if len(names) > _SANS_LIMIT:
        raise NameNotAllowed(f"{len(names)} alternative names; at most {_SANS_LIMIT} are allowed.")
    return names


def _build_general_name(item: San) -> x509.GeneralName:
    # Check again, because code can create a San without `build_san`.
    value = build_san(item.kind, item.value).value
    match item.kind:
        case "dns":
            return x509.DNSName(value)
        case "email":
            return x509.RFC822Name(value)
        case "uri":
            return x509.UniformResourceIdentifier(value)
        case "upn":
            return x509.OtherName(UPN_OID, der.encode(der.UTF8_STRING, value.encode()))
        case "ip":
            return x509.IPAddress(ipaddress.ip_address(value))


def read_sans(certificate: x509.Certificate | x509.CertificateSigningRequest) -> tuple[San, ...]:
    """Return the alternative names of supported kinds. Skips names of all other kinds."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(filter(None, map(_read_san, names)))


def _read_san(name: x509.GeneralName) -> San | None:
    match name:
        case x509.DNSName(value=value):
            return San("dns", value)
        case x509.RFC822Name(value=value):
            return San("email", value)
        case x509.UniformResourceIdentifier(value=value):
            return San("uri", value)
        case x509.IPAddress(value=ipaddress.IPv4Address() | ipaddress.IPv6Address() as value):
            return San("ip", str(value))
        case x509.OtherName(type_id=type_id, value=value) if type_id == UPN_OID:
            content = der.require_tag(der.read_element(value)[0], der.UTF8_STRING).content
            return San("upn", content.decode())
        case _:
            return None


def read_common_name(name: x509.Name) -> str:
    """Return the last common name in `name`, or ""."""
    values = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(values[-1].value) if values else ""


def read_organisation(name: x509.Name) -> str:
    """Return the organisation in `name`, or ""."""
    values = name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(values[0].value) if values else ""

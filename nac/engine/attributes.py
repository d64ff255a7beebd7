"""The attributes that conditions compare: name, kind, and whether a request can have several values.

Comparisons of `folded` attributes are case-insensitive: MAC and IP addresses, DNS names, mail addresses, UPNs, user
names and hexadecimal serials. All other comparisons are exact, unless the condition ignores case. Admit normalises MAC
and IP addresses in conditions, so a policy can use any notation.
"""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from nac.engine.vendors import vendor_name

# "open": text, a whole number or a boolean, depending on the condition.
AttributeKind = Literal["text", "boolean", "mac", "address", "number", "open", "time"]

NAS_VENDOR = "nas.vendor"
_SEPARATORS = str.maketrans("", "", ":-. ")
_HEX = re.compile(r"[0-9a-f]{1,12}\Z")
_OPEN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/-]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class PolicyAttribute:
    name: str
    kind: AttributeKind
    meaning: str
    # Whether a request can have several values. A comparison matches if any value matches.
    many: bool = False
    folded: bool = False
    # All possible values; () for free text.
    choices: tuple[str, ...] = ()
    # Name of the attribute from which the engine derives this attribute; "" if the request contains it.
    derived_from: str = ""


# Parts of subject and issuer names (X.520): OpenSSL's abbreviation -> (meaning, whether values ignore case).
NAME_PARTS = {
    "CN": ("common name", False),
    "O": ("organisation", False),
    "OU": ("organisational unit", False),
    "C": ("country", False),
    "ST": ("state or province", False),
    "L": ("locality", False),
    "DC": ("domain component", True),
    "UID": ("user id", False),
    "GN": ("given name", False),
    "SN": ("surname", False),
    "title": ("title", False),
    "emailAddress": ("mail address", True),
    "serialNumber": ("serial number of the device or person", False),
}


def _name_part_attributes(whose: str, what: str) -> Iterator[PolicyAttribute]:
    for part, (meaning, folded) in NAME_PARTS.items():
        yield PolicyAttribute(f"certificate.{whose}.{part}", "text", f"{what}: {meaning}", many=True, folded=folded)


_METHODS = (
    "mab",
    "eap-tls",
    "eap-ttls-pap",
    "eap-ttls-mschapv2",
    "peap-mschapv2",
    "pap",
    "chap",
    "mschapv2",
)


def _catalogue(*attributes: PolicyAttribute) -> dict[str, PolicyAttribute]:
    return {attribute.name: attribute for attribute in attributes}


ATTRIBUTE_CATALOGUE = _catalogue(
    PolicyAttribute("time", "time", "Day and time of day at the site", derived_from="at"),
    PolicyAttribute("method", "text", "How the device authenticates", choices=_METHODS),
    PolicyAttribute("mac", "mac", "MAC address of the device, 12 lower-case hex digits", folded=True),
    PolicyAttribute("mac.random", "boolean", "The MAC address is locally administered (IEEE 802c)"),
    PolicyAttribute(
        "identity",
        "text",
        "User-Name or EAP identity; for a certificate its common name or first alternative name",
    ),
    PolicyAttribute("identity.user", "text", "Part of the identity before the last @", derived_from="identity"),
    PolicyAttribute(
        "identity.realm", "text", "Part of the identity after the last @", folded=True, derived_from="identity"
    ),
    PolicyAttribute("ssid", "text", "Wireless network name"),
    PolicyAttribute("site.name", "text", "Site of the NAS"),
    PolicyAttribute("nas.name", "text", "Name of the registered NAS"),
    PolicyAttribute("nas.identifier", "text", "NAS-Identifier of the request"),
    PolicyAttribute("nas.address", "address", "Address of the NAS", folded=True),
    PolicyAttribute(NAS_VENDOR, "text", "Vendor of the registered NAS, by any of its names", folded=True),
    PolicyAttribute("nas.port_type", "text", "NAS-Port-Type by name, such as Ethernet or Wireless-802.11"),
    PolicyAttribute("endpoint.known", "boolean", "The MAC address is a registered endpoint"),
    PolicyAttribute("endpoint.name", "text", "Name of the endpoint"),
    PolicyAttribute("endpoint.group", "text", "Groups of the endpoint", many=True),
    PolicyAttribute("endpoint.vendor", "text", "Vendor by the device's MAC address (IEEE registry)"),
    PolicyAttribute("endpoint.profile", "text", "Kind of device, such as printer or camera"),
    PolicyAttribute("endpoint.profile.confidence", "number", "Confidence of the profile, 0 to 100"),
    PolicyAttribute("endpoint.os", "text", "Operating system, such as windows or ios"),
    PolicyAttribute("endpoint.first_seen_age", "number", "Days since the device was first seen"),
    PolicyAttribute("user.name", "text", "Name of the user who logged in with a password", folded=True),
    PolicyAttribute("user.source", "text", "Identity source of the user; missing for the tenant's own users"),
    PolicyAttribute("user.group", "text", "Groups of the user", many=True),
    PolicyAttribute("certificate.common_name", "text", "Common name of the client certificate"),
    PolicyAttribute("certificate.subject", "text", "Subject in OpenSSL's one-line form"),
    *_name_part_attributes("subject", "Subject"),
    PolicyAttribute("certificate.issuer", "text", "Issuer in OpenSSL's one-line form"),
    *_name_part_attributes("issuer", "Issuer"),
    PolicyAttribute("certificate.serial", "text", "Serial number in hex", folded=True),
    PolicyAttribute("certificate.profile", "text", "Certificate profile that Admit used, such as eap-client-device"),
    PolicyAttribute("certificate.san.dns", "text", "DNS names (RFC 4343: case-insensitive)", many=True, folded=True),
    PolicyAttribute("certificate.san.email", "text", "Mail addresses", many=True, folded=True),
    PolicyAttribute("certificate.san.upn", "text", "User principal names", many=True, folded=True),
    PolicyAttribute("certificate.san.uri", "text", "URIs", many=True),
    PolicyAttribute("certificate.san.ip", "address", "IP addresses", many=True, folded=True),
    PolicyAttribute("certificate.eku", "text", "Extended key usages, dotted OIDs", many=True),
    PolicyAttribute("certificate.policy", "text", "Certificate policies, dotted OIDs", many=True),
    PolicyAttribute("certificate.template.name", "text", "Name of a Microsoft template of version 1"),
    PolicyAttribute("certificate.template.oid", "text", "Dotted OID of a Microsoft template of version 2"),
    PolicyAttribute("certificate.age_days", "number", "Whole days since the certificate became valid"),
    PolicyAttribute("certificate.expires_in_days", "number", "Whole days until the certificate expires"),
    PolicyAttribute("tls.version", "text", "TLS version", choices=("1.0", "1.1", "1.2", "1.3")),
    PolicyAttribute("tls.resumed", "boolean", "The TLS session was resumed"),
    PolicyAttribute("session.count.endpoint", "number", "Number of open sessions of the device"),
    PolicyAttribute("session.count.user", "number", "Number of open sessions of the user"),
)

RADIUS_PREFIX = "radius."
_OPEN_PREFIXES = {
    "endpoint.attribute.": "Attribute of the endpoint, by its name",
    "posture.": "Posture value of the device, by its name",
    "mdm.": "Device management (MDM) value of the device, by its name",
    "user.attribute.": "Attribute of the user, mapped by the identity source",
    RADIUS_PREFIX: "RADIUS attribute of the request, as printed by radiusd",
}


def find_attribute(name: str) -> PolicyAttribute | None:
    """Find an attribute by name. Any name is valid after a prefix such as "endpoint.attribute." or "radius."."""
    known = ATTRIBUTE_CATALOGUE.get(name)
    if known is not None:
        return known
    for prefix in _OPEN_PREFIXES:
        if name.startswith(prefix) and _OPEN_NAME.match(name, len(prefix)):
            return _open_attribute(prefix, name.removeprefix(prefix))
    return None


def list_open_attributes() -> list[PolicyAttribute]:
    """List the prefixes after which any name is valid, each with a placeholder for the rest of the name."""
    return [_open_attribute(prefix, "<name>") for prefix in _OPEN_PREFIXES]


def _open_attribute(prefix: str, name: str) -> PolicyAttribute:
    many = prefix in (RADIUS_PREFIX, "user.attribute.")
    return PolicyAttribute(prefix + name, "open", _OPEN_PREFIXES[prefix], many=many)


def normalise_text(attribute: PolicyAttribute, text: str, *, whole: bool) -> str:
    """Normalise `text` of a condition for comparison with requests.

    `whole` means that the text is a complete value and not only a part of a value. Raises ValueError with a message for
    the author of the policy.
    """
    if attribute.kind == "mac":
        digits = text.translate(_SEPARATORS).lower()
        if not _HEX.match(digits) or (whole and len(digits) != 12):
            raise ValueError(f"{text!r} is not {'a MAC address' if whole else 'part of a MAC address'}")
        return digits
    if attribute.kind == "address" and whole:
        try:
            return str(ipaddress.ip_address(text))
        except ValueError:
            raise ValueError(f"{text!r} is not an IPv4 or IPv6 address") from None
    if attribute.name == NAS_VENDOR and whole:
        return vendor_name(text)
    if attribute.choices and text not in attribute.choices and whole:
        raise ValueError(f"unknown value {text!r}; use one of: {', '.join(attribute.choices)}")
    return text.casefold() if attribute.folded else text

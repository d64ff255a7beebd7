"""Encodes a dictionary as canonical JSON, so that equal dictionaries have the same SHA-256.

Also encodes attributes of packets that Admit sends (RFC 2865 5, RFC 2868 3).
"""

import ipaddress
import json
import struct
from types import MappingProxyType

from nac.engine.dictionary.model import Dictionary, DictionaryAttribute, VendorFormat

_FORMAT = 1


class DictionaryUnreadable(Exception):
    """A stored dictionary is damaged or has an unknown format."""


def to_json(dictionary: Dictionary) -> bytes:
    """Return a dictionary as JSON. The order of the dictionary files does not change the bytes."""
    attributes = dictionary.attributes.values()
    document = {
        "format": _FORMAT,
        "attributes": sorted(
            [a.name, a.vendor, a.number, a.type, int(a.tagged), a.encrypt, a.length, int(a.nested)] for a in attributes
        ),
        "vendors": sorted(
            [number, v.name, v.type_bytes, v.length_bytes, int(v.continuation)]
            for number, v in dictionary.vendors.items()
        ),
        "values": sorted([*key, dict(sorted(names.items()))] for key, names in dictionary.values.items() if names),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def from_json(text: bytes) -> Dictionary:
    """Parse a dictionary. Raises DictionaryUnreadable."""
    try:
        document = json.loads(text)
        if document["format"] != _FORMAT:
            raise DictionaryUnreadable(
                f"unsupported dictionary format {document['format']}; this version reads {_FORMAT}"
            )
        attributes = {
            name.lower(): DictionaryAttribute(name, vendor, number, kind, bool(tagged), encrypt, length, bool(nested))
            for name, vendor, number, kind, tagged, encrypt, length, nested in document["attributes"]
        }
        vendors = {
            number: VendorFormat(name, type_bytes, length_bytes, bool(continuation))
            for number, name, type_bytes, length_bytes, continuation in document["vendors"]
        }
        values = {(vendor, number): MappingProxyType(names) for vendor, number, names in document["values"]}
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DictionaryUnreadable(f"the dictionary is damaged: {exc}") from exc
    return Dictionary(MappingProxyType(attributes), MappingProxyType(vendors), MappingProxyType(values))


_VENDOR_SPECIFIC = 26
_NUMBER_FORMATS = {"byte": "!B", "short": "!H", "integer": "!I", "signed": "!i", "date": "!I", "integer64": "!Q"}
_LENGTH_FORMATS = {1: "!B", 2: "!H", 4: "!I"}
_MAX_OCTETS = 253


def encode_attribute(dictionary: Dictionary, name: str, value: str, tag: int | None = None) -> bytes:
    """Return the encoded attribute, including its headers.

    Raises ValueError for unknown attributes, for values that are too long or invalid, for encrypted attributes and for
    parts of TLVs. Admit never sends encrypted attributes and parts of TLVs in requests to a NAS.
    """
    dictionary.check(name, value, tag)
    found = dictionary.attributes[name.lower()]
    if found.encrypt or found.nested:
        raise ValueError(f"{found.name} cannot be sent in a request to a NAS")
    data = _encode_value(dictionary, found, value, tag)
    if not found.vendor:
        return bytes((found.number, len(data) + 2)) + data
    vendor = dictionary.vendors.get(found.vendor, VendorFormat(""))
    head = struct.pack(_LENGTH_FORMATS[vendor.type_bytes], found.number)
    if vendor.length_bytes:
        head += struct.pack(_LENGTH_FORMATS[vendor.length_bytes], len(data) + vendor.header_bytes())
    inner = head + (b"\0" if vendor.continuation else b"") + data
    if len(inner) + 4 > _MAX_OCTETS:
        raise ValueError(f"{found.name}: the value is too long")
    return bytes((_VENDOR_SPECIFIC, len(inner) + 6)) + struct.pack("!I", found.vendor) + inner


def _encode_value(dictionary: Dictionary, found: DictionaryAttribute, value: str, tag: int | None) -> bytes:
    if found.type == "string":
        return (bytes((tag,)) if found.tagged and tag else b"") + value.encode()
    if found.type == "octets":
        return bytes.fromhex(value[2:])
    if found.type in _NUMBER_FORMATS:
        named = dictionary.values.get((found.vendor, found.number), {}).get(value.lower())
        data = struct.pack(_NUMBER_FORMATS[found.type], int(value, 0) if named is None or value.isdigit() else named)
        # RFC 2868 3.1: the tag is the first of the four octets.
        return bytes((tag or 0,)) + data[1:] if found.tagged else data
    if found.type in ("ipaddr", "ipv6addr", "combo-ip"):
        return ipaddress.ip_address(value).packed
    raise ValueError(f"{found.name} has the type {found.type}, which cannot be sent in a request to a NAS")

"""Encodes a dictionary as canonical JSON, identified by its SHA-256."""

import json
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

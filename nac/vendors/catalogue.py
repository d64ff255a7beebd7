"""The vendors that are packaged, by name and alias; read once in a process."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from nac.vendors.vendor import Vendor
from nac.vendors.vendor_files import VendorFilesDamaged, read_vendor_files

# What the RFCs define: for a NAS of no known vendor, and for every key that a vendor's file does not mention.
DEFAULT_VENDOR = "default"
_SEPARATORS = re.compile(r"[\s_./-]+")


@cache
def all_vendors() -> Mapping[str, Vendor]:
    """By name. Raises VendorFilesDamaged with every mistake in the files."""
    folder = files("nac.vendors")
    texts = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.endswith(".toml")}
    return MappingProxyType(read_vendor_files(texts, default=DEFAULT_VENDOR))


def known_vendor(name: str) -> Vendor | None:
    """By name or alias, in upper or lower case, with blanks, dashes, underscores, dots alike; None where unknown."""
    return _vendors_by_alias().get(_normalise_name(name))


def vendor_name(text: str) -> str:
    """What stands in `nas.vendor` for it: a vendor's own name in place of an alias; other text in lower case."""
    found = known_vendor(text)
    return text.casefold() if found is None else found.name


def find_vendor(name: object) -> Vendor:
    """As `known_vendor`; what is no vendor's name takes what the RFCs define."""
    found = known_vendor(name) if isinstance(name, str) else None
    return all_vendors()[DEFAULT_VENDOR] if found is None else found


@cache
def _vendors_by_alias() -> Mapping[str, Vendor]:
    found: dict[str, Vendor] = {}
    twice = []
    for vendor in all_vendors().values():
        for name in (vendor.name, *vendor.aliases):
            if found.setdefault(_normalise_name(name), vendor) is not vendor:
                twice.append(f"{vendor.name}.toml: aliases: {name!r} is {found[_normalise_name(name)].name}'s")
    if twice:
        raise VendorFilesDamaged(twice)
    return MappingProxyType(found)


def _normalise_name(name: str) -> str:
    return _SEPARATORS.sub(" ", name.strip().casefold())

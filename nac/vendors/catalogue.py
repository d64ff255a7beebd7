"""The vendors that are packaged, by name and alias; read once in a process."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from nac.vendors.loading import VendorFilesDamaged, read_vendor_files
from nac.vendors.vendor import Vendor

# What the RFCs define: for a NAS of no known vendor, and for every key that a vendor's file does not mention.
DEFAULT = "default"
_APART = re.compile(r"[\s_./-]+")


@cache
def all_vendors() -> Mapping[str, Vendor]:
    """By name. Raises VendorFilesDamaged with every mistake in the files."""
    folder = files("nac.vendors")
    texts = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.endswith(".toml")}
    return MappingProxyType(read_vendor_files(texts, default=DEFAULT))


def known_vendor(name: str) -> Vendor | None:
    """By name or alias, in upper or lower case, with blanks, dashes, underscores, dots alike; None where unknown."""
    return _by_alias().get(_plain(name))


def vendor_name(text: str) -> str:
    """What stands in `nas.vendor` for it: a vendor's own name in place of an alias; other text in lower case."""
    found = known_vendor(text)
    return text.casefold() if found is None else found.name


def find_vendor(name: object) -> Vendor:
    """As `known_vendor`; what is no vendor's name takes what the RFCs define."""
    found = known_vendor(name) if isinstance(name, str) else None
    return all_vendors()[DEFAULT] if found is None else found


@cache
def _by_alias() -> Mapping[str, Vendor]:
    found: dict[str, Vendor] = {}
    twice = []
    for vendor in all_vendors().values():
        for name in (vendor.name, *vendor.aliases):
            if found.setdefault(_plain(name), vendor) is not vendor:
                twice.append(f"{vendor.name}.toml: aliases: {name!r} is {found[_plain(name)].name}'s")
    if twice:
        raise VendorFilesDamaged(twice)
    return MappingProxyType(found)


def _plain(name: str) -> str:
    return _APART.sub(" ", name.strip().casefold())

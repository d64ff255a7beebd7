"""The packaged vendors by name and alias, read once per process."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from nac.engine.vendors.vendor import Vendor
from nac.engine.vendors.vendor_files import VendorFilesDamaged, read_vendor_files

# Vendor with the attributes of the RFCs, for unknown vendors and for keys that a vendor's file lacks.
DEFAULT_VENDOR = "default"
_SEPARATORS = re.compile(r"[\s_./-]+")


@cache
def all_vendors() -> Mapping[str, Vendor]:
    """Return all vendors by name. Raises VendorFilesDamaged with every mistake."""
    folder = files("nac.engine.vendors")
    texts = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.endswith(".toml")}
    return MappingProxyType(read_vendor_files(texts, default=DEFAULT_VENDOR))


def known_vendor(name: str) -> Vendor | None:
    """Return a vendor by name or alias, or None. Case and kind of separator (blank, dash, dot, ...) do not matter."""
    return _vendors_by_alias().get(_normalise_name(name))


def vendor_name(text: str) -> str:
    """Return the value for `nas.vendor`: the vendor's name, or for an unknown vendor `text` in lower case."""
    found = known_vendor(text)
    return text.casefold() if found is None else found.name


def find_vendor(name: object) -> Vendor:
    """Return a vendor by name or alias; the default vendor if the name is unknown."""
    found = known_vendor(name) if isinstance(name, str) else None
    return all_vendors()[DEFAULT_VENDOR] if found is None else found


@cache
def _vendors_by_alias() -> Mapping[str, Vendor]:
    found: dict[str, Vendor] = {}
    twice = []
    for vendor in all_vendors().values():
        for name in (vendor.name, *vendor.aliases):
            if found.setdefault(_normalise_name(name), vendor) is not vendor:
                twice.append(
                    f"{vendor.name}.toml: aliases: {name!r} already belongs to {found[_normalise_name(name)].name}"
                )
    if twice:
        raise VendorFilesDamaged(twice)
    return MappingProxyType(found)


def _normalise_name(name: str) -> str:
    return _SEPARATORS.sub(" ", name.strip().casefold())

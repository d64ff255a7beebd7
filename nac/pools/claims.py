"""Claims file of a pool, which records the addresses that radiusd gave to devices.

The file survives restarts of radiusd and agent. The file has an entry for each address number of the pool. An entry has
three 64-bit integers in native byte order: the last used grant, the MAC address, and the time (epoch seconds). A grant
is the time (epoch microseconds) at which an address became ready in the cell. The replica has the current grant of each
ready address. The address is in use if its entry in the claims file has the same grant. Only radiusd's module writes
the file, in place. The agent only reads the file. radiusd and the agent do not wait for each other. The file has its
full size from the start, so writing cannot fail on a full disk.
"""

import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, Self

_WORDS = 3
ENTRY_BYTES = 8 * _WORDS
SUFFIX = ".claims"
_ENTRY = struct.Struct("=3Q")
_MAX_VALUE = 1 << 63


class Claim(NamedTuple):
    grant: int
    # MAC address, 12 hex digits.
    mac: str
    at: int


class ClaimsFile:
    """Claims of one pool, writable. Use the object in only one process and one thread."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises OSError if the file does not exist, ValueError if the file is empty."""
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._words = memoryview(self._map)[: _complete_bytes(len(self._map))].cast("Q")

    @classmethod
    def open(cls, path: Path) -> Self | None:
        try:
            return cls(path)
        except (OSError, ValueError):
            return None

    def __len__(self) -> int:
        return len(self._words) // _WORDS

    def __getitem__(self, number: int) -> Claim:
        grant, mac, at = self._words[_WORDS * number : _WORDS * number + _WORDS]
        return Claim(grant, f"{mac:012x}", at)

    def put(self, number: int, claim: Claim) -> None:
        at = _WORDS * number
        # Write the grant last. If the process is killed before that, the address counts as unused.
        self._words[at + 1] = int(claim.mac, 16)
        self._words[at + 2] = claim.at
        self._words[at] = claim.grant

    def items(self) -> Iterator[tuple[int, Claim]]:
        """Yield all claims."""
        return _iter_claims(self._map, 0)

    def last_numbers(self) -> dict[str, int]:
        """Return the number of the address that each MAC address used last."""
        taken = sorted(_iter_valid_entries(self._map, 0), key=itemgetter(3))
        return {f"{mac:012x}": number for number, _, mac, _ in taken}

    def close(self) -> None:
        self._words.release()
        self._map.close()


def parse_created_at(name: str) -> int:
    """Return the creation time of the file in epoch microseconds.

    The file has no claims of grants from before this time.
    """
    return int(name.removesuffix(SUFFIX).rpartition("_")[2])


def read_grants(path: Path, numbers: Iterable[int]) -> dict[int, int]:
    """Return the last used grant of each address number; 0 if no grant was used. Raises OSError."""
    content = path.read_bytes()
    entries = len(content) // ENTRY_BYTES
    return {number: _ENTRY.unpack_from(content, number * ENTRY_BYTES)[0] for number in numbers if number < entries}


def read_claims(path: Path, *, since: int = 0) -> list[tuple[int, Claim]]:
    """Return the last claim of each address number, if the claim is not older than `since` (epoch seconds).

    Raises OSError.
    """
    return list(_iter_claims(path.read_bytes(), since))


def _iter_claims(content: "bytes | mmap.mmap", since: int) -> Iterator[tuple[int, Claim]]:
    return ((number, Claim(grant, f"{mac:012x}", at)) for number, grant, mac, at in _iter_valid_entries(content, since))


def _iter_valid_entries(content: "bytes | mmap.mmap", since: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, grant, MAC address and time of valid entries."""
    with memoryview(content)[: _complete_bytes(len(content))].cast("Q") as words:
        # Skip corrupt entries, whose values PostgreSQL could not store.
        columns = (words[place::_WORDS].tolist() for place in range(_WORDS))
        for number, (grant, mac, at) in enumerate(zip(*columns, strict=True)):
            if at >= since and 0 < grant < _MAX_VALUE and mac < 1 << 48 and at < _MAX_VALUE // 1_000_000:
                yield number, grant, mac, at


def _complete_bytes(size: int) -> int:
    """Return the number of bytes of all complete entries in a file of this size."""
    return size - size % ENTRY_BYTES


def allocate_entries(path: Path, numbers: int) -> None:
    """Extend the file to `numbers` entries, and allocate disk blocks for it. Existing entries stay."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        os.posix_fallocate(descriptor, 0, numbers * ENTRY_BYTES)
    finally:
        os.close(descriptor)

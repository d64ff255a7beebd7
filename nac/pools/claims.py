"""Claims file of a pool: for each address, the device to which radiusd last assigned the address.

The file has an entry for each address number of the pool. An entry consists of three 64-bit integers in native byte
order: the last used grant, the MAC address, and the time of the assignment (epoch seconds). A grant is the number of
one reservation of the address for the cell, an epoch time in microseconds. The replica contains the current grant of
each ready address. If the entry in the claims file has the same grant, the address is in use.

Only radiusd's module writes the file, in place. The agent only reads it. Neither process waits for the other. The file
survives restarts of both processes. It has its full size from the start, so writing cannot fail on a full disk.
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
    """Writable claims file of one pool. Use the object in only one process and one thread."""

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
        # Write the grant last. If the process ends before it writes the grant, the address counts as unused.
        self._words[at + 1] = int(claim.mac, 16)
        self._words[at + 2] = claim.at
        self._words[at] = claim.grant

    def items(self) -> Iterator[tuple[int, Claim]]:
        """Yield address number and claim of each used address."""
        return _iter_claims(self._map, 0)

    def last_numbers(self) -> dict[str, int]:
        """Map each MAC address to the number of the address that radiusd last assigned to it."""
        taken = sorted(_iter_valid_entries(self._map, 0), key=itemgetter(3))
        return {f"{mac:012x}": number for number, _, mac, _ in taken}

    def close(self) -> None:
        self._words.release()
        self._map.close()


def parse_created_at(name: str) -> int:
    """Return the time in the name of a claims file (epoch microseconds).

    All claims in the file are for grants from after this time.
    """
    return int(name.removesuffix(SUFFIX).rpartition("_")[2])


def read_grants(path: Path, numbers: Iterable[int]) -> dict[int, int]:
    """Return the last used grant of each address number; 0 if no grant was used. Raises OSError."""
    content = path.read_bytes()
    entries = len(content) // ENTRY_BYTES
    return {number: _ENTRY.unpack_from(content, number * ENTRY_BYTES)[0] for number in numbers if number < entries}


def read_claims(path: Path, *, since: int = 0) -> list[tuple[int, Claim]]:
    """Return address number and last claim of each address, if the claim is not older than `since` (epoch seconds).

    Raises OSError.
    """
    return list(_iter_claims(path.read_bytes(), since))


def _iter_claims(content: "bytes | mmap.mmap", since: int) -> Iterator[tuple[int, Claim]]:
    return ((number, Claim(grant, f"{mac:012x}", at)) for number, grant, mac, at in _iter_valid_entries(content, since))


def _iter_valid_entries(content: "bytes | mmap.mmap", since: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield address number, grant, MAC address and time of each valid entry."""
    with memoryview(content)[: _complete_bytes(len(content))].cast("Q") as words:
        # Skip corrupt entries, whose values PostgreSQL could not store.
        columns = (words[place::_WORDS].tolist() for place in range(_WORDS))
        for number, (grant, mac, at) in enumerate(zip(*columns, strict=True)):
            if at >= since and 0 < grant < _MAX_VALUE and mac < 1 << 48 and at < _MAX_VALUE // 1_000_000:
                yield number, grant, mac, at


def _complete_bytes(size: int) -> int:
    """Return how many of `size` bytes are in complete entries."""
    return size - size % ENTRY_BYTES


def allocate_entries(path: Path, numbers: int) -> None:
    """Extend the file to `numbers` entries, and allocate disk blocks for the file. Existing entries do not change."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        os.posix_fallocate(descriptor, 0, numbers * ENTRY_BYTES)
    finally:
        os.close(descriptor)

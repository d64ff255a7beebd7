"""Claim files of a cell (nac.pools.claims), one for each pool. This module also detects lost claim files."""

from collections.abc import Callable, Iterable
from pathlib import Path

from nac.kit.clock import epoch_microseconds
from nac.pools.claims import SUFFIX, Claim, allocate_entries, parse_created_at, read_claims, read_grants
from radius.agent.small_files import write_small_file

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT = "boot"


class ClaimsDirectory:
    """Claim files, named after the pool and the time of creation.

    A crash of the machine may lose claims that were not yet on disk. So the agent deletes files from before the last
    boot.
    """

    def __init__(
        self, directory: Path, *, boot_id: Path = _BOOT_ID, clock: Callable[[], int] = epoch_microseconds
    ) -> None:
        self._directory = directory
        self._boot_id = boot_id
        self._clock = clock
        # Name of the claim file, by pool.
        self._names: dict[str, str] = {}

    def begin(self) -> None:
        """Load the directory, and delete files from before the last boot.

        Call this method before radiusd starts or is taken over. Raises OSError.
        """
        boot = self._boot_id.read_bytes()
        known = self._directory / _BOOT
        if not known.exists() or known.read_bytes() != boot:
            for path in self._directory.glob(f"*{SUFFIX}"):
                path.unlink()
            write_small_file(known, boot)
        for path in sorted(self._directory.glob(f"*{SUFFIX}"), key=lambda path: path.name):
            self._names[path.name.partition("_")[0]] = path.name

    def name(self, pool_id: str) -> str:
        """Name of the pool's claim file; "" if the pool has no claim file."""
        return self._names.get(pool_id, "")

    def is_lost(self, pool_id: str) -> bool:
        """Whether the pool has no usable claim file. If the claim file is lost, none of the pool's ready addresses
        may be assigned."""
        name = self.name(pool_id)
        return not name or not (self._directory / name).exists()

    def make(self, pool_id: str, numbers: int) -> None:
        """Create a claim file for `numbers` addresses. Raises OSError.

        The caller must have withdrawn the pool's ready addresses.
        """
        name = f"{pool_id}_{self._clock()}{SUFFIX}"
        allocate_entries(self._directory / name, numbers)
        self._names[pool_id] = name

    def make_room(self, pool_id: str, numbers: int) -> None:
        """Extend the file to `numbers` addresses. Raises OSError."""
        allocate_entries(self._directory / self._names[pool_id], numbers)

    def made_at(self, pool_id: str) -> int:
        """Creation time of the pool's claim file in epoch microseconds; 0 if the pool has no file.

        The file contains no claims from before this time.
        """
        name = self.name(pool_id)
        return parse_created_at(name) if name else 0

    def grants(self, pool_id: str, numbers: Iterable[int]) -> dict[int, int]:
        """Return the grant of the last claim of each address. A grant is the time when the address was made ready.

        `numbers` are the numbers of the addresses in the pool. Raises OSError.
        """
        return read_grants(self._directory / self._names[pool_id], numbers)

    def read(self, pool_id: str, *, since: int) -> list[tuple[int, Claim]]:
        """Claims of the pool since a time in epoch seconds, each with the number of its address. Raises OSError."""
        return read_claims(self._directory / self._names[pool_id], since=since)

    def remove_other_files(self, pool_ids: set[str]) -> None:
        """Remove the claim files of all pools except `pool_ids`, which are the pools of this cell."""
        for pool_id in self._names.keys() - pool_ids:
            (self._directory / self._names.pop(pool_id)).unlink(missing_ok=True)

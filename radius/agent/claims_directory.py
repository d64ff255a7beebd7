"""The files of claims of a cell (nac.pools.claims): which one each pool has, and whether they can be believed."""

from collections.abc import Callable, Iterable
from pathlib import Path

from nac.clock import epoch_microseconds
from nac.pools.claims import SUFFIX, Claim, allocate_entries, parse_created_at, read_claims, read_grants
from radius.agent.files import write_small

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT = "boot"


class ClaimsDirectory:
    """A file is named after the pool and the moment of its making: what the replica says of one is of that one alone.

    What a machine had not yet written when it went down is lost, so none of them outlives a boot.
    """

    def __init__(
        self, directory: Path, *, boot_id: Path = _BOOT_ID, clock: Callable[[], int] = epoch_microseconds
    ) -> None:
        self._directory = directory
        self._boot_id = boot_id
        self._clock = clock
        # By pool.
        self._names: dict[str, str] = {}

    def begin(self) -> None:
        """Before radiusd is started, or taken over. Raises OSError."""
        boot = self._boot_id.read_bytes()
        known = self._directory / _BOOT
        if not known.exists() or known.read_bytes() != boot:
            for path in self._directory.glob(f"*{SUFFIX}"):
                path.unlink()
            write_small(known, boot)
        for path in sorted(self._directory.glob(f"*{SUFFIX}"), key=lambda path: path.name):
            self._names[path.name.partition("_")[0]] = path.name

    def name(self, pool_id: str) -> str:
        """ "" where there is none."""
        return self._names.get(pool_id, "")

    def is_lost(self, pool_id: str) -> bool:
        """Whether nothing is known of what was taken, so that nothing that is ready may be given any more."""
        name = self.name(pool_id)
        return not name or not (self._directory / name).exists()

    def make(self, pool_id: str, numbers: int) -> None:
        """A new file; what was ready until now must have been withdrawn. Raises OSError."""
        name = f"{pool_id}_{self._clock()}{SUFFIX}"
        allocate_entries(self._directory / name, numbers)
        self._names[pool_id] = name

    def make_room(self, pool_id: str, numbers: int) -> None:
        """Raises OSError."""
        allocate_entries(self._directory / self._names[pool_id], numbers)

    def made_at(self, pool_id: str) -> int:
        """When the pool's file was made, epoch microseconds: of what was ready before it tells nothing. 0 for none."""
        name = self.name(pool_id)
        return parse_created_at(name) if name else 0

    def grants(self, pool_id: str, numbers: Iterable[int]) -> dict[int, int]:
        """Of these numbers of a pool, the grant under which each was taken last. Raises OSError."""
        return read_grants(self._directory / self._names[pool_id], numbers)

    def read(self, pool_id: str, *, since: int) -> list[tuple[int, Claim]]:
        """The numbers of a pool that were taken since then (epoch seconds). Raises OSError."""
        return read_claims(self._directory / self._names[pool_id], since=since)

    def forget_others(self, pool_ids: set[str]) -> None:
        """Remove the files of pools that are no more here."""
        for pool_id in self._names.keys() - pool_ids:
            (self._directory / self._names.pop(pool_id)).unlink(missing_ok=True)

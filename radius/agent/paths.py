"""Files and directories of a cell."""

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from nac.kit.ids import CellId
from radius.agent.small_files import write_small_file


@dataclass(frozen=True)
class CellPaths:
    root: Path

    @property
    def replica(self) -> Path:
        return self.root / "replica"

    @property
    def journal(self) -> Path:
        return self.root / "journal"

    @property
    def claims(self) -> Path:
        """Claims of pool addresses, which radiusd's module writes: one file for each pool (nac.pools.claims)."""
        return self.root / "claims"

    @property
    def trusted_stations(self) -> Path:
        """File with the devices from which users logged in. The next radiusd reads the file (radius.module.limiter)."""
        return self.state / "trusted-stations"

    @property
    def tls(self) -> Path:
        """For each slot (port pair): trusted authorities, and server certificates with their keys."""
        return self.root / "tls"

    @property
    def placeholder(self) -> Path:
        return self.tls / "placeholder.pem"

    @property
    def generations(self) -> Path:
        """Rendered configurations of radiusd, each in its own directory."""
        return self.root / "raddb"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def shadow(self) -> Path:
        """Directory of the radiusd that tests a new configuration. The journal in this directory is never shipped."""
        return self.root / "shadow"

    @property
    def key(self) -> Path:
        """The cell's own key, which encrypts secrets in the replica."""
        return self.root / "cell.key"

    @property
    def identity(self) -> Path:
        return self.root / "cell.json"

    @property
    def running(self) -> Path:
        return self.root / "radiusd.json"

    @property
    def twins(self) -> Path:
        """Process ids of the old and the new radiusd during a restart.

        The agent must stop all processes in this file, except the process in `running`.
        """
        return self.root / "radiusd-twins.json"

    @property
    def twin(self) -> Path:
        """Copy of the current configuration, with the ports on which a new radiusd starts before it takes over."""
        return self.root / "twin"

    @property
    def radiusd_log(self) -> Path:
        return self.root / "radiusd.log"

    @property
    def verifier_pid(self) -> Path:
        return self.root / "verifier.pid"

    @property
    def status(self) -> Path:
        return self.root / "status.json"

    @property
    def lock(self) -> Path:
        return self.root / "agent.lock"

    @property
    def sessions(self) -> Path:
        """Directory of TLS sessions for resumption.

        The directory is in /dev/shm if /dev/shm is writable, because TLS sessions contain keys and change often.

        If a directory with this name belongs to another user, `prepare` rejects the directory.
        """
        shared = Path("/dev/shm")  # noqa: S108
        if not os.access(shared, os.W_OK):
            return self.root / "sessions"
        return shared / f"admit-{hashlib.sha256(str(self.root).encode()).hexdigest()[:16]}"

    def server_certificate(self, slot: int, serial: str) -> Path:
        return self.slot(slot) / f"server-{serial}.pem"

    def authorities(self, slot: int) -> Path:
        return self.slot(slot) / "ca"

    def slot(self, slot: int) -> Path:
        return self.tls / f"slot-{slot}"

    def prepare(self) -> None:
        for directory in (
            *(self.root, self.replica, self.journal, self.claims, self.tls, self.generations, self.state),
            self.sessions,
        ):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Any user of the machine can create a directory or a link in /dev/shm.
        status = self.sessions.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise PermissionError(f"{self.sessions} belongs to another user or is a link. Remove this folder or link.")


def read_identity(paths: CellPaths) -> CellId | None:
    try:
        return CellId(int(json.loads(paths.identity.read_text())["cell_id"]))
    except (OSError, ValueError, KeyError):
        return None


def write_identity(paths: CellPaths, cell_id: CellId) -> None:
    if read_identity(paths) != cell_id:
        write_small_file(paths.identity, json.dumps({"cell_id": cell_id}).encode())

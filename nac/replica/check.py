"""Reads every record of a replica: `python -m nac.replica.check <directory>`, exit status 1 where one does not read.

In a process of its own, because a damaged page may kill whoever touches it.
"""

import logging
import resource
import subprocess
import sys
from pathlib import Path

import lmdb
import msgspec

from nac.replica import files, records
from nac.replica.files import ReplicaDamaged, ReplicaError

_RECORD_TYPES: dict[str, type[records.Record]] = {
    "slots": records.SlotRecord,
    "sites": records.SiteRecord,
    "policies": records.PolicyRecord,
    "nases": records.NasRecord,
    "endpoints": records.EndpointRecord,
    "users": records.UserRecord,
    "certificates": records.CertificateRecord,
    "sources": records.IdentitySourceRecord,
    "authorities": records.AuthorityRecord,
    "issuers": records.IssuerRecord,
    "statuses": records.ExternalStatusRecord,
    "session_counts": records.SessionCountRecord,
    "pools": records.PoolRecord,
    "pool_stocks": records.PoolStockRecord,
    "pool_leases": records.PoolLeaseRecord,
}
# CPU time within which a sound replica is read: ten times what it takes. Damage can make LMDB go round in circles.
_MIN_CPU_SECONDS, _BYTES_PER_CPU_SECOND = 10, 10 << 20
# A machine or a disk that lets nobody work proves nothing about the replica.
_TIMEOUT_SECONDS = 120

_log = logging.getLogger(__name__)


def check_replica(directory: Path) -> None:
    """Raises ReplicaDamaged where the replica in use, if there is one, cannot be read from end to end."""
    if not files.current_generation(directory):
        return
    try:
        done = subprocess.run(
            [sys.executable, "-m", "nac.replica.check", str(directory)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        _log.warning("%s was not read within %d s: it is taken for sound", directory, _TIMEOUT_SECONDS)
        return
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise ReplicaDamaged(said[-1] if said else f"reading {directory} ends with status {done.returncode}")


def _read_all(directory: Path) -> None:
    path = directory / files.current_generation(directory)
    _limit_cpu(path / "data.mdb")
    environment = files.open_environment(path, readonly=True)
    databases = files.open_databases(environment, path)
    with environment.begin(buffers=True) as transaction:
        for name, kind in _RECORD_TYPES.items():
            decode = msgspec.msgpack.Decoder(kind).decode
            found, counted = 0, transaction.stat(databases[name])["entries"]
            for _, value in transaction.cursor(db=databases[name]):
                decode(value)
                found += 1
                if found > counted:
                    break
            if found != counted:
                raise ReplicaDamaged(f"{name} holds {found} records of {counted}")


def _limit_cpu(data: Path) -> None:
    """Beyond it the kernel ends this process, which `check_replica` takes for damage."""
    seconds = _MIN_CPU_SECONDS + data.stat().st_size // _BYTES_PER_CPU_SECOND
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def main() -> int:
    try:
        _read_all(Path(sys.argv[1]))
    except (ReplicaError, lmdb.Error, msgspec.DecodeError, OSError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

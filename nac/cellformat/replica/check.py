"""Reads every record of a replica: `python -m nac.cellformat.replica.check <directory>`.

The exit status is 1 if the replica is damaged. Run the check in a new process, because a damaged page can kill the
process that reads the page.
"""

import logging
import resource
import subprocess
import sys
from pathlib import Path

import lmdb
import msgspec

from nac.cellformat.replica import files, records
from nac.cellformat.replica.files import ReplicaDamaged, ReplicaError

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
# CPU limit: ten times what an intact replica needs. Damage can cause an endless loop in LMDB.
_MIN_CPU_SECONDS, _BYTES_PER_CPU_SECOND = 10, 10 << 20
# After this time, the check ends without a result, because a slow machine or disk does not mean damage.
_TIMEOUT_SECONDS = 120

_log = logging.getLogger(__name__)


def check_replica(directory: Path) -> None:
    """Raise ReplicaDamaged if the current replica cannot be read completely.

    The check does nothing if no replica exists, and raises no error after a timeout.
    """
    if not files.current_generation(directory):
        return
    try:
        done = subprocess.run(
            [sys.executable, "-m", "nac.cellformat.replica.check", str(directory)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        _log.warning("%s was not read within %d s and is assumed to be intact", directory, _TIMEOUT_SECONDS)
        return
    if done.returncode != 0:
        errors = done.stderr.strip().splitlines()
        raise ReplicaDamaged(errors[-1] if errors else f"reading {directory} ended with status {done.returncode}")


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
                raise ReplicaDamaged(f"{name} has {found} of {counted} records")


def _limit_cpu(data: Path) -> None:
    """Limit CPU time. If the process exceeds the limit, the kernel ends the process, and `check_replica` reports
    damage."""
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

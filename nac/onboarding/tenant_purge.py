"""Purges tenants whose deletion is due: writes a last tenant file, then deletes the rows in batches.

Requires the database role admit_worker.
"""

import fcntl
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, NamedTuple
from uuid import UUID

from sqlalchemy import CursorResult, Engine, Table, delete, select
from sqlalchemy.orm import Session

from nac.certificates.repository import list_authorities
from nac.certificates.status_changes import record_status_change
from nac.kit.clock import epoch_seconds, utc_now
from nac.kit.db import PlatformScope, TenantScope, enter_tenant, session_scope
from nac.kit.db.base import Base
from nac.kit.db.declarations import Purge, describe_table
from nac.kit.errors import Conflict, DatabaseUnavailable
from nac.kit.ids import TenantId
from nac.kit.secrets import Sealer
from nac.logs.retention import holds
from nac.models import Tenant
from nac.onboarding.tenant_files.writer import write_tenant
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import repository
from nac.tenancy.tenants import service as tenants

_log = logging.getLogger(__name__)
ACTOR = "worker:tenants.purge"
BATCH_ROWS = 5_000
_TENANTS_PER_TURN = 10
# Maximum number of due tenants to check. A tenant with a legal hold stays due, possibly for years.
_MAX_SCANNED = 1_000
# Large tables. Each comes before the tables that it references. When the tenant's row is deleted, PostgreSQL deletes
# the tenant's rows in all other tables.
_LARGE_TABLES = [
    table for table in reversed(Base.metadata.sorted_tables) if describe_table(table).purge is Purge.BATCHES
]


def purge_due(*, folder: Path, sealer: Sealer, now: datetime, engine: Engine | None = None) -> list[str]:
    """Purge due tenants, at most _TENANTS_PER_TURN. Returns the slugs of the purged tenants.

    If the last file of a tenant cannot be written, the tenant stays, and a later call tries again.
    """
    with session_scope(PlatformScope(), engine=engine) as session:
        due = [
            _DueTenant(row.id, row.slug, row.purge_at or now)
            for row in repository.list_due(session, now=now, limit=_MAX_SCANNED)
        ]
    gone: list[str] = []
    for each in due:
        slug = each.slug
        # Skipped tenants do not count towards the limit.
        if len(gone) == _TENANTS_PER_TURN:
            break
        try:
            with session_scope(TenantScope(each.tenant_id), engine=engine) as session:
                if repository.has_hold(session, each.tenant_id):
                    continue
                _require_due(session, each.tenant_id)
            path = write_last_file(each, folder=folder, sealer=sealer, engine=engine)
            _delete_large_tables(each.tenant_id, engine)
            # Set the modification time of the files, because their retention begins now.
            for kept in (path, path.with_suffix(".key")):
                os.utime(kept)
            with session_scope(PlatformScope(), engine=engine) as session:
                purge_tenant(session, actor=ACTOR, tenant_id=each.tenant_id)
            gone.append(slug)
        except DatabaseUnavailable:
            raise
        except _AnotherWriterActive:
            _log.info("tenant %s waits: another worker is writing a file", slug)
        except Exception:  # house-rule: a fault of one tenant must not stop the others
            _log.exception("cannot purge tenant %s", slug)
    return gone


def purge_tenant(session: Session, *, actor: str, tenant_id: TenantId) -> None:
    """Delete a tenant: retire its port pair in the cell, and delete all its rows except the audit log.

    `nac.onboarding.log_purge` deletes all other logs later.
    """
    # Lock the holds before the tenant's row, in the same order as changes of holds do, to avoid deadlocks.
    holds.lock_holds(session)
    tenant = tenants.require_locked(session, tenant_id)
    if tenant.status != "deleting":
        raise Conflict(f"Tenant {tenant.slug!r} is {tenant.status}.", place="status", remedy="Delete the tenant first.")
    enter_tenant(session, tenant_id)
    holds.delete_cleared_holds(session, tenant_id=tenant_id)
    tenants.audit_change(session, actor, tenant, "purge")
    cells.release_slot(session, tenant_id=tenant_id)
    # Notify OCSP responders, which must drop the tenant's authorities from their caches.
    record_status_change(session, *(row for row in list_authorities(session, tenant_id) if row.kind != "external"))
    session.expunge(tenant)
    repository.delete_tenant_rows(session, tenant_id)


class _AnotherWriterActive(Conflict):
    """Another worker is writing a tenant's file."""


class _DueTenant(NamedTuple):
    tenant_id: TenantId
    slug: str
    purge_at: datetime


def write_last_file(due: _DueTenant, *, folder: Path, sealer: Sealer, engine: Engine | None = None) -> Path:
    """Write a tenant file with all secrets, before the first row is deleted. Returns the path of the file.

    The passphrase is random. A `.key` file next to the tenant file contains the passphrase, sealed with the master key.
    A deletion writes only one tenant file, even if a hold interrupts the deletion. If the tenant is restored, the next
    deletion writes another file.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{due.slug}-{due.purge_at.astimezone(UTC):%Y%m%dT%H%M%S}-{due.tenant_id}.zip"
    with _lock_folder(folder) as place:
        if path.exists():
            return path
        passphrase = secrets.token_urlsafe(32)
        with _create_file(path.with_suffix(".key")) as file:
            file.write(sealer.seal(passphrase.encode(), passphrase_context(path.name)))
        temporary = path.with_suffix(".part")
        with (
            _create_file(temporary) as file,
            session_scope(TenantScope(due.tenant_id), engine=engine, is_snapshot=True) as session,
        ):
            write_tenant(session, file, actor=ACTOR, tenant_id=due.tenant_id, sealer=sealer, passphrase=passphrase)
        temporary.replace(path)
        os.fsync(place)
    return path


@contextmanager
def _lock_folder(folder: Path) -> Iterator[int]:
    """Lock the folder, because two processes would overwrite each other's file or key.

    The process releases the lock at the latest when it ends. Raises _AnotherWriterActive.
    """
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock_descriptor(place)
        yield place
    finally:
        os.close(place)


def _lock_descriptor(place: int) -> None:
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        raise _AnotherWriterActive from exc


@contextmanager
def _create_file(path: Path) -> Iterator[IO[bytes]]:
    """Create a file, or replace an incomplete file. When the context ends, the content of the file is on disk."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def passphrase_context(name: str) -> str:
    return f"tenant-file:{name}"


def open_stored_passphrase(path: Path, sealer: Sealer) -> str:
    """Return the passphrase of a purged tenant's last file; "" for all other files."""
    key = path.with_suffix(".key")
    if not key.exists():
        return ""
    return sealer.open(key.read_bytes(), passphrase_context(path.name)).decode()


def delete_last_files(folder: Path, *, kept: timedelta, engine: Engine | None = None) -> None:
    """Delete the last files of tenants that were purged more than `kept` ago. Keeps the files of existing tenants."""
    old = _list_old_files(folder, kept)
    with session_scope(PlatformScope(), engine=engine) as session:
        there = repository.filter_existing(session, {tenant for path in old if (tenant := _parse_tenant_id(path))})
    for path in old:
        if _parse_tenant_id(path) not in there:
            path.unlink(missing_ok=True)


def delete_old_files(folder: Path, *, kept: timedelta) -> None:
    """Delete the tenant files in the folder that are older than `kept`."""
    for path in _list_old_files(folder, kept):
        path.unlink(missing_ok=True)


def _list_old_files(folder: Path, kept: timedelta) -> list[Path]:
    if not folder.exists():
        return []
    oldest = epoch_seconds() - int(kept.total_seconds())
    files = (path for path in folder.iterdir() if path.suffix in (".zip", ".key", ".part"))
    return [path for path in files if path.stat().st_mtime < oldest]


def _parse_tenant_id(path: Path) -> TenantId | None:
    """Return the tenant's id from the name of a last file; None if the name has no id."""
    try:
        return TenantId(UUID(path.stem[-36:]))
    except ValueError:
        return None


def _delete_large_tables(tenant_id: TenantId, engine: Engine | None) -> None:
    for table in _LARGE_TABLES:
        while True:
            with session_scope(TenantScope(tenant_id), engine=engine) as session:
                if _delete_batch(session, tenant_id, table) < BATCH_ROWS:
                    break
    _log.info("deleted the large tables of tenant %s", tenant_id)


def _delete_batch(session: Session, tenant_id: TenantId, table: Table) -> int:
    _require_due(session, tenant_id)
    keys = table.primary_key.columns
    chosen = select(*keys).where(table.c.tenant_id == tenant_id).limit(BATCH_ROWS).cte("chosen")
    matches = [column == chosen.c[column.name] for column in keys]
    result = session.execute(delete(table).where(table.c.tenant_id == tenant_id, *matches))
    assert isinstance(result, CursorResult)
    return result.rowcount


def _require_due(session: Session, tenant_id: TenantId) -> None:
    """Check that the tenant's deletion is still due, and prevent a restore or hold until the transaction ends.

    Raises HoldInForce or Conflict.
    """
    holds.require_no_hold(session, tenant_id=tenant_id)
    purge_at = session.scalar(select(Tenant.purge_at).where(Tenant.id == tenant_id).with_for_update())
    if purge_at is None or purge_at > utc_now():
        raise Conflict("The tenant was restored.")

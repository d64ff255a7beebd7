"""Carrying deletions out whose days are over: a file first, then the tenant, in pieces. As admit_worker."""

import logging
import os
import secrets
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import CursorResult, Engine, delete, select
from sqlalchemy.orm import Session

from nac.clock import epoch_seconds, utc_now
from nac.db import PlatformScope, TenantScope, session_scope
from nac.db.base import Base
from nac.errors import AdmitError
from nac.ids import TenantId
from nac.models import Tenant
from nac.secrets import Sealer
from nac.tenant_files.writing import write_tenant
from nac.tenants import repository
from nac.tenants import service as tenants

_log = logging.getLogger(__name__)
ACTOR = "worker:tenants.purge"
BATCH_ROWS = 5_000
_AT_ONCE = 10
# What there may be very much of; all else goes with the tenant's own row. Each before what it refers to.
_MANY = ("endpoint_group_members", "user_group_members", "certificates", "endpoints", "users", "pool_addresses")


def purge_due(*, folder: Path, sealer: Sealer, now: datetime, engine: Engine | None = None) -> list[str]:
    """Returns whom. One whose file cannot be written stays as it is, and is tried again."""
    with session_scope(PlatformScope(), engine=engine) as session:
        due = [(row.id, row.slug) for row in repository.list_due(session, now=now, limit=_AT_ONCE)]
    gone = []
    for tenant_id, slug in due:
        try:
            write_last_file(tenant_id, slug, folder=folder, sealer=sealer, engine=engine)
            _delete_many(tenant_id, engine)
            with session_scope(PlatformScope(), engine=engine) as session:
                tenants.purge_tenant(session, actor=ACTOR, tenant_id=tenant_id)
            gone.append(slug)
        except (AdmitError, OSError):
            _log.exception("tenant %s is not purged", slug)
    return gone


def write_last_file(
    tenant_id: TenantId, slug: str, *, folder: Path, sealer: Sealer, engine: Engine | None = None
) -> Path:
    """With its secrets, for a passphrase that only this installation's master key opens: beside it, with `.key`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{slug}-{tenant_id}.zip"
    if path.exists():
        return path
    passphrase = secrets.token_urlsafe(32)
    key = path.with_suffix(".key")
    key.unlink(missing_ok=True)
    with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(sealer.seal(passphrase.encode(), passphrase_context(path.name)))
    temporary = path.with_suffix(".part")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        with session_scope(TenantScope(tenant_id), engine=engine, is_snapshot=True) as session:
            write_tenant(session, file, actor=ACTOR, tenant_id=tenant_id, sealer=sealer, passphrase=passphrase)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return path


def passphrase_context(name: str) -> str:
    return f"tenant-file:{name}"


def stored_passphrase(path: Path, sealer: Sealer) -> str:
    """Of a file that was written before its tenant was purged; "" for any other."""
    key = path.with_suffix(".key")
    if not key.exists():
        return ""
    return sealer.open(key.read_bytes(), passphrase_context(path.name)).decode()


def forget_files(folder: Path, *, kept: timedelta) -> None:
    """Those of tenants that were purged so long ago."""
    if not folder.exists():
        return
    oldest = epoch_seconds() - int(kept.total_seconds())
    for path in folder.iterdir():
        if path.suffix in (".zip", ".key", ".part") and path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)


def _delete_many(tenant_id: TenantId, engine: Engine | None) -> None:
    for name in _MANY:
        while True:
            with session_scope(TenantScope(tenant_id), engine=engine) as session:
                if _delete_batch(session, tenant_id, name) < BATCH_ROWS:
                    break
    _log.info("what there was much of tenant %s is gone", tenant_id)


def _delete_batch(session: Session, tenant_id: TenantId, name: str) -> int:
    # Locked: who restores it waits, and is refused then.
    status = session.scalar(select(Tenant.purge_at).where(Tenant.id == tenant_id).with_for_update())
    if status is None or status > utc_now():
        raise AdmitError("The tenant was restored.")
    table = Base.metadata.tables[name]
    keys = table.primary_key.columns
    chosen = select(*keys).where(table.c.tenant_id == tenant_id).limit(BATCH_ROWS).cte("chosen")
    matches = [column == chosen.c[column.name] for column in keys]
    result = session.execute(delete(table).where(table.c.tenant_id == tenant_id, *matches))
    assert isinstance(result, CursorResult)
    return result.rowcount

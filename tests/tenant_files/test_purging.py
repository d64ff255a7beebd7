"""Deletion of tenants after their deadline. Admit writes a file first, then deletes everything except the audit log."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import pytest
from sqlalchemy import Engine, Table, select, text
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, make_engine, session_scope
from nac.kit.errors import Conflict
from nac.kit.ids import TenantId
from nac.logs.retention import holds, repository
from nac.models import AuditEntry, Tenant
from nac.onboarding import tenant_purge
from nac.tenancy.tenants import service as tenants
from tests.commit_kills import deaths
from tests.factories.certificates import SEALER, Certified
from tests.factories.tenancy import ACTOR, Platform
from tests.polling import until
from tests.tenant_files.conftest import contents_of, imported


def delete(app_engine: Engine, tenant_id: TenantId, *, days: float) -> None:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenants.delete_tenant(session, actor=ACTOR, tenant_id=tenant_id, purge_at=utc_now() + timedelta(days=days))


@pytest.fixture
def purge(worker_engine: Engine, tmp_path: Path) -> Callable[..., list[str]]:
    """Function that purges the tenants that are due after these days, and returns their slugs."""

    def run(days: float = 0, *, folder: Path = tmp_path, engine: Engine = worker_engine) -> list[str]:
        now = utc_now() + timedelta(days=days)
        return tenant_purge.purge_due(folder=folder, sealer=SEALER, now=now, engine=engine)

    return run


def resume(app_engine: Engine, tenant_id: TenantId) -> Tenant:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        return tenants.resume_tenant(session, actor=ACTOR, tenant_id=tenant_id)


def restored(app_engine: Engine, platform: Platform, folder: Path) -> TenantId:
    """Import the only file in the folder."""
    (path,) = folder.glob("*.zip")
    with path.open("rb") as file:
        passphrase = tenant_purge.open_stored_passphrase(path, SEALER)
        return imported(app_engine, platform, file, passphrase=passphrase).tenant.id


def count_rows(engine: Engine, tenant_id: TenantId) -> dict[str, int]:
    return {name: len(rows) for name, rows in contents_of(engine, tenant_id).items()}


def test_expired_tenant_is_purged_after_a_restorable_export(
    app_engine, worker_engine, owner_engine, platform, full, bravo, tmp_path, monkeypatch, purge
) -> None:
    monkeypatch.setattr(tenant_purge, "BATCH_ROWS", 1)
    delete(app_engine, bravo.tenant_id, days=5)
    delete(app_engine, full, days=0)
    before = count_rows(owner_engine, full)
    with pytest.raises(Conflict, match="is being deleted"):
        resume(app_engine, full)
    assert purge() == ["alpha"]
    assert not any(contents_of(owner_engine, full).values())
    with Session(owner_engine) as session:
        assert session.scalars(select(Tenant.slug)).all() == ["bravo"]
        audited = select(AuditEntry.action).where(AuditEntry.tenant_id == full).order_by(AuditEntry.id)
        told = session.scalars(audited).all()
    assert told[-3:] == ["tenant.delete", "tenant.export", "tenant.purge"]
    assert count_rows(owner_engine, restored(app_engine, platform, tmp_path)) == before
    tenant_purge.delete_last_files(tmp_path, kept=timedelta(days=1), engine=worker_engine)
    assert len(list(tmp_path.iterdir())) == 2
    tenant_purge.delete_last_files(tmp_path, kept=timedelta(days=-1), engine=worker_engine)
    assert list(tmp_path.iterdir()) == []


def test_tenant_without_a_written_file_stays(app_engine, alpha: Certified, tmp_path, owner_engine, purge) -> None:
    delete(app_engine, alpha.tenant_id, days=0)
    (tmp_path / "file").write_text("")
    before = contents_of(owner_engine, alpha.tenant_id)
    assert purge(folder=tmp_path / "file" / "folder") == []
    assert contents_of(owner_engine, alpha.tenant_id) == before


def hold(engine: Engine, tenant_id: TenantId) -> int:
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        return holds.create_hold(session, actor=ACTOR, tenant_id=tenant_id, reason="A case").id


def clear_hold(engine: Engine, tenant_id: TenantId, hold_id: int) -> None:
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        holds.clear_hold(session, actor=ACTOR, tenant_id=tenant_id, hold_id=hold_id)


def test_tenant_under_a_hold_stays_and_can_be_restored(app_engine, owner_engine, full, tmp_path, purge) -> None:
    delete(app_engine, full, days=0)
    hold(app_engine, full)
    before = contents_of(owner_engine, full)
    assert purge() == []
    assert contents_of(owner_engine, full) == before
    assert list(tmp_path.iterdir()) == []
    assert resume(app_engine, full).status == "active"


def test_hold_during_a_purge_keeps_the_rest_and_the_file(
    app_engine, worker_engine, owner_engine, full, tmp_path, monkeypatch, purge
) -> None:
    delete(app_engine, full, days=0)
    delete_batch, held = tenant_purge._delete_batch, []

    def and_then_hold(session: Session, tenant_id: TenantId, table: Table) -> int:
        if table.name == "endpoints" and not held:
            held.append(hold(app_engine, full))
        return delete_batch(session, tenant_id, table)

    monkeypatch.setattr(tenant_purge, "_delete_batch", and_then_hold)
    assert [purge(), purge()] == [[], []]
    assert contents_of(owner_engine, full)["endpoints"]
    (path,) = tmp_path.glob("*.zip")
    whole = path.read_bytes()
    tenant_purge.delete_last_files(tmp_path, kept=timedelta(days=-1), engine=worker_engine)
    clear_hold(app_engine, full, held[0])
    assert purge() == ["alpha"]
    assert [each.read_bytes() for each in tmp_path.glob("*.zip")] == [whole]


def test_each_deletion_of_a_tenant_has_its_own_file(app_engine, full, tmp_path, monkeypatch, purge) -> None:
    def fail(tenant_id: TenantId, engine: Engine | None) -> None:
        raise Conflict("It was restored.")

    monkeypatch.setattr(tenant_purge, "_delete_large_tables", fail)
    for days in (-2, -1):
        delete(app_engine, full, days=days)
        assert purge() == []
        held = hold(app_engine, full)
        resume(app_engine, full)
        clear_hold(app_engine, full, held)
    assert len(list(tmp_path.glob("*.zip"))) == 2


def test_concurrent_hold_and_purge_do_not_deadlock(app_engine: Engine, owner_engine: Engine, full: TenantId) -> None:
    """Each transaction holds its first lock and then waits for the lock of the other."""
    delete(app_engine, full, days=0)
    refused: list[Exception] = []

    def remove() -> None:
        try:
            with session_scope(PlatformScope(), engine=app_engine) as session:
                tenant_purge.purge_tenant(session, actor=ACTOR, tenant_id=full)
        except Exception as exc:
            refused.append(exc)

    def waits() -> bool:
        with owner_engine.connect() as connection:
            return bool(connection.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")))

    removing = threading.Thread(target=remove)
    with session_scope(TenantScope(full), engine=app_engine) as session:
        repository.lock_holds_exclusive(session)
        removing.start()
        until(waits, "the removal waits")
        holds.create_hold(session, actor=ACTOR, tenant_id=full, reason="Case 1")
    removing.join()
    assert [type(each) for each in refused] == [holds.HoldInForce]


def test_killed_purge_completes_with_an_intact_file(
    database, app_engine, owner_engine, platform, full, tmp_path, monkeypatch, purge
) -> None:
    """The purge is killed before and after each of its commits."""
    monkeypatch.setattr(tenant_purge, "BATCH_ROWS", 1)
    delete(app_engine, full, days=0)
    before, rows = contents_of(owner_engine, full), count_rows(owner_engine, full)
    written: list[bytes] = []
    for death in deaths(lambda: purge(engine=make_engine(database.worker_url))):
        written += [each.read_bytes() for each in tmp_path.glob("*.zip")]
        assert len(set(written)) <= 1, death
        assert written or contents_of(owner_engine, full) == before, death
    assert not any(contents_of(owner_engine, full).values())
    with Session(owner_engine) as session:
        assert session.scalars(select(Tenant.slug)).all() == []
        purged = select(AuditEntry).where(AuditEntry.tenant_id == full, AuditEntry.action == "tenant.purge")
        assert len(session.scalars(purged).all()) == 1
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".key", ".zip"]
    assert count_rows(owner_engine, restored(app_engine, platform, tmp_path)) == rows


def test_second_worker_deletes_no_file(app_engine, owner_engine, platform, full, tmp_path, monkeypatch, purge) -> None:
    """The second worker starts while the first worker writes, and is killed in the middle of a file."""
    delete(app_engine, full, days=0)
    write_tenant, begun = tenant_purge.write_tenant, []

    def write(session: Session, file: IO[bytes], **given: Any) -> object:
        begun.append(file)
        if len(begun) > 1:
            file.write(b"half of it")
            file.flush()
            raise KeyboardInterrupt
        written = write_tenant(session, file, **given)
        with suppress(KeyboardInterrupt):
            assert purge() == []
        return written

    monkeypatch.setattr(tenant_purge, "write_tenant", write)
    assert purge() == ["alpha"]
    assert contents_of(owner_engine, restored(app_engine, platform, tmp_path))["sites"]


def test_blocked_purges_delay_no_other_tenant(app_engine, full, bravo, monkeypatch, purge) -> None:
    monkeypatch.setattr(tenant_purge, "_TENANTS_PER_TURN", 1)
    delete(app_engine, full, days=-2)
    delete(app_engine, bravo.tenant_id, days=-1)
    write_tenant = tenant_purge.write_tenant

    def write(session: Session, file: IO[bytes], **given: Any) -> object:
        if given["tenant_id"] == full:
            raise ValueError("on purpose")
        return write_tenant(session, file, **given)

    monkeypatch.setattr(tenant_purge, "write_tenant", write)
    assert purge() == ["bravo"]

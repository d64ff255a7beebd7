"""Deletion of tenants after their deadline. Admit writes a file first, then deletes everything except the audit log."""

import threading
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
from tests.factories.tenancy import ACTOR
from tests.polling import until
from tests.tenant_files.test_round_trip import contents_of, full, imported

__all__ = ["full"]


def delete(app_engine: Engine, tenant_id: TenantId, *, days: float) -> None:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenants.delete_tenant(session, actor=ACTOR, tenant_id=tenant_id, purge_at=utc_now() + timedelta(days=days))


def test_expired_tenant_is_purged_after_a_restorable_export(
    app_engine, worker_engine, owner_engine, platform, full, bravo, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(tenant_purge, "BATCH_ROWS", 1)

    def purge(days: float) -> list[str]:
        return tenant_purge.purge_due(
            folder=tmp_path, sealer=SEALER, now=utc_now() + timedelta(days=days), engine=worker_engine
        )

    delete(app_engine, bravo.tenant_id, days=5)
    delete(app_engine, full, days=0)
    before = contents_of(owner_engine, full)
    with (
        pytest.raises(Conflict, match="is being deleted"),
        session_scope(PlatformScope(), engine=app_engine) as session,
    ):
        tenants.resume_tenant(session, actor=ACTOR, tenant_id=full)
    assert purge(0) == ["alpha"]
    assert not any(contents_of(owner_engine, full).values())
    with Session(owner_engine) as session:
        assert session.scalars(select(Tenant.slug)).all() == ["bravo"]
        told = session.scalars(
            select(AuditEntry.action).where(AuditEntry.tenant_id == full).order_by(AuditEntry.id)
        ).all()
    assert told[-3:] == ["tenant.delete", "tenant.export", "tenant.purge"]

    (path,) = tmp_path.glob("*.zip")
    with path.open("rb") as file:
        done = imported(app_engine, platform, file, passphrase=tenant_purge.open_stored_passphrase(path, SEALER))
    assert {name: len(rows) for name, rows in contents_of(owner_engine, done.tenant.id).items()} == {
        name: len(rows) for name, rows in before.items()
    }
    tenant_purge.delete_last_files(tmp_path, kept=timedelta(days=1), engine=worker_engine)
    assert len(list(tmp_path.iterdir())) == 2
    tenant_purge.delete_last_files(tmp_path, kept=timedelta(days=-1), engine=worker_engine)
    assert list(tmp_path.iterdir()) == []


def test_tenant_without_a_written_file_stays(
    app_engine: Engine, worker_engine: Engine, alpha: Certified, tmp_path: Path, owner_engine: Engine
) -> None:
    delete(app_engine, alpha.tenant_id, days=0)
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "folder"
    before = contents_of(owner_engine, alpha.tenant_id)
    assert tenant_purge.purge_due(folder=folder, sealer=SEALER, now=utc_now(), engine=worker_engine) == []
    assert contents_of(owner_engine, alpha.tenant_id) == before


def hold(engine: Engine, tenant_id: TenantId) -> int:
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        return holds.create_hold(session, actor=ACTOR, tenant_id=tenant_id, reason="A case").id


def test_tenant_under_a_hold_stays_and_can_be_restored(
    app_engine: Engine, worker_engine: Engine, owner_engine: Engine, full: TenantId, tmp_path: Path
) -> None:
    delete(app_engine, full, days=0)
    hold(app_engine, full)
    before = contents_of(owner_engine, full)
    assert tenant_purge.purge_due(folder=tmp_path, sealer=SEALER, now=utc_now(), engine=worker_engine) == []
    assert contents_of(owner_engine, full) == before
    assert list(tmp_path.iterdir()) == []
    with session_scope(PlatformScope(), engine=app_engine) as session:
        assert tenants.resume_tenant(session, actor=ACTOR, tenant_id=full).status == "active"


def test_hold_during_a_purge_keeps_the_rest_and_the_file(
    app_engine, worker_engine, owner_engine, full, tmp_path, monkeypatch
) -> None:
    delete(app_engine, full, days=0)
    delete_batch, held = tenant_purge._delete_batch, []

    def and_then_hold(session: Session, tenant_id: TenantId, table: Table) -> int:
        if table.name == "endpoints" and not held:
            held.append(hold(app_engine, full))
        return delete_batch(session, tenant_id, table)

    def purge() -> list[str]:
        return tenant_purge.purge_due(folder=tmp_path, sealer=SEALER, now=utc_now(), engine=worker_engine)

    monkeypatch.setattr(tenant_purge, "_delete_batch", and_then_hold)
    assert purge() == []
    assert purge() == []
    assert contents_of(owner_engine, full)["endpoints"]
    (path,) = tmp_path.glob("*.zip")
    whole = path.read_bytes()
    tenant_purge.delete_last_files(tmp_path, kept=timedelta(days=-1), engine=worker_engine)
    with session_scope(TenantScope(full), engine=app_engine) as session:
        holds.clear_hold(session, actor=ACTOR, tenant_id=full, hold_id=held[0])
    assert purge() == ["alpha"]
    assert [each.read_bytes() for each in tmp_path.glob("*.zip")] == [whole]


def test_each_deletion_of_a_tenant_has_its_own_file(
    app_engine: Engine, worker_engine: Engine, full: TenantId, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tenant_id: TenantId, engine: Engine | None) -> None:
        raise Conflict("It was restored.")

    for days in (-2, -1):
        with monkeypatch.context() as patch:
            patch.setattr(tenant_purge, "_delete_large_tables", fail)
            delete(app_engine, full, days=days)
            tenant_purge.purge_due(folder=tmp_path, sealer=SEALER, now=utc_now(), engine=worker_engine)
        held = hold(app_engine, full)
        with session_scope(PlatformScope(), engine=app_engine) as session:
            tenants.resume_tenant(session, actor=ACTOR, tenant_id=full)
        with session_scope(TenantScope(full), engine=app_engine) as session:
            holds.clear_hold(session, actor=ACTOR, tenant_id=full, hold_id=held)
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
    database, app_engine, owner_engine, platform, full, tmp_path, monkeypatch
) -> None:
    """The purge is killed before and after each of its commits."""
    monkeypatch.setattr(tenant_purge, "BATCH_ROWS", 1)
    delete(app_engine, full, days=0)
    before = contents_of(owner_engine, full)

    def purge() -> None:
        tenant_purge.purge_due(folder=tmp_path, sealer=SEALER, now=utc_now(), engine=make_engine(database.worker_url))

    written: list[bytes] = []
    for death in deaths(purge):
        written += [each.read_bytes() for each in tmp_path.glob("*.zip")]
        assert len(set(written)) <= 1, death
        assert written or contents_of(owner_engine, full) == before, death
    assert not any(contents_of(owner_engine, full).values())
    with Session(owner_engine) as session:
        assert session.scalars(select(Tenant.slug)).all() == []
        purged = select(AuditEntry).where(AuditEntry.tenant_id == full, AuditEntry.action == "tenant.purge")
        assert len(session.scalars(purged).all()) == 1
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".key", ".zip"]
    (path,) = tmp_path.glob("*.zip")
    with path.open("rb") as file:
        done = imported(app_engine, platform, file, passphrase=tenant_purge.open_stored_passphrase(path, SEALER))
    assert {name: len(rows) for name, rows in contents_of(owner_engine, done.tenant.id).items()} == {
        name: len(rows) for name, rows in before.items()
    }


def test_second_worker_deletes_no_file(app_engine, worker_engine, platform, full, tmp_path, monkeypatch) -> None:
    """The second worker starts while the first worker writes, and is killed in the middle of a file."""
    delete(app_engine, full, days=0)
    write_tenant, begun = tenant_purge.write_tenant, []

    def purge() -> list[str]:
        return tenant_purge.purge_due(folder=tmp_path, sealer=SEALER, now=utc_now(), engine=worker_engine)

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
    (path,) = tmp_path.glob("*.zip")
    with path.open("rb") as file:
        assert imported(app_engine, platform, file, passphrase=tenant_purge.open_stored_passphrase(path, SEALER)).rows[
            "sites"
        ]


def test_blocked_purges_delay_no_other_tenant(app_engine, worker_engine, full, bravo, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tenant_purge, "_TENANTS_PER_TURN", 1)
    delete(app_engine, full, days=-2)
    delete(app_engine, bravo.tenant_id, days=-1)
    write_tenant = tenant_purge.write_tenant

    def write(session: Session, file: IO[bytes], **given: Any) -> object:
        if given["tenant_id"] == full:
            raise ValueError("on purpose")
        return write_tenant(session, file, **given)

    monkeypatch.setattr(tenant_purge, "write_tenant", write)
    assert tenant_purge.purge_due(folder=tmp_path, sealer=SEALER, now=utc_now(), engine=worker_engine) == ["bravo"]

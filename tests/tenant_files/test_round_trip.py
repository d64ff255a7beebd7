"""An import restores everything in a tenant's file, for every table."""

import io
import re
from typing import Any
from uuid import UUID, uuid5

import pytest
from sqlalchemy import Engine, Table, select, update
from sqlalchemy.orm import Session

from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.db.base import Base
from nac.kit.errors import AdmitError, NoFreeSlot
from nac.kit.ids import TenantId
from nac.models import AuditEntry, Tenant
from nac.onboarding.tenant_files import tables
from nac.onboarding.tenant_files.importer import TenantImportResult, import_tenant
from nac.onboarding.tenant_files.writer import write_tenant
from tests.factories.certificates import SEALER, SIGNING, Certified
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR, Platform

PASSPHRASE = "correct horse battery"
SECRET = b"a-secret-of-sixteen"
_PLAIN = {"private_sealed": b'{"url": "https://siem.corp.example/events", "headers": {"X-Key": "hush"}}'}


def exported(app_engine: Engine, tenant_id: TenantId, **changes: Any) -> io.BytesIO:
    target = io.BytesIO()
    given = {"passphrase": PASSPHRASE} | changes
    with session_scope(TenantScope(tenant_id), engine=app_engine, is_snapshot=True) as session:
        write_tenant(session, target, actor=ACTOR, tenant_id=tenant_id, sealer=SEALER, **given)
    return target


def imported(app_engine: Engine, platform: Platform, source: io.BytesIO, **changes: Any) -> TenantImportResult:
    given = {"passphrase": PASSPHRASE, "slug": "copy"} | changes
    with session_scope(PlatformScope(), engine=app_engine) as session:
        return import_tenant(session, source, actor=ACTOR, msp_id=platform.msp_id, signing=SIGNING, **given)


@pytest.fixture
def full(dictionary, alpha: Certified, owner_engine: Engine) -> TenantId:
    """A tenant with a row in every table, written by the services or generated from the schema."""
    with Session(owner_engine) as session, session.begin():
        for slot in session.execute(select(Base.metadata.tables["slots"])).mappings().all():
            sealed = SEALER.seal(b"a-radius-secret-of-the-slot", f"slot:{slot['id']}")
            slots = Base.metadata.tables["slots"]
            session.execute(update(slots).where(slots.c.id == slot["id"]).values(secret_sealed=sealed))
        for table in tables.content_tables():
            _add_row(session, table, alpha.tenant_id)
        for table in tables.content_tables():
            _seal_rows(session, table, alpha.tenant_id)
    return alpha.tenant_id


def _add_row(session: Session, table: Table, tenant_id: TenantId) -> None:
    authorities = Base.metadata.tables["certificate_authorities"]
    if table is authorities:
        make_row(session, table, tenant_id, kind="external")
    elif table.name == "status_sources":
        of_others = select(authorities.c.id).where(authorities.c.kind == "external")
        make_row(session, table, tenant_id, authority_id=session.scalars(of_others).one())
    elif table.name == "feeds":
        settings = {"url": "https://siem.corp.example/", "kinds": ["audit"]}
        make_row(session, table, tenant_id, kind="webhook", settings=settings, sources=["audit_log"])
    elif session.scalar(select(table.c.tenant_id).where(table.c.tenant_id == tenant_id).limit(1)) is None:
        make_row(session, table, tenant_id)


def _seal_rows(session: Session, table: Table, tenant_id: TenantId) -> None:
    """Seal the values of the factory, which are not sealed."""
    for name, sealed_column in tables.sealed_columns(table).items():
        for row in session.execute(select(table).where(table.c.tenant_id == tenant_id)).mappings().all():
            context = sealed_column.context(tenant_id, row.get("id"))
            if (row[name] is None or _opens(row[name], context)) and table.name != "nases":
                continue
            keys = [column == row[column.name] for column in table.primary_key.columns]
            sealed = SEALER.seal(_PLAIN.get(name, SECRET), context)
            session.execute(update(table).where(*keys).values({name: sealed, **_beside(table)}))


def _beside(table: Table) -> dict[str, str]:
    return {"address": "192.0.2.7", "mab_password": "fixed"} if table.name == "nases" else {}


def _opens(sealed: bytes, context: str) -> bool:
    try:
        SEALER.open(sealed, context)
    except AdmitError:
        return False
    return True


def contents_of(engine: Engine, tenant_id: TenantId, *, renamed_by: TenantId | None = None) -> dict[str, list[Any]]:
    """Every row of every exported table, with ids mapped by `renamed_by`."""
    found: dict[str, list[Any]] = {}
    with Session(engine) as session:
        for table in tables.content_tables():
            rows = session.execute(select(table).where(table.c.tenant_id == tenant_id)).mappings().all()
            found[table.name] = sorted((_plain(table, dict(row), tenant_id, renamed_by) for row in rows), key=repr)
    return found


def _plain(table: Table, row: dict[str, Any], tenant_id: TenantId, renamed_by: TenantId | None) -> dict[str, Any]:
    for name, column in tables.sealed_columns(table).items():
        row[name] = row[name] and SEALER.open(row[name], column.context(tenant_id, row.get("id")))
    del row["tenant_id"]
    row |= tables.CONTENT_TABLES[table.name].reset
    if table.name == "feeds":
        del row["done"]
    if renamed_by is not None:
        for column, value in row.items():
            if isinstance(value, UUID):
                row[column] = uuid5(renamed_by, str(value))
    return row


def test_every_tenant_table_is_exported_or_excluded() -> None:
    """The test fails for a new table. Declare `tenant_file` on its model."""
    tenant_tables = {name for name, table in Base.metadata.tables.items() if "tenant_id" in table.columns}
    assert tenant_tables == {*tables.CONTENT_TABLES, *tables.LOG_TABLES, *tables.EXCLUDED_TABLES}


def test_every_secret_and_setting_is_listed() -> None:
    """The test fails for a new column of a tenant. Export the column, or add it to those of the installation."""
    for table in tables.content_tables():
        sealed = {column.name for column in table.columns if column.name.endswith("_sealed")}
        assert sealed == tables.sealed_columns(table).keys(), table.name
    of_installation = {
        *("id", "number", "msp_id", "slug", "status", "suspension_level", "suspended_with_msp", "purge_at"),
        *("default_site_id", "trust_generation", "cui_key", "created_at", "updated_at"),
    }
    assert of_installation.isdisjoint(tables.TENANT_COLUMNS)
    assert {column.name for column in Tenant.__table__.columns} == {*tables.TENANT_COLUMNS, *of_installation}


def test_tenant_is_restored_under_another_name(
    app_engine: Engine, owner_engine: Engine, platform: Platform, full: TenantId
) -> None:
    with session_scope(TenantScope(full), engine=app_engine) as session:
        session.execute(update(Tenant).values(silent_days=5, methods=["mab"], name="Alpha Ltd", realms=["corp"]))
    before = contents_of(owner_engine, full)
    assert all(before.values()), [name for name, rows in before.items() if not rows]
    done = imported(app_engine, platform, exported(app_engine, full))
    copy_id = done.tenant.id
    assert contents_of(owner_engine, copy_id) == contents_of(owner_engine, full, renamed_by=copy_id)
    assert contents_of(owner_engine, full) == before
    with session_scope(PlatformScope(), engine=app_engine) as session:
        old, new = session.get_one(Tenant, full), session.get_one(Tenant, copy_id)
        assert [getattr(new, name) for name in tables.TENANT_COLUMNS] == [
            getattr(old, name) for name in tables.TENANT_COLUMNS
        ]
        assert (new.slug, new.default_site_id) == ("copy", uuid5(copy_id, str(old.default_site_id)))
        actions = session.scalars(select(AuditEntry.action).where(AuditEntry.tenant_id.in_((full, copy_id)))).all()
    assert {"tenant.export", "tenant.import"} <= set(actions)


def test_file_without_passphrase_has_no_secrets(
    app_engine: Engine, owner_engine: Engine, platform: Platform, full: TenantId
) -> None:
    source = exported(app_engine, full, passphrase="", logs=True)
    assert SECRET not in source.getvalue()
    done = imported(app_engine, platform, source, passphrase="")
    assert "new certificates" in " ".join(done.notes)
    rows = contents_of(owner_engine, done.tenant.id)
    assert {row["kind"] for row in rows["certificate_authorities"]} == {"root", "issuing", "external"}
    assert {row["password_hash"] for row in rows["users"]} == {""}
    assert all(row["secret_sealed"] is None for name in ("nases", "identity_sources") for row in rows[name])


def test_values_that_the_api_rejects_are_rejected_in_files(
    app_engine: Engine, owner_engine: Engine, platform: Platform, full: TenantId
) -> None:
    """An older version with fewer checks, or direct access to the database, may have written such values."""
    rule = {"id": "r", "name": "R", "when": {"attribute": "endpoint.gruop", "operator": "equals", "value": "x"}}
    document = {"rules": [rule | {"then": {"verdict": "permit"}}]}
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "policy_versions": ({"document": document}, "policies/.* version .*endpoint.gruop"),
        "identity_sources": ({"settings": {"urls": ["ldap://10.0.0.1"], "base_dn": "dc=x"}}, "identity_sources/corp"),
        "sites": ({"fallback": {"verdict": "perhaps"}}, "sites/.*verdict"),
        "nases": ({"address": "224.0.0.1"}, "nases/.*source of a request"),
        "pools": ({"ranges": ["nowhere"]}, "pools/.*nowhere"),
        "feeds": ({"sources": ["usage_hours"]}, "feeds/.*sources"),
        "scep_webhooks": ({"settings": {"url": "http://mdm.corp.example"}}, "scep_webhooks.*url"),
        "endpoints": ({"mac": "01005e000001"}, "endpoints.*single device"),
        "users": ({"name": "a\nb"}, "users"),
        "tenants": ({"password_failure_limit": 2_000_000}, "settings.*password_failure_limit"),
    }
    for name, (values, told) in wrong.items():
        table = Base.metadata.tables[name]
        of_tenant = table.c.id == full if name == "tenants" else table.c.tenant_id == full
        with Session(owner_engine) as session:
            keys = [column.name for column in table.primary_key.columns]
            rows = session.execute(select(table).where(of_tenant).limit(1)).mappings().one()
            mine = [table.c[key] == rows[key] for key in keys]
            session.execute(update(table).where(*mine).values(values))
            session.commit()
        try:
            source = exported(app_engine, full)
        finally:
            with Session(owner_engine) as session:
                session.execute(update(table).where(*mine).values({column: rows[column] for column in values}))
                session.commit()
        with pytest.raises(AdmitError) as refused:
            pytest.fail(f"{name}: {imported(app_engine, platform, source)}")
        assert re.search(told, f"{refused.value.place}: {refused.value}"), (name, refused.value.place, refused.value)
        assert refused.value.remedy or name in ("endpoints", "users"), name
        with Session(owner_engine) as session:
            assert session.scalars(select(Tenant.slug)).all() == ["alpha"]
    assert imported(app_engine, platform, exported(app_engine, full)).tenant.slug == "copy"


def test_policy_with_a_deleted_nas_is_restored(
    app_engine: Engine, owner_engine: Engine, platform: Platform, full: TenantId
) -> None:
    when = {"attribute": "nas.name", "operator": "equals", "value": "gone"}
    document = {"rules": [{"id": "r", "name": "R", "when": when, "then": {"verdict": "permit"}}]}
    versions = Base.metadata.tables["policy_versions"]
    with Session(owner_engine) as session:
        session.execute(update(versions).where(versions.c.tenant_id == full).values(document=document))
        session.commit()
    copy = imported(app_engine, platform, exported(app_engine, full)).tenant.id
    assert all(row["document"] == document for row in contents_of(owner_engine, copy)["policy_versions"])


def test_import_without_a_free_slot_leaves_nothing(
    app_engine: Engine, platform: Platform, full: TenantId, owner_engine: Engine
) -> None:
    source = exported(app_engine, full)
    for number in range(3):
        imported(app_engine, platform, source, slug=f"copy-{number}")
    with pytest.raises(NoFreeSlot):
        imported(app_engine, platform, source, slug="copy-3")
    with Session(owner_engine) as session:
        assert session.scalars(select(Tenant.slug).order_by(Tenant.slug)).all() == [
            "alpha",
            "copy-0",
            "copy-1",
            "copy-2",
        ]

"""An import restores everything in a tenant's file, for every table."""

import re
from pathlib import Path
from typing import Any
from uuid import uuid5

import pytest
from sqlalchemy import Engine, select, text, update
from sqlalchemy.orm import Session

from loadtest.large_tenant import write_large
from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.db.base import Base
from nac.kit.errors import AdmitError, NoFreeSlot
from nac.kit.ids import TenantId
from nac.models import AuditEntry, Tenant
from nac.onboarding.tenant_files import tables
from nac.onboarding.tenant_files.importer import import_tenant
from tests.factories.certificates import SIGNING, Certified
from tests.factories.tenancy import ACTOR, Platform
from tests.tenant_files.conftest import SECRET, contents_of, exported, imported


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
        for name in tables.TENANT_COLUMNS:
            assert getattr(new, name) == getattr(old, name), name
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
            row = session.execute(select(table).where(of_tenant).limit(1)).mappings().one()
        mine = [column == row[column.name] for column in table.primary_key.columns]
        with owner_engine.begin() as connection:
            connection.execute(update(table).where(*mine).values(values))
        source = exported(app_engine, full)
        with owner_engine.begin() as connection:
            connection.execute(update(table).where(*mine).values({column: row[column] for column in values}))
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
    with owner_engine.begin() as connection:
        connection.execute(update(versions).where(versions.c.tenant_id == full).values(document=document))
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
        slugs = session.scalars(select(Tenant.slug).order_by(Tenant.slug)).all()
    assert slugs == ["alpha", "copy-0", "copy-1", "copy-2"]


_ROWS = 2_000
# Rows read by all indexes of the table, in this transaction.
_FETCHED = text(
    "SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index WHERE indrelid = 'endpoints'::regclass"
)


def test_statistics_during_a_bulk_insert_do_not_mislead(
    dictionary: None, alpha: Certified, platform: Platform, app_engine: Engine, owner_engine: Engine, tmp_path: Path
) -> None:
    """The import of a large tenant is slow enough for autovacuum to run."""
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        who = {"actor": ACTOR, "tenant_id": alpha.tenant_id}
        ENDPOINT_GROUPS.create(session, **who, name="printers")
        endpoints.create_endpoint(session, **who, mac="00005e005301", groups=["printers"])
    small, large = tmp_path / "small.zip", tmp_path / "large.zip"
    small.write_bytes(exported(app_engine, alpha.tenant_id, passphrase="").getvalue())
    write_large(small, large, _ROWS)
    fetched: list[int] = []
    looked: list[int] = []

    def look(rows: int, _: int) -> None:
        """Analyze as autovacuum does, which sees no uncommitted rows."""
        if rows > _ROWS // 2 and not looked:
            looked.append(rows)
            with owner_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("DELETE FROM endpoints"))
                connection.execute(text("ANALYZE endpoints"))

    with large.open("rb") as source, session_scope(PlatformScope(), engine=app_engine) as session:
        given = {"actor": ACTOR, "slug": "copy", "msp_id": platform.msp_id, "signing": SIGNING}
        import_tenant(
            session, source, **given, report=look, note=lambda done: fetched.append(session.scalar(_FETCHED) or 0)
        )
    assert looked
    assert fetched[0] < 10 * _ROWS, "each reference is checked by the rows that it is about"

"""Row-level security of each table in the metadata, including tables that a later version adds."""

from dataclasses import dataclass
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy import Engine, Table, func, insert, select, text
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import CellScope, PlatformScope, TenantScope, session_scope
from nac.kit.db.base import Base
from nac.kit.errors import ScopeViolation
from nac.kit.ids import CellId, TenantId
from nac.tenancy.cells import service as cells
from tests.factories.rows import make_row
from tests.factories.tenancy import make_cell, make_platform, make_tenant
from tests.postgres import Database
from tests.row_snapshots import snapshotted

_TENANT_TABLES = {table.name: table for table in Base.metadata.tables.values() if "tenant_id" in table.columns}
# Rows of these tables may have no owner. The named files test these tables.
_SHARED = {
    *("slots", "audit_log", "replica_changes", "quarantined_records", "purged_tenants"),
    # tests/templates/test_rollouts.py
    *("template_tenants", "rollout_tenants"),
    # tests/accounts/test_row_security.py
    *("memberships", "membership_tenants", "custom_roles", "api_tokens", "idempotency_keys"),
    *("sign_in_rules", "sign_ons", "jobs"),
    # tests/trials/test_row_security.py
    *("mails", "trials"),
    # tests/sign_in/test_row_security.py
    "account_mails",
    # tests/audit/test_chains.py
    "audit_chains",
}
OWNED = sorted(_TENANT_TABLES.keys() - _SHARED)
# Cells write these tables and only read all others.
LOGS = {
    *("auth_log", "accounting_log", "sessions", "endpoint_sightings", "endpoint_evidence", "endpoint_work"),
    *("policy_hits", "decision_counts", "reject_counts"),
    "external_certificates",
    *("nas_restarts", "session_history", "usage_hours"),
    *("secret_sightings", "nas_signatures", "nas_sightings"),
}
# Tables that cells cannot read.
NOT_FOR_CELLS = {
    *("authority_intents", "certificate_settings", "expiry_warnings"),
    *("ocsp_signers", "revocation_lists", "revocation_work"),
    *("enrolment_secrets", "scep_transactions", "scep_webhooks"),
    *("redecision_settings", "redecision_marks", "redecisions", "redecision_items"),
    *("retention_settings", "retention_holds", "retention_notices", "log_sizes", "export_jobs"),
    *("retention_terms", "early_deletions"),
    *("feeds", "feed_marks", "endpoint_expiries"),
    "tenant_moves",
}


# Tables that only the worker or triggers write.
NOT_FOR_APP = {"retention_notices", "log_sizes", "early_deletions", "event_notes", "endpoint_expiries"}


@dataclass(frozen=True)
class TwoTenants:
    alpha: TenantId
    bravo: TenantId
    # Alpha's cell. Bravo is in the other cell.
    cell_id: CellId


@pytest.fixture
@snapshotted
def two_tenants(app_engine: Engine, cell_engine: Engine) -> TwoTenants:
    platform = make_platform(app_engine, cell_engine, slots=1)
    alpha = make_tenant(app_engine, platform, "alpha").id
    make_cell(cell_engine, name="cell-2", slots=1, first_port=19000)
    return TwoTenants(alpha, make_tenant(app_engine, platform, "bravo").id, platform.cell_id)


def _fill(owner_engine: Engine, table: Table, *tenant_ids: TenantId) -> None:
    with Session(owner_engine) as session, session.begin():
        for tenant_id in tenant_ids:
            make_row(session, table, tenant_id)


def _tenants_seen(session: Session, table: Table) -> set[UUID]:
    return set(session.scalars(select(table.c.tenant_id)))


@pytest.mark.parametrize("name", OWNED)
def test_only_the_tenant_scope_sees_its_rows(
    owner_engine: Engine, app_engine: Engine, worker_engine: Engine, two_tenants: TwoTenants, name: str
) -> None:
    table = _TENANT_TABLES[name]
    _fill(owner_engine, table, two_tenants.alpha, two_tenants.bravo)
    for engine in (app_engine, worker_engine):
        with session_scope(TenantScope(two_tenants.alpha), engine=engine) as session:
            assert _tenants_seen(session, table) == {two_tenants.alpha}
        for scope in (PlatformScope(), TenantScope(TenantId(uuid4()))):
            with session_scope(scope, engine=engine) as session:
                assert _tenants_seen(session, table) == set()
        with Session(engine) as session:
            assert session.scalar(select(func.count()).select_from(table)) == 0


@pytest.mark.parametrize("name", sorted(set(OWNED) - LOGS - NOT_FOR_APP))
def test_tenant_scope_cannot_insert_rows_of_another(
    owner_engine: Engine, app_engine: Engine, two_tenants: TwoTenants, name: str
) -> None:
    table = _TENANT_TABLES[name]
    with Session(owner_engine) as session:
        row = make_row(session, table, two_tenants.bravo)
        session.rollback()
    with (
        pytest.raises(ScopeViolation, match="row-level security"),
        session_scope(TenantScope(two_tenants.alpha), engine=app_engine) as session,
    ):
        session.execute(insert(table).values(row))


def _referred(owner_engine: Engine, name: str, tenant_id: TenantId) -> dict[str, UUID]:
    """Write the rows, normally written by other processes, that a cell's row references."""
    referred = {
        "secret_sightings": ("rotation_id", "secret_rotations"),
        "nas_signatures": ("nas_id", "nases"),
        "nas_sightings": ("nas_id", "nases"),
    }
    if name not in referred:
        return {}
    column, table = referred[name]
    with Session(owner_engine) as session, session.begin():
        return {column: make_row(session, _TENANT_TABLES[table], tenant_id)["id"]}


@pytest.mark.parametrize("name", sorted(LOGS))
def test_cell_writes_journal_rows_only_of_its_tenants(
    owner_engine: Engine, cell_engine: Engine, two_tenants: TwoTenants, name: str
) -> None:
    table = _TENANT_TABLES[name]
    by = {"cell_id": two_tenants.cell_id} if "cell_id" in table.columns else {}
    of_alpha, of_bravo = (by | _referred(owner_engine, name, each) for each in (two_tenants.alpha, two_tenants.bravo))
    with session_scope(CellScope(two_tenants.cell_id), engine=cell_engine) as session:
        make_row(session, table, two_tenants.alpha, **of_alpha)
    with (
        pytest.raises(ScopeViolation, match="row-level security"),
        session_scope(CellScope(two_tenants.cell_id), engine=cell_engine) as session,
    ):
        make_row(session, table, two_tenants.bravo, **of_bravo)
    with Session(owner_engine) as session:
        assert _tenants_seen(session, table) == {two_tenants.alpha}


@pytest.mark.parametrize("name", sorted(NOT_FOR_CELLS))
def test_cell_cannot_read_private_tables(database: Database, name: str) -> None:
    with psycopg.connect(database.cell_url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(psycopg.sql.SQL("SELECT FROM {}").format(psycopg.sql.Identifier(name)))


@pytest.mark.parametrize("name", sorted(set(OWNED) - LOGS - NOT_FOR_CELLS))
def test_cell_sees_only_rows_of_its_tenants_read_only(
    database: Database, owner_engine: Engine, cell_engine: Engine, two_tenants: TwoTenants, name: str
) -> None:
    table = _TENANT_TABLES[name]
    _fill(owner_engine, table, two_tenants.alpha, two_tenants.bravo)
    with session_scope(CellScope(two_tenants.cell_id), engine=cell_engine) as session:
        assert _tenants_seen(session, table) == {two_tenants.alpha}
    with session_scope(CellScope(cells.UNREGISTERED_CELL), engine=cell_engine) as session:
        assert _tenants_seen(session, table) == set()
    with psycopg.connect(database.cell_url) as connection:
        for statement in (psycopg.sql.SQL("DELETE FROM {}"), psycopg.sql.SQL("UPDATE {} SET tenant_id = tenant_id")):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.format(psycopg.sql.Identifier(name)))
            connection.rollback()


def test_every_table_with_tenant_data_has_row_security(owner_engine: Engine) -> None:
    with owner_engine.connect() as connection:
        open_tables = connection.scalars(
            text(
                "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') "
                "AND NOT relrowsecurity ORDER BY relname"
            )
        ).all()
    assert open_tables == ["alembic_version", "dictionaries"]


@pytest.mark.parametrize("table", ["endpoint_group_members", "nases", "certificates", "policy_versions", "sites"])
def test_cross_tenant_reference_is_rejected_even_for_owner(
    owner_engine: Engine, two_tenants: TwoTenants, table: str
) -> None:
    """Row-level security does not apply to foreign keys, so each key includes the tenant."""
    target = _TENANT_TABLES[table]
    policy = _TENANT_TABLES["policies"]
    with Session(owner_engine) as session:
        if table == "sites":
            make_row(session, policy, two_tenants.bravo)
            foreign = session.scalars(select(policy.c.id)).one()
            statement = insert(target).values(
                tenant_id=two_tenants.alpha, id=uuid4(), slug="x", name="x", policy_id=foreign
            )
        else:
            row = make_row(session, target, two_tenants.bravo)
            session.execute(target.delete())
            statement = insert(target).values(row | {"tenant_id": two_tenants.alpha})
        with pytest.raises(Exception, match="violates foreign key constraint"):
            session.execute(statement)


def test_cell_cannot_read_signing_keys(database: Database) -> None:
    with psycopg.connect(database.cell_url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT key_sealed FROM certificate_authorities")


def test_cell_cannot_assign_itself_a_tenant(cell_engine: Engine, two_tenants: TwoTenants) -> None:
    slots = Base.metadata.tables["slots"]
    values = {
        "id": uuid4(),
        "cell_id": two_tenants.cell_id,
        "number": 9,
        "auth_port": 1,
        "acct_port": 2,
        "secret_sealed": b"x",
        "status": "assigned",
        "tenant_id": two_tenants.bravo,
    }
    with pytest.raises(ScopeViolation), session_scope(CellScope(two_tenants.cell_id), engine=cell_engine) as session:
        session.execute(insert(slots).values(values))
    with pytest.raises(ScopeViolation), session_scope(CellScope(two_tenants.cell_id), engine=cell_engine) as session:
        session.execute(slots.update().values(tenant_id=two_tenants.bravo))


def test_cell_sees_only_itself_and_its_slots(cell_engine: Engine, two_tenants: TwoTenants) -> None:
    tables = Base.metadata.tables
    with session_scope(CellScope(two_tenants.cell_id), engine=cell_engine) as session:
        assert session.scalars(select(tables["slots"].c.cell_id)).all() == [two_tenants.cell_id]
        assert session.scalars(select(tables["cells"].c.id)).all() == [two_tenants.cell_id]
        assert session.scalars(select(tables["tenants"].c.id)).all() == [two_tenants.alpha]


def test_tenant_sees_only_its_slot_cell_and_audit(app_engine: Engine, two_tenants: TwoTenants) -> None:
    tables = Base.metadata.tables
    with session_scope(TenantScope(two_tenants.alpha), engine=app_engine) as session:
        assert session.scalars(select(tables["slots"].c.tenant_id)).all() == [two_tenants.alpha]
        assert session.scalars(select(tables["cells"].c.id)).all() == [two_tenants.cell_id]
        assert session.scalars(select(tables["msps"].c.id)).all() == []
        assert set(session.scalars(select(tables["audit_log"].c.tenant_id))) == {two_tenants.alpha}


def test_scope_holds_in_every_transaction_of_a_session(app_engine: Engine, two_tenants: TwoTenants) -> None:
    tenants = Base.metadata.tables["tenants"]
    with session_scope(TenantScope(two_tenants.alpha), engine=app_engine) as session:
        session.rollback()
        assert session.scalars(select(tenants.c.id)).all() == [two_tenants.alpha]
    with Session(app_engine) as session:
        assert session.scalars(select(tenants.c.id)).all() == []


def test_direct_partition_read_is_rejected(database: Database) -> None:
    with psycopg.connect(database.app_url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT * FROM auth_log_default")


def test_shipper_inserts_from_a_temporary_table(database: Database, two_tenants: TwoTenants) -> None:
    with psycopg.connect(database.cell_url) as connection:
        connection.execute("SELECT set_config('admit.cell_id', %s, true)", [str(two_tenants.cell_id)])
        connection.execute(
            "CREATE TEMPORARY TABLE batch ON COMMIT DROP AS "
            "SELECT at, tenant_id, cell_id, method, permitted, reason FROM auth_log WITH NO DATA"
        )
        with connection.cursor().copy("COPY batch FROM STDIN") as copy:
            copy.write_row((utc_now(), two_tenants.alpha, two_tenants.cell_id, "mab", True, "rule-permitted"))
            copy.write_row((utc_now(), two_tenants.bravo, two_tenants.cell_id, "mab", True, "rule-permitted"))
        inserted = connection.execute(
            "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason) SELECT batch.* FROM batch "
            "WHERE tenant_id IN (SELECT tenant_id FROM slots)"
        )
        assert inserted.rowcount == 1

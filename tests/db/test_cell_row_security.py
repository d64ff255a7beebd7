"""Cells share a database role but cannot see or write each other's rows."""

from dataclasses import dataclass
from uuid import UUID

import psycopg
import pytest
from sqlalchemy.orm import Session

from nac.kit.db.base import Base
from nac.kit.ids import CellId, TenantId
from tests.factories.rows import make_row
from tests.factories.tenancy import make_cell, make_platform, make_tenant
from tests.row_snapshots import snapshotted

# Rows that the agent of a cell writes. tests/db/test_row_security.py covers tables that have a tenant and no cell.
WRITES = {
    "auth_log": (
        "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason) "
        "VALUES (now(), %(tenant)s, %(cell)s, 'mab', true, 'x')"
    ),
    "accounting_log": (
        "INSERT INTO accounting_log (at, tenant_id, cell_id, status_type) VALUES (now(), %(tenant)s, %(cell)s, 'Start')"
    ),
    "journal_positions": (
        "INSERT INTO journal_positions (cell_id, stream, segment, \"offset\") VALUES (%(cell)s, 'auth', '9', 9)"
    ),
    "quarantined_records": (
        "INSERT INTO quarantined_records (cell_id, stream, why, payload) VALUES (%(cell)s, 'auth', 'x', '')"
    ),
    "slots": (
        "INSERT INTO slots (cell_id, number, auth_port, acct_port, secret_sealed) VALUES (%(cell)s, 9, 1812, 1813, '')"
    ),
}
CHANGES = {
    "journal_positions": "UPDATE journal_positions SET segment = 'x' WHERE cell_id = %(cell)s",
    "slots": "UPDATE slots SET secret_sealed = '' WHERE cell_id = %(cell)s",
    "cells": "UPDATE cells SET host = 'x', replica_position = NULL WHERE id = %(cell)s",
    "quarantined_records": "DELETE FROM quarantined_records WHERE cell_id = %(cell)s",
    "sessions": "UPDATE sessions SET identity = 'x' WHERE tenant_id = %(tenant)s",
    "endpoint_sightings": "UPDATE endpoint_sightings SET permitted = false WHERE tenant_id = %(tenant)s",
    "endpoint_evidence": "UPDATE endpoint_evidence SET value = 'y' WHERE tenant_id = %(tenant)s",
}


@dataclass(frozen=True)
class Cells:
    a: CellId
    b: CellId
    tenant_of_a: TenantId
    tenant_of_b: TenantId


@pytest.fixture
@snapshotted
def two_cells(app_engine, cell_engine) -> Cells:
    platform = make_platform(app_engine, cell_engine, slots=1)
    tenant_of_a = make_tenant(app_engine, platform, "alpha").id
    b = make_cell(cell_engine, name="cell-2", slots=1, first_port=19000)
    return Cells(platform.cell_id, b, tenant_of_a, make_tenant(app_engine, platform, "bravo").id)


def changed_rows(database, cell_id: CellId, statement: str, **values: UUID | int) -> int:
    """The number of rows that a transaction changes in the scope of the cell, as the role of all cells."""
    with psycopg.connect(database.cell_url) as connection:
        connection.execute("SELECT set_config('admit.cell_id', %s, true)", [str(cell_id)])
        return connection.execute(statement, values).rowcount


@pytest.mark.parametrize("table", WRITES)
def test_cell_cannot_insert_rows_of_another_cell(database, two_cells: Cells, table: str) -> None:
    assert changed_rows(database, two_cells.a, WRITES[table], cell=two_cells.a, tenant=two_cells.tenant_of_a) == 1
    attempts = [{"cell": two_cells.b, "tenant": two_cells.tenant_of_b}]
    if table in ("auth_log", "accounting_log"):
        # A tenant of the other cell with the cell's own id, and an own tenant with the other cell's id.
        attempts += [
            {"cell": two_cells.a, "tenant": two_cells.tenant_of_b},
            {"cell": two_cells.b, "tenant": two_cells.tenant_of_a},
        ]
    for values in attempts:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            changed_rows(database, two_cells.a, WRITES[table], **values)


@pytest.mark.parametrize("table", CHANGES)
def test_cell_cannot_update_another_cell(database, owner_engine, two_cells: Cells, table: str) -> None:
    for cell, tenant in ((two_cells.a, two_cells.tenant_of_a), (two_cells.b, two_cells.tenant_of_b)):
        if table in WRITES:
            changed_rows(database, cell, WRITES[table], cell=cell, tenant=tenant)
        elif table != "cells":
            with Session(owner_engine) as session, session.begin():
                make_row(session, Base.metadata.tables[table], tenant)
    assert changed_rows(database, two_cells.a, CHANGES[table], cell=two_cells.b, tenant=two_cells.tenant_of_b) == 0
    assert changed_rows(database, two_cells.a, CHANGES[table], cell=two_cells.a, tenant=two_cells.tenant_of_a) > 0


@pytest.mark.parametrize("table", ["journal_positions", "quarantined_records"])
def test_cell_cannot_see_another_cell(database, two_cells: Cells, table: str) -> None:
    for cell in (two_cells.a, two_cells.b):
        changed_rows(database, cell, WRITES[table], cell=cell)
    with psycopg.connect(database.cell_url) as connection:
        connection.execute("SELECT set_config('admit.cell_id', %s, true)", [str(two_cells.a)])
        assert connection.execute(f"SELECT cell_id FROM {table}").fetchall() == [(two_cells.a,)]


# Cells share dictionaries by hash, so the database computes the hash too.
_FORGED = "INSERT INTO dictionaries (sha256, content, server_version) VALUES (sha256('other'), 'mine', '3.2.7')"


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("DELETE FROM journal_positions", "permission denied for table journal_positions"),
        ("DELETE FROM slots", "permission denied for table slots"),
        ("DELETE FROM cells", "permission denied for table cells"),
        (_FORGED, "ck_dictionaries_sha256"),
    ],
)
def test_cell_cannot_delete_records_or_forge_a_hash(database, two_cells: Cells, statement: str, error: str) -> None:
    with pytest.raises(psycopg.Error, match=error):
        changed_rows(database, two_cells.a, statement)


@pytest.mark.parametrize("free_slots", [0, 1])
def test_cell_reports_sessions_only_of_its_own_tenants(database, two_cells: Cells, free_slots):
    for _ in range(free_slots):
        changed_rows(database, two_cells.a, WRITES["slots"], cell=two_cells.a)
    for cell, tenant in ((two_cells.a, two_cells.tenant_of_a), (two_cells.b, two_cells.tenant_of_b)):
        changed_rows(
            database,
            cell,
            "INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, mac, identity, started_at, updated_at) "
            "VALUES (%(tenant)s, 'n', 's', 'm', '00:1b:a9:00:00:01', 'anna', now(), now())",
            tenant=tenant,
        )
    with psycopg.connect(database.cell_url) as connection:
        connection.execute("SELECT set_config('admit.cell_id', %s, true)", [str(two_cells.a)])
        count = "SELECT * FROM live_session_counts(%s, '{00:1b:a9:00:00:01}', '{anna}') ORDER BY key"
        counted = [
            connection.execute(count, [tenant]).fetchall() for tenant in (two_cells.tenant_of_a, two_cells.tenant_of_b)
        ]
        assert counted == [[("m001ba9000001", 1), ("uanna", 1)], []]
        both = [two_cells.tenant_of_a, two_cells.tenant_of_b]
        connection.execute("SELECT tell_session_changes(%s, %s)", [both, ["uanna", "uanna"]])
    with psycopg.connect(database.owner_url) as connection:
        told = connection.execute("SELECT tenant_id, key FROM replica_changes WHERE noun = 'session'").fetchall()
    assert told == [(two_cells.tenant_of_a, "uanna")]

"""Sort orders of large tables use an index under row-level security, without a sort."""

from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import Engine, event

from nac.accounts.members import repository as members
from nac.certificates import service as certificates
from nac.core.access.grants import Owner
from nac.core.audit import service as audit
from nac.inventory.endpoints import service as endpoints
from nac.inventory.users import service as users
from nac.kit.db import TenantScope, session_scope
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.sessions import accounting
from nac.sessions import service as sessions
from nac.sessions.decisions import service as decisions
from nac.sessions.repository import SessionKey
from tests.factories.certificates import Certified

ROWS = 10_000
MIDDLE = datetime(2026, 1, 1, 1, tzinfo=UTC)
_AT = "timestamptz '2026-01-01' + n * interval '1 second'"
# Two tenants of equal size, so the caller owns half of the rows.
INVENTORY = f"""
INSERT INTO endpoints (id, tenant_id, mac, name, status, attributes, owner, notes, created_at, vendor, found_profile,
    found_confidence, found_why, os, model, set_profile, posture)
SELECT gen_random_uuid(), t.id, ('02005e' || lpad(to_hex(n), 6, '0'))::macaddr, 'Printer ' || n % 500, 'active', '{{}}',
    '', '', {_AT}, '', '', 0, '[]', '', '', '', '{{}}'
FROM tenants t, generate_series(1, {ROWS}) n;
INSERT INTO users (id, tenant_id, name, disabled, password_hash, created_at)
SELECT gen_random_uuid(), t.id, 'user-' || n, false,
    '$argon2id$v=19$m=19456,t=2,p=1$p08hrPR30FzXa4sh8XfU1g$iexKppQir0TJJ3388cOWT9R6eOTWL97s8w2cApGmSc8', {_AT}
FROM tenants t, generate_series(1, {ROWS}) n;
INSERT INTO certificates (id, tenant_id, authority_id, serial, profile, common_name, subject, status, revocation_reason,
    not_before, not_after, created_at)
SELECT gen_random_uuid(), a.tenant_id, a.id, decode('01' || lpad(to_hex(n), 8, '0'), 'hex'), 'eap-client-device',
    'laptop-' || n % 500, '', 'intended', '', {_AT}, {_AT} + interval '1 year', {_AT}
FROM certificate_authorities a, generate_series(1, {ROWS}) n WHERE a.kind = 'issuing';
ANALYZE endpoints, users, certificates;
"""
LOGS = f"""
INSERT INTO audit_log (at, actor, tenant_id, action, target)
SELECT {_AT}, 'test', t.id, 'endpoint.add', n::text FROM tenants t, generate_series(1, {ROWS}) n;
-- A third of a tenant's are at its own site, the others are each at another.
INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, started_at, updated_at, identity, terminate_cause, flags,
    site_id)
SELECT t.id, 'switch', n::text, '', {_AT}, now(), '', '', '{{}}', CASE n % 3 WHEN 0 THEN s.id ELSE gen_random_uuid() END
FROM tenants t JOIN sites s ON s.tenant_id = t.id, generate_series(1, {ROWS}) n;
ANALYZE audit_log, sessions;
"""
MEMBERS = f"""
INSERT INTO people (id, email, name)
SELECT gen_random_uuid(), 'person-' || n || '@example.com', '' FROM generate_series(1, {ROWS}) n;
INSERT INTO memberships (id, person_id, tenant_id, role, created_by)
SELECT gen_random_uuid(), p.id, t.id, 'auditor', 'test' FROM people p, tenants t
WHERE p.email LIKE CASE t.slug WHEN 'alpha' THEN 'person-%1@example.com' ELSE 'person-%2@example.com' END;
ANALYZE people, memberships;
"""


@pytest.fixture
def explained(request: pytest.FixtureRequest, database, app_engine: Engine, alpha: Certified, bravo: Certified):
    """Tables with rows, and a function that returns query plans. The parameters are the rows."""
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        # The test disables triggers, because no test here reads their output.
        connection.execute("SET session_replication_role = replica")
        connection.execute(request.param)

    def explained(call, *, scans: bool = True, **given) -> str:
        """The plan of the last statement of a call for the tenant.

        Without `scans`, PostgreSQL must use an index even for few rows, as it does for many.
        """
        plans = []

        def note(connection, cursor, statement, parameters, context, executemany):
            """Record the plan while the settings of the statement apply."""
            if statement.startswith("SELECT"):
                plan = connection.connection.driver_connection.execute(f"EXPLAIN {statement}", parameters)
                plans.append("\n".join(line for (line,) in plan))

        with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
            if not scans:
                session.connection().exec_driver_sql("SET LOCAL enable_seqscan = off")
            event.listen(app_engine, "before_cursor_execute", note)
            try:
                call(session, **given)
            finally:
                event.remove(app_engine, "before_cursor_execute", note)
        return plans[-1]

    return explained


def spans(orders: SortOrders, keys: dict) -> list[tuple[str, PageSpan]]:
    """The first page of each order and a page in the middle."""
    return [
        (name.removeprefix("-"), PageSpan(orders[name], 101, after))
        for name in orders.names
        for after in (None, keys[name.removeprefix("-")])
    ]


@pytest.mark.parametrize("explained", [pytest.param(INVENTORY, id="inventory")], indirect=True)
def test_orders_of_large_tables_use_an_index(explained, alpha: Certified) -> None:
    mac, serial = "02005e001388", bytes.fromhex("0100001388")
    asked = [
        (
            endpoints.list_endpoints,
            endpoints.ORDERS,
            {"mac": (mac,), "name": ("Printer 250", mac), "created_at": (MIDDLE, mac)},
            {"mac": "uq_endpoints_tenant_id_mac", "*": "ix_endpoints_tenant_id_{}_mac"},
        ),
        (
            users.list_users,
            users.ORDERS,
            {"name": ("user-2",), "created_at": (MIDDLE, "user-2")},
            {"name": "uq_users_tenant_id_name", "*": "ix_users_tenant_id_{}_name"},
        ),
        (
            certificates.list_certificates,
            certificates.ORDERS,
            {
                "serial": (serial,),
                "name": ("laptop-2", serial),
                "not_before": (MIDDLE, serial),
                "not_after": (MIDDLE.replace(year=2027), serial),
            },
            {
                "serial": "uq_certificates_tenant_id_serial",
                "name": "ix_certificates_tenant_id_common_name_key_serial",
                "*": "ix_certificates_tenant_id_{}_serial",
            },
        ),
    ]
    for call, orders, keys, indexes in asked:
        for name, span in spans(orders, keys):
            plan = explained(call, tenant_id=alpha.tenant_id, span=span)
            index = indexes.get(name, indexes["*"]).format(name)
            assert f"using {index}" in plan or f"Backward using {index}" in plan, (span.order.name, plan)
            assert "Sort" not in plan, (span.order.name, plan)


@pytest.mark.parametrize("explained", [pytest.param(MEMBERS, id="members")], indirect=True)
def test_members_are_looked_up_without_scanning_all_users(explained, alpha: Certified) -> None:
    owner = Owner(tenant_id=alpha.tenant_id)
    first = UUID(int=0)
    for name, span in spans(
        members.ORDERS, {"id": (first,), "email": ("person-5", first), "created_at": (MIDDLE, first)}
    ):
        for text in ("", "son-77"):
            plan = explained(members.list_page, owner=owner, span=span, text=text, role="")
            assert "Seq Scan on people" not in plan, (name, plan)
            assert "pk_people" in plan, (name, plan)


@pytest.mark.parametrize("explained", [pytest.param(LOGS, id="logs")], indirect=True)
def test_logs_and_sessions_are_read_from_either_end(explained, alpha: Certified) -> None:
    for _, span in spans(audit.ORDERS, {"at": (MIDDLE, 1)}):
        plan = explained(
            audit.search_entries, owner=Owner(tenant_id=alpha.tenant_id), wanted=audit.AuditEntryFilter(), span=span
        )
        assert "at_id on audit_log" in plan, plan
        assert "Sort" not in plan, plan
    for oldest_first in (False, True):
        for after in (None, SessionKey("live", MIDDLE, 1)):
            given = {"tenant_id": alpha.tenant_id, "after": after, "oldest_first": oldest_first}
            for site, index in (("", "ix_sessions_live"), ("main", "ix_sessions_live_site")):
                plan = explained(sessions.list_sessions, **given, site=site)
                assert f"using {index} on" in plan, plan
                assert "Sort" not in plan, plan
        for search in (decisions.search_decisions, accounting.search_accounting):
            before = (datetime.now(UTC), 1)
            plan = explained(search, tenant_id=alpha.tenant_id, before=before, oldest_first=oldest_first, scans=False)
            assert "Seq Scan" not in plan, plan

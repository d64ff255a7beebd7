"""Rows of a large tenant are read once, even before PostgreSQL has statistics of them (docs/adr/0014)."""

import pytest
from sqlalchemy import text

from nac.cellformat.class_attribute import encode_class
from nac.kit.clock import utc_now
from nac.redecisions import completion, live_sessions, repository, settings

DEVICES = 2_000
PAGE = 200
_DECIDED = """
INSERT INTO auth_log (tenant_id, at, cell_id, mac, method, permitted, reason, nas_identifier)
SELECT %s, %s, %s, lpad(to_hex(n), 12, '0')::macaddr, 'mab', true, '', 'switch' FROM generate_series(1, %s) n
"""
_FOUND = """
INSERT INTO redecision_items (
    tenant_id, redecision_id, session_row, action, nas, nas_key, site, identity, before_verdict, before_rule,
    before_vlan, before_monitored, after_verdict, after_rule, after_vlan, after_monitored, after_reason
)
SELECT %s, %s, n, 'reauthenticate', '', '', '', '', 'permit', '', '20', '', 'permit', '', %s, '', ''
FROM generate_series(%s::int, %s::int) n
"""
_READ = text(
    "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) "
    "FROM pg_stat_xact_user_tables WHERE starts_with(relname, :of)"
)


@pytest.fixture
def unexpected(net_of, owner):
    """A tenant whose rows are newer than the statistics.

    The statistics describe a log full of another tenant's rows.
    """
    known, unexpected = net_of("alpha"), net_of("bravo")
    for tenant in (known, unexpected):
        tenant.moment = utc_now()
        owner.execute(_DECIDED, (tenant.id, tenant.moment, tenant.cell_id, DEVICES))
        if tenant is known:
            owner.execute("ANALYZE auth_log")
    return unexpected


def test_session_page_reads_only_its_devices_decisions(unexpected):
    moment = unexpected.moment
    named = encode_class(int(moment.timestamp() * 1_000_000))
    live = [
        live_sessions.LiveSession(n, moment, f"{n:012x}", "", None, "switch|192.0.2.1", "192.0.2.1", named, None)
        for n in range(1, PAGE + 1)
    ]
    with unexpected.scope("worker") as session:
        found = live_sessions.load_decisions(session, unexpected.id, live)
        read = session.scalar(_READ, {"of": "auth_log"})
    assert set(found) == set(range(1, PAGE + 1))
    # Two rows per device and a few rows of earlier tests, but not all rows of the tenant for each device.
    assert read <= 10 * PAGE


def test_approved_runs_items_are_looked_up_by_index(net):
    runs = [
        net.owner.execute(
            "INSERT INTO redecisions (tenant_id, scope, state, sends) VALUES (%s, 'all', %s, true) RETURNING id",
            (net.id, state),
        ).fetchone()[0]
        for state in ("sending", "deciding")
    ]
    half = DEVICES // 2
    for run, vlan, first, last in (
        (runs[0], "21", 1, DEVICES),
        (runs[1], "21", 1, half),
        (runs[1], "22", half + 1, DEVICES + half),
    ):
        net.owner.execute(_FOUND, (net.id, run, vlan, first, last))
    with net.scope("worker") as session:
        run = repository.get(session, net.id, runs[1], lock=True)
        completion.finish_deciding(session, run, settings.get_settings(session, tenant_id=net.id))
        assert session.scalar(_READ, {"of": "redecision_items"}) <= 20 * DEVICES
    older, later = net.runs
    assert older["items"] == {"found": half, "withdrawn": DEVICES - half}
    assert later["items"] == {"found": DEVICES}
    assert later["detail"].endswith(f"Approved re-decision {runs[0]} still sends {half} requests.")

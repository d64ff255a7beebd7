"""Counts of live sessions in the replica.

The cell counts them only if a policy uses them, after every start and end, and after a restart of the agent.
"""

import pytest

from radius.agent.sessions import counts as live_counts
from radius.agent.shipping.streams import AccountingStream
from tests.agent.conftest import Replica
from tests.agent.journal_records import Reports, drain
from tests.agent.mirrored_rows import add_policy, publish

ASKS = {
    "rules": [
        {
            "id": "many",
            "name": "Too many at once",
            "when": {"attribute": "session.count.user", "operator": "greater_than", "value": 2},
            "then": {"verdict": "deny"},
        }
    ]
}
MAC = "maabbccddeeff"


@pytest.fixture
def ship(journal, replica):
    """Ship as an agent does: the replica lists the tenants to count, and applies the counts afterwards."""
    shipper = journal.shipper(AccountingStream(lambda: replica.sync.session_counts.counted))

    def ship(*records):
        journal.write(*records)
        drain(shipper)
        replica.catch_up()

    yield ship
    shipper.close()


def counts(replica, tenant):
    names = (MAC, "uanna", "m000000000001", "uben")
    with replica.view as view:
        return {name: live for name in names if (live := view.session_count(tenant.number, name))}


def stored(replica):
    return len(replica.everything["session_counts"])


def test_starts_and_ends_are_counted_when_shipped(owner, alpha, reports, replica, ship):
    add_policy(owner, alpha, ASKS)
    replica.catch_up()
    other = {"session": "s2", "station": "00-00-00-00-00-01"}
    ship(reports.start(), reports.start(**other))
    assert counts(replica, alpha) == {MAC: 1, "m000000000001": 1, "uanna": 2}
    ship(reports.start(session="s3", User_Name="ANNA"))
    assert counts(replica, alpha) == {MAC: 2, "m000000000001": 1, "uanna": 3}
    ship(reports.stop(1))
    ship(reports.stop(1, **other))
    assert counts(replica, alpha) == {MAC: 1, "uanna": 1}
    # A repeated report (RFC 2866 2) is the same session.
    ship(reports.start(session="s3", User_Name="ANNA"))
    assert counts(replica, alpha) == {MAC: 1, "uanna": 1}


def test_tenant_without_counting_policies_costs_nothing(owner, alpha, reports, make, replica, ship):
    bravo = make("bravo")
    add_policy(owner, alpha, ASKS)
    add_policy(owner, bravo)
    replica.catch_up()
    owner.execute("DELETE FROM replica_changes")
    ship(reports.start(), Reports(bravo).start())
    assert counts(replica, alpha) == {MAC: 1, "uanna": 1}
    assert counts(replica, bravo) == {}
    told = owner.execute("SELECT DISTINCT tenant_id FROM replica_changes WHERE noun = 'session'").fetchall()
    assert told == [(alpha.id,)]


def test_policy_that_starts_counting_includes_live_sessions(owner, alpha, reports, replica, ship):
    policy = add_policy(owner, alpha)
    ship(reports.start(), reports.start(session="s2"))
    assert stored(replica) == 0
    publish(owner, alpha, policy, 2, ASKS)
    replica.catch_up()
    assert counts(replica, alpha) == {MAC: 2, "uanna": 2}
    publish(owner, alpha, policy, 3, {"rules": []})
    replica.catch_up()
    assert stored(replica) == 0


def test_restarted_agent_counts_live_sessions(owner, alpha, reports, platform, cell_engine, replica, ship, journal):
    add_policy(owner, alpha, ASKS)
    replica.catch_up()
    ship(reports.start())
    # These records are shipped while no replica is updated.
    journal.ship(reports.start(session="s2"))
    directory = replica.writer._directory
    replica.writer.close()
    again = Replica(platform.cell_id, cell_engine, directory)
    replica.writer = again.writer
    again.catch_up()
    assert again.sync.counters["full_loads"] == 0
    assert counts(again, alpha) == {MAC: 2, "uanna": 2}


def test_missed_changes_are_fixed_by_a_recount(owner, alpha, reports, replica, ship, monkeypatch):
    monkeypatch.setattr(live_counts, "RECOUNT_SECONDS", 0.0)
    monkeypatch.setattr(live_counts, "SETTLE_SECONDS", 0.0)
    add_policy(owner, alpha, ASKS)
    replica.catch_up()
    ship(reports.start(), reports.restart(1))
    replica.sync._moved_at = float("-inf")
    replica.catch_up()
    assert counts(replica, alpha) == {}

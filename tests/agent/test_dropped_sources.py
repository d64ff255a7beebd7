"""Alarms about NASes whose requests radiusd drops, or that still use the old secret of a rotation.

Each has a remedy.
"""

import json
from datetime import timedelta
from platform import node

import pytest

from nac.kit.clock import utc_now
from nac.kit.errors import DatabaseUnavailable
from nac.kit.request_sources import DEMO_ADDRESS
from radius.agent.alarms import Alarms
from radius.agent.radiusd.dropped_sources import (
    ALARM_SECONDS,
    LOG_SECONDS,
    UNFINISHED_LOGINS,
    UNSIGNED_REQUESTS,
    WRONG_SECRET,
    DroppedSources,
)
from radius.agent.status import report_status, status_document, write_status
from radius.agent.tenant_alarms import update_rotation_alarms

ALPHA, BRAVO = 0, 1


@pytest.fixture
def alarms():
    return Alarms()


@pytest.fixture
def watch(cell_engine, platform, alarms, clock):
    """Watch the sources that `take` returns: pairs of a slot and an address."""

    def watch(kind, take):
        return DroppedSources(cell_engine, platform.cell_id, alarms, kind, take, clock)

    return watch


def codes(alarms):
    return {alarm.code for alarm in alarms.standing()}


def sources(alarms):
    return [alarm.detail.split(" to tenant")[0] for alarm in alarms.standing()]


def test_wrong_secret_raises_an_alarm_until_it_stops(watch, alarms, clock, alpha):
    heard = [{*((ALPHA, f"192.0.2.{last}") for last in (1, 2, 3, 4)), (BRAVO, "192.0.2.9")}]
    dropped = watch(WRONG_SECRET, lambda: heard.pop() if heard else set())
    dropped.report()
    [alarm] = alarms.standing()
    assert (alarm.code, alarm.tenant) == ("wrong-secret:alpha", alpha.number)
    assert "192.0.2.1, 192.0.2.2, 192.0.2.3 and others" in alarm.detail
    assert "revealRadiusSecret (tenant=alpha, next=true)" in alarm.detail
    clock.now += ALARM_SECONDS - 1
    heard.append({(ALPHA, "192.0.2.4")})
    dropped.report()
    for seconds, left in ((2, ["Packets from 192.0.2.4"]), (ALARM_SECONDS, [])):
        clock.now += seconds
        dropped.report()
        assert sources(alarms) == left


def test_wrong_secret_of_a_self_test_raises_no_alarm(owner, watch, alarms, alpha, bravo):
    """Packets from other sources at that time raise an alarm when they are repeated."""
    dropped = watch(WRONG_SECRET, lambda: {(ALPHA, "192.0.2.1"), (BRAVO, "192.0.2.2")})
    owner.execute(
        "INSERT INTO self_tests (tenant_id, requested_by, state) VALUES (%s, 't', 'running'), (%s, 't', 'queued')",
        (alpha.id, bravo.tenant_id),
    )
    dropped.report()
    assert codes(alarms) == {"wrong-secret:bravo"}
    for change, expected in (
        ("state = 'done', ended_at = now()", {"wrong-secret:bravo"}),
        ("ended_at = ended_at - interval '2 minutes'", {"wrong-secret:alpha", "wrong-secret:bravo"}),
    ):
        owner.execute(f"UPDATE self_tests SET {change} WHERE state <> 'queued'")
        dropped.report()
        assert codes(alarms) == expected


def test_own_wrong_secret_trial_raises_and_hides_no_alarm(watch, alarms, alpha, bravo):
    heard = {(ALPHA, str(DEMO_ADDRESS)), (BRAVO, str(DEMO_ADDRESS)), (BRAVO, "127.0.0.1")}
    watch(WRONG_SECRET, lambda: heard).report()
    assert (codes(alarms), sources(alarms)) == ({"wrong-secret:bravo"}, ["Packets from 127.0.0.1"])


def test_abandoned_self_test_silences_nothing(owner, watch, alarms, alpha):
    owner.execute(
        "INSERT INTO self_tests (tenant_id, requested_by, state, due_at)"
        " VALUES (%s, 't', 'running', now() - interval '1 hour')",
        (alpha.id,),
    )
    watch(WRONG_SECRET, lambda: {(ALPHA, "192.0.2.1")}).report()
    assert codes(alarms) == {"wrong-secret:alpha"}


def test_events_during_a_database_outage_are_reported_later(watch, alarms, alpha, monkeypatch):
    heard = [{(ALPHA, "192.0.2.1")}, set()]
    dropped = watch(WRONG_SECRET, lambda: heard.pop(0))

    def away() -> set[int]:
        raise DatabaseUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(dropped, "_slots_under_test", away)
        with pytest.raises(DatabaseUnavailable):
            dropped.report()
    dropped.report()
    assert codes(alarms) == {"wrong-secret:alpha"}


def test_unsigned_requests_raise_an_alarm_with_the_remedy(watch, alarms, alpha, bravo):
    heard = {(ALPHA, "192.0.2.1"), (ALPHA, str(DEMO_ADDRESS)), (BRAVO, str(DEMO_ADDRESS)), (7, "192.0.2.9")}
    watch(UNSIGNED_REQUESTS, lambda: heard).report()
    [alarm] = alarms.standing()
    assert (alarm.code, alarm.tenant) == ("unsigned-requests:alpha", alpha.number)
    assert alarm.detail.startswith("Access-Requests from 192.0.2.1 to tenant alpha carry no Message-Authenticator")
    assert "createNas (tenant=alpha, address, require_message_authenticator=false)" in alarm.detail


def test_each_dropped_source_is_logged_once_a_minute(watch, clock, alpha, caplog):
    heard = {(ALPHA, "192.0.2.1"), (ALPHA, "192.0.2.2")}
    dropped = watch(UNSIGNED_REQUESTS, lambda: heard)

    def lines() -> list[str]:
        caplog.clear()
        dropped.report()
        return [record.getMessage().partition(" carry no")[0] for record in caplog.records]

    assert lines() == [f"Access-Requests from 192.0.2.{last} to tenant alpha" for last in (1, 2)]
    clock.now += LOG_SECONDS - 1
    assert lines() == []
    clock.now += 1
    heard.remove((ALPHA, "192.0.2.1"))
    assert lines() == ["Access-Requests from 192.0.2.2 to tenant alpha"]


def test_flood_of_forged_sources_is_bounded(watch, alarms, alpha, caplog):
    heard = {(ALPHA, f"10.0.{n // 250}.{n % 250}") for n in range(5_000)}
    watch(UNSIGNED_REQUESTS, lambda: heard).report()
    assert len(caplog.records) == 100
    [alarm] = alarms.standing()
    assert " and others to tenant alpha" in alarm.detail
    assert len(alarm.detail) < 1_000


def test_rotation_with_nases_left_behind_names_the_commands(owner, cell_engine, platform, alarms, alpha):
    [rotation] = owner.execute(
        "INSERT INTO secret_rotations (tenant_id, next_sealed, ends_at, created_at, started_by)"
        " VALUES (%s, 'x', %s, %s, 't') RETURNING id",
        (alpha.id, utc_now() + timedelta(hours=2), utc_now() - timedelta(days=6)),
    ).fetchone()
    update_rotation_alarms(cell_engine, platform.cell_id, alarms)
    assert alarms.standing() == []
    owner.execute(
        "INSERT INTO secret_sightings (rotation_id, tenant_id, nas_key, old_at) VALUES (%s, %s, 'sw|1', now())",
        (rotation, alpha.id),
    )
    update_rotation_alarms(cell_engine, platform.cell_id, alarms)
    [alarm] = alarms.standing()
    assert "1 NASes still use this secret" in alarm.detail
    for operation in ("listSecretRotationNases", "finishSecretRotation"):
        assert f"{operation} (tenant=alpha)" in alarm.detail
    owner.execute("UPDATE secret_rotations SET state = 'finished', next_sealed = NULL")
    update_rotation_alarms(cell_engine, platform.cell_id, alarms)
    assert alarms.standing() == []


def test_status_file_and_database_get_the_next_steps(cell_engine, platform, watch, alarms, alpha, owner, tmp_path):
    watch(UNFINISHED_LOGINS, lambda: {(ALPHA, "192.0.2.1")}).report()
    state = {"state": "serving", "cell": "cell-1", "slots": 1, "tenants": 1, "position_at": None, "database": True}
    state |= {"radiusd_pid": None, "verifier_pid": None, "memory": {}, "backlog": {}, "counters": {}}
    write_status(tmp_path / "status.json", status_document(**state, alarms=alarms.standing()))
    [row] = json.loads((tmp_path / "status.json").read_text())["alarms"]
    assert row["detail"].endswith("List the devices that left after the server certificate")
    parameters = {"tenant": "alpha", "reason": "conversation-abandoned"}
    assert row["next_steps"] == [{"operation_id": "listDecisions", "parameters": parameters}]
    owner.execute("UPDATE cells SET host = %s WHERE id = %s", (node(), platform.cell_id))
    report_status(cell_engine, platform.cell_id, {}, alarms.standing(), shipped_until=0)
    [[[stored]]] = owner.execute("SELECT alarms FROM cells WHERE id = %s", (platform.cell_id,)).fetchall()
    named = "listDecisions (tenant=alpha, reason=conversation-abandoned)"
    assert (stored["detail"], "next_steps" in stored) == (f"{row['detail']}: {named}", False)

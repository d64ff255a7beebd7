"""Events without a log table: sessions, devices, certificates and alarms. Feeds send each event once."""

import json
from dataclasses import asdict
from datetime import timedelta
from types import SimpleNamespace

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import Engine

from nac.certificates import bulk_revocation, expiry
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.enrichment import enrich_batch
from nac.inventory.endpoints.service import record_expired_approvals
from nac.kit.clock import utc_now
from nac.kit.db import CellScope, PlatformScope, session_scope
from nac.logs.events.document import to_json
from nac.logs.events.event_values import EventTenant
from nac.logs.events.schema import event_schema
from nac.logs.feeds import batch_reader, delivery_turns, service
from nac.logs.feeds.batch_reader import FeedPosition
from nac.logs.feeds.event_sources import EVENT_SOURCES
from nac.logs.feeds.progress import DeliveryStep, store_delivery
from nac.logs.feeds.syslog_message import SyslogFormatter
from nac.models import Certificate
from nac.onboarding import tenant_purge
from nac.onboarding.log_purge import delete_logs
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants
from radius.agent.alarms import Alarms
from tests.agent.journal_records import AT, SECOND, Journal, accounting, later
from tests.factories.certificates import certify
from tests.factories.tenancy import ACTOR, Platform
from tests.feeds.conftest import NOWHERE, Tenancy, of_kinds
from tests.postgres import Database

MAC = "aa:bb:cc:00:11:22"
AUTHPRIV = 80
# RFC 5424 6.2.1
SEVERITIES = {"session": 6, "alarm": 4, "endpoint": 5, "certificate": 5}
VALIDATOR = Draft202012Validator(event_schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)


def next_events(tenancy: Tenancy, *, most: int = 100) -> list[dict]:
    """The next events, stored as sent. Each event matches the schema."""
    found: list[dict] = []
    while True:
        with tenancy.scope(tenancy.worker) as session:
            feed = service.require_feed(session, tenant_id=tenancy.id, slug="siem")
            batch = batch_reader.read_batch(session, feed, FeedPosition.of(feed), most=most)
            assert batch.gone == 0
            if batch.last:
                return found
            tenant = EventTenant(str(tenancy.id), "acme-office")
            events = [EVENT_SOURCES[source].event(row, tenant) for source, row in batch.rows]
            store_delivery(session, feed, DeliveryStep(batch.position, len(events)), now=utc_now())
        for event in events:
            document = json.loads(to_json(event))
            assert [error.message for error in VALIDATOR.iter_errors(document)] == []
            message = SyslogFormatter(NOWHERE).message(event)
            assert message.startswith(b"<%d>1 " % (AUTHPRIV + SEVERITIES[document["admit"]["kind"]]))
            assert json.loads(message[message.index(b'{"@timestamp"') :]) == document
            found.append(document)


def actions(tenancy: Tenancy) -> list[str]:
    return [each["event"]["action"] for each in next_events(tenancy)]


@pytest.fixture
def journal(tmp_path, database: Database, platform: Platform):
    made = Journal(tmp_path / "journal", database, platform.cell_id)
    yield made
    made.close()


def slot_of(tenancy: Tenancy) -> SimpleNamespace:
    [(slot,)] = tenancy.sql("SELECT number FROM slots WHERE tenant_id = %s", tenancy.id)
    return SimpleNamespace(id=tenancy.id, slot=slot)


def notes(tenancy: Tenancy, kind: str) -> int:
    [(number,)] = tenancy.sql("SELECT count(*) FROM event_notes WHERE tenant_id = %s AND kind = %s", tenancy.id, kind)
    return number


def test_session_start_and_end_are_sent(acme: Tenancy, other: Tenancy, journal: Journal):
    acme.add(settings=of_kinds("session"))
    other.add(settings=of_kinds("authentication"))
    own, foreign = slot_of(acme), slot_of(other)
    journal.ship(accounting(own, "Start"), accounting(foreign, "Start"), accounting(own, "Start", session="s2"))
    [first, second] = next_events(acme)
    assert [each["admit"]["session"]["id"] for each in (first, second)] == ["s1", "s2"]
    assert (first["event"]["action"], first["event"]["type"]) == ("session-started", ["start"])
    assert (first["user"], first["observer"]["name"]) == ({"name": "anna"}, "switch-1")
    journal.ship(accounting(own, "Interim-Update", at=AT + 60 * SECOND, seconds=60, Acct_Input_Octets="7"))
    assert next_events(acme) == []
    journal.ship(
        accounting(
            own, "Stop", at=AT + 90 * SECOND, seconds=90, Acct_Input_Octets="9", Acct_Terminate_Cause="Lost-Carrier"
        )
    )
    [ended] = next_events(acme)
    assert (ended["event"]["action"], ended["client"]["bytes"]) == ("session-ended", 9)
    assert ended["admit"]["session"]["terminate_cause"] == "Lost-Carrier"
    # The first report of one session is its end. Another session ends because its NAS restarts.
    journal.ship(accounting(own, "Stop", at=AT + 95 * SECOND, seconds=5, session="s3"))
    assert actions(acme) == ["session-started", "session-ended"]
    journal.ship(accounting(own, "Accounting-On", at=AT + 100 * SECOND))
    [restarted] = next_events(acme)
    assert restarted["admit"]["session"] | {"row": 0} == {
        "id": "s2",
        "row": 0,
        "started": restarted["admit"]["session"]["started"],
        "ended": restarted["@timestamp"],
        "terminate_cause": "NAS-Reboot",
        "flags": ["nas-restarted"],
        "seconds": 0,
    }
    assert notes(other, "session") == 0


def test_silent_session_is_sent_as_stale_and_as_resumed(acme: Tenancy, journal: Journal):
    acme.add(settings=of_kinds("session"))
    own = slot_of(acme)
    journal.ship(accounting(own, "Start"))
    journal.ship(accounting(own, "Interim-Update", at=AT + 60 * SECOND, seconds=60))
    later(journal, 4 * 3_600)
    journal.ship(accounting(own, "Interim-Update", at=AT + 5 * 3_600 * SECOND, seconds=5 * 3_600))
    journal.ship(accounting(own, "Stop", at=AT + 6 * 3_600 * SECOND, seconds=6 * 3_600))
    events = next_events(acme, most=1)
    assert [each["event"]["action"] for each in events] == [
        *("session-started", "session-stale", "session-resumed", "session-ended")
    ]
    assert events[1]["admit"]["session"]["flags"] == ["stale"]
    assert "ended" not in events[2]["admit"]["session"]
    assert len({each["event"]["id"] for each in events}) == 4


def test_batch_of_sessions_is_one_mark(acme: Tenancy, journal: Journal):
    acme.add(settings=of_kinds("session"))
    own = slot_of(acme)
    journal.ship(*(accounting(own, "Start", at=AT + n, session=f"s{n}") for n in range(300)))
    journal.ship(*(accounting(own, "Stop", at=AT + 300 + n, seconds=0, session=f"s{n}") for n in range(300)))
    assert acme.sql("SELECT source, events FROM feed_marks WHERE source <> 'audit_log'") == [
        ("session", 300),
        ("session", 300),
    ]
    assert len(next_events(acme)) == 600


def test_device_is_sent_from_discovery_to_deletion(acme: Tenancy):
    acme.add(settings=of_kinds("endpoint"))
    acme.sql("INSERT INTO endpoint_sightings (tenant_id, mac, last_seen_at) VALUES (%s, %s, now())", acme.id, MAC)
    acme.sql("INSERT INTO endpoint_work (tenant_id, mac) VALUES (%s, %s)", acme.id, MAC)
    with acme.scope(acme.worker) as session:
        enrich_batch(session, tenant_id=acme.id)
    [discovered] = next_events(acme)
    assert discovered["event"]["action"] == "endpoint-discovered"
    assert discovered["client"] == {"mac": "AA-BB-CC-00-11-22"}
    acme.call(endpoints.create_endpoint, mac=MAC, name="printer", allow_random=True)
    acme.call(endpoints.block_endpoint, mac=MAC)
    acme.call(endpoints.unblock_endpoint, mac=MAC)
    acme.call(endpoints.update_endpoint, mac=MAC, name="printer 2")
    acme.call(endpoints.delete_endpoint, mac=MAC)
    events = next_events(acme)
    assert [each["admit"]["status"] for each in events] == ["approved", "blocked", "unblocked", "removed"]
    assert [each["admit"]["name"] for each in events] == ["printer", "printer", "printer", "printer 2"]


def test_expired_approval_is_sent_once_unless_extended(acme: Tenancy):
    acme.add(settings=of_kinds("endpoint"))
    soon = utc_now() + timedelta(hours=1)
    for last in "01":
        acme.call(endpoints.create_endpoint, mac=f"00:1b:a9:00:00:0{last}", valid_until=soon)
    acme.call(endpoints.update_endpoint, mac="00:1b:a9:00:00:00", valid_until=None)
    assert actions(acme) == ["endpoint-created"] * 2
    assert expire(acme) == 0
    # The passage of time does this without a write.
    acme.sql("UPDATE endpoint_expiries SET valid_until = now()")
    assert [expire(acme), expire(acme)] == [1, 0]
    [expired] = next_events(acme)
    assert (expired["event"]["action"], expired["client"]["mac"]) == ("endpoint-expired", "00-1B-A9-00-00-01")


def expire(tenancy: Tenancy) -> int:
    with session_scope(PlatformScope(), engine=tenancy.worker) as session:
        return record_expired_approvals(session)


def test_certificate_issue_renewal_and_end_are_sent(acme: Tenancy):
    acme.add(settings=of_kinds("certificate"))
    certified = certify(acme.app, acme.id)
    authorities = next_events(acme)
    assert {each["admit"]["profile"] for each in authorities} >= {"root-authority", "issuing-authority"}
    assert {each["event"]["action"] for each in authorities} == {"certificate-issued"}
    now = certified.now
    with acme.scope() as session:
        old = certified.issue(session, not_before=now - timedelta(days=365), not_after=now + timedelta(days=10))
    with acme.scope() as session:
        certified.issue(session, common_name="laptop 2")
    acme.sql("UPDATE certificates SET status = 'intended', renews_id = id WHERE common_name = 'laptop 2'")
    acme.sql("UPDATE certificates SET status = 'valid' WHERE common_name = 'laptop 2'")
    for _ in range(2):
        with acme.scope(acme.worker) as session:
            expiry.record_warnings(session, actor=ACTOR, tenant_id=acme.id, now=now)
    only = Certificate.common_name == "laptop 1"
    acme.call(bulk_revocation.suspend_all, which=only, now=now)
    acme.call(bulk_revocation.reinstate_all, which=only)
    acme.call(bulk_revocation.revoke_all, which=only, now=now, reason="keyCompromise")
    events = next_events(acme)
    assert [each["admit"]["status"] for each in events] == [
        *("issued", "issued", "renewed", "expiring", "suspended", "reinstated", "revoked")
    ]
    assert {each["x509"]["serial_number"] for each in (events[0], *events[3:])} == {old.serial.hex().upper()}
    assert (events[3]["admit"]["days"], events[-1]["event"]["reason"]) == (14, "keyCompromise")
    acme.call(bulk_revocation.revoke_authority, which="issuing", now=now)
    events = next_events(acme)
    assert {each["admit"]["status"] for each in events} == {"revoked"}
    # The device's certificates end with it, except those revoked before.
    profiles = sorted(each["admit"]["profile"] for each in events)
    assert profiles == ["eap-client-device", "eap-server", "issuing-authority"]


def test_tenant_alarm_is_sent_only_to_it_even_if_brief(
    acme: Tenancy, other: Tenancy, cell_engine: Engine, platform: Platform
):
    acme.add(settings=of_kinds("alarm"))
    other.add(settings=of_kinds("alarm"))
    alarms = Alarms()

    def report() -> None:
        with session_scope(CellScope(platform.cell_id), engine=cell_engine) as session:
            standing = alarms.list_for_report()
            next_events = [asdict(alarm) for alarm in standing]
            cells.report_cell(session, cell_id=platform.cell_id, host="127.0.0.1", counters={}, alarms=next_events)
        alarms.mark_reported(standing)

    [(number,)] = acme.sql("SELECT number FROM tenants WHERE id = %s", acme.id)
    alarms.report("disk-low", "Little room.")
    alarms.report("pool-low-1", "Pool guests has 3 addresses left.", tenant=number)
    report()
    alarms.report("pool-low-1", "Pool guests has 2 addresses left.", tenant=number)
    report()
    [raised] = next_events(acme)
    assert (raised["event"]["action"], raised["event"]["kind"], raised["event"]["code"]) == (
        *("alarm-raised", "alert", "pool-low-1"),
    )
    assert raised["admit"]["cell"] == "cell-1"
    alarms.clear("pool-low-1")
    alarms.report("brief", "It was over at once.", tenant=number)
    alarms.clear("brief")
    for _ in range(3):
        report()
    events = next_events(acme)
    assert [(each["event"]["action"], each["admit"]["code"]) for each in events] == [
        ("alarm-cleared", "pool-low-1"),
        ("alarm-raised", "brief"),
        ("alarm-cleared", "brief"),
    ]
    assert events[0]["admit"]["since"] == raised["admit"]["since"] == raised["@timestamp"]
    assert next_events(other) == []


def test_worker_alarm_is_sent_until_it_clears(acme: Tenancy):
    acme.add(settings=of_kinds("alarm"))
    acme.add("hook")
    failing = "failure_reported_at = now(), failing_since = now(), failure = 'No answer.'"
    fail = f"UPDATE feeds SET {failing} WHERE slug = 'hook'"
    recover = "UPDATE feeds SET failure_reported_at = NULL, failing_since = NULL, failure = '' WHERE slug = 'hook'"
    for statement in (fail, fail, recover, fail):
        acme.sql(statement)
    acme.do(service.delete_feed, "hook")
    acme.sql(
        "INSERT INTO retention_notices (tenant_id, log, kind, since, detail)"
        " VALUES (%s, 'auth', 'budget', now(), 'Full.')",
        acme.id,
    )
    acme.sql("DELETE FROM retention_notices")
    sent = [(each["event"]["action"], each["admit"]["code"], each["event"]["reason"]) for each in next_events(acme)]
    failing, full = ("feed-failing-hook", "No answer."), ("retention-budget-auth", "Full.")
    assert sent == [
        (f"alarm-{action}", *alarm) for alarm in (failing, failing, full) for action in ("raised", "cleared")
    ]


def test_replay_sends_notes_from_before_the_feed(acme: Tenancy):
    acme.call(endpoints.create_endpoint, mac="00:1b:a9:00:00:01")
    acme.add(settings=of_kinds("endpoint", "alarm"))
    assert next_events(acme) == []
    acme.replay(since=timedelta(hours=1))
    assert actions(acme) == ["endpoint-created"]


def test_notes_are_deleted_with_age_and_with_their_tenant(acme: Tenancy, other: Tenancy):
    for tenancy in (acme, other):
        tenancy.call(endpoints.create_endpoint, mac="00:1b:a9:00:00:01")
    other.sql("UPDATE event_notes SET at = at - interval '9 days' WHERE tenant_id = %s", other.id)
    with session_scope(PlatformScope(), engine=acme.worker) as session:
        delivery_turns.prune_marks(session)
    assert (notes(acme, "endpoint"), notes(other, "endpoint")) == (1, 0)
    with session_scope(PlatformScope(), engine=acme.app) as session:
        tenants.delete_tenant(session, actor=ACTOR, tenant_id=acme.id)
        tenant_purge.purge_tenant(session, actor=ACTOR, tenant_id=acme.id)
    delete_logs(seconds=5, engine=acme.worker)
    assert acme.sql("SELECT FROM event_notes") == []

"""Records that PostgreSQL rejects are set aside exactly once, and shipped when they can be stored."""

from concurrent.futures import ThreadPoolExecutor
from zlib import crc32

import psycopg
import pytest

from nac.cellformat.journal.writer import FRAME, list_segments, segment_path
from nac.kit.db import CellScope, TenantScope, driver_connection, session_scope
from nac.kit.errors import AdmitError
from nac.kit.settings import load_settings
from nac.models import Feed
from radius.agent.accounting_parser import parse_accounting
from radius.agent.paths import CellPaths, write_identity
from radius.agent.replay import ReplayResult, replay_cell
from radius.agent.sessions.batch import SessionBatch
from radius.agent.sessions.maintenance import SETTLED_SECONDS
from radius.agent.sessions.merge import recall_sessions
from radius.agent.shipping.streams import AuthStream
from tests.agent.journal_records import AT, Reports, auth, certificate_sent, drain, later
from tests.agent.stored_rows import count
from tests.factories.rows import make_row
from tests.journal.journal_contents import decode
from tests.polling import until

UNREADABLE = b"\x92\xa7unknown\x01"


def quarantined(owner):
    return owner.execute(
        "SELECT stream, tenant_id, why, payload FROM quarantined_records ORDER BY stream DESC, id"
    ).fetchall()


def add_unreadable(journal):
    path = segment_path(journal.directory / "auth", list_segments(journal.directory / "auth")[-1])
    with path.open("ab") as file:
        file.write(FRAME.pack(len(UNREADABLE), crc32(UNREADABLE)) + UNREADABLE)


def leave_cell(owner, tenant):
    owner.execute("UPDATE slots SET tenant_id = NULL, status = 'retired' WHERE tenant_id = %s", (tenant.id,))


def return_to_cell(owner, tenant):
    owner.execute("UPDATE slots SET tenant_id = %s, status = 'assigned' WHERE number = %s", (tenant.id, tenant.slot))


@pytest.fixture
def replay(database, platform, tmp_path):
    """Replay the quarantined records, as `python -m radius.agent.replay` does on the cell's machine."""
    paths = CellPaths(tmp_path / "cell")
    paths.root.mkdir()
    write_identity(paths, platform.cell_id)
    settings = load_settings(
        {
            "ADMIT_VAR_DIR": str(tmp_path),
            "ADMIT_CELL_DIR": str(paths.root),
            "ADMIT_DATABASE_CELL_URL": database.cell_url,
        }
    )
    return lambda: replay_cell(settings)


def test_only_the_record_that_postgresql_rejects_is_set_aside(owner, alpha, journal):
    records = [auth(alpha, at=AT + number) for number in range(60)]
    records[17] = auth(alpha, at=AT + 17, policy_id="no uuid")
    records[44] = auth(alpha, at=AT + 44, mac="no address")
    journal.ship(*records)
    assert count(owner, "auth_log") == 58
    assert journal.auth.counters["quarantined"] == 2
    assert journal.alarm_codes == {"quarantined-auth"}
    kept = quarantined(owner)
    assert [decode(payload) for *_, payload in kept] == [records[17], records[44]]
    assert [tenant_id for _, tenant_id, *_ in kept] == [alpha.id, alpha.id]
    assert "no uuid" in kept[0][2]


def test_record_of_a_tenant_that_left_the_cell_is_set_aside(owner, alpha, journal):
    journal.write(auth(alpha), auth(alpha, tenant_id=""))
    leave_cell(owner, alpha)
    journal.ship()
    assert count(owner, "auth_log") == 0
    assert journal.auth.counters["stray"] == 2
    assert journal.alarm_codes == {"stray-auth"}
    assert [tenant_id for _, tenant_id, *_ in quarantined(owner)] == [alpha.id, None]


def test_unreadable_record_stops_nothing(owner, alpha, journal):
    journal.write(auth(alpha))
    add_unreadable(journal)
    journal.ship(auth(alpha, at=AT + 1))
    assert count(owner, "auth_log") == 2
    assert [(tenant_id, payload) for _, tenant_id, _, payload in quarantined(owner)] == [(None, UNREADABLE)]


def test_repeated_batch_sets_its_bad_records_aside_once(owner, alpha, journal):
    """The database accepts the log rows and then fails, so the shipper retries the whole batch."""
    journal.write(auth(alpha, tenant_id=""), auth(alpha))
    add_unreadable(journal)
    owner.execute("REVOKE INSERT ON endpoint_sightings FROM admit_cell")
    try:
        for _ in range(3):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                journal.auth.step()
        assert (quarantined(owner), journal.auth.counters["stray"], journal.alarm_codes) == ([], 0, set())
    finally:
        owner.execute("GRANT INSERT ON endpoint_sightings TO admit_cell")
    journal.ship()
    assert len(quarantined(owner)) == 2
    assert (journal.auth.counters["stray"], journal.auth.counters["quarantined"]) == (1, 1)


def test_agent_killed_after_commit_sets_nothing_aside_twice(owner, alpha, journal):
    journal.ship(auth(alpha, tenant_id=""))
    journal.write(auth(alpha, at=AT + 1, tenant_id=""))
    second = journal.shipper(AuthStream())
    drain(second)
    # This shipper still uses the previous position.
    drain(journal.auth)
    assert len(quarantined(owner)) == 2
    second.close()


def test_full_quarantine_stops_and_reports_the_loss(owner, alpha, journal, monkeypatch):
    monkeypatch.setattr("radius.agent.shipping.quarantine.MAX_RECORDS", 3)
    journal.ship(*(auth(alpha, at=AT + number, tenant_id="") for number in range(5)))
    journal.ship(auth(alpha, at=AT + 9))
    assert (len(quarantined(owner)), count(owner, "auth_log")) == (3, 1)
    assert journal.auth.counters["lost"] == 2
    (alarm,) = journal.alarms.standing()
    assert alarm.detail.endswith("The quarantine is full: 2 were lost.")


def test_replay_ships_storable_records_and_keeps_the_rest(owner, alpha, reports, journal, replay):
    journal.write(
        *(auth(alpha, at=AT + number, mac=f"02000000{number:04x}") for number in range(30)),
        auth(alpha, policy_id="no uuid"),
        certificate_sent(alpha, "c1"),
        *(reports.start(), reports.stop(60)),
    )
    add_unreadable(journal)
    leave_cell(owner, alpha)
    journal.ship()
    assert len(quarantined(owner)) == 35
    assert replay() == {"auth": ReplayResult(0, 33), "acct": ReplayResult(0, 2)}
    return_to_cell(owner, alpha)
    assert replay() == {"auth": ReplayResult(31, 2), "acct": ReplayResult(2, 0)}
    assert (count(owner, "auth_log"), count(owner, "endpoint_sightings")) == (30, 31)
    assert (count(owner, "accounting_log"), count(owner, "sessions")) == (2, 1)
    assert replay() == {"auth": ReplayResult(0, 2), "acct": ReplayResult(0, 0)}
    assert count(owner, "auth_log") == 30


def test_replay_and_shipper_take_turns(owner, database, alpha, reports, journal, replay):
    """The replay and the shipper each require that the other changes no session that they have read."""
    leave_cell(owner, alpha)
    journal.ship(reports.start())
    return_to_cell(owner, alpha)
    waiting = (
        "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
        "WHERE NOT l.granted AND a.datname = current_database()"
    )
    with psycopg.connect(database.owner_url) as shipping, ThreadPoolExecutor(1) as pool:
        shipping.execute("SELECT FROM journal_positions WHERE stream = 'acct' FOR UPDATE")
        replayed = pool.submit(replay)
        until(lambda: owner.execute(waiting).fetchone() == (1,), "the replay waits for its turn")
        assert count(owner, "sessions") == 0
        shipping.rollback()
        assert replayed.result()["acct"] == ReplayResult(1, 0)


@pytest.mark.parametrize(
    ("status", "seconds", "lasts"),
    [("Start", 0, 1_800), ("Interim-Update", 1_200, 1_800), ("Stop", 1_800, 1_800), ("Stop", 2_000, 2_000)],
)
@pytest.mark.parametrize("tells_time", [True, False])
def test_record_replayed_days_later_updates_the_history(
    owner, alpha, reports, journal, replay, status, seconds, lasts, tells_time
):
    missing = status == "Start"
    journal.ship(*reports.session()[missing:])
    leave_cell(owner, alpha)
    told = seconds if tells_time and not missing else None
    journal.ship(reports.record(status, seconds, 10 * seconds or None, seconds=told))
    return_to_cell(owner, alpha)
    later(journal, SETTLED_SECONDS + 3_600)
    (row,) = owner.execute("SELECT id FROM session_history").fetchone()
    assert replay()["acct"] == ReplayResult(1, 0)
    assert (count(owner, "sessions"), count(owner, "session_history")) == (1, 0)
    later(journal, SETTLED_SECONDS + 7_200)
    found = owner.execute("SELECT id, session_seconds, input_octets, flags FROM session_history").fetchall()
    assert found == [(row, lasts, 10 * lasts, ["stopped-twice"] if lasts > 1_800 else [])]
    assert count(owner, "sessions") == 0
    assert owner.execute("SELECT sum(seconds), sum(input_octets) FROM usage_hours").fetchone() == (lasts, 10 * lasts)


def test_replay_keeps_history_of_other_tenants_and_nases(owner, make, alpha, reports, journal, replay):
    bravo = make("bravo")
    journal.ship(*reports.session())
    for tenant in (alpha, bravo):
        leave_cell(owner, tenant)
    journal.ship(*Reports(bravo).session(), *reports.session(nas="other"), *reports.session(600))
    for tenant in (alpha, bravo):
        return_to_cell(owner, tenant)
    later(journal, SETTLED_SECONDS + 3_600)
    assert count(owner, "session_history") == 1
    replay()
    assert (count(owner, "sessions"), count(owner, "session_history")) == (3, 1)


def test_cell_takes_nothing_from_the_history_of_others(owner, alpha, reports, journal):
    journal.ship(*reports.session())
    later(journal, SETTLED_SECONDS + 3_600)
    leave_cell(owner, alpha)
    batch = SessionBatch()
    for record in reports.session():
        batch.add(parse_accounting(record))
    with session_scope(CellScope(journal.acct._cell_id), engine=journal.acct._engine) as session:
        recall_sessions(driver_connection(session).cursor(), batch)
    assert (count(owner, "sessions"), count(owner, "session_history")) == (0, 1)


def test_feed_gets_no_session_start_twice(owner, app_engine, alpha, reports, journal, replay):
    journal.ship(*reports.session())
    later(journal, SETTLED_SECONDS + 3_600)
    with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
        make_row(session, Feed.__table__, alpha.id, sources=["session"])
    leave_cell(owner, alpha)
    journal.ship(reports.session()[1])
    return_to_cell(owner, alpha)
    replay()
    assert count(owner, "sessions") == 1
    assert owner.execute("SELECT what FROM event_notes WHERE kind = 'session'").fetchall() == []


def test_replay_without_a_cell_gives_an_error(database, tmp_path):
    settings = load_settings(
        {"ADMIT_VAR_DIR": str(tmp_path), "ADMIT_DATABASE_CELL_URL": database.cell_url}, required=("DATABASE_CELL_URL",)
    )
    with pytest.raises(AdmitError, match="Run this command on the machine of the cell's agent"):
        replay_cell(settings)

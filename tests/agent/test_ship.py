import os
import random
import threading
import time
from contextlib import suppress
from datetime import timedelta
from multiprocessing import Pipe

import msgspec
import psycopg
import pytest

from nac.cellformat.journal.reader import JournalReader, SegmentPosition
from nac.cellformat.journal.writer import JournalWriter, list_segments, segment_path
from nac.kit.clock import utc_now
from nac.kit.errors import CellTaken, Unavailable
from radius.agent.shipping.streams import AccountingStream, AuthStream
from tests.agent.journal_records import AT, SECOND, accounting, auth, certificate_sent, drain
from tests.agent.shipping_process import ship_until_killed
from tests.agent.stored_rows import count
from tests.forked_processes import forked
from tests.polling import PATIENCE_SECONDS, until
from worker.jobs.logs import create_partitions

pytestmark = pytest.mark.early


def test_auth_record_becomes_a_row(owner, alpha, journal, platform):
    site, nas, policy = (f"00000000-0000-4000-8000-{number:012}" for number in range(3))
    journal.ship(
        auth(alpha, site_id=site, nas_id=nas, policy_id=policy, at=AT + 123_457, identity="tab\there \\N 'quoted' ü\n")
    )
    columns = {
        "(extract(epoch FROM at) * 1000000)::bigint": AT + 123_457,
        "tenant_id": alpha.id,
        "cell_id": platform.cell_id,
        "site_id::text": site,
        "nas_id::text": nas,
        "host(nas_address)": "192.0.2.7",
        "nas_identifier": "switch-1",
        "nas_port": "1/0/3",
        "mac::text": "aa:bb:cc:dd:ee:ff",
        "identity": "tab\there \\N 'quoted' ü\n",
        "method": "mab",
        "permitted": True,
        "reason": "rule-permitted",
        "detail": "",
        "rule_id": "r1",
        "policy_id::text": policy,
        "policy_version": 3,
        "vlan": "20",
        "reply": [["Tunnel-Type:1", ":=", "VLAN"]],
        "request": {
            "radius.NAS-Port": ["3"],
            "mac": ["aabbccddeeff"],
            "mac.random": [True],
            "nas.identifier": ["switch-1"],
            "nas.address": ["192.0.2.7"],
            "endpoint.known": [True],
        },
        "module_microseconds": 40,
        "suppressed": 0,
    }
    rows = owner.execute(f"SELECT {', '.join(columns)} FROM auth_log").fetchall()
    assert rows == [tuple(columns.values())]


def test_verdict_and_mode_are_in_the_log(owner, alpha, journal):
    journal.ship(
        auth(alpha, permitted=True, verdict="deny", monitored="site"),
        auth(alpha, at=AT + 1, permitted=True, verdict="quarantine"),
        # Modules of earlier versions write such records.
        auth(alpha, at=AT + 2),
    )
    rows = owner.execute("SELECT permitted, verdict, monitored FROM auth_log ORDER BY at").fetchall()
    assert rows == [(True, "deny", "site"), (True, "quarantine", ""), (True, "", "")]


def test_record_without_optional_fields_has_nulls_and_blanks(owner, alpha, journal):
    nothing = {"mac": "", "nas_address": "", "nas_identifier": "", "identity": "", "nas_port": ""}
    journal.ship(auth(alpha, **nothing, reply=(), pairs=(), facts={}))
    row = owner.execute("SELECT mac, nas_address, site_id, policy_id, identity, nas_port, reply, request FROM auth_log")
    assert row.fetchone() == (None, None, None, None, "", "", [], {})


def test_accounting_record_becomes_a_row(owner, alpha, journal):
    record = accounting(
        alpha, "Stop", seconds=60, Acct_Input_Octets="5", Acct_Input_Gigawords="2", Acct_Output_Octets="7"
    )
    journal.ship(record)
    row = owner.execute(
        "SELECT status_type, session_id, mac::text, identity, session_seconds, input_octets, output_octets, attributes "
        "FROM accounting_log"
    ).fetchone()
    assert row[:7] == ("Stop", "s1", "aa:bb:cc:dd:ee:ff", "anna", 60, (2 << 32) + 5, 7)
    assert row[7] == [list(pair) for pair in record.attributes]


def test_row_is_in_its_days_partition(owner, alpha, journal):
    (today,) = owner.execute("SELECT (extract(epoch FROM now()) * 1000000)::bigint").fetchone()
    journal.ship(auth(alpha, at=today), auth(alpha, at=AT))
    rows = owner.execute("SELECT tableoid::regclass::text FROM auth_log ORDER BY at").fetchall()
    assert rows[0][0].startswith("auth_log_2")
    assert rows[1][0] == "auth_log_default"


def test_partition_created_during_inserts_gets_all_rows(owner, database, alpha, journal, worker_engine):
    """The partition of the day is missing. Rows are in the default partition, and more rows wait for the lock."""
    day = utc_now() + timedelta(days=7)
    at = int(day.timestamp()) * SECOND
    partition = f"accounting_log_{day:%Y%m%d}"
    owner.execute(f"DROP TABLE {partition}")
    journal.ship(accounting(alpha, "Start", session="before", at=at))
    made = threading.Thread(target=make_partition, args=(worker_engine,))
    stop = threading.Event()
    shipping = threading.Thread(target=journal.acct.run, args=(stop,))
    with psycopg.connect(database.owner_url) as other:
        other.execute(
            "INSERT INTO accounting_log (at, tenant_id, cell_id, status_type) VALUES (%s, %s, 1, 'Stop')",
            (day, alpha.id),
        )
        made.start()
        until(lambda: waiting(owner) == 1, "the partition's maker waits for the writer")
        journal.write(accounting(alpha, "Stop", session="before", at=at + SECOND, seconds=1))
        shipping.start()
        until(lambda: waiting(owner) == 2, "the shipper waits behind it")
    try:
        made.join()
        until(lambda: not journal.acct.backlog_bytes(), "all is shipped")
    finally:
        stop.set()
        shipping.join()
    assert (count(owner, partition), count(owner, "accounting_log_default")) == (3, 0)
    assert (journal.acct.counters["quarantined"], journal.alarm_codes) == (0, set())
    assert sorted(row[0] for row in owner.execute("SELECT session_id FROM sessions")) == ["before"]


def make_partition(engine):
    """Create the partition as the job does, which is retried if other sessions wrote for too long."""
    while True:
        with suppress(Unavailable):
            create_partitions(engine=engine)
            return


def waiting(owner):
    """The number of database sessions that wait for a lock on the accounting log."""
    return owner.execute(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'accounting_log_default'::regclass"
    ).fetchone()[0]


def test_position_stored_by_another_wins(owner, alpha, journal):
    """This happens after a commit whose acknowledgement was lost."""
    journal.ship(auth(alpha))
    journal.write(auth(alpha, at=AT + 1))
    other = journal.shipper(AuthStream())
    drain(other)
    journal.ship(auth(alpha, at=AT + 2))
    assert count(owner, "auth_log") == 3
    other.close()


def test_shipped_segments_are_deleted_except_the_newest(alpha, journal):
    for number in range(4):
        journal.write(auth(alpha, at=AT + number))
        journal.restart_writers()
    assert len(list_segments(journal.directory / "auth")) == 4
    journal.ship()
    assert len(list_segments(journal.directory / "auth")) == 1


def test_torn_tail_of_an_older_segment_is_cut_and_reported(owner, alpha, journal):
    journal.write(auth(alpha), auth(alpha, at=AT + 1))
    journal.restart_writers()
    path = segment_path(journal.directory / "auth", list_segments(journal.directory / "auth")[0])
    os.truncate(path, path.stat().st_size - 5)
    journal.ship(auth(alpha, at=AT + 2))
    assert count(owner, "auth_log") == 2
    assert journal.auth.counters["cut_tails"] == 1
    assert journal.alarm_codes == {"journal-cut-auth"}


def test_text_postgresql_cannot_store_is_cleaned_not_dropped(owner, alpha, journal):
    journal.ship(
        auth(alpha, identity="a\0b", pairs=(("User-Name", "x\0y"),)),
        auth(alpha, at=AT + 1, detail="long " * 20_000),
        accounting(alpha, "Start", User_Name="c\0d", Acct_Session_Id="s\0"),
        certificate_sent(alpha, "c1", identity="e\0f"),
    )
    rows = owner.execute("SELECT identity, request ->> 'radius.User-Name', length(detail) FROM auth_log ORDER BY at")
    assert rows.fetchall() == [("ab", '["xy"]', 0), ("aabbccddeeff", None, 2_000)]
    assert owner.execute("SELECT identity, session_id FROM accounting_log").fetchone() == ("cd", "s")
    assert owner.execute("SELECT identity FROM sessions").fetchone() == ("cd",)
    assert journal.alarm_codes == set()


@pytest.mark.parametrize(
    ("facts", "key"),
    [
        ({"certificate.common_name": ("Laptop",), "identity": ("Laptop",)}, "laptop"),
        ({"certificate.san.upn": ("Anna@corp.example",), "identity": ("Anna@corp.example",)}, "anna@corp.example"),
        ({}, ""),
    ],
)
def test_certificate_is_found_by_its_name(owner, alpha, journal, facts, key):
    journal.ship(auth(alpha, method="eap-tls", facts=facts))
    assert owner.execute("SELECT common_name_key FROM auth_log").fetchone() == (key,)


def abandoned_conversations(owner):
    return owner.execute(
        "SELECT identity, (extract(epoch FROM at) * 1000000)::bigint, method, permitted FROM auth_log "
        "WHERE reason = 'conversation-abandoned' ORDER BY at"
    ).fetchall()


def test_unfinished_conversation_is_abandoned_after_30_seconds(owner, alpha, journal):
    journal.ship(
        certificate_sent(alpha, "c1"),
        msgspec.structs.replace(certificate_sent(alpha, "c2", at=AT + SECOND, identity="bert"), method="peap"),
    )
    anna, bert = ("anna", AT + 30 * SECOND, "eap-tls", False), ("bert", AT + 31 * SECOND, "peap", False)
    for seconds, rows in ((29, []), (30, [anna]), (31, [anna, bert]), (300, [anna, bert])):
        journal.clock.now = AT + seconds * SECOND
        journal.ship()
        assert abandoned_conversations(owner) == rows


def test_finished_conversation_is_not_abandoned(owner, alpha, journal):
    journal.ship(certificate_sent(alpha, "c1"), certificate_sent(alpha, "c2"))
    journal.ship(auth(alpha, at=AT + SECOND, conversation="c1"))
    journal.ship(auth(alpha, at=AT + SECOND, conversation="c2", permitted=False))
    journal.clock.now = AT + 60 * SECOND
    journal.ship()
    assert abandoned_conversations(owner) == []


def test_old_backlog_uses_its_own_time(owner, alpha, journal, monkeypatch):
    """An agent was down for minutes. The end of the conversation is in the next batch, not in this batch."""
    monkeypatch.setattr("radius.agent.shipping.shipper.MAX_RECORDS", 1)
    journal.clock.now = AT + 600 * SECOND
    journal.auth._limit = 1
    journal.ship(
        certificate_sent(alpha, "c1"),
        certificate_sent(alpha, "c2", at=AT + SECOND, identity="bert"),
        auth(alpha, at=AT + 2 * SECOND, conversation="c1"),
    )
    assert [row[0] for row in abandoned_conversations(owner)] == ["bert"]


def test_killed_agent_reports_abandoned_conversations_once(owner, alpha, journal):
    journal.ship(certificate_sent(alpha, "c1"), certificate_sent(alpha, "c2", identity="bert"))
    second = journal.shipper(AuthStream())
    journal.write(auth(alpha, at=AT + SECOND, conversation="c2"))
    drain(second)
    journal.clock.now = AT + 31 * SECOND
    drain(second)
    drain(journal.auth)
    drain(journal.shipper(AuthStream()))
    assert [row[0] for row in abandoned_conversations(owner)] == ["anna"]
    assert owner.execute("SELECT open_conversations FROM journal_positions WHERE stream = 'auth'").fetchone() == ({},)
    second.close()


def test_flood_of_half_open_conversations_is_limited(owner, alpha, journal, monkeypatch):
    monkeypatch.setattr("radius.agent.shipping.conversations.MAX_OPEN_CONVERSATIONS", 5)
    journal.ship(*(certificate_sent(alpha, f"c{number}", identity=f"i{number}") for number in range(8)))
    assert journal.auth._stream.forgotten_conversations == 3
    journal.clock.now = AT + 60 * SECOND
    journal.ship()
    assert len(abandoned_conversations(owner)) == 5


def test_database_outage_loses_and_repeats_nothing(database, cluster, alpha, journal):
    # Commits are asynchronous here. This one is not, so the tenant survives the immediate stop of the cluster.
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("SET synchronous_commit = on")
        owner.execute("CREATE TEMPORARY TABLE flushed ()")
    stop = threading.Event()
    thread = threading.Thread(target=journal.acct.run, args=(stop,))
    thread.start()
    try:
        for number in range(900):
            journal.write(accounting(alpha, "Start", session=f"s{number}", at=AT + number))
            time.sleep(0.001)
            if number in (300, 600):
                cluster.stop()
                until(lambda: journal.alarm_codes == {"ship-acct"}, "the alarm")
                cluster.start()
        until(lambda: journal.acct.counters["failures"] and not journal.acct.backlog_bytes(), "all is shipped")
    finally:
        stop.set()
        thread.join()
    drain(journal.shipper(AccountingStream()))
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        assert count(owner, "accounting_log") == count(owner, "sessions") == 900
    assert journal.alarm_codes == set()


@pytest.mark.parametrize("times", [3, pytest.param(7, marks=pytest.mark.long)])
def test_repeatedly_killed_shipper_ships_every_record_once(owner, database, alpha, journal, platform, times):
    dice = random.Random(4)
    heard, told = Pipe(duplex=False)
    written = 0
    for turn in range(times):
        process = forked(
            lambda: ship_until_killed(database.cell_url, platform.cell_id, journal.directory, tell=told.send)
        )
        assert heard.recv() == "ready"
        end = time.monotonic() + dice.uniform(0.05, 0.4)
        # The first shipper is killed after it has shipped a record, even on a slow machine.
        while time.monotonic() < end or (turn == 0 and not count(owner, "accounting_log")):
            for _ in range(20):
                journal.write(accounting(alpha, "Start", session=f"s{written}", at=AT + written))
                written += 1
            time.sleep(0.003)
            assert time.monotonic() < end + PATIENCE_SECONDS
        process.kill()
        process.join()
    heard.close()
    told.close()
    journal.ship()
    assert written > 40 * times
    assert journal.acct.counters["shipped"] < written
    rows = owner.execute("SELECT count(*), count(DISTINCT session_id) FROM accounting_log").fetchone()
    assert rows == (written, written)
    assert count(owner, "sessions") == written


def test_lag_and_backlog_are_counted(alpha, journal, monkeypatch):
    monkeypatch.setattr("radius.agent.shipping.shipper.MAX_RECORDS", 1)
    journal.auth._limit = 1
    journal.clock.now = AT + 10 * SECOND
    journal.write(auth(alpha), auth(alpha, at=AT + 1))
    assert (
        journal.auth.backlog_bytes() == JournalReader(journal.directory / "auth").backlog_bytes(SegmentPosition()) > 0
    )
    assert journal.auth.step() == 1
    assert journal.auth.counters["lag_seconds"] == 10
    drain(journal.auth)
    assert journal.auth.counters["lag_seconds"] == 0
    assert journal.auth.backlog_bytes() == 0


def test_segments_behind_an_open_one_are_reported_then_shipped(owner, alpha, journal):
    other = JournalWriter(journal.directory / "auth", max_bytes=1 << 30)
    journal.restart_writers()
    journal.ship(auth(alpha))
    before = journal.auth.shipped_until
    for seconds, codes in ((0, set()), (29, set()), (31, {"journal-held-auth"})):
        journal.clock.now = AT + seconds * SECOND
        journal.ship()
        assert journal.alarm_codes == codes
    assert count(owner, "auth_log") == 0
    assert journal.auth.shipped_until == before
    other.close()
    journal.ship()
    assert count(owner, "auth_log") == 1
    assert journal.alarm_codes == set()
    assert journal.auth.shipped_until == journal.clock.now


def test_journal_of_a_moved_cell_is_not_shipped(owner, alpha, journal, platform):
    """The journal of the other host has different records after the same position."""
    journal.ship(auth(alpha))
    journal.write(auth(alpha, at=AT + 1))
    journal.restart_writers()
    journal.write(auth(alpha, at=AT + 2))
    owner.execute("UPDATE cells SET host = 'another' WHERE id = %s", (platform.cell_id,))
    later = (f"{9 * 10**18:020d}", platform.cell_id)
    owner.execute("UPDATE journal_positions SET segment = %s WHERE cell_id = %s", later)
    for _ in range(3):
        with pytest.raises(CellTaken):
            journal.auth.step()
    assert count(owner, "auth_log") == 1
    assert len(list_segments(journal.directory / "auth")) == 2

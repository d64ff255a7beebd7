"""Sessions without reports, sessions that ended long ago, and hourly usage."""

import re
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from msgspec.structs import replace as replaced

from nac.kit.db import CellScope, driver_connection, session_scope
from radius.agent.sessions import maintenance, nas_restarts
from radius.agent.sessions.maintenance import MIN_SILENCE_SECONDS, PASS_SECONDS, SETTLED_SECONDS, STALE_SECONDS
from radius.agent.shipping.streams import AccountingStream
from tests.agent.journal_records import AT, SECOND, accounting, drain, later
from tests.agent.test_sessions import session_records, sessions

HOUR = 3_600
# The default timeout of a tenant.
SILENT_SECONDS = 7 * 24 * HOUR


def kept(owner):
    return owner.execute("SELECT session_id, stopped_at, session_seconds FROM session_history ORDER BY id").fetchall()


def usage(owner):
    """Rows of the hourly usage: (hours after AT, seconds, octets in)."""
    rows = owner.execute(
        "SELECT extract(epoch FROM hour)::bigint, seconds, input_octets FROM usage_hours ORDER BY hour, seconds"
    )
    return [((hour - AT // SECOND // HOUR * HOUR) // HOUR, seconds, octets) for hour, seconds, octets in rows]


def interim(tenant, seconds, octets=None, **more):
    counter = {} if octets is None else {"Acct_Input_Octets": str(octets)}
    return accounting(tenant, "Interim-Update", at=AT + seconds * SECOND, seconds=seconds, **counter, **more)


class TestSilence:
    def test_reporting_session_ends_after_three_missed_reports(self, owner, alpha, journal):
        journal.ship(accounting(alpha, "Start"), interim(alpha, 1_800, 5))
        for seconds in (3_600, 5_400, 7_200):
            journal.ship(interim(alpha, seconds, 7))
        later(journal, 7_200 + 3 * 1_800 - 1)
        assert sessions(owner)[0][2] is None
        later(journal, 7_200 + 3 * 1_800 + PASS_SECONDS)
        assert sessions(owner) == [("s1", AT, AT + 7_200 * SECOND, 7_200, 7, "", ["stale"])]

    @pytest.mark.parametrize("first", [61, 300, 899])
    def test_extra_reports_do_not_change_the_interval(self, first, owner, alpha, journal):
        """The NAS reports hourly, and whenever it learns something about the device."""
        reports = [first, first + 65, 3_600, *range(3_700, 5_500, 100), 7_200, 7_300]
        journal.ship(accounting(alpha, "Start"))
        for seconds, following in pairwise([*reports, 10_800]):
            journal.ship(interim(alpha, seconds))
            later(journal, following - 1)
            assert sessions(owner)[0][2] is None
        later(journal, 7_300 + 3 * 3_600 + PASS_SECONDS)
        assert sessions(owner)[0][2] == AT + 7_300 * SECOND

    def test_extra_report_shortens_no_timeout(self, owner, alpha, journal):
        """Switches send extra reports when they learn an address: soon after the Start, or at any later time."""
        journal.ship(accounting(alpha, "Start"), interim(alpha, 3))
        for seconds in (3_603, 7_203, 7_210, 7_800):
            journal.ship(interim(alpha, seconds))
        (rhythm,) = owner.execute("SELECT interim_seconds FROM sessions").fetchone()
        assert rhythm * 3 > 3_600
        journal.ship(interim(alpha, 10_803))
        (rhythm,) = owner.execute("SELECT interim_seconds FROM sessions").fetchone()
        assert 2_400 < rhythm <= 3_600

    def test_session_with_minute_reports_may_be_silent_for_a_while(self, owner, alpha, journal):
        journal.ship(accounting(alpha, "Start"))
        journal.ship(interim(alpha, 60))
        owner.execute("UPDATE sessions SET interim_seconds = 60")
        later(journal, 60 + MIN_SILENCE_SECONDS - 1)
        assert sessions(owner)[0][2] is None
        later(journal, 60 + MIN_SILENCE_SECONDS + PASS_SECONDS)
        assert sessions(owner)[0][2] == AT + 60 * SECOND

    def test_session_of_a_silent_nas_lasts_for_days(self, owner, alpha, journal):
        journal.ship(accounting(alpha, "Start"))
        later(journal, SILENT_SECONDS - 1)
        assert sessions(owner)[0][2] is None
        later(journal, SILENT_SECONDS + PASS_SECONDS)
        assert sessions(owner)[0][6] == ["stale"]

    def test_tenant_sets_the_timeout(self, owner, make, alpha, journal):
        bravo = make("bravo")
        owner.execute("UPDATE tenants SET silent_reports = 10, silent_days = 1 WHERE id = %s", (bravo.id,))
        for tenant in (alpha, bravo):
            journal.ship(accounting(tenant, "Start", session="silent"), accounting(tenant, "Start"))
            journal.ship(interim(tenant, 600))
        owner.execute("UPDATE sessions SET interim_seconds = 600 WHERE session_id = 's1'")
        ended = "SELECT session_id FROM sessions WHERE tenant_id = %s AND 'stale' = ANY (flags) ORDER BY 1"
        for seconds, of_alpha, of_bravo in (
            (600 + 9 * 600, ["s1"], []),
            (600 + 10 * 600 + PASS_SECONDS, ["s1"], ["s1"]),
            (24 * HOUR + PASS_SECONDS, ["s1"], ["s1", "silent"]),
            (SILENT_SECONDS + PASS_SECONDS, ["s1", "silent"], ["s1", "silent"]),
        ):
            later(journal, seconds)
            found = [[name for (name,) in owner.execute(ended, (tenant.id,))] for tenant in (alpha, bravo)]
            assert found == [of_alpha, of_bravo]

    def test_session_that_continues_is_live_again_and_counts_once(self, owner, alpha, journal):
        journal.ship(accounting(alpha, "Start"))
        journal.ship(interim(alpha, 60, 10))
        later(journal, 2 * HOUR)
        journal.ship(interim(alpha, 3 * HOUR, 30))
        assert sessions(owner) == [("s1", AT, None, 3 * HOUR, 30, "", [])]
        journal.ship(accounting(alpha, "Stop", at=AT + 4 * HOUR * SECOND, seconds=4 * HOUR, Acct_Input_Octets="40"))
        assert sum(row[1] for row in usage(owner)) == 4 * HOUR
        assert sum(row[2] for row in usage(owner)) == 40

    @pytest.mark.parametrize("cause", ["machine", "radiusd"])
    def test_cell_downtime_does_not_count_as_silence(self, cause, owner, alpha, journal):
        """Silence counts from the time when the cell could receive.

        A restarted agent reads the times of the earlier agent.
        """
        hears = cause == "machine"
        shipper = journal.shipper(AccountingStream(hears=lambda: hears))
        journal.write(accounting(alpha, "Start"), interim(alpha, 300))
        drain(shipper)
        owner.execute("UPDATE sessions SET interim_seconds = 300")
        back = 300 + 1_200
        for seconds in [] if hears else range(600, back, PASS_SECONDS):
            journal.clock.now = AT + seconds * SECOND
            drain(shipper)
        hears = True
        for seconds in range(back, back + MIN_SILENCE_SECONDS + 1, PASS_SECONDS):
            journal.clock.now = AT + seconds * SECOND
            drain(shipper)
            assert sessions(owner)[0][2] is None
            shipper = journal.shipper(AccountingStream())
        journal.clock.now += PASS_SECONDS * SECOND
        drain(shipper)
        assert sessions(owner)[0][2] == AT + 300 * SECOND

    def test_backlog_does_not_count_as_silence(self, owner, alpha, journal):
        """The database was down for a day. The records of that day arrive in many batches."""
        journal.ship(accounting(alpha, "Start"))
        journal.acct._limit = 2
        journal.write(*(interim(alpha, number * 600) for number in range(1, 145)))
        journal.clock.now = AT + 30 * HOUR * SECOND
        journal.acct._limit = 2
        ended = []
        while journal.acct.step():
            ended.append(sessions(owner)[0][2])
        assert set(ended[:-1]) == {None}


class TestHistory:
    def test_old_ended_session_moves_to_history_and_live_one_stays(self, owner, alpha, journal):
        journal.ship(
            *session_records(alpha), accounting(alpha, "Start", session="s2"), interim(alpha, 1_800, session="s2")
        )
        later(journal, 1_800 + SETTLED_SECONDS - 1)
        assert kept(owner) == []
        journal.ship(interim(alpha, 1_801 + SETTLED_SECONDS, session="s2"))
        later(journal, 1_801 + SETTLED_SECONDS + PASS_SECONDS)
        assert kept(owner) == [("s1", datetime.fromtimestamp(AT / SECOND + 1_800, UTC), 1_800)]
        assert [row[0] for row in sessions(owner)] == ["s2"]

    def test_session_presumed_ended_stays_longer(self, owner, alpha, journal):
        journal.ship(accounting(alpha, "Start"))
        journal.ship(interim(alpha, 60))
        later(journal, HOUR)
        later(journal, 30 * 24 * HOUR)
        assert kept(owner) == []
        later(journal, 60 + STALE_SECONDS + 2 * PASS_SECONDS)
        assert [row[0] for row in kept(owner)] == ["s1"]
        assert sessions(owner) == []

    def test_many_sessions_are_moved_in_limited_batches(self, owner, alpha, journal, monkeypatch):
        monkeypatch.setattr(maintenance, "MAX_MOVED", 3)
        journal.ship(*(record for number in range(8) for record in session_records(alpha, session=f"s{number}")))
        later(journal, 1_801 + SETTLED_SECONDS + PASS_SECONDS)
        assert len(kept(owner)) == 8

    def test_large_table_is_scanned_in_slices(self, owner, alpha, journal, monkeypatch):
        monkeypatch.setattr(maintenance, "SLICE_ROWS", 3)
        journal.ship(*(accounting(alpha, "Start", session=f"s{number}") for number in range(8)))
        now = SILENT_SECONDS + PASS_SECONDS
        for seconds in (0, 1, 2, PASS_SECONDS + 2, PASS_SECONDS + 3):
            later(journal, now + seconds)
        assert {tuple(row[6]) for row in sessions(owner)} == {("stale",)}

    def test_stale_check_reads_only_its_own_tenants_live_sessions(self, owner, alpha, make, journal):
        bravo = make("bravo")
        for tenant in (alpha, bravo):
            journal.ship(*(accounting(tenant, "Start", session=f"s{number}") for number in range(20)))
            journal.ship(*session_records(tenant, session="over"))
        owner.execute("UPDATE slots SET tenant_id = NULL, status = 'free' WHERE tenant_id = %s", (bravo.id,))
        given = {"tenant": str(alpha.id), "rows": 100, "first_start": "infinity", "first_id": 99, "last_id": 0}
        given |= {"last_start": "-infinity", "now": "2100-01-01", "heard_since": "2000-01-01", "least": 60}
        with session_scope(CellScope(journal.acct._cell_id), engine=journal.acct._engine) as session:
            for statement in (maintenance._SLICE_END, maintenance._END_SILENT):
                connection = driver_connection(session)
                plan = [line for (line,) in connection.execute(f"EXPLAIN ANALYZE {statement}", given)]
                (read,) = (line for line in plan if re.search(r"Scan (using|on) ix_sessions_live", line))
                assert "rows=20 loops=1" in read, plan

    def test_tenant_of_another_cell_is_not_changed(self, owner, make, alpha, journal):
        bravo = make("bravo")
        journal.ship(*session_records(alpha), *session_records(bravo))
        owner.execute("UPDATE slots SET tenant_id = NULL, status = 'free' WHERE tenant_id = %s", (bravo.id,))
        later(journal, 1_801 + SETTLED_SECONDS + PASS_SECONDS)
        assert [row[0] for row in kept(owner)] == ["s1"]
        assert len(sessions(owner)) == 1


class TestUsage:
    def test_each_hour_has_the_usage_reported_in_it(self, owner, alpha, journal):
        first = HOUR - AT // SECOND % HOUR
        for seconds, octets in ((first - 60, 100), (first + 60, 130), (first + 120, 150)):
            journal.ship(interim(alpha, seconds, octets))
        assert usage(owner) == [(0, first - 60, 100)]
        seconds = first + HOUR + 60
        journal.ship(
            accounting(alpha, "Stop", at=AT + seconds * SECOND, seconds=seconds, Acct_Input_Octets=str(1 << 20))
        )
        assert usage(owner) == [(0, first - 60, 100), (1, 180, 50), (2, HOUR - 60, (1 << 20) - 150)]

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
    def test_decreasing_counters_subtract_nothing(self, order, owner, alpha, journal):
        """The counters are flagged if the records arrive in order. Otherwise Admit cannot detect the decrease."""
        records = [interim(alpha, 600, 1_000), interim(alpha, 1_200, 10), interim(alpha, 1_800, 1_001)]
        for number in order:
            journal.ship(records[number])
        assert (sessions(owner)[0][4], "counters-backwards" in sessions(owner)[0][6]) == (1_001, order == (0, 1, 2))

    def test_stop_with_less_usage_than_before_is_handled(self, owner, alpha, journal):
        journal.ship(accounting(alpha, "Start"), interim(alpha, 600, 1_000))
        journal.ship(accounting(alpha, "Stop", at=AT + 700 * SECOND, seconds=700, Acct_Input_Octets="0"))
        assert sessions(owner)[0][4:] == (1_000, "", ["counters-backwards"])
        assert sum(row[2] for row in usage(owner)) == 1_000

    def test_nas_restart_counts_the_usage_of_its_sessions(self, owner, alpha, journal):
        journal.ship(accounting(alpha, "Start"), interim(alpha, 600, 1_000))
        journal.ship(accounting(alpha, "Accounting-On", at=AT + 700 * SECOND))
        assert [row[1:] for row in usage(owner)] == [(600, 1_000)]


class TestRestart:
    def test_record_from_before_the_restart_changes_no_session(self, owner, alpha, journal):
        journal.ship(accounting(alpha, "Start"), accounting(alpha, "Accounting-On", at=AT + 700 * SECOND))
        journal.ship(interim(alpha, 600, 5), interim(alpha, 500, 6, session="s2"))
        assert [(row[0], row[2], row[4], row[5]) for row in sessions(owner)] == [
            ("s1", AT + 700 * SECOND, 5, "NAS-Reboot"),
            ("s2", AT + 700 * SECOND, 6, "NAS-Reboot"),
        ]

    def test_stop_from_before_the_restart_sets_the_end(self, owner, alpha, journal):
        journal.ship(accounting(alpha, "Start"), accounting(alpha, "Accounting-On", at=AT + 700 * SECOND))
        journal.ship(accounting(alpha, "Stop", at=AT + 300 * SECOND, seconds=300, Acct_Terminate_Cause="User-Request"))
        assert sessions(owner) == [("s1", AT, AT + 300 * SECOND, 300, None, "User-Request", [])]

    def test_sessions_of_a_large_nas_end_in_batches(self, owner, alpha, journal, monkeypatch):
        monkeypatch.setattr(nas_restarts, "MAX_SESSIONS", 3)
        journal.ship(*(accounting(alpha, "Start", session=f"s{number}") for number in range(8)))
        at = AT + 700 * SECOND
        journal.write(accounting(alpha, "Accounting-On", at=at))
        shippers = [journal.acct, journal.shipper(AccountingStream())]
        live = [8]
        for turn in range(1, 5):
            # The NAS reuses a session id at once, before the agent has processed its restart.
            again = [accounting(alpha, "Start", session="s7", at=at + SECOND)] if turn == 1 else []
            journal.write(*again)
            shippers[turn % 2]._position = None
            assert shippers[turn % 2].step() == (2 if again else 0)
            live.append(sum(row[2] is None for row in sessions(owner)))
        assert live == [8, 6, 3, 1, 1]
        assert [(row[0], row[1]) for row in sessions(owner) if row[2] is None] == [("s7", at + SECOND)]
        assert {row[5] for row in sessions(owner) if row[2] is not None} == {"NAS-Reboot"}

    def test_many_restarted_nases_are_processed_together(self, owner, alpha, journal):
        """All of these NASes restart after a power failure."""
        names = [f"switch-{number}" for number in range(40)]
        journal.ship(*(accounting(alpha, "Start", nas=name) for name in names))
        journal.write(*(accounting(alpha, "Accounting-On", at=AT + 60 * SECOND, nas=name) for name in names))
        assert journal.acct.step() == 40
        assert {row[5] for row in sessions(owner)} == {"NAS-Reboot"}

    def test_identical_nases_of_two_sites_end_their_own_sessions(self, owner, alpha, journal):
        """The site of a session may be unknown. Then a restart at any site ends the session."""
        here, there = (f"00000000-0000-4000-8000-00000000000{number}" for number in range(2))
        journal.ship(
            *(
                replaced(accounting(alpha, "Start", session=name), site_id=site)
                for name, site in (("here", here), ("there", there), ("anywhere", ""))
            )
        )
        journal.ship(replaced(accounting(alpha, "Accounting-On", at=AT + 60 * SECOND), site_id=here))
        late = [replaced(interim(alpha, 30, session=f"late-{site[-1]}"), site_id=site) for site in (here, there)]
        journal.ship(*late)
        assert {row[0] for row in sessions(owner) if row[2] is None} == {"there", "late-1"}
        journal.ship(accounting(alpha, "Accounting-Off", at=AT + 90 * SECOND))
        assert {row[0] for row in sessions(owner) if row[2] is None} == set()

    def test_restart_is_forgotten_when_no_older_record_can_come(self, owner, alpha, journal):
        journal.ship(accounting(alpha, "Accounting-On"))
        for seconds, known in ((nas_restarts.KEPT_SECONDS - 1, 1), (nas_restarts.KEPT_SECONDS + PASS_SECONDS, 0)):
            later(journal, seconds)
            assert owner.execute("SELECT count(*) FROM nas_restarts").fetchone() == (known,)


def test_two_parts_of_one_session_in_a_batch_are_merged(owner, alpha, journal):
    """The starts of the two parts match the stored session but not each other."""
    journal.ship(accounting(alpha, "Start"))
    journal.ship(
        accounting(alpha, "Interim-Update", at=AT + 400 * SECOND, seconds=600, Acct_Input_Octets="7"),
        accounting(alpha, "Stop", at=AT + 1_000 * SECOND, seconds=800, Acct_Input_Octets="9"),
    )
    assert sessions(owner) == [("s1", AT, AT + 1_000 * SECOND, 800, 9, "", [])]


def test_session_fields_are_kept_from_any_record(owner, alpha, journal):
    journal.ship(
        accounting(
            alpha,
            "Start",
            Class="0x410006614db5a3f000",
            Chargeable_User_Identity="0x6162",
            NAS_Port_Id="Gi1/0/7",
            Framed_IPv6_Prefix="2001:db8:1:2::/64",
            Framed_Interface_Id="0:0:0:7",
        )
    )
    journal.ship(
        interim(alpha, 60, Framed_IP_Address="192.0.2.9", Delegated_IPv6_Prefix="2001:db8:4000::1/52", Class="0x00ff")
    )
    assert owner.execute(
        "SELECT host(framed_ip), host(framed_ipv6), framed_prefix::text, delegated_prefix::text, class, cui, nas_port "
        "FROM sessions"
    ).fetchone() == (
        "192.0.2.9",
        "2001:db8:1:2::7",
        "2001:db8:1:2::/64",
        "2001:db8:4000::/52",
        "0x410006614db5a3f000",
        "ab",
        "Gi1/0/7",
    )

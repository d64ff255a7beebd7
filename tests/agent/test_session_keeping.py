"""Sessions without reports, sessions that ended long ago, restarts of NASes, and hourly usage."""

import re
from itertools import pairwise

import pytest
from msgspec.structs import replace as replaced

from nac.kit.db import CellScope, driver_connection, session_scope
from radius.agent.sessions import maintenance, nas_restarts
from radius.agent.sessions.maintenance import MIN_SILENCE_SECONDS, PASS_SECONDS, SETTLED_SECONDS, STALE_SECONDS
from radius.agent.shipping.streams import AccountingStream
from tests.agent.journal_records import AT, SECOND, Reports, drain, later
from tests.agent.stored_rows import HOUR, flags, kept, live, sessions, usage

# The default timeout of a tenant.
SILENT_SECONDS = 7 * 24 * HOUR
HISTORY_SECONDS = 1_801 + SETTLED_SECONDS + PASS_SECONDS


def set_interval(owner, seconds):
    owner.execute("UPDATE sessions SET interim_seconds = %s WHERE session_id = 's1'", (seconds,))


def remove_from_cell(owner, tenant):
    owner.execute("UPDATE slots SET tenant_id = NULL, status = 'free' WHERE tenant_id = %s", (tenant.id,))


class TestSilence:
    def test_reporting_session_ends_after_three_missed_reports(self, owner, reports, journal):
        journal.ship(reports.start(), reports.interim(1_800, 5))
        for seconds in (3_600, 5_400, 7_200):
            journal.ship(reports.interim(seconds, 7))
        later(journal, 7_200 + 3 * 1_800 - 1)
        assert live(owner) == ["s1"]
        later(journal, 7_200 + 3 * 1_800 + PASS_SECONDS)
        assert sessions(owner) == [("s1", 0, 7_200, 7_200, 7, "", ["stale"])]

    @pytest.mark.parametrize("first", [61, 300, 899])
    def test_extra_reports_do_not_change_the_interval(self, first, owner, reports, journal):
        """The NAS reports hourly, and whenever it learns something about the device."""
        times = [first, first + 65, 3_600, *range(3_700, 5_500, 100), 7_200, 7_300]
        journal.ship(reports.start())
        for seconds, following in pairwise([*times, 10_800]):
            journal.ship(reports.interim(seconds))
            later(journal, following - 1)
            assert live(owner) == ["s1"]
        later(journal, 7_300 + 3 * 3_600 + PASS_SECONDS)
        assert sessions(owner)[0][2] == 7_300

    def test_extra_report_shortens_no_timeout(self, owner, reports, journal):
        """Switches send extra reports when they learn an address: soon after the Start, or at any later time."""

        def interval_after(*times):
            for seconds in times:
                journal.ship(reports.interim(seconds))
            return owner.execute("SELECT interim_seconds FROM sessions").fetchone()[0]

        journal.ship(reports.start(), reports.interim(3))
        assert interval_after(3_603, 7_203, 7_210, 7_800) * 3 > 3_600
        assert 2_400 < interval_after(10_803) <= 3_600

    def test_session_with_minute_reports_may_be_silent_for_a_while(self, owner, reports, journal):
        journal.ship(reports.start(), reports.interim(60))
        set_interval(owner, 60)
        later(journal, 60 + MIN_SILENCE_SECONDS - 1)
        assert live(owner) == ["s1"]
        later(journal, 60 + MIN_SILENCE_SECONDS + PASS_SECONDS)
        assert sessions(owner)[0][2] == 60

    def test_tenant_sets_the_timeout(self, owner, make, alpha, journal):
        bravo = make("bravo")
        owner.execute("UPDATE tenants SET silent_reports = 10, silent_days = 1 WHERE id = %s", (bravo.id,))
        for nas in (Reports(alpha), Reports(bravo)):
            journal.ship(nas.start(session="silent"), nas.start())
            journal.ship(nas.interim(600))
        set_interval(owner, 600)
        ended = "SELECT session_id FROM sessions WHERE tenant_id = %s AND 'stale' = ANY (flags) ORDER BY 1"
        for seconds, of_alpha, of_bravo in (
            (600 + 9 * 600, ["s1"], []),
            (600 + 10 * 600 + PASS_SECONDS, ["s1"], ["s1"]),
            (24 * HOUR + PASS_SECONDS, ["s1"], ["s1", "silent"]),
            (SILENT_SECONDS - 1, ["s1"], ["s1", "silent"]),
            (SILENT_SECONDS + PASS_SECONDS, ["s1", "silent"], ["s1", "silent"]),
        ):
            later(journal, seconds)
            found = [[name for (name,) in owner.execute(ended, (tenant.id,))] for tenant in (alpha, bravo)]
            assert found == [of_alpha, of_bravo]

    def test_session_that_continues_is_live_again_and_counts_once(self, owner, reports, journal):
        journal.ship(reports.start(), reports.interim(60, 10))
        set_interval(owner, 60)
        later(journal, 2 * HOUR)
        assert live(owner) == []
        journal.ship(reports.interim(3 * HOUR, 30))
        assert sessions(owner) == [("s1", 0, None, 3 * HOUR, 30, "", [])]
        journal.ship(reports.stop(4 * HOUR, 40))
        _, seconds, octets = zip(*usage(owner), strict=True)
        assert (sum(seconds), sum(octets)) == (4 * HOUR, 40)

    @pytest.mark.parametrize("cause", ["machine", "radiusd"])
    def test_cell_downtime_does_not_count_as_silence(self, cause, owner, reports, journal):
        """Silence counts from the time when the cell could receive.

        A restarted agent reads the times of the earlier agent.
        """
        hears = cause == "machine"
        shipper = journal.shipper(AccountingStream(hears=lambda: hears))
        journal.write(reports.start(), reports.interim(300))
        drain(shipper)
        set_interval(owner, 300)
        back = 300 + 1_200
        for seconds in [] if hears else range(600, back, PASS_SECONDS):
            journal.clock.now = AT + seconds * SECOND
            drain(shipper)
        hears = True
        for seconds in range(back, back + MIN_SILENCE_SECONDS + 1, PASS_SECONDS):
            journal.clock.now = AT + seconds * SECOND
            drain(shipper)
            assert live(owner) == ["s1"]
            shipper = journal.shipper(AccountingStream())
        journal.clock.now += PASS_SECONDS * SECOND
        drain(shipper)
        assert sessions(owner)[0][2] == 300

    def test_backlog_does_not_count_as_silence(self, owner, reports, journal):
        """The database was down for a day. The records of that day arrive in many batches."""
        journal.ship(reports.start())
        journal.write(*(reports.interim(number * 600) for number in range(1, 145)))
        journal.clock.now = AT + 30 * HOUR * SECOND
        journal.acct._limit = 2
        ended = []
        while journal.acct.step():
            ended.append(sessions(owner)[0][2])
        assert set(ended[:-1]) == {None}


class TestHistory:
    def test_old_ended_session_moves_to_history_and_live_one_stays(self, owner, reports, journal):
        journal.ship(*reports.session(), reports.start(session="s2"), reports.interim(1_800, session="s2"))
        later(journal, 1_800 + SETTLED_SECONDS - 1)
        assert kept(owner) == []
        journal.ship(reports.interim(1_801 + SETTLED_SECONDS, session="s2"))
        later(journal, HISTORY_SECONDS)
        assert kept(owner) == [("s1", 1_800, 1_800)]
        assert live(owner) == [row[0] for row in sessions(owner)] == ["s2"]

    def test_session_presumed_ended_stays_longer(self, owner, reports, journal):
        journal.ship(reports.start(), reports.interim(60))
        set_interval(owner, 60)
        later(journal, HOUR)
        assert live(owner) == []
        later(journal, 30 * 24 * HOUR)
        assert kept(owner) == []
        later(journal, 60 + STALE_SECONDS + 2 * PASS_SECONDS)
        assert ([row[0] for row in kept(owner)], sessions(owner)) == (["s1"], [])

    def test_many_sessions_are_moved_in_limited_batches(self, owner, reports, journal, monkeypatch):
        monkeypatch.setattr(maintenance, "MAX_MOVED", 3)
        journal.ship(*(record for number in range(8) for record in reports.session(session=f"s{number}")))
        later(journal, HISTORY_SECONDS)
        assert len(kept(owner)) == 8

    def test_large_table_is_scanned_in_slices(self, owner, reports, journal, monkeypatch):
        monkeypatch.setattr(maintenance, "SLICE_ROWS", 3)
        journal.ship(*(reports.start(session=f"s{number}") for number in range(8)))
        for seconds in (0, 1, 2, PASS_SECONDS + 2, PASS_SECONDS + 3):
            later(journal, SILENT_SECONDS + PASS_SECONDS + seconds)
        assert flags(owner) == {f"s{number}": ["stale"] for number in range(8)}

    def test_stale_check_reads_only_its_own_tenants_live_sessions(self, owner, alpha, make, journal):
        bravo = make("bravo")
        for nas in (Reports(alpha), Reports(bravo)):
            journal.ship(*(nas.start(session=f"s{number}") for number in range(20)), *nas.session(session="over"))
        remove_from_cell(owner, bravo)
        # A bitmap scan also counts index entries of old row versions.
        owner.execute("VACUUM sessions")
        given = {"tenant": str(alpha.id), "rows": 100, "first_start": "infinity", "first_id": 99, "last_id": 0}
        given |= {"last_start": "-infinity", "now": "2100-01-01", "heard_since": "2000-01-01", "least": 60}
        with session_scope(CellScope(journal.acct._cell_id), engine=journal.acct._engine) as session:
            for statement in (maintenance._SLICE_END, maintenance._END_SILENT):
                plan = [line for (line,) in driver_connection(session).execute(f"EXPLAIN ANALYZE {statement}", given)]
                (read,) = (line for line in plan if re.search(r"Scan (using|on) ix_sessions_live", line))
                assert "rows=20 loops=1" in read, plan

    def test_tenant_of_another_cell_is_not_changed(self, owner, make, reports, journal):
        bravo = make("bravo")
        journal.ship(*reports.session(), *Reports(bravo).session())
        remove_from_cell(owner, bravo)
        later(journal, HISTORY_SECONDS)
        assert (len(kept(owner)), len(sessions(owner))) == (1, 1)


class TestUsage:
    def test_each_hour_has_the_usage_reported_in_it(self, owner, reports, journal):
        first = HOUR - AT // SECOND % HOUR
        for seconds, octets in ((first - 60, 100), (first + 60, 130), (first + 120, 150)):
            journal.ship(reports.interim(seconds, octets))
        assert usage(owner) == [(0, first - 60, 100)]
        journal.ship(reports.stop(first + HOUR + 60, 1 << 20))
        assert usage(owner) == [(0, first - 60, 100), (1, 180, 50), (2, HOUR - 60, (1 << 20) - 150)]

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
    def test_decreasing_counters_subtract_nothing(self, order, owner, reports, journal):
        """The counters are flagged if the records arrive in order. Otherwise Admit cannot detect the decrease."""
        records = [reports.interim(600, 1_000), reports.interim(1_200, 10), reports.interim(1_800, 1_001)]
        for number in order:
            journal.ship(records[number])
        assert (sessions(owner)[0][4], "counters-backwards" in sessions(owner)[0][6]) == (1_001, order == (0, 1, 2))

    def test_nas_restart_counts_the_usage_of_its_sessions(self, owner, reports, journal):
        journal.ship(reports.start(), reports.interim(600, 1_000))
        journal.ship(reports.restart(700))
        assert [row[1:] for row in usage(owner)] == [(600, 1_000)]


class TestRestart:
    def test_record_from_before_the_restart_changes_no_session(self, owner, reports, journal):
        journal.ship(reports.start(), reports.restart(700))
        journal.ship(reports.interim(600, 5), reports.interim(500, 6, session="s2"))
        assert [(row[0], row[2], row[4], row[5]) for row in sessions(owner)] == [
            ("s1", 700, 5, "NAS-Reboot"),
            ("s2", 700, 6, "NAS-Reboot"),
        ]

    def test_stop_from_before_the_restart_sets_the_end(self, owner, reports, journal):
        journal.ship(reports.start(), reports.restart(700))
        journal.ship(reports.stop(300, Acct_Terminate_Cause="User-Request"))
        assert sessions(owner) == [("s1", 0, 300, 300, None, "User-Request", [])]

    def test_sessions_of_a_large_nas_end_in_batches(self, owner, reports, journal, monkeypatch):
        monkeypatch.setattr(nas_restarts, "MAX_SESSIONS", 3)
        journal.ship(*(reports.start(session=f"s{number}") for number in range(8)))
        journal.write(reports.restart(700))
        shippers = [journal.acct, journal.shipper(AccountingStream())]
        numbers = [8]
        for turn in range(1, 5):
            # The NAS reuses a session id at once, before the agent has processed its restart.
            again = [reports.start(701, session="s7")] if turn == 1 else []
            journal.write(*again)
            shippers[turn % 2]._position = None
            assert shippers[turn % 2].step() == (2 if again else 0)
            numbers.append(len(live(owner)))
        assert numbers == [8, 6, 3, 1, 1]
        assert [row[:2] for row in sessions(owner) if row[2] is None] == [("s7", 701)]
        assert {row[5] for row in sessions(owner) if row[2] is not None} == {"NAS-Reboot"}

    def test_many_restarted_nases_are_processed_together(self, owner, reports, journal):
        """All of these NASes restart after a power failure."""
        names = [f"switch-{number}" for number in range(40)]
        journal.ship(*(reports.start(nas=name) for name in names))
        journal.write(*(reports.restart(60, nas=name) for name in names))
        assert journal.acct.step() == 40
        assert {row[5] for row in sessions(owner)} == {"NAS-Reboot"}

    def test_identical_nases_of_two_sites_end_their_own_sessions(self, owner, reports, journal):
        """The site of a session may be unknown. Then a restart at any site ends the session."""
        here, there = (f"00000000-0000-4000-8000-00000000000{number}" for number in range(2))
        named = {"here": here, "there": there, "anywhere": ""}
        journal.ship(*(replaced(reports.start(session=name), site_id=site) for name, site in named.items()))
        journal.ship(replaced(reports.restart(60), site_id=here))
        late = [replaced(reports.interim(30, session=f"late-{site[-1]}"), site_id=site) for site in (here, there)]
        journal.ship(*late)
        assert set(live(owner)) == {"there", "late-1"}
        journal.ship(reports.restart(90, "Accounting-Off"))
        assert live(owner) == []

    def test_restart_is_forgotten_when_no_older_record_can_come(self, owner, reports, journal):
        journal.ship(reports.restart(0))
        for seconds, known in ((nas_restarts.KEPT_SECONDS - 1, 1), (nas_restarts.KEPT_SECONDS + PASS_SECONDS, 0)):
            later(journal, seconds)
            assert owner.execute("SELECT count(*) FROM nas_restarts").fetchone() == (known,)

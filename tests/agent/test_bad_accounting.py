"""Invalid accounting records: stored unchanged, merged by the rules of docs/reference/accounting.md, and flagged."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nac.kit.db import TenantScope, session_scope
from nac.sessions.usage import USAGE_DIMENSIONS, list_usage
from radius.agent.accounting_parser import parse_accounting
from radius.agent.sessions import batch as session_batches
from tests.agent.journal_records import AT, SECOND, Reports
from tests.agent.stored_rows import flags, live, sessions, usage
from tests.run_depth import examples

RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["Start", "Interim-Update", "Stop", "Accounting-On"]),
        st.integers(-1_000, 1_000),
        st.none() | st.integers(0, 2**32 - 1),
        st.sampled_from(["", "s1", "s2"]),
        st.none() | st.integers(0, 1_000) | st.integers(0, 2**32),
    ),
    max_size=12,
)
# No session ends before it began. The hourly usage includes each session that is over.
WRONG = """
SELECT s.* FROM sessions s LEFT JOIN LATERAL (
    SELECT sum(seconds) AS seconds, sum(input_octets) AS input FROM usage_hours WHERE session_row = s.id
) u ON true
WHERE s.stopped_at < s.started_at OR least(s.session_seconds, s.input_octets, s.interim_seconds) < 0
    OR s.stopped_at IS NOT NULL AND (
        coalesce(u.seconds, 0), coalesce(u.input, 0)) <> (coalesce(s.session_seconds, 0), coalesce(s.input_octets, 0)
    )
"""
YEAR = 365 * 86_400


def stored(owner):
    return [dict(row[0]) for row in owner.execute("SELECT attributes FROM accounting_log ORDER BY id")]


CASES = {
    "second Stop has more usage": (
        lambda nas: [nas.start(), nas.stop(600, 600), nas.stop(700, 700)],
        [("s1", 0, 700, 700, 700, "", ["stopped-twice"])],
    ),
    # A repeated Stop without Acct-Delay-Time appears to be a later event.
    "Stop is repeated": (
        lambda nas: [nas.start(), nas.stop(600, 5), nas.stop(600, 5, after=660), nas.stop(600, 5, after=690)],
        [("s1", 0, 690, 600, 5, "", [])],
    ),
    "Stop has less usage than before": (
        lambda nas: [nas.start(), nas.interim(600, 1_000), nas.stop(700, 0)],
        [("s1", 0, 700, 700, 1_000, "", ["counters-backwards"])],
    ),
    "Start arrives within seconds of the Stop": (
        lambda nas: [nas.start(), nas.stop(10), nas.start(30)],
        [("s1", 0, 10, 10, None, "", [])],
    ),
    "session continues after such a Start": (
        lambda nas: [nas.start(), nas.stop(10), nas.start(30), nas.interim(600, 9, after=610)],
        [("s1", 0, None, 600, 9, "", [])],
    ),
    # A report soon after the Stop is a late report. A much later report is another session with that id.
    "reports after the Stop have no session time": (
        lambda nas: [
            *(nas.start(), nas.stop(None, 1_000, after=600), nas.interim(None, 900, after=700)),
            *(nas.interim(None, 500, after=36_000), nas.stop(None, 700, after=36_600)),
        ],
        [("s1", 0, 600, 600, 1_000, "", []), ("s1", 36_000, 36_600, 600, 700, "", ["no-start"])],
    ),
    "session time is impossible": (
        lambda nas: [nas.start(), nas.interim(2**32 - 1, 5, after=600)],
        [("s1", 0, None, 600, 5, "", ["impossible-time"])],
    ),
    # The session claims to have begun long before the other session.
    "session time is too long for the session": (
        lambda nas: [nas.start(), nas.interim(60, 5), nas.interim(YEAR, 7, after=120)],
        [("s1", 120 - YEAR, None, YEAR, 7, "", ["no-start"]), ("s1", 0, None, 60, 5, "", [])],
    ),
}


@pytest.mark.parametrize(("records", "expected"), CASES.values(), ids=CASES)
def test_invalid_records_are_merged_by_the_rules(records, expected, owner, reports, ship):
    sent = records(reports)
    ship(*sent)
    assert sessions(owner) == expected
    assert owner.execute(WRONG).fetchall() == []
    assert stored(owner) == [dict(record.attributes) for record in sent]


FLAPS = {
    "all": [0, 1, 2, 3],
    "second start lost": [0, 1, 3],
    "first start lost": [1, 2, 3],
    "first stop late": [0, 3, 1],
    "starts lost, stop late": [3, 1],
}


@pytest.mark.parametrize("heard", FLAPS.values(), ids=FLAPS)
def test_reused_session_id_within_minutes_loses_no_usage(heard, owner, reports, ship):
    # If only the first session's Start arrived, Admit would record two sessions with one id as one session.
    began = 60 if heard[:2] == [0, 3] else 0
    records = [
        *(reports.start(began), reports.stop(20, 1_000)),
        *(reports.start(60), reports.stop(7_140, 5_000, after=7_200)),
    ]
    # The NAS repeats each record.
    ship(*(records[number] for number in heard for _ in range(2)))
    assert [row[1:5] for row in sessions(owner)] == [(0, 20, 20, 1_000), (60, 7_200, 7_140, 5_000)]
    assert sorted(row[1:] for row in usage(owner)) == [(20, 1_000), (7_140, 5_000)]


@pytest.mark.parametrize("heard", FLAPS.values(), ids=FLAPS)
def test_batch_with_every_record_again_loses_no_usage(heard, owner, reports, journal):
    """The earlier session's records are repeated after those of the later session."""
    began = 60 if heard[:2] == [0, 3] else 0
    records = [
        *(reports.start(began), reports.stop(20, 1_000)),
        *(reports.start(60), reports.stop(7_140, 5_000, after=7_200)),
    ]
    sent = [records[number] for number in heard]
    journal.ship(*sent, *sent)
    assert [row[1:5] for row in sessions(owner)] == [(0, 20, 20, 1_000), (60, 7_200, 7_140, 5_000)]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1), (2, 1, 0)], ids=str)
def test_session_with_a_lost_stop_ends_when_its_id_is_reused(order, owner, reports, journal, ship):
    """A restarted NAS starts its session ids over without reporting the restart."""
    records = [reports.start(), reports.interim(600, 7), reports.start(7_200)]
    ship(*(records[number] for number in order))
    again = ("s1", 7_200, None, 0, None, "", [])
    assert sessions(owner) == [("s1", 0, 600, 600, 7, "", ["superseded"]), again]
    assert [row[1:] for row in usage(owner)] == [(600, 7)]
    journal.ship(reports.stop(900, 9))
    assert sessions(owner) == [("s1", 0, 900, 900, 9, "", []), again]


def test_two_sessions_that_both_continue_are_both_live(owner, reports, journal):
    """Later reports show that the earlier session continues. So does another site, or a missing session id."""
    for number in range(2):
        at, site = number * 7_200, f"00000000-0000-4000-8000-00000000000{number}"
        elsewhere = msgspec.structs.replace(reports.start(at, session="there"), site_id=site)
        journal.ship(reports.start(at, session="again"), reports.start(at, session=""), elsewhere)
    assert [row[0] for row in sessions(owner) if row[2] is not None] == ["again"]
    journal.ship(reports.interim(7_500, session="again"))
    assert len(live(owner)) == len(sessions(owner)) == 6


def test_simultaneous_starts_of_a_batch_lose_nothing(owner, reports, journal):
    """Two Starts of one session are read as two sessions, and are merged when both are known."""
    journal.ship(*(reports.start(seconds) for seconds in (0, 400, 250, 100, 0)), reports.interim(60, 12_345))
    [(_, _, _, seconds, octets, *_)] = sessions(owner)
    assert (seconds, octets) == (60, 12_345)


def test_two_parts_of_one_session_in_a_batch_are_merged(owner, reports, journal):
    """The starts of the two parts match the stored session but not each other."""
    journal.ship(reports.start())
    journal.ship(reports.interim(600, 7, after=400), reports.stop(800, 9, after=1_000))
    assert sessions(owner) == [("s1", 0, 1_000, 800, 9, "", [])]


def test_thousands_of_sessions_with_one_id_need_few_queries(reports, monkeypatch):
    looks = []
    is_of = session_batches.SessionUpdate.is_of

    def counted(stay, usage, started_at, *, known):
        looks.append(stay)
        return is_of(stay, usage, started_at, known=known)

    monkeypatch.setattr(session_batches.SessionUpdate, "is_of", counted)
    batch = session_batches.SessionBatch()
    for number in range(3_000):
        batch.add(parse_accounting(reports.stop(0 if number % 2 else None, after=number * 301)))
    assert len(batch.session_lines()) == 3_000
    assert len(looks) < 6 * 3_000


@pytest.mark.parametrize("seconds", [10, None])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=str)
def test_session_never_ends_before_it_began(order, seconds, owner, reports, ship):
    """The session's Start arrived late and reported no delay."""
    records = [reports.start(20), reports.stop(seconds, after=0)]
    ship(*(records[number] for number in order))
    [(_, start, stop, lasted, *_)] = sessions(owner)
    assert start <= stop
    assert lasted == (seconds or 0)


def test_records_without_a_session_id_share_a_session(owner, reports, journal):
    stations = ("00-00-00-00-00-01", "00-00-00-00-00-02")
    journal.ship(*(reports.start(session="", station=station) for station in stations))
    journal.ship(reports.stop(60, session="", station=stations[0]))
    told = owner.execute("SELECT stopped_at IS NULL, flags FROM sessions ORDER BY mac").fetchall()
    assert told == [(False, ["session-id-missing"]), (True, ["session-id-missing"])]


def test_session_id_of_four_thousand_octets_is_stored(owner, reports, journal):
    """No packet can contain so long an id, but a journal can."""
    ids = ["x" * 4_095 + last for last in "ab"]
    for session in ids:
        journal.ship(reports.start(session=session))
        journal.ship(reports.interim(60, 5, session=session))
    assert [len(row[0]) for row in sessions(owner)] == [253, 253]
    assert {attributes["Acct-Session-Id"] for attributes in stored(owner)} == set(ids)


def test_counters_at_their_maximum_overflow_no_sum(owner, alpha, reports, journal, app_engine):
    largest = {f"Acct_{way}_{half}": "4294967295" for way in ("Input", "Output") for half in ("Octets", "Gigawords")}
    journal.ship(*(reports.stop(60, session=f"s{number}", **largest) for number in range(3)))
    since = datetime.fromtimestamp(AT // SECOND, UTC)
    for by in USAGE_DIMENSIONS:
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            [use] = list_usage(session, tenant_id=alpha.id, by=by, since=since, until=datetime.max.replace(tzinfo=UTC))
        assert (use.input_octets, use.output_octets) == (3 * (2**63 - 1),) * 2


def test_nas_restart_keeps_sessions_of_other_tenants(owner, make, reports, journal):
    """Other tenants have a NAS with the same NAS-Identifier and address, which are not unique across tenants."""
    bravo = Reports(make("bravo"))
    journal.ship(reports.start(session="a"), bravo.start(session="b"), bravo.restart(60))
    assert flags(owner) == {"a": [], "b": ["nas-restarted"]}


def test_unreadable_text_is_flagged(owner, reports, journal):
    journal.ship(msgspec.structs.replace(reports.start(session="=FF=01"), unreadable=True))
    assert flags(owner) == {"=FF=01": ["unreadable-text"]}


@pytest.mark.parametrize("status", ["Tunnel-Start", "Tunnel-Link-Stop"])
def test_tunnel_record_is_stored_without_a_session(status, owner, reports, journal):
    """The record describes a tunnel between two machines of an operator (RFC 2867 3)."""
    tunnel = {"Acct_Tunnel_Connection": "42", "Acct_Tunnel_Packets_Lost": "7"}
    journal.ship(reports.start())
    journal.ship(record := reports.interim(60, status=status, **tunnel))
    assert sessions(owner) == [("s1", 0, None, 0, None, "", [])]
    assert stored(owner)[1] == dict(record.attributes)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(RECORDS, max_size=4))
def test_totals_are_never_negative(batches, owner, reports, journal):
    for table in ("sessions", "usage_hours", "nas_restarts"):
        owner.execute(f"DELETE FROM {table}")
    for batch in batches:
        journal.ship(
            *(reports.record(*values, session=session, seconds=seconds) for *values, session, seconds in batch)
        )
    assert owner.execute(WRONG).fetchall() == []
    assert owner.execute("SELECT FROM usage_hours WHERE least(seconds, input_octets) < 0").fetchall() == []
    assert journal.alarm_codes == set()

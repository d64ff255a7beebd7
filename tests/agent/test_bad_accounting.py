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
from tests.agent.journal_records import AT, SECOND, accounting
from tests.agent.test_session_keeping import interim, usage
from tests.agent.test_sessions import session_records, sessions
from tests.run_depth import examples

RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["Start", "Interim-Update", "Stop", "Accounting-On"]),
        st.integers(-1_000, 1_000),
        st.none() | st.integers(0, 1_000) | st.integers(0, 2**32),
        st.none() | st.integers(0, 2**32 - 1),
        st.sampled_from(["", "s1", "s2"]),
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


def flags(owner):
    return {row[0]: row[6] for row in sessions(owner)}


def kept(owner):
    return [row[0] for row in owner.execute("SELECT attributes FROM accounting_log ORDER BY id")]


@pytest.mark.parametrize("together", [True, False])
def test_second_stop_with_more_usage_counts_and_is_flagged(together, owner, alpha, journal):
    first, second = (
        accounting(alpha, "Stop", at=AT + seconds * SECOND, seconds=seconds, Acct_Input_Octets=str(seconds))
        for seconds in (600, 700)
    )
    journal.ship(accounting(alpha, "Start"))
    if together:
        journal.ship(first, second)
    else:
        journal.ship(first).ship(second)
    assert sessions(owner) == [("s1", AT, AT + 700 * SECOND, 700, 700, "", ["stopped-twice"])]
    assert sum(row[1] for row in usage(owner)) == 700


def test_repeated_stop_is_not_a_second_stop(owner, alpha, journal):
    """A repeated Stop without Acct-Delay-Time appears to be a later event."""
    journal.ship(*session_records(alpha), accounting(alpha, "Stop", at=AT + 1_860 * SECOND, seconds=1_800))
    journal.ship(accounting(alpha, "Stop", at=AT + 1_890 * SECOND, seconds=1_800))
    assert flags(owner) == {"s1": []}


@pytest.mark.parametrize("together", [True, False])
def test_start_within_seconds_of_the_stop_is_a_late_start(together, owner, alpha, journal):
    before = [accounting(alpha, "Start"), accounting(alpha, "Stop", at=AT + 10 * SECOND, seconds=10)]
    again = accounting(alpha, "Start", at=AT + 30 * SECOND)
    if together:
        journal.ship(*before, again)
    else:
        journal.ship(*before).ship(again)
    assert sessions(owner) == [("s1", AT, AT + 10 * SECOND, 10, None, "", [])]
    journal.ship(accounting(alpha, "Interim-Update", at=AT + 610 * SECOND, seconds=600, Acct_Input_Octets="9"))
    assert [(row[2], row[3], row[4], row[6]) for row in sessions(owner)] == [(None, 600, 9, [])]


FLAPS = {
    "all": [0, 1, 2, 3],
    "second start lost": [0, 1, 3],
    "first start lost": [1, 2, 3],
    "first stop late": [0, 3, 1],
    "starts lost, stop late": [3, 1],
}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("heard", FLAPS.values(), ids=FLAPS)
def test_reused_session_id_within_minutes_loses_no_usage(heard, together, owner, alpha, journal):
    records = [
        accounting(alpha, "Start"),
        accounting(alpha, "Stop", at=AT + 20 * SECOND, seconds=20, Acct_Input_Octets="1000"),
        accounting(alpha, "Start", at=AT + 60 * SECOND),
        accounting(alpha, "Stop", at=AT + 7_200 * SECOND, seconds=7_140, Acct_Input_Octets="5000"),
    ]
    if heard[:2] == [0, 3]:
        # Only the first session's Start arrived. Admit records two sessions with one id as one session.
        records[0] = accounting(alpha, "Start", at=AT + 60 * SECOND)
    records = [records[number] for number in heard]
    for part in [records] if together else [[record] for record in records]:
        journal.ship(*part, *part)
    assert [row[1:5] for row in sessions(owner)] == [
        (AT, AT + 20 * SECOND, 20, 1_000),
        (AT + 60 * SECOND, AT + 7_200 * SECOND, 7_140, 5_000),
    ]
    assert sorted(row[1:] for row in usage(owner)) == [(20, 1_000), (7_140, 5_000)]


OVER = ["superseded"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("together", [True, False])
def test_session_with_a_lost_stop_ends_when_its_id_is_reused(together, order, owner, alpha, journal):
    """A restarted NAS starts its session ids over without reporting the restart."""
    records = [
        accounting(alpha, "Start"),
        interim(alpha, 600, 7),
        accounting(alpha, "Start", at=AT + 7_200 * SECOND),
    ]
    records = [records[number] for number in order]
    for part in [records] if together else [[record] for record in records]:
        journal.ship(*part)
    assert [row[1:] for row in sessions(owner)] == [
        (AT, AT + 600 * SECOND, 600, 7, "", OVER),
        (AT + 7_200 * SECOND, None, 0, None, "", []),
    ]
    assert [row[1:] for row in usage(owner)] == [(600, 7)]
    journal.ship(accounting(alpha, "Stop", at=AT + 900 * SECOND, seconds=900, Acct_Input_Octets="9"))
    assert sessions(owner)[0] == ("s1", AT, AT + 900 * SECOND, 900, 9, "", [])


def test_two_sessions_that_both_continue_are_both_live(owner, alpha, journal):
    """Later reports show that the earlier session continues. So does another site, or a missing session id."""
    sites = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(2)]
    for number, site in enumerate(sites):
        at = AT + number * 7_200 * SECOND
        journal.ship(
            accounting(alpha, "Start", at=at, session="again"),
            accounting(alpha, "Start", at=at, session=""),
            msgspec.structs.replace(accounting(alpha, "Start", at=at, session="there"), site_id=site),
        )
    assert [row[0] for row in sessions(owner) if row[2] is not None] == ["again"]
    journal.ship(interim(alpha, 7_500, session="again"))
    assert [row for row in sessions(owner) if row[2] is not None] == []


@pytest.mark.parametrize("together", [True, False])
def test_report_without_a_time_revives_no_session(together, owner, alpha, journal):
    """A report soon after the Stop is a late report. A much later report is another session with that id."""
    records = [
        accounting(alpha, "Start"),
        accounting(alpha, "Stop", at=AT + 600 * SECOND, Acct_Input_Octets="1000"),
        accounting(alpha, "Interim-Update", at=AT + 700 * SECOND, Acct_Input_Octets="900"),
        accounting(alpha, "Interim-Update", at=AT + 36_000 * SECOND, Acct_Input_Octets="500"),
        accounting(alpha, "Stop", at=AT + 36_600 * SECOND, Acct_Input_Octets="700"),
    ]
    for part in [records] if together else [[record] for record in records]:
        journal.ship(*part)
    assert [row[1:5] for row in sessions(owner)] == [
        (AT, AT + 600 * SECOND, 600, 1_000),
        (AT + 36_000 * SECOND, AT + 36_600 * SECOND, 600, 700),
    ]


def test_simultaneous_starts_of_a_batch_lose_nothing(owner, alpha, journal):
    """Two Starts of one session are read as two sessions, and are merged when both are known."""
    starts = [accounting(alpha, "Start", at=AT + seconds * SECOND) for seconds in (0, 400, 250, 100, 0)]
    journal.ship(*starts, interim(alpha, 60, 12_345))
    [(_, _, _, seconds, octets, *_)] = sessions(owner)
    assert (seconds, octets) == (60, 12_345)


def test_thousands_of_sessions_with_one_id_need_few_queries(alpha, monkeypatch):
    looks = []
    is_of = session_batches.SessionUpdate.is_of

    def counted(stay, usage, started_at, *, known):
        looks.append(stay)
        return is_of(stay, usage, started_at, known=known)

    monkeypatch.setattr(session_batches.SessionUpdate, "is_of", counted)
    batch = session_batches.SessionBatch()
    for number in range(3_000):
        at = AT + number * 301 * SECOND
        batch.add(parse_accounting(accounting(alpha, "Stop", at=at, seconds=0 if number % 2 else None)))
    assert len(batch.session_lines()) == 3_000
    assert len(looks) < 6 * 3_000


@pytest.mark.parametrize("seconds", [10, None])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("together", [True, False])
def test_session_never_ends_before_it_began(together, order, seconds, owner, alpha, journal):
    """The session's Start arrived late and reported no delay."""
    records = [accounting(alpha, "Start", at=AT + 20 * SECOND), accounting(alpha, "Stop", at=AT, seconds=seconds)]
    records = [records[number] for number in order]
    if together:
        journal.ship(*records)
    else:
        journal.ship(records[0]).ship(records[1])
    [(_, start, stop, lasted, *_)] = sessions(owner)
    assert start <= stop
    assert lasted == (seconds or 0)


def test_start_long_after_the_stop_is_a_new_session(owner, alpha, journal):
    journal.ship(*session_records(alpha), accounting(alpha, "Start", at=AT + 1_900 * SECOND))
    assert [(row[1], row[2], row[6]) for row in sessions(owner)] == [
        (AT, AT + 1_800 * SECOND, []),
        (AT + 1_900 * SECOND, None, []),
    ]


def test_impossible_time_is_replaced_by_the_arrival_time(owner, alpha, journal):
    journal.ship(accounting(alpha, "Start"))
    largest = {"Acct_Session_Time": "4294967295"}
    journal.ship(accounting(alpha, "Interim-Update", at=AT + 600 * SECOND, Acct_Input_Octets="5", **largest))
    assert sessions(owner) == [("s1", AT, None, 600, 5, "", ["impossible-time"])]
    assert dict(kept(owner)[1])["Acct-Session-Time"] == "4294967295"


def test_impossibly_long_session_is_a_separate_one(owner, alpha, journal):
    """The session claims to have begun long before the other session."""
    year = 365 * 86_400
    journal.ship(accounting(alpha, "Start"), interim(alpha, 60, 5))
    journal.ship(accounting(alpha, "Interim-Update", at=AT + 120 * SECOND, seconds=year, Acct_Input_Octets="7"))
    assert [(row[1], row[3], row[4], row[6]) for row in sessions(owner)] == [
        (AT + (120 - year) * SECOND, year, 7, ["no-start"]),
        (AT, 60, 5, []),
    ]


def test_records_without_a_session_id_share_a_session(owner, alpha, journal):
    stations = ("00-00-00-00-00-01", "00-00-00-00-00-02")
    journal.ship(*(accounting(alpha, "Start", session="", station=station) for station in stations))
    journal.ship(accounting(alpha, "Stop", session="", station=stations[0], at=AT + 60 * SECOND, seconds=60))
    told = owner.execute("SELECT stopped_at IS NULL, flags FROM sessions ORDER BY mac").fetchall()
    assert told == [(False, ["session-id-missing"]), (True, ["session-id-missing"])]


def test_session_id_of_four_thousand_octets_is_stored(owner, alpha, journal):
    """No packet can contain so long an id, but a journal can."""
    long = "x" * 4_095
    for last in "ab":
        journal.ship(accounting(alpha, "Start", session=long + last))
        journal.ship(interim(alpha, 60, 5, session=long + last))
    assert sorted(len(row[0]) for row in sessions(owner)) == [253, 253]
    assert {dict(pairs)["Acct-Session-Id"] for pairs in kept(owner)} == {long + "a", long + "b"}


def test_counters_at_their_maximum_overflow_no_sum(owner, alpha, journal, app_engine):
    largest = {f"Acct_{way}_{half}": "4294967295" for way in ("Input", "Output") for half in ("Octets", "Gigawords")}
    journal.ship(
        *(
            accounting(alpha, "Stop", session=f"s{number}", at=AT + 60 * SECOND, seconds=60, **largest)
            for number in range(3)
        )
    )
    since = datetime.fromtimestamp(AT // SECOND, UTC)
    for by in USAGE_DIMENSIONS:
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            [use] = list_usage(session, tenant_id=alpha.id, by=by, since=since, until=datetime.max.replace(tzinfo=UTC))
        assert (use.input_octets, use.output_octets) == (3 * (2**63 - 1),) * 2


def test_nas_restart_keeps_sessions_of_other_tenants(owner, make, alpha, journal):
    """Other tenants have a NAS with the same NAS-Identifier and address, which are not unique across tenants."""
    bravo = make("bravo")
    journal.ship(accounting(alpha, "Start", session="a"), accounting(bravo, "Start", session="b"))
    journal.ship(accounting(bravo, "Accounting-On", at=AT + 60 * SECOND))
    assert flags(owner) == {"a": [], "b": ["nas-restarted"]}


def test_unreadable_text_is_flagged(owner, alpha, journal):
    record = msgspec.structs.replace(accounting(alpha, "Start", session="=FF=01"), unreadable=True)
    journal.ship(record)
    assert flags(owner) == {"=FF=01": ["unreadable-text"]}


@pytest.mark.parametrize("status", ["Tunnel-Start", "Tunnel-Link-Stop"])
def test_tunnel_record_is_stored_without_a_session(status, owner, alpha, journal):
    """The record describes a tunnel between two machines of an operator (RFC 2867 3)."""
    journal.ship(accounting(alpha, "Start"))
    tunnel = {"Acct_Tunnel_Connection": "42", "Acct_Tunnel_Packets_Lost": "7"}
    journal.ship(accounting(alpha, status, at=AT + 60 * SECOND, seconds=60, **tunnel))
    assert sessions(owner) == [("s1", AT, None, 0, None, "", [])]
    stored = dict(kept(owner)[1])
    assert (stored["Acct-Status-Type"], stored["Acct-Tunnel-Connection"], stored["Acct-Tunnel-Packets-Lost"]) == (
        status,
        "42",
        "7",
    )


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(RECORDS, max_size=4))
def test_totals_are_never_negative(batches, owner, alpha, journal):
    for table in ("sessions", "usage_hours", "nas_restarts"):
        owner.execute(f"DELETE FROM {table}")
    for batch in batches:
        journal.ship(
            *(
                accounting(
                    alpha,
                    status,
                    session=session,
                    at=AT + offset * SECOND,
                    seconds=seconds,
                    **({} if octets is None else {"Acct_Input_Octets": str(octets)}),
                )
                for status, offset, seconds, octets, session in batch
            )
        )
    assert owner.execute(WRONG).fetchall() == []
    assert owner.execute("SELECT FROM usage_hours WHERE least(seconds, input_octets) < 0").fetchall() == []
    assert journal.alarm_codes == set()

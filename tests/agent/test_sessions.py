import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radius.agent.sessions.merge import SESSION_UPDATES_MERGE
from radius.agent.sessions.nas_restarts import RESTARTS_END
from tests.agent.journal_records import AT, SECOND, accounting
from tests.run_depth import examples

# Each example starts with empty tables in the test's one database.
slow = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def sessions(owner):
    return owner.execute(
        "SELECT session_id, (extract(epoch FROM started_at) * 1000000)::bigint, "
        "(extract(epoch FROM stopped_at) * 1000000)::bigint, session_seconds, input_octets, terminate_cause, flags "
        "FROM sessions ORDER BY started_at, session_id"
    ).fetchall()


def session_records(tenant, *, session="s1", start=AT, seconds=1_800, step=600, **more):
    """Records of one session: Start, Interim-Updates and Stop."""
    records = [accounting(tenant, "Start", session=session, at=start, **more)]
    for passed in range(step, seconds, step):
        octets = str(passed * 10)
        records.append(
            accounting(
                tenant,
                "Interim-Update",
                session=session,
                at=start + passed * SECOND,
                seconds=passed,
                Acct_Input_Octets=octets,
                **more,
            )
        )
    records.append(
        accounting(
            tenant,
            "Stop",
            session=session,
            at=start + seconds * SECOND,
            seconds=seconds,
            Acct_Input_Octets=str(seconds * 10),
            Acct_Terminate_Cause="User-Request",
            **more,
        )
    )
    return records


ENDED = ("s1", AT, AT + 1_800 * SECOND, 1_800, 18_000, "User-Request", [])


@slow
@given(data=st.data())
def test_records_in_any_order_and_number_make_one_session(data, owner, alpha, journal):
    owner.execute("DELETE FROM sessions")
    records = session_records(alpha)
    sent = data.draw(st.permutations(records + data.draw(st.lists(st.sampled_from(records), max_size=4))))
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        journal.ship(*sent[:size])
        sent = sent[size:]
    assert sessions(owner) == [ENDED]


def test_session_without_a_start_is_marked(owner, alpha, journal):
    start, interim, *_, stop = session_records(alpha)
    journal.ship(interim)
    assert sessions(owner) == [("s1", AT, None, 600, 6_000, "", ["no-start"])]
    journal.ship(start)
    assert sessions(owner) == [("s1", AT, None, 600, 6_000, "", [])]
    journal.ship(stop)
    assert sessions(owner) == [ENDED]


def test_session_id_reused_later_is_another_session(owner, alpha, journal):
    again = AT + 7_200 * SECOND
    journal.ship(*session_records(alpha), *session_records(alpha, start=again))
    journal.ship(session_records(alpha, start=again)[1])
    assert sessions(owner) == [ENDED, ("s1", again, again + 1_800 * SECOND, 1_800, 18_000, "User-Request", [])]


def test_equal_session_id_elsewhere_is_another_session(owner, make, alpha, journal):
    bravo = make("bravo")
    journal.ship(
        *session_records(alpha),
        *session_records(alpha, nas="other"),
        *session_records(alpha, station="00-00-00-00-00-01"),
        *session_records(bravo),
    )
    assert [row[0] for row in sessions(owner)] == ["s1"] * 4


def test_repeated_start_without_a_delay_is_the_same_session(owner, alpha, journal):
    """The NAS retransmitted the Start for four minutes."""
    start = session_records(alpha)[0]
    journal.ship(accounting(alpha, "Start", at=AT + 240 * SECOND), *session_records(alpha)[1:])
    assert len(sessions(owner)) == 1
    journal.ship(start)
    assert len(sessions(owner)) == 1


def test_delayed_records_count_at_their_own_time(owner, alpha, journal):
    late = AT + 900 * SECOND
    journal.ship(accounting(alpha, "Stop", at=late, seconds=60, Acct_Delay_Time="840"))
    assert sessions(owner)[0][1:3] == (AT, AT + 60 * SECOND)


def test_interim_after_the_stop_does_not_revive_the_session(owner, alpha, journal):
    *earlier, stop = session_records(alpha)
    journal.ship(stop)
    journal.ship(*earlier)
    assert sessions(owner) == [ENDED]


def test_session_that_continues_after_its_stop_is_live_again(owner, alpha, journal):
    journal.ship(*session_records(alpha))
    journal.ship(accounting(alpha, "Interim-Update", at=AT + 2_400 * SECOND, seconds=2_400))
    assert sessions(owner) == [("s1", AT, None, 2_400, 18_000, "", [])]


def test_interim_without_session_time_joins_the_live_session(owner, alpha, journal):
    journal.ship(accounting(alpha, "Start"))
    journal.ship(accounting(alpha, "Interim-Update", at=AT + 3_600 * SECOND, Acct_Input_Octets="7"))
    journal.ship(accounting(alpha, "Stop", at=AT + 7_200 * SECOND, Acct_Input_Octets="9"))
    assert sessions(owner) == [("s1", AT, AT + 7_200 * SECOND, 7_200, 9, "", [])]


@pytest.mark.parametrize("status", ["Accounting-On", "Accounting-Off"])
@pytest.mark.parametrize("together", [True, False])
def test_restarted_nas_has_no_earlier_sessions(status, together, owner, alpha, journal):
    before = [accounting(alpha, "Start", session="old"), accounting(alpha, "Start", session="elsewhere", nas="other")]
    at = AT + 60 * SECOND
    after = [accounting(alpha, status, at=at), accounting(alpha, "Start", session="new", at=at + SECOND)]
    if together:
        journal.ship(*before, *after)
    else:
        journal.ship(*before)
        journal.ship(*after)
    ended = {row[0]: (row[2], row[5], row[6]) for row in sessions(owner)}
    assert ended == {
        "old": (at, "NAS-Reboot", ["nas-restarted"]),
        "elsewhere": (None, "", []),
        "new": (None, "", []),
    }


@pytest.mark.parametrize("cuts", [(4,), (1, 3), (2, 2), (3, 1)])
def test_restarted_nas_may_reuse_a_session_id_at_once(cuts, owner, alpha, journal):
    at = AT + 60 * SECOND
    records = [
        accounting(alpha, "Start"),
        accounting(alpha, "Accounting-On", at=at),
        accounting(alpha, "Start", at=at + SECOND),
        accounting(alpha, "Interim-Update", at=at + 61 * SECOND, seconds=60),
    ]
    for size in cuts:
        journal.ship(*records[:size])
        records = records[size:]
    assert [(row[1], row[2], row[3]) for row in sessions(owner)] == [(AT, at, 0), (at + SECOND, None, 60)]


def test_session_that_continues_after_accounting_on_is_live(owner, alpha, journal):
    """Some controllers send Accounting-On for each network that they start."""
    journal.ship(accounting(alpha, "Start"), accounting(alpha, "Accounting-On", at=AT + 60 * SECOND))
    journal.ship(accounting(alpha, "Interim-Update", at=AT + 600 * SECOND, seconds=600))
    assert sessions(owner) == [("s1", AT, None, 600, None, "", [])]


def test_late_restart_ends_no_session_reported_since(owner, alpha, journal):
    journal.ship(*session_records(alpha)[:2])
    journal.ship(accounting(alpha, "Accounting-On", at=AT + 601 * SECOND, Acct_Delay_Time="300"))
    assert sessions(owner)[0][2] is None


def test_other_status_types_are_logged_without_a_session(owner, alpha, journal):
    journal.ship(accounting(alpha, "Failed"), accounting(alpha, ""))
    assert sessions(owner) == []
    assert owner.execute("SELECT status_type FROM accounting_log ORDER BY id").fetchall() == [("Failed",), ("",)]


def test_outdated_statistics_cause_no_sequential_scans(owner, alpha, journal):
    """With sequential scans, the agent ships 620 records/s instead of 20,000 until the next ANALYZE."""
    journal.ship(*(accounting(alpha, "Start", session=f"s{number}") for number in range(500)))
    owner.execute("DELETE FROM sessions WHERE session_id <> 's499'")
    owner.execute("VACUUM ANALYZE sessions")
    with journal.acct._engine.connect() as connection:
        found = {"Index Scan using uq_sessions_identity", "Index Only Scan using uq_sessions_identity", "Tid Scan"}
        assert reads_of_sessions(connection, SESSION_UPDATES_MERGE) == found
        reads = reads_of_sessions(connection, RESTARTS_END)
        assert {" ".join(read.split()[:3]) for read in reads} == {"Index Scan using", "Index Only Scan", "Tid Scan"}


def reads_of_sessions(connection, statement):
    plan = connection.exec_driver_sql(
        f"EXPLAIN (COSTS OFF) {statement}",
        {"same_start": "300 seconds", "unsure": "30 seconds", "presumed": ["stale"]}
        | {"tenants": [], "nases": 10, "sessions": 2_000},
    )
    lines = [line.strip(" ->") for (line,) in plan]
    return {line.partition(" on sessions")[0] for line in lines if "Scan" in line and " on sessions" in line}

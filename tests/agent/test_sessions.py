"""Sessions built from accounting records that arrive in any order, in one batch or several."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radius.agent.sessions.merge import SESSION_UPDATES_MERGE
from radius.agent.sessions.nas_restarts import RESTARTS_END
from tests.agent.journal_records import Reports, accounting
from tests.agent.stored_rows import sessions
from tests.run_depth import examples

ENDED = ("s1", 0, 1_800, 1_800, 18_000, "User-Request", [])
LIVE = ("s1", 0, None)


# Each example starts with empty tables in the test's one database.
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_records_in_any_order_and_number_make_one_session(data, owner, reports, journal):
    owner.execute("DELETE FROM sessions")
    records = reports.session()
    sent = data.draw(st.permutations(records + data.draw(st.lists(st.sampled_from(records), max_size=4))))
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        journal.ship(*sent[:size])
        sent = sent[size:]
    assert sessions(owner) == [ENDED]


CASES = {
    "id is reused later": (
        lambda nas: [*nas.session(), *nas.session(7_200), nas.session(7_200)[1]],
        [ENDED, ("s1", 7_200, 9_000, *ENDED[3:])],
    ),
    "id is reused soon after the Stop": (
        lambda nas: [*nas.session(), nas.start(1_900)],
        [ENDED, ("s1", 1_900, None, 0, None, "", [])],
    ),
    "Stop is delayed": (
        lambda nas: [nas.stop(60, after=900, Acct_Delay_Time="840")],
        [("s1", 0, 60, 60, None, "", ["no-start"])],
    ),
    "session continues after its Stop": (
        lambda nas: [*nas.session(), nas.interim(2_400)],
        [(*LIVE, 2_400, 18_000, "", [])],
    ),
    "reports have no session time": (
        lambda nas: [nas.start(), nas.interim(None, 7, after=3_600), nas.stop(None, 9, after=7_200)],
        [("s1", 0, 7_200, 7_200, 9, "", [])],
    ),
    # Some controllers send Accounting-On for each network that they start.
    "session continues after Accounting-On": (
        lambda nas: [nas.start(), nas.restart(60), nas.interim(600)],
        [(*LIVE, 600, None, "", [])],
    ),
    "session has reported since the delayed restart": (
        lambda nas: [*nas.session()[:2], nas.restart(601, Acct_Delay_Time="300")],
        [(*LIVE, 600, 6_000, "", [])],
    ),
    "restarted NAS reuses the id at once": (
        lambda nas: [nas.start(), nas.restart(60), nas.start(61), nas.interim(60, after=121)],
        [("s1", 0, 60, 0, None, "NAS-Reboot", ["nas-restarted"]), ("s1", 61, None, 60, None, "", [])],
    ),
}


@pytest.mark.parametrize(("records", "expected"), CASES.values(), ids=CASES)
def test_valid_records_make_the_sessions_of_the_nas(records, expected, owner, reports, ship):
    ship(*records(reports))
    assert sessions(owner) == expected


@pytest.mark.parametrize("cuts", [(1, 3), (2, 2), (3, 1)], ids=str)
def test_restarted_nas_may_reuse_an_id_across_batches(cuts, owner, reports, journal):
    """The restart may be in one batch with the session before it, or with the session after it."""
    records, expected = CASES["restarted NAS reuses the id at once"]
    sent = records(reports)
    for size in cuts:
        journal.ship(*sent[:size])
        sent = sent[size:]
    assert sessions(owner) == expected


def test_start_repeated_without_a_delay_is_the_same_session(owner, reports, ship):
    """The NAS retransmitted the Start for four minutes."""
    ship(reports.start(240), *reports.session()[1:], reports.start())
    assert len(sessions(owner)) == 1


def test_equal_session_id_elsewhere_is_another_session(owner, make, reports, journal):
    journal.ship(
        *reports.session(),
        *reports.session(nas="other"),
        *reports.session(station="00-00-00-00-00-01"),
        *Reports(make("bravo")).session(),
    )
    assert [row[0] for row in sessions(owner)] == ["s1"] * 4


@pytest.mark.parametrize("status", ["Accounting-On", "Accounting-Off"])
def test_restarted_nas_has_no_earlier_sessions(status, owner, reports, ship):
    ship(
        *(reports.start(session="old"), reports.start(session="elsewhere", nas="other")),
        *(reports.restart(60, status), reports.start(61, session="new")),
    )
    assert {row[0]: (row[2], row[5], row[6]) for row in sessions(owner)} == {
        "old": (60, "NAS-Reboot", ["nas-restarted"]),
        "elsewhere": (None, "", []),
        "new": (None, "", []),
    }


def test_other_status_types_are_logged_without_a_session(owner, alpha, journal):
    journal.ship(accounting(alpha, "Failed"), accounting(alpha, ""))
    assert sessions(owner) == []
    assert owner.execute("SELECT status_type FROM accounting_log ORDER BY id").fetchall() == [("Failed",), ("",)]


def test_session_fields_are_kept_from_any_record(owner, reports, journal):
    journal.ship(
        reports.start(
            Class="0x410006614db5a3f000",
            Chargeable_User_Identity="0x6162",
            NAS_Port_Id="Gi1/0/7",
            Framed_IPv6_Prefix="2001:db8:1:2::/64",
            Framed_Interface_Id="0:0:0:7",
        )
    )
    addresses = {"Framed_IP_Address": "192.0.2.9", "Delegated_IPv6_Prefix": "2001:db8:4000::1/52"}
    journal.ship(reports.interim(60, **addresses, Class="0x00ff"))
    columns = (
        "host(framed_ip), host(framed_ipv6), framed_prefix::text, delegated_prefix::text, class || ' ' || cui, nas_port"
    )
    assert owner.execute(f"SELECT {columns} FROM sessions").fetchone() == (
        *("192.0.2.9", "2001:db8:1:2::7", "2001:db8:1:2::/64", "2001:db8:4000::/52"),
        *("0x410006614db5a3f000 ab", "Gi1/0/7"),
    )


def test_outdated_statistics_cause_no_sequential_scans(owner, reports, journal):
    """With sequential scans, the agent ships 620 records/s instead of 20,000 until the next ANALYZE."""
    journal.ship(*(reports.start(session=f"s{number}") for number in range(500)))
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

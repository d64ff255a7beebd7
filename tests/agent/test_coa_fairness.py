"""Fairness of CoA requests: their order, no mutual waiting, and isolation of a request that fails."""

from dataclasses import replace

import pytest

from radius.agent.coa import sender as coa_sender
from radius.agent.coa import transmission
from radius.agent.coa.queue import CoaQueue
from radius.agent.coa.sender import (
    MAX_PER_NAS,
    MAX_PER_TENANT,
    MAX_PER_TENANT_WITH_SILENT,
    MAX_SILENT_PER_TENANT,
    ConcurrencyLimits,
)
from tests.agent.nas_simulator import (
    COA_ACK,
    DISCONNECT_ACK,
    QUICK,
    OpenSealer,
    add_session,
    answer,
    ask,
    attributes_of,
    make_sender,
    outcome,
    own_address,
    running,
)
from tests.agent.test_coa import ends
from tests.polling import until


@pytest.fixture
def queue(cell_engine, platform, alpha):
    return CoaQueue(cell_engine, platform.cell_id, OpenSealer())


def take(queue, *, room=100, each=100, busy=(), full=()):
    return [taken.row.id for taken in queue.take(room=room, each=each, busy=busy, full=full)]


class PendingRequest:
    """The attributes of a pending request that the allocation of slots reads."""

    def __init__(self, tenant, nas):
        self.taken = type("Taken", (), {"nas": f"{tenant}{nas}", "row": type("Row", (), {"tenant_id": tenant})})


def pending_requests(tenant, *nases):
    return [PendingRequest(tenant, nas) for nas in nases]


def test_nas_has_one_slot_until_it_answers():
    places = ConcurrencyLimits()
    assert places.full(pending_requests("t", "a")).nases == ["ta"]
    places.note("ta", answers=True)
    assert places.full(pending_requests("t", *"a" * (MAX_PER_NAS - 1))).nases == []
    assert places.full(pending_requests("t", *"a" * MAX_PER_NAS)).nases == ["ta"]
    places.note("ta", answers=False)
    assert places.full(pending_requests("t", "a")).nases == ["ta"]
    assert places.full([]).nases == []


def test_unresponsive_nases_take_no_slots_of_others():
    places, dead = ConcurrencyLimits(), [f"dead-{number}" for number in range(MAX_PER_TENANT)]
    assert places.full(pending_requests("t", *dead)).tenants == ["t"]
    # When detected, unresponsive NASes get few slots and are not counted.
    for nas in (*dead, "other"):
        places.note(f"t{nas}", answers=False)
    full = places.full(pending_requests("t", *dead))
    assert full.tenants == []
    assert "tother" in full.nases
    assert places.full(pending_requests("t", *dead[: MAX_SILENT_PER_TENANT - 1])).nases == sorted(
        f"t{nas}" for nas in dead[:3]
    )
    many = [f"dead-{number}" for number in range(MAX_PER_TENANT_WITH_SILENT)]
    for nas in many:
        places.note(f"t{nas}", answers=False)
    assert places.full(pending_requests("t", *many)).tenants == ["t"]


def test_unresponsive_nases_do_not_delay_their_tenant(owner, alpha, nas, cell_engine, platform):
    with running(make_sender(cell_engine, platform.cell_id)) as sender:
        for dead in [own_address() for _ in range(30)] * 3:
            ask(owner, add_session(owner, alpha, dead))
        until(lambda: sender.counters["unanswered"] >= 20, "the first have come to nothing")
        request = ask(owner, add_session(owner, alpha, nas.address))
        nas.send(answer(nas.request(), DISCONNECT_ACK))
        assert ends(owner, request) == "acknowledged"
        left = owner.execute("SELECT count(*) FROM coa_requests WHERE state IN ('queued', 'sending')").fetchone()
        assert left[0] > 0


def test_first_request_of_each_nas_precedes_any_second(owner, alpha, queue):
    sessions = [add_session(owner, alpha, address) for address in ("127.0.0.2", "127.0.0.2", "127.0.0.3")]
    redecided = ask(owner, sessions[2], kind="reauthenticate", reason="redecided", priority=1_000_000)
    first, second, other = (ask(owner, row, priority=turn) for row, turn in zip(sessions, (0, 1, 0), strict=True))
    assert take(queue, each=1) == [first]
    assert take(queue, each=1) == [other]
    assert take(queue, each=1) == [second]
    # A second request for a session is sent after the first request has ended.
    assert take(queue) == []
    owner.execute("UPDATE coa_requests SET state = 'refused', ended_at = now() WHERE id = %s", (other,))
    assert take(queue) == [redecided]


def test_only_one_request_per_nas_and_session_at_a_time(owner, alpha, queue):
    row = add_session(owner, alpha, "127.0.0.2")
    changes = [ask(owner, row, "change", attributes='[{"attribute": "Filter-Id", "value": "x"}]') for _ in range(3)]
    elsewhere = ask(owner, add_session(owner, alpha, "127.0.0.2"))
    assert take(queue) == changes[:1]
    assert take(queue) == [elsewhere]
    assert take(queue) == []
    owner.execute(
        "UPDATE coa_requests SET state = 'acknowledged', answer_code = 44, ended_at = now()  WHERE state = 'sending'"
    )
    assert take(queue) == changes[1:2]


def test_changes_arrive_in_order(owner, alpha, nas, cell_engine, platform):
    row = add_session(owner, alpha, nas.address)
    asked = [
        ask(owner, row, "change", attributes=f'[{{"attribute": "Filter-Id", "value": "{value}"}}]', priority=turn)
        for value, turn in (("first", 5), ("second", 0))
    ]
    with running(make_sender(cell_engine, platform.cell_id)):
        for expected in (b"first", b"second"):
            packet = nas.request()
            assert dict(attributes_of(packet))[11] == expected
            nas.send(answer(packet, COA_ACK))
        assert [ends(owner, request) for request in asked] == ["acknowledged"] * 2


def test_session_just_ended_by_the_nas_is_not_requested_again(owner, alpha, nas, cell_engine, platform):
    row = add_session(owner, alpha, nas.address)
    first, second = ask(owner, row), ask(owner, row, reason="endpoint-blocked")
    with running(make_sender(cell_engine, platform.cell_id)):
        nas.send(answer(nas.request(), DISCONNECT_ACK))
        assert ends(owner, first) == "acknowledged"
        assert ends(owner, second, "state", "detail") == ("withdrawn", "The session had ended.")
        assert nas.is_silent()


def test_block_is_sent_if_a_pending_request_is_cancelled(owner, alpha, nas, cell_engine, platform):
    row = add_session(owner, alpha, nas.address)
    first = ask(owner, row, reason="redecided", redecision_id=1)
    with running(make_sender(cell_engine, platform.cell_id)):
        packet = nas.request()
        second = ask(owner, row, reason="endpoint-blocked")
        owner.execute("UPDATE coa_requests SET state = 'withdrawn', ended_at = now() WHERE id = %s", (first,))
        until(lambda: outcome(owner, second) == "sending", "the block is asked for")
        other = nas.request()
        while other == packet:
            other = nas.request()
        nas.send(answer(other, DISCONNECT_ACK))
        assert ends(owner, second) == "acknowledged"


def test_completed_request_counts_although_cancelled(owner, alpha, nas, cell_engine, platform):
    request = ask(owner, add_session(owner, alpha, nas.address))
    with running(make_sender(cell_engine, platform.cell_id, pacing=replace(QUICK, longest_seconds=60))) as sender:
        packet = nas.request()
        owner.execute("UPDATE coa_requests SET state = 'withdrawn', ended_at = now() WHERE id = %s", (request,))
        # The agent sends nothing more and waits for the response.
        assert nas.is_silent(0.4)
        nas.send(answer(packet, DISCONNECT_ACK))
        until(lambda: outcome(owner, request) == "acknowledged", "the answer is written down")
        assert sender.counters["answers_late"] == 0


def test_unanswered_block_is_retried_until_it_expires(owner, alpha, nas, cell_engine, platform):
    block, asked = (
        ask(owner, add_session(owner, alpha, address), reason=reason)
        for address, reason in ((nas.address, "endpoint-blocked"), (own_address(), "requested"))
    )
    with running(make_sender(cell_engine, platform.cell_id)) as sender:
        assert ends(owner, asked) == "unanswered"
        until(lambda: outcome(owner, block, "retries", "state") == (1, "queued"), "it is put off")
        assert outcome(owner, block, "detail").startswith("No answer from")
        [alarm] = until(sender._alarms.standing, "the alarm stands")
        assert (alarm.code, alarm.detail.startswith("1 NAS does not answer")) == ("coa-unanswered", True)
        (seconds,) = owner.execute(
            "SELECT extract(epoch FROM due_at - now())::int FROM coa_requests WHERE id = %s", (block,)
        ).fetchone()
        assert 30 < seconds <= 60
        for _ in range(3):
            nas.request()
        # The retry is due, and the NAS answers again.
        owner.execute("UPDATE coa_requests SET due_at = now() WHERE id = %s", (block,))
        nas.send(answer(nas.request(), DISCONNECT_ACK))
        assert ends(owner, block, "state", "attempts") == ("acknowledged", 4)
        until(lambda: not sender._alarms.standing(), "the alarm is over")


def test_block_without_any_response_ends_as_unanswered(owner, alpha, queue):
    request = ask(
        owner, add_session(owner, alpha, "127.0.0.2"), reason="endpoint-blocked", retries=3, detail="No answer."
    )
    owner.execute("UPDATE coa_requests SET expires_at = now() - interval '1 s'")
    assert take(queue) == []
    assert outcome(owner, request, "state", "detail") == ("unanswered", "No answer.")


@pytest.mark.parametrize("broken", ["make_packet", "go_on", "find_peer"])
def test_failing_request_ends_no_other_request(owner, alpha, nas, cell_engine, platform, monkeypatch, broken):
    def fail(*_, **__):
        raise KeyError("a row that nobody thought of")

    bad_address = own_address()
    where = coa_sender if broken == "find_peer" else transmission.CoaTransmission
    real = getattr(where, broken)

    def with_failing_request(first, *more, **named):
        address = getattr(first, "taken", first).row.address
        return (fail if address == bad_address else real)(first, *more, **named)

    monkeypatch.setattr(where, broken, with_failing_request)
    bad = ask(owner, add_session(owner, alpha, bad_address))
    with running(make_sender(cell_engine, platform.cell_id)) as sender:
        state, detail = ends(owner, bad, "state", "detail")
        assert (state, detail) == ("unreachable", "The request cannot be sent: 'a row that nobody thought of'.")
        good = ask(owner, add_session(owner, alpha, nas.address))
        nas.send(answer(nas.request(), DISCONNECT_ACK))
        assert ends(owner, good) == "acknowledged"
        assert sender.counters["faults"] == 1


def test_general_failure_is_reported_and_the_thread_continues(owner, alpha, nas, cell_engine, platform, monkeypatch):
    sender = make_sender(cell_engine, platform.cell_id)
    real, calls = sender._queue.take, []

    def take(**given):
        calls.append(1)
        if len(calls) == 1:
            raise LookupError("what nobody thought of")
        return real(**given)

    monkeypatch.setattr(sender._queue, "take", take)
    request = ask(owner, add_session(owner, alpha, nas.address))
    with running(sender):
        nas.send(answer(nas.request(), DISCONNECT_ACK))
        assert ends(owner, request) == "acknowledged"
    assert len(calls) > 1


def test_result_that_cannot_be_stored_delays_no_other(owner, alpha, nas, cell_engine, platform, monkeypatch):
    sender = make_sender(cell_engine, platform.cell_id)
    real = sender._queue.end
    other = ask(owner, add_session(owner, alpha, None))

    def end(endings):
        real([each._replace(detail="\0") if each.id == other else each for each in endings])

    monkeypatch.setattr(sender._queue, "end", end)
    request = ask(owner, add_session(owner, alpha, nas.address))
    with running(sender):
        nas.send(answer(nas.request(), DISCONNECT_ACK))
        assert ends(owner, request) == "acknowledged"

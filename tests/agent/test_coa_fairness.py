"""Fairness of CoA requests: their order, no mutual waiting, and isolation of a request that fails."""

from dataclasses import replace

import pytest

from radius.agent.coa import sender as coa_sender
from radius.agent.coa import transmission
from tests.agent.nas_simulator import (
    COA_ACK,
    DISCONNECT_ACK,
    QUICK,
    add_session,
    answer,
    ask,
    attributes_of,
    ends,
    make_sender,
    outcome,
    own_address,
    running,
)
from tests.polling import until


def test_unresponsive_nases_do_not_delay_their_tenant(owner, nas, sender, request_of):
    for dead in [own_address() for _ in range(30)] * 3:
        request_of(dead)
    until(lambda: sender.counters["unanswered"] >= 20, "the first have come to nothing")
    request = request_of(nas.address)
    nas.acknowledge()
    assert ends(owner, request) == "acknowledged"
    left = owner.execute("SELECT count(*) FROM coa_requests WHERE state IN ('queued', 'sending')").fetchone()
    assert left[0] > 0


def test_changes_carry_their_attributes_in_order(owner, alpha, nas, sender):
    row = add_session(owner, alpha, nas.address)
    pairs = '[{"attribute": "Session-Timeout", "value": "600"}, {"attribute": "Filter-Id", "value": "%s"}]'
    named = (("first", 5), ("second", 0))
    asked = [ask(owner, row, "change", attributes=pairs % value, priority=turn) for value, turn in named]
    for value, _ in named:
        packet = nas.acknowledge(COA_ACK)
        assert packet[0] == 43
        assert {(27, bytes((0, 0, 2, 88))), (11, value.encode())} <= set(attributes_of(packet))
    assert [ends(owner, request) for request in asked] == ["acknowledged"] * 2


def test_session_just_ended_by_the_nas_is_not_requested_again(owner, alpha, nas, cell_engine, platform):
    row = add_session(owner, alpha, nas.address)
    first, second = ask(owner, row), ask(owner, row, reason="endpoint-blocked")
    with running(make_sender(cell_engine, platform.cell_id)):
        nas.acknowledge()
        assert ends(owner, first) == "acknowledged"
        assert ends(owner, second, "state", "detail") == ("withdrawn", "The session had ended.")
        assert nas.is_silent()


def withdraw(owner, request):
    owner.execute("UPDATE coa_requests SET state = 'withdrawn', ended_at = now() WHERE id = %s", (request,))


def test_block_is_sent_if_a_pending_request_is_cancelled(owner, alpha, nas, sender):
    row = add_session(owner, alpha, nas.address)
    first = ask(owner, row, reason="redecided", redecision_id=1)
    packet = other = nas.request()
    second = ask(owner, row, reason="endpoint-blocked")
    withdraw(owner, first)
    until(lambda: outcome(owner, second) == "sending", "the block is asked for")
    while other == packet:
        other = nas.request()
    nas.send(answer(other, DISCONNECT_ACK))
    assert ends(owner, second) == "acknowledged"


def test_completed_request_counts_although_cancelled(owner, nas, cell_engine, platform, request_of):
    request = request_of(nas.address)
    with running(make_sender(cell_engine, platform.cell_id, pacing=replace(QUICK, longest_seconds=60))) as sender:
        packet = nas.request()
        withdraw(owner, request)
        # The agent sends nothing more and waits for the response.
        assert nas.is_silent(0.4)
        nas.send(answer(packet, DISCONNECT_ACK))
        until(lambda: outcome(owner, request) == "acknowledged", "the answer is written down")
        assert sender.counters["answers_late"] == 0


def test_unanswered_block_is_retried_until_it_expires(owner, nas, sender, request_of):
    block, asked = request_of(nas.address, reason="endpoint-blocked"), request_of(own_address())
    assert ends(owner, asked) == "unanswered"
    until(lambda: outcome(owner, block, "retries", "state") == (1, "queued"), "it is put off")
    assert outcome(owner, block, "detail").startswith("No answer from")
    [alarm] = until(sender._alarms.standing, "the alarm stands")
    assert (alarm.code, alarm.detail.startswith("1 NAS does not answer")) == ("coa-unanswered", True)
    assert 30 < outcome(owner, block, "extract(epoch FROM due_at - now())::int") <= 60
    for _ in range(3):
        nas.request()
    # The retry is due, and the NAS answers again.
    owner.execute("UPDATE coa_requests SET due_at = now() WHERE id = %s", (block,))
    nas.acknowledge()
    assert ends(owner, block, "state", "attempts") == ("acknowledged", 4)
    until(lambda: not sender._alarms.standing(), "the alarm is over")


@pytest.mark.parametrize("broken", ["make_packet", "go_on", "find_peer"])
def test_failing_request_ends_no_other_request(owner, nas, sender, request_of, monkeypatch, broken):
    def fail(*_, **__):
        raise KeyError("a row that nobody thought of")

    bad_address = own_address()
    where = coa_sender if broken == "find_peer" else transmission.CoaTransmission
    real = getattr(where, broken)

    def with_failing_request(first, *more, **named):
        address = getattr(first, "taken", first).row.address
        return (fail if address == bad_address else real)(first, *more, **named)

    monkeypatch.setattr(where, broken, with_failing_request)
    state, detail = ends(owner, request_of(bad_address), "state", "detail")
    assert (state, detail) == ("unreachable", "The request cannot be sent: 'a row that nobody thought of'.")
    good = request_of(nas.address)
    nas.acknowledge()
    assert ends(owner, good) == "acknowledged"
    assert sender.counters["faults"] == 1


@pytest.fixture
def idle_sender(cell_engine, platform, alpha):
    return make_sender(cell_engine, platform.cell_id)


def test_general_failure_is_reported_and_the_thread_continues(owner, nas, idle_sender, request_of, monkeypatch):
    real, calls = idle_sender._queue.take, []

    def take(**given):
        calls.append(1)
        if len(calls) == 1:
            raise LookupError("what nobody thought of")
        return real(**given)

    monkeypatch.setattr(idle_sender._queue, "take", take)
    request = request_of(nas.address)
    with running(idle_sender):
        nas.acknowledge()
        assert ends(owner, request) == "acknowledged"
    assert len(calls) > 1


def test_result_that_cannot_be_stored_delays_no_other(owner, nas, idle_sender, request_of, monkeypatch):
    real, other = idle_sender._queue.end, request_of(None)

    def end(endings):
        real([each._replace(detail="\0") if each.id == other else each for each in endings])

    monkeypatch.setattr(idle_sender._queue, "end", end)
    request = request_of(nas.address)
    with running(idle_sender):
        nas.acknowledge()
        assert ends(owner, request) == "acknowledged"

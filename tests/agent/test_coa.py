"""The CoA requests that the agent sends to NASes, and the responses that it accepts."""

import hmac
import os
import signal
import threading
import time
from collections import Counter
from dataclasses import replace
from hashlib import md5

import psycopg
import pytest

from nac.engine.vendors import RecipeStep, find_vendor
from nac.kit.db import make_engine
from nac.kit.outbound.reach import OutboundReach
from radius.agent.coa import transmission
from radius.agent.coa.queue import MAX_TAKINGS, CoaQueue
from radius.agent.coa.sender import CoaSender
from tests.agent.nas_simulator import (
    COA_ACK,
    COA_NAK,
    DISCONNECT_ACK,
    QUICK,
    SECRET,
    OpenSealer,
    SimulatedNas,
    add_session,
    add_vendor_nas,
    answer,
    ask,
    attributes_of,
    ends,
    make_sender,
    outcome,
    own_address,
    running,
)
from tests.forked_processes import forked
from tests.polling import until

USER_NAME, NAS_IP, STATION, NAS_IDENTIFIER, SESSION_ID, EVENT_TIMESTAMP, SIGNATURE = 1, 4, 31, 32, 44, 55, 80
VENDOR_SPECIFIC = 26
REAUTHENTICATE, BOUNCE = b"subscriber:command=reauthenticate", b"subscriber:command=bounce-host-port"


def test_disconnect_identifies_the_session_and_is_signed_twice(owner, alpha, nas, sender):
    row = add_session(owner, alpha, nas.address, mac="0a1b2c3d4e5f")
    began = time.time()
    request = ask(owner, row)
    packet = nas.request()
    # The agent logs the request before it sends it.
    assert outcome(owner, request, "state", "attempts", "takings") == ("sending", 1, 1)
    nas.send(answer(packet, DISCONNECT_ACK))
    assert ends(owner, request, "state", "answer_code", "error_cause", "detail") == ("acknowledged", 41, None, "")
    values = dict(attributes_of(packet))
    assert (packet[0], len(packet)) == (40, int.from_bytes(packet[2:4], "big"))
    assert values[STATION] == b"0A-1B-2C-3D-4E-5F"
    assert (values[USER_NAME], values[NAS_IDENTIFIER]) == (b"anna", b"switch")
    assert values[SESSION_ID].startswith(b"s")
    assert values[NAS_IP] == bytes(int(part) for part in nas.address.split("."))
    assert began - 2 <= int.from_bytes(values[EVENT_TIMESTAMP], "big") <= time.time() + 2
    # RFC 5176 2.3 and 3.4: each hash is computed with sixteen zero octets in its own field.
    assert packet[4:20] == md5(packet[:4] + bytes(16) + packet[20:] + SECRET, usedforsecurity=False).digest()
    unsigned = packet[:4] + bytes(16) + packet[20:].replace(values[SIGNATURE], bytes(16))
    assert values[SIGNATURE] == hmac.digest(SECRET, unsigned, "md5")


def test_packet_is_retransmitted_unchanged_a_limited_time(owner, nas, sender, request_of):
    request = request_of(nas.address)
    packets = [nas.request() for _ in range(3)]
    assert len(set(packets)) == 1
    state, attempts, detail = ends(owner, request, "state", "attempts", "detail")
    assert (state, attempts) == ("unanswered", 3)
    assert detail.startswith(f"No answer from {nas.address}, port 3799 to 3 packets. Turn on dynamic authorization")
    assert nas.is_silent()
    # The limit of retransmissions is reached, so a response has no effect.
    nas.send(answer(packets[0], DISCONNECT_ACK))
    until(lambda: sender.counters["answers_late"] == 1, "the late answer is counted")
    assert outcome(owner, request) == "unanswered"


FAULTS = ("forged", "wrong_code", "malformed", "foreign")


def test_forged_responses_are_ignored_and_the_valid_one_counts(owner, nas, other_nas, sender, request_of):
    request = request_of(nas.address)
    packet = nas.request()
    good = answer(packet, DISCONNECT_ACK)
    other_nas.sender = nas.sender
    other_nas.send(good)
    for bad in (
        answer(packet, DISCONNECT_ACK, secret=b"another secret"),
        answer(packet, DISCONNECT_ACK, signed=False, secret=b"another secret"),
        # The Response Authenticator is valid, the Message-Authenticator is not.
        resigned(packet, good[:-1] + bytes([good[-1] ^ 1])),
        answer(packet, DISCONNECT_ACK, identifier=(packet[1] + 1) % 256),
        answer(packet, COA_ACK),
        answer(packet, 2),
        good[:-1],
        b"",
        b"\x29",
        bytes(5000),
    ):
        nas.send(bad)
    until(lambda: sum(sender.counters[f"answers_{fault}"] for fault in FAULTS) >= 11, "all of them are counted")
    assert outcome(owner, request) == "sending"
    nas.send(good)
    nas.send(good)
    assert ends(owner, request, "state", "answer_code") == ("acknowledged", 41)
    until(lambda: sender.counters["answers_late"] == 1, "the doubled answer is counted")
    # Responses from another address, with another identifier, and three without an identifier, which is read as 0.
    without = "malformed" if packet[1] == 0 else "foreign"
    expected = Counter(forged=3, wrong_code=2, malformed=1, foreign=2) + Counter({without: 3})
    assert {fault: sender.counters[f"answers_{fault}"] for fault in FAULTS} == expected


def resigned(request, packet):
    head, body = packet[:4], packet[20:]
    return head + md5(head + request[4:20] + body + SECRET, usedforsecurity=False).digest() + body


def test_response_without_signature_counts_unless_required(owner, alpha, nas, sender, request_of):
    request = request_of(nas.address)
    nas.send(answer(nas.request(), DISCONNECT_ACK, signed=False))
    assert ends(owner, request) == "acknowledged"
    request = request_of(nas.address, nas_id=add_vendor_nas(owner, alpha, nas.address, signs_coa_answers=True))
    for _ in range(3):
        nas.send(answer(nas.request(), DISCONNECT_ACK, signed=False))
    state, detail = ends(owner, request, "state", "detail")
    assert state == "unanswered"
    assert "The NAS responded without a Message-Authenticator" in detail
    assert sender.counters["answers_unsigned"] == 3


@pytest.fixture
def cisco(owner, alpha):
    """A NAS of the vendor Cisco, whose CoA port is 1700."""
    nas = SimulatedNas(1700)
    nas.id = add_vendor_nas(owner, alpha, nas.address, "cisco")
    yield nas
    nas.socket.close()


def command_of(packet):
    """The vendor's command in a CoA-Request."""
    return next((value[6:] for number, value in attributes_of(packet) if number == VENDOR_SPECIFIC), b"")


def test_step_missing_in_another_vendors_recipe_restarts_it(owner, nas, sender, request_of):
    request = request_of(nas.address, step=1)
    nas.acknowledge()
    assert ends(owner, request, "state", "step") == ("acknowledged", 0)


def test_recipe_continues_if_the_first_step_is_rejected(owner, cisco, sender, request_of):
    request = request_of(cisco.address, "reauthenticate", nas_id=cisco.id)
    first = cisco.request()
    assert (first[0], command_of(first)) == (43, REAUTHENTICATE)
    cisco.send(answer(first, COA_NAK, cause=406))
    second = cisco.request()
    assert (second[0], command_of(second)) == (40, b"")
    # The second command is a separate packet (RFC 5176 2.3).
    assert second[4:20] != first[4:20]
    assert outcome(owner, request, "step", "attempts") == (1, 2)
    cisco.send(answer(first, COA_ACK))
    cisco.send(answer(second, DISCONNECT_ACK))
    assert ends(owner, request, "state", "answer_code", "step") == ("acknowledged", 41, 1)


def test_recipe_ends_if_the_nas_lost_the_session(owner, cisco, sender, request_of):
    request = request_of(cisco.address, "reauthenticate", nas_id=cisco.id)
    cisco.send(answer(cisco.request(), COA_NAK, cause=503))
    *ended, detail = ends(owner, request, "state", "answer_code", "error_cause", "step", "detail")
    assert ended == ["refused", 45, 503, 0]
    assert detail.startswith("The NAS rejected the request. Error-Cause 503: The NAS does not know this session.")


def test_recipe_continues_if_the_first_step_times_out(owner, nas, sender, request_of, monkeypatch):
    steps = (RecipeStep("disconnect", (), ("unanswered",)), RecipeStep("coa", (("Session-Timeout", "1"),)))
    recipe = replace(find_vendor("").recipe, steps={"disconnect": steps})
    monkeypatch.setattr(transmission, "find_vendor", lambda _: replace(find_vendor(""), recipe=recipe))
    request = request_of(nas.address)
    packets = [*(nas.request() for _ in range(3)), nas.acknowledge(COA_ACK)]
    assert [packet[0] for packet in packets] == [40, 40, 40, 43]
    assert ends(owner, request, "state", "step", "attempts") == ("acknowledged", 1, 4)


@pytest.mark.parametrize("known_by", ["identifier", "address"])
def test_nas_registered_after_session_start_uses_its_settings(owner, alpha, cisco, sender, known_by):
    owner.execute("DELETE FROM nases WHERE id = %s", (cisco.id,))
    row = add_session(owner, alpha, cisco.address)
    registered = add_vendor_nas(owner, alpha, cisco.address, "cisco")
    if known_by == "identifier":
        owner.execute("UPDATE nases SET identifier = 'switch', address = NULL WHERE id = %s", (registered,))
    request = ask(owner, row, "bounce")
    assert command_of(cisco.acknowledge(COA_ACK)) == BOUNCE
    assert ends(owner, request, "state", "step") == ("acknowledged", 0)


@pytest.mark.parametrize(
    ("address", "behind_nat", "told"),
    [
        (None, False, "The address of the NAS is unknown."),
        ("127.9.9.9", True, "The NAS is behind NAT and not reachable over UDP."),
        ("224.0.0.9", False, "224.0.0.9 cannot be the address of a NAS."),
        ("2001:db8::1", False, "This cell has no IPv6 address, so it cannot send to 2001:db8::1."),
        # A user of any tenant can set the address of that tenant's NAS.
        ("169.254.169.254", False, "169.254.169.254 is a link-local address; Admit does not connect to this address."),
    ],
)
def test_unreachable_nas_is_reported(owner, alpha, sender, request_of, address, behind_nat, told):
    nas_id = add_vendor_nas(owner, alpha, "127.9.9.9", behind_nat=True) if behind_nat else None
    request = request_of(address, nas_id=nas_id)
    state, attempts, detail = ends(owner, request, "state", "attempts", "detail")
    assert (state, attempts) == ("unreachable", 0)
    assert detail.startswith(told)


def test_nas_must_be_at_an_address_the_platform_may_contact(owner, alpha, nas, cell_engine, platform, request_of):
    """This applies to registered and unregistered addresses.

    A cell that listens outside loopback has no NAS on loopback.
    """
    registered = add_vendor_nas(owner, alpha, nas.address)
    requests = [request_of(nas.address), request_of("192.0.2.1", nas_id=registered)]
    with running(make_sender(cell_engine, platform.cell_id, source="::")):
        for request in requests:
            state, attempts, detail = ends(owner, request, "state", "attempts", "detail")
            assert (state, attempts) == ("unreachable", 0)
            assert detail.startswith(f"{nas.address} is a loopback address")
            assert "ADMIT_OUTBOUND_NETWORKS" in detail
    request = request_of(nas.address)
    with running(make_sender(cell_engine, platform.cell_id, source="::", reach=OutboundReach.parse("127.0.0.0/8"))):
        nas.acknowledge()
        assert ends(owner, request) == "acknowledged"
    request = request_of(nas.address)
    with running(make_sender(cell_engine, platform.cell_id, reach=OutboundReach.parse("!127.0.0.0/8"))):
        assert ends(owner, request) == "unreachable"
    assert nas.is_silent()


def test_ended_expired_or_cancelled_request_is_not_sent(owner, alpha, nas, sender, request_of):
    ended = ask(owner, add_session(owner, alpha, nas.address, stopped_at="2026-01-01 00:00Z"))
    old = request_of(nas.address, expires_at="2026-01-01 00:00Z")
    assert ends(owner, ended, "state", "detail") == ("withdrawn", "The session had ended.")
    assert ends(owner, old) == "expired"
    going = request_of(nas.address)
    nas.request()
    owner.execute("UPDATE coa_requests SET state = 'withdrawn' WHERE id = %s", (going,))
    assert nas.is_silent(1.5)
    assert outcome(owner, going, "state", "attempts") == ("withdrawn", 1)


def test_request_waits_until_the_cell_has_applied_its_change(owner, nas, sender, request_of):
    (xact,) = owner.execute("SELECT pg_current_xact_id()::text").fetchone()
    owner.execute("UPDATE cells SET replica_position = '1:1:'")
    request = request_of(nas.address, after_xact=xact)
    assert nas.is_silent(1.0)
    assert outcome(owner, request, "state", "takings") == ("queued", 0)
    owner.execute("UPDATE cells SET replica_position = pg_current_snapshot()::text")
    nas.acknowledge()
    assert ends(owner, request) == "acknowledged"


def test_flooding_tenant_or_nas_delays_no_other(owner, make, nas, other_nas, sender, request_of):
    dead, bravo = own_address(), make("bravo")
    for _ in range(200):
        request_of(dead)
    until(lambda: sender.counters["packets"] > 0, "the flood is being sent")
    requests = [request_of(nas.address), ask(owner, add_session(owner, bravo, other_nas.address))]
    for each in (nas, other_nas):
        each.acknowledge()
    assert [ends(owner, request) for request in requests] == ["acknowledged"] * 2
    (waiting, taken) = owner.execute(
        "SELECT count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'sending') FROM coa_requests"
    ).fetchone()
    assert waiting > 100
    assert taken <= 16


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


class KilledQueue(CoaQueue):
    def record(self, sendings):
        super().record(sendings)
        die()


def send_and_die(url, cell_id, moment):
    engine = make_engine(url)
    queue = (KilledQueue if moment == "recorded" else CoaQueue)(engine, cell_id, OpenSealer())
    if moment == "sent":
        CoaSender._receive = lambda sender: die() if sender.counters["packets"] else None
    make_sender(engine, cell_id, queue=queue).run(threading.Event())


@pytest.fixture
def kill(database, platform, owner):
    """Start an agent that takes the request, kill the agent at `moment`, and let the agent's lease expire."""

    def kill(request, moment):
        process = forked(lambda: send_and_die(database.cell_url, platform.cell_id, moment))
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        assert outcome(owner, request) == "sending"
        owner.execute("UPDATE coa_requests SET due_at = now() WHERE id = %s", (request,))

    return kill


@pytest.mark.parametrize("moment", ["recorded", "sent"])
def test_request_of_a_killed_agent_is_taken_over(cell_engine, platform, owner, nas, kill, request_of, moment):
    request = request_of(nas.address)
    kill(request, moment)
    assert outcome(owner, request, "attempts", "takings") == (1, 1)
    with running(make_sender(cell_engine, platform.cell_id)) as sender:
        if moment == "sent":
            # The first request is from the dead agent. No agent awaits its response.
            dead_agents, packet = nas.request(), nas.request()
            nas.send(answer(dead_agents, DISCONNECT_ACK))
            until(lambda: sender.counters["answers_foreign"] + sender.counters["answers_forged"], "it is left aside")
            nas.send(answer(packet, DISCONNECT_ACK))
        else:
            nas.acknowledge()
        assert ends(owner, request, "state", "takings") == ("acknowledged", 2)


def test_request_that_kills_agents_is_not_sent_forever(cell_engine, platform, owner, nas, kill, request_of):
    request = request_of(nas.address)
    kill(request, "sent")
    owner.execute("UPDATE coa_requests SET takings = %s WHERE id = %s", (MAX_TAKINGS - 1, request))
    kill(request, "sent")
    with running(make_sender(cell_engine, platform.cell_id)):
        state, attempts, detail = ends(owner, request, "state", "attempts", "detail")
    assert (state, attempts) == ("unanswered", 2)
    assert detail == "The agent that sent the request ended several times before a response came."


def test_response_counts_during_a_database_outage(owner, nas, sender, database, request_of):
    request = request_of(nas.address)
    packet = nas.request()
    with psycopg.connect(database.superuser_url) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'admit_cell'")
    nas.send(answer(packet, DISCONNECT_ACK))
    assert ends(owner, request, "state", "attempts") == ("acknowledged", 1)
    # The database accepts connections again.
    request = request_of(nas.address)
    nas.acknowledge()
    assert ends(owner, request) == "acknowledged"


def test_nas_is_rate_limited_without_delaying_others(owner, nas, other_nas, cell_engine, platform, request_of):
    """The limit is one packet per thousand seconds, so this test sends no second request to a NAS."""
    pacing = replace(QUICK, per_second=0.001)
    with running(make_sender(cell_engine, platform.cell_id, pacing=pacing)):
        first, second, elsewhere = map(request_of, (nas.address, nas.address, other_nas.address))
        for request, each in ((first, nas), (elsewhere, other_nas)):
            each.acknowledge()
            assert ends(owner, request) == "acknowledged"
        assert nas.is_silent()
        assert outcome(owner, second, "state", "attempts") == ("sending", 0)


def test_request_waits_if_all_identifiers_are_in_use(owner, nas, sender, request_of, monkeypatch):
    """Other tenants may have NASes at that address."""
    monkeypatch.setattr(sender, "_awaited", {(nas.address, 3799, number): None for number in range(256)})
    request = request_of(nas.address)
    until(lambda: outcome(owner, request) == "sending", "it is taken")
    assert nas.is_silent()
    assert outcome(owner, request, "state", "attempts") == ("sending", 0)
    del sender._awaited[nas.address, 3799, 7]
    assert nas.acknowledge()[1] == 7
    assert ends(owner, request) == "acknowledged"

"""Passwords that the verifier checks. They block no thread of radiusd and delay no other request (ADR 0006)."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, CALLING_STATION_ID, USER_NAME
from radius.verifier import server
from tests.radius.nas import Nas, joined, mab, radclient
from tests.radius.supplicant import new_mac
from tests.radius.tenants import PRINTER
from tests.radius.tunnel import Tunnel
from tests.radius.tunnel import login as login_inside
from tests.radius.users import put_argon2_user
from tests.verifier.verifier_server import always, running_verifier

STAFF = VerificationResult(source="directory", name="Zoe", groups=("staff", "Büro"), attributes={"department": ("IT",)})


def login(cell, name="zoe", password="open sesame", seconds=5.0):
    """The response's code, None for silence."""
    nas = Nas(cell.alpha)
    attributes = joined([(USER_NAME, name), (CALLING_STATION_ID, new_mac())])
    request = packet.make_access_request(7, os.urandom(16), attributes, nas.key, password.encode())
    reply = nas.exchange(request, seconds=seconds)
    return None if reply is None else reply[0]


@pytest.fixture(autouse=True)
def source(cell, replica):
    """Alpha has an identity source. Only the verifier knows the kind of the source."""
    with replica.begin() as batch:
        cell.alpha.put_source(batch)
        put_argon2_user(batch, cell, "otto", "correct horse battery")


@pytest.fixture
def verifier(cell):
    def start(verify):
        return running_verifier(cell.config.verifier.port, cell.config.verifier.secret, verify)

    return start


def test_source_user_is_decided_with_the_sources_data(cell, verifier):
    with verifier(always(STAFF)) as running:
        reply = radclient(cell.alpha, 'User-Name="zoe"', 'User-Password="open sesame"')
    assert reply.code == "Access-Accept"
    assert reply.attributes["Tunnel-Private-Group-Id:1"] == "30"
    assert "Reply-Message" not in reply.attributes
    assert set(running.asked) == {(cell.alpha.slot, b"zoe", b"open sesame")}
    record = cell.decision()
    assert (record.permitted, record.reason, record.rule_id, record.method) == (True, "rule-permitted", "staff", "pap")
    assert record.request["user.name"] == ("Zoe",)
    assert record.request["user.source"] == ("directory",)
    assert record.request["user.group"] == ("staff", "Büro")
    assert record.request["user.attribute.department"] == ("IT",)


def test_slot_is_determined_by_the_port(cell, verifier):
    with verifier(always(STAFF)) as running:
        for line in (f"NAS-Identifier=slot_{cell.bravo.slot}", 'Proxy-State=0x01, NAS-Identifier="x"'):
            reply = radclient(cell.alpha, 'User-Name="zoe"', 'User-Password="x"', line)
            assert reply.code == "Access-Accept"
    # More than twice if a response was late and radclient sent the request again.
    assert len(running.asked) >= 2
    assert {slot for slot, _, _ in running.asked} == {cell.alpha.slot}


def test_verifiers_reason_is_in_the_log(cell, verifier):
    with verifier(always(VerificationResult("wrong-password", "data 52e", source="directory"))):
        reply = radclient(cell.alpha, 'User-Name="zoe"', 'User-Password="open sesame"')
    assert (reply.code, reply.attributes.get("Reply-Message")) == ("Access-Reject", None)
    record = cell.decision()
    assert (record.permitted, record.reason, record.detail) == (False, "wrong-password", "data 52e")


def test_reject_of_a_name_that_is_not_text_is_logged(cell, verifier):
    with verifier(always(VerificationResult("unknown-user"))):
        assert login(cell, name=b"\xff\xfe") == ACCESS_REJECT
    assert (cell.decision().reason, cell.decision().identity) == ("unknown-user", "=FF=FE")


def test_local_user_is_verified_and_keeps_local_groups(cell, verifier):
    with verifier(always(VerificationResult())) as running:
        assert login(cell, "otto", "correct horse battery") == ACCESS_ACCEPT
    assert set(running.asked) == {(cell.alpha.slot, b"otto", b"correct horse battery")}
    record = cell.decision()
    assert record.request["user.group"] == ("staff",)
    assert "user.source" not in record.request


def test_tenant_without_sources_queries_no_verifier(cell, verifier):
    with verifier(always(STAFF)) as running:
        reply = radclient(cell.bravo, 'User-Name="zoe"', 'User-Password="open sesame"')
    assert reply.code == "Access-Reject"
    assert running.asked == []
    assert cell.decision().reason == "unknown-user"


def test_slow_logins_delay_no_other_request(cell, verifier):
    """More logins wait for a response than radiusd has threads. Every other request is answered meanwhile."""
    release = threading.Event()

    async def slow(slot, name, password):
        while not release.is_set():
            await asyncio.sleep(0.01)
        return VerificationResult("directory-slow", source="directory")

    waiting = 20 * cell.config.threads
    with verifier(slow) as running, ThreadPoolExecutor(waiting) as pool:
        slow_logins = [pool.submit(login, cell, seconds=9.0) for _ in range(waiting)]
        while len(running.asked) < waiting:
            release.wait(0.01)
        attributes, password = mab(PRINTER)
        answered = [Nas(cell.alpha).ask(attributes, password=password)[0] for _ in range(200)]
        assert not any(done.done() for done in slow_logins)
        release.set()
        assert [done.result() for done in slow_logins] == [ACCESS_REJECT] * waiting
    assert answered == [ACCESS_ACCEPT] * 200
    assert {record.reason for record in cell.decisions(method="pap")} == {"directory-slow"}


def test_silent_verifier_is_reported_in_time_and_retried(cell, verifier):
    """A plain login, a login in a tunnel, and a login whose NAS repeats its request: none waits longer than the
    timeout.
    """
    tunnel = Tunnel(cell.alpha, patience_seconds=20).open()
    with ThreadPoolExecutor(3) as devices:
        codes = [
            devices.submit(login, cell, seconds=15.0),
            devices.submit(tunnel.say, login_inside(b"zoe", b"open sesame")),
            devices.submit(repeated_login, cell),
        ]
        assert [code.result() for code in codes] == [ACCESS_REJECT] * 3
    assert [record.reason for record in cell.decisions()] == ["verifier-unavailable"] * 3
    cell.forget_records()
    with verifier(always(STAFF)):
        assert login(cell) == ACCESS_ACCEPT
    assert cell.decision().reason == "rule-permitted"


def repeated_login(cell):
    """The response's code for a request that is repeated every 1.5 seconds, for at most 15 seconds."""
    nas = Nas(cell.alpha)
    attributes = joined([(USER_NAME, "zoe"), (CALLING_STATION_ID, new_mac())])
    request = packet.make_access_request(9, os.urandom(16), attributes, nas.key, b"open sesame")
    with nas.socket() as asking:
        asking.settimeout(1.5)
        for _ in range(10):
            asking.send(request)
            with suppress(TimeoutError):
                return asking.recv(4096)[0]
    return None


def test_response_signed_with_another_secret_is_rejected(cell):
    with running_verifier(cell.config.verifier.port, "not-the-secret-of-this-cell", always(STAFF)) as running:
        assert login(cell, seconds=15.0) == ACCESS_REJECT
    assert running.asked == []
    assert running.server.counters["dropped"] >= 1
    assert cell.decision().reason == "verifier-unavailable"


def test_user_blocked_during_verification_is_rejected(cell, replica):
    """A deleted user is rejected too, because the data at the end of the verification counts."""
    users = {"otto": ("user-disabled", lambda batch: put_argon2_user(batch, cell, "otto", "x", disabled=True))}
    users["emil"] = ("unknown-user", lambda batch: batch.delete_user(cell.alpha.number, "emil"))
    with replica.begin() as batch:
        put_argon2_user(batch, cell, "emil", "correct horse battery")

    async def verify(slot, name, password):
        with replica.begin() as batch:
            users[name.decode()][1](batch)
        return VerificationResult()

    with running_verifier(cell.config.verifier.port, cell.config.verifier.secret, verify):
        for name, (reason, _) in users.items():
            cell.forget_records()
            assert login(cell, name) == ACCESS_REJECT
            assert cell.decision().reason == reason


def test_tenant_that_fills_the_verifier_leaves_room_for_others(cell, replica, monkeypatch):
    monkeypatch.setattr(server, "MAX_PER_SLOT", 4)
    held = threading.Event()

    async def verify(slot, name, password):
        while slot == cell.alpha.slot and not held.is_set():
            await asyncio.sleep(0.01)
        return STAFF

    with replica.begin() as batch:
        cell.bravo.put_source(batch)
    with (
        running_verifier(cell.config.verifier.port, cell.config.verifier.secret, verify) as running,
        ThreadPoolExecutor(4) as devices,
    ):
        waiting = [devices.submit(login, cell, f"zoe-{number}") for number in range(4)]
        while len(running.asked) < 4:
            threading.Event().wait(0.01)
        assert login(cell) == ACCESS_REJECT
        assert cell.decision().reason == "verifier-busy"
        assert radclient(cell.bravo, 'User-Name="zoe"', 'User-Password="x"').code == "Access-Accept"
        held.set()
        assert [each.result() for each in waiting] == [ACCESS_ACCEPT] * 4
        # Finished logins free their slots.
        assert login(cell) == ACCESS_ACCEPT

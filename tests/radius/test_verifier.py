"""Passwords that the verifier checks. They block no thread of radiusd and delay no other request (ADR 0006).

In EAP-TTLS, radiusd proxies the inner request and then continues the tunnel.
"""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, USER_NAME
from radius.verifier import server
from tests.radius.nas import Nas, ask_mab, log_in, named, radclient
from tests.radius.supplicant import TLS_1_2, TLS_1_3, TTLS_MSCHAPV2, TTLS_PAP, eap_password, new_mac
from tests.radius.tunnel import USER_PASSWORD, Tunnel, avp
from tests.radius.tunnel import login as login_inside
from tests.verifier.verifier_server import always, running_verifier

STAFF = VerificationResult(source="directory", name="Zoe", groups=("staff", "Büro"), attributes={"department": ("IT",)})
PASSWORD = "open sesame"


def log_in_by_pap(cell, name="zoe", password=PASSWORD, **options):
    return log_in(cell.alpha, name, password, **options)


def log_in_by_ttls(cell, name="zoe", password=PASSWORD):
    name = name if isinstance(name, bytes) else name.encode()
    return Tunnel(cell.alpha).open().say(login_inside(name, password.encode()))


both_ways = pytest.mark.parametrize(
    ("way", "method"), [(log_in_by_pap, "pap"), (log_in_by_ttls, "eap-ttls-pap")], ids=["pap", "ttls"]
)


@pytest.fixture(autouse=True)
def source(cell):
    """Alpha has an identity source. Only the verifier knows the kind of the source."""
    with cell.changes() as batch:
        cell.alpha.put_source(batch)
    cell.put_argon2_user("otto", "correct horse battery")


@pytest.fixture
def verifier(cell):
    def start(verify):
        if isinstance(verify, VerificationResult):
            verify = always(verify)
        return running_verifier(cell.config.verifier.port, cell.config.verifier.secret, verify)

    return start


@both_ways
def test_source_user_is_decided_with_the_sources_data(cell, verifier, way, method):
    with verifier(STAFF) as running:
        assert way(cell) == ACCESS_ACCEPT
    assert set(running.asked) == {(cell.alpha.slot, b"zoe", PASSWORD.encode())}
    record = cell.decision()
    assert (record.permitted, record.reason, record.rule_id) == (True, "rule-permitted", "staff")
    assert (record.method, record.identity, record.vlan) == (method, "zoe", "30")
    expected = {
        "user.name": ("Zoe",),
        "user.source": ("directory",),
        "user.group": ("staff", "Büro"),
        "user.attribute.department": ("IT",),
    }
    assert expected.items() <= record.request.items()


def test_slot_is_determined_by_the_port(cell, verifier):
    with verifier(STAFF) as running:
        for line in (f"NAS-Identifier=slot_{cell.bravo.slot}", 'Proxy-State=0x01, NAS-Identifier="x"'):
            reply = radclient(cell.alpha, 'User-Name="zoe"', 'User-Password="x"', line)
            assert reply.code == "Access-Accept"
            assert "Reply-Message" not in reply.attributes
    # More than twice if a response was late and radclient sent the request again.
    assert len(running.asked) >= 2
    assert {slot for slot, _, _ in running.asked} == {cell.alpha.slot}


@both_ways
@pytest.mark.parametrize(("name", "identity"), [("zoe", "zoe"), (b"\xff\xfe", "=FF=FE")])
def test_verifiers_reason_is_in_the_log(cell, verifier, way, method, name, identity):
    with verifier(VerificationResult("account-locked", "by the directory", source="directory")):
        assert way(cell, name) == ACCESS_REJECT
    record = cell.decision()
    assert (record.permitted, record.reason, record.detail) == (False, "account-locked", "by the directory")
    assert (record.method, record.identity) == (method, identity)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_reject_in_a_tunnel_carries_eap_failure(cell, verifier, version):
    with verifier(VerificationResult("account-locked")):
        seen = eap_password(cell.alpha, TTLS_PAP, "zoe", PASSWORD, version).run()
    assert (seen.codes[-1], seen.eap_failure, seen.vlans) == ("Access-Reject", True, [])


def test_plain_reject_carries_no_detail_of_the_source(cell, verifier):
    with verifier(VerificationResult("wrong-password", "data 52e", source="directory")):
        reply = radclient(cell.alpha, 'User-Name="zoe"', 'User-Password="x"')
    assert (reply.code, set(reply.attributes)) == ("Access-Reject", {"Message-Authenticator"})


def test_local_user_is_verified_and_keeps_local_groups(cell, verifier):
    with verifier(VerificationResult()) as running:
        assert log_in_by_pap(cell, "otto", "correct horse battery") == ACCESS_ACCEPT
    assert set(running.asked) == {(cell.alpha.slot, b"otto", b"correct horse battery")}
    record = cell.decision()
    assert record.request["user.group"] == ("staff",)
    assert "user.source" not in record.request


def test_login_that_no_source_can_check_queries_no_verifier(cell, verifier):
    with verifier(STAFF) as running:
        assert log_in(cell.bravo, "zoe", PASSWORD) == ACCESS_REJECT
        assert cell.decision().reason == "unknown-user"
        cell.forget_records()
        assert not eap_password(cell.alpha, TTLS_MSCHAPV2, "zoe", PASSWORD).run().accepted
    assert running.asked == []
    record = cell.decision()
    assert (record.reason, record.method, record.identity) == ("directory-needs-pap", "eap-ttls-mschapv2", "zoe")


@pytest.mark.parametrize(
    "said",
    [
        avp(USER_NAME, b"zoe") + login_inside(b"otto", b"open sesame"),
        login_inside(b"zoe", b"open sesame") + avp(USER_PASSWORD, b"another password"),
        avp(USER_PASSWORD, b"open sesame" + bytes(5)),
        login_inside(b"\0zoe", b"open sesame"),
    ],
    ids=["two names", "two passwords", "no name", "a name that begins with NUL"],
)
def test_request_without_a_login_is_answered_at_once(cell, verifier, said):
    """`radiusd` would mark a silent verifier as dead, which affects all users."""
    with verifier(STAFF) as running:
        assert Tunnel(cell.alpha).open().say(said) == ACCESS_REJECT
    assert running.asked == []
    assert running.server.counters["dropped"] == 0
    assert cell.decision().reason == "no-credentials"


def test_slow_logins_delay_no_other_request(cell, verifier):
    """More logins wait for a response than radiusd has threads. Every other request is answered meanwhile."""
    release = threading.Event()

    async def slow(slot, name, password):
        while not release.is_set():
            await asyncio.sleep(0.01)
        return VerificationResult("directory-slow", source="directory")

    waiting = 20 * cell.config.threads
    with verifier(slow) as running, ThreadPoolExecutor(waiting) as pool:
        slow_logins = [pool.submit(log_in_by_pap, cell, seconds=9.0) for _ in range(waiting)]
        running.wait_for_logins(waiting)
        answered = [ask_mab(cell.alpha) for _ in range(200)]
        assert not any(done.done() for done in slow_logins)
        release.set()
        assert [done.result() for done in slow_logins] == [ACCESS_REJECT] * waiting
    assert answered == [ACCESS_ACCEPT] * 200
    assert {record.reason for record in cell.decisions(method="pap")} == {"directory-slow"}


def test_silent_verifier_is_reported_in_time_and_retried(cell, verifier):
    """A plain login, a login in a tunnel, and a login whose NAS repeats its request: none waits longer than the
    timeout. The verifier is silent because it has another secret.
    """
    tunnel = Tunnel(cell.alpha, patience_seconds=20).open()
    silent = running_verifier(cell.config.verifier.port, "not-the-secret-of-this-cell", always(STAFF))
    with silent as running, ThreadPoolExecutor(3) as devices:
        codes = [
            devices.submit(log_in_by_pap, cell, seconds=15.0),
            devices.submit(tunnel.say, login_inside(b"zoe", b"open sesame")),
            devices.submit(repeated_login, cell),
        ]
        assert [code.result() for code in codes] == [ACCESS_REJECT] * 3
    assert running.asked == []
    assert running.server.counters["dropped"] >= 3
    assert [record.reason for record in cell.decisions()] == ["verifier-unavailable"] * 3
    cell.forget_records()
    with verifier(STAFF):
        assert log_in_by_pap(cell) == ACCESS_ACCEPT
    assert cell.decision().reason == "rule-permitted"


def repeated_login(cell):
    """The response's code for a request that is repeated every 1.5 seconds, for at most 15 seconds."""
    nas = Nas(cell.alpha)
    request = packet.make_access_request(9, os.urandom(16), named("zoe", new_mac()), nas.key, PASSWORD.encode())
    with nas.socket() as asking:
        asking.settimeout(1.5)
        for _ in range(10):
            asking.send(request)
            with suppress(TimeoutError):
                return asking.recv(4096)[0]
    return None


def test_user_blocked_during_verification_is_rejected(cell, verifier):
    """A deleted user is rejected too, because the data at the end of the verification counts."""
    cell.put_argon2_user("emil", "correct horse battery")

    async def verify(slot, name, password):
        if name == b"otto":
            cell.put_argon2_user("otto", "x", disabled=True)
        else:
            with cell.changes() as batch:
                batch.delete_user(cell.alpha.number, "emil")
        return VerificationResult()

    with verifier(verify):
        assert [log_in_by_pap(cell, name) for name in ("otto", "emil")] == [ACCESS_REJECT] * 2
    assert [record.reason for record in cell.decisions()] == ["user-disabled", "unknown-user"]


def test_tenant_that_fills_the_verifier_leaves_room_for_others(cell, verifier, monkeypatch):
    monkeypatch.setattr(server, "MAX_PER_SLOT", 4)
    held = threading.Event()

    async def verify(slot, name, password):
        while slot == cell.alpha.slot and not held.is_set():
            await asyncio.sleep(0.01)
        return STAFF

    with cell.changes() as batch:
        cell.bravo.put_source(batch)
    with verifier(verify) as running, ThreadPoolExecutor(4) as devices:
        waiting = [devices.submit(log_in_by_pap, cell, f"zoe-{number}") for number in range(4)]
        running.wait_for_logins(4)
        assert log_in_by_pap(cell) == ACCESS_REJECT
        assert cell.decision().reason == "verifier-busy"
        assert log_in(cell.bravo, "zoe", "x") == ACCESS_ACCEPT
        held.set()
        assert [each.result() for each in waiting] == [ACCESS_ACCEPT] * 4
        # Finished logins free their slots.
        assert log_in_by_pap(cell) == ACCESS_ACCEPT

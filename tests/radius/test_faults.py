"""Faults below the module, in a cell with a small journal and delayed rejects."""

import os
import socket
import time
from contextlib import ExitStack, suppress

import pytest

from nac.cellformat.replica.records import PolicyRecord, SiteRecord
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCT_SESSION_ID, ACCT_STATUS_TYPE, USER_NAME
from tests.polling import until
from tests.radius.devices import VERSIONS, Device
from tests.radius.nas import SILENCE_SECONDS, Nas, ask_mab, joined, mab, named
from tests.radius.standalone import Plan, running_cell
from tests.radius.supplicant import eap_md5, eap_tls
from tests.radius.tenants import PRINTER
from tests.radius.test_wire import MALFORMED, MALFORMED_ACCOUNTING

JOURNAL_BYTES = 64 << 10
UNKNOWN = "02a0c0000099"
START = joined([(ACCT_STATUS_TYPE, 1), (ACCT_SESSION_ID, "4711"), (USER_NAME, PRINTER)])


@pytest.fixture(scope="module")
def small_cell():
    """A cell that has just started, so its counters are zero."""
    with running_cell(Plan(reject_delay_seconds=1, journal_max_bytes=JOURNAL_BYTES, journal_sync="always")) as cell:
        yield cell


def test_agent_receives_radiusds_counters(small_cell):
    cell = small_cell
    nas, stranger = Nas(cell.alpha), Nas(cell.alpha, secret="another-secret")
    attributes, password = mab(PRINTER)
    assert nas.ask(attributes, password=password)[0] == packet.ACCESS_ACCEPT
    assert nas.ask(attributes, password=b"wrong")[0] == packet.ACCESS_REJECT
    eap_md5(cell.alpha, PRINTER, PRINTER, mac=PRINTER).run()
    assert nas.account(START) is not None
    of_a_stranger = packet.make_access_request(1, os.urandom(16), attributes, stranger.key)
    for datagram in (MALFORMED["attribute of length 0"], MALFORMED["code 200"], of_a_stranger):
        nas.exchange(datagram, seconds=0.05)
    nas.exchange(MALFORMED_ACCOUNTING["authenticator at random"], port=cell.alpha.acct_port, seconds=0.05)
    expected = {
        "access_requests": 7,
        "access_accepts": 2,
        "access_rejects": 1,
        "access_challenges": 1,
        "auth_malformed": 1,
        "auth_invalid": 1,
        "auth_unknown_types": 1,
        "accounting_requests": 2,
        "accounting_responses": 1,
        "acct_invalid": 1,
    }
    # radiusd counts a response when it removes the request.
    with suppress(AssertionError):
        until(lambda: nonzero(cell.statistics()) == expected, "all are counted")
    assert nonzero(cell.statistics()) == expected


def nonzero(counts):
    return {name: count for name, count in counts.items() if count}


def test_reject_is_delayed_and_accept_is_not(small_cell):
    began = time.monotonic()
    assert ask_mab(small_cell.alpha) == packet.ACCESS_ACCEPT
    accepted = time.monotonic()
    assert ask_mab(small_cell.alpha, UNKNOWN) == packet.ACCESS_REJECT
    rejected = time.monotonic()
    assert accepted - began < 0.5
    assert 0.9 < rejected - accepted < 3


def test_full_journal_stops_only_accounting():
    with running_cell(Plan(journal_max_bytes=JOURNAL_BYTES)) as cell:
        fillers = [cell.paths.journal / stream / f"{1:020d}.journal" for stream in ("acct", "auth")]
        for filler in fillers:
            filler.touch()
            os.truncate(filler, JOURNAL_BYTES)
        nas = Nas(cell.alpha)
        for _ in range(2):
            assert nas.account(START, seconds=SILENCE_SECONDS) is None
        for _ in range(50):
            assert ask_mab(cell.alpha) == packet.ACCESS_ACCEPT
            assert ask_mab(cell.alpha, UNKNOWN) == packet.ACCESS_REJECT
        device = Device(cell.alpha.clients["laptop"], VERSIONS[1])
        for _ in range(2):
            device.visit(cell.alpha, vlan="10")
        for stream in ("acct", "auth"):
            # A flood of rejected records does not write one log line each.
            assert 1 <= cell.log().count(f"admit: journal-refused stream={stream}") <= 5
        for filler in fillers:
            filler.unlink()
        # The module measures a full journal again every 100 ms.
        time.sleep(0.2)
        assert nas.account(START) is not None
        assert ask_mab(cell.alpha) == packet.ACCESS_ACCEPT
        assert len(cell.accounting()) == 1
        assert cell.decision().permitted


BROKEN = {
    "no JSON": b"{garbage",
    "not UTF-8": b'"\xff"',
    "no policy": b'{"rules": 7}',
    "empty": b"",
}


@pytest.mark.parametrize("document", BROKEN.values(), ids=BROKEN)
def test_broken_policy_is_an_internal_error_of_its_tenant(cell, document):
    before = cell.log().count("admit: internal-error")
    with cell.changes() as batch:
        batch.put_policy(cell.alpha.number, PolicyRecord(cell.alpha.policy_id, "broken", 99, document))
    assert ask_mab(cell.bravo, cell.bravo.mac(PRINTER)) == packet.ACCESS_ACCEPT
    cell.forget_records()
    assert ask_mab(cell.alpha) == packet.ACCESS_REJECT
    seen = eap_tls(cell.alpha, cell.alpha.clients["laptop"]).run()
    assert (seen.codes[-1], seen.eap_failure) == ("Access-Reject", True)
    found = [(record.reason, record.mac) for record in cell.decisions()]
    assert found == [("internal-error", PRINTER), ("internal-error", seen.mac)]
    assert cell.log().count("admit: internal-error") == before + 2
    assert "admit:   Traceback (most recent call last):" in cell.log()
    cell.restore_replica()
    assert ask_mab(cell.alpha) == packet.ACCESS_ACCEPT


@pytest.mark.parametrize(
    ("policy_id", "reason"),
    [("", "no-policy"), ("00000000-0000-0000-0000-000000000000", "no-policy"), ("not-an-id", "internal-error")],
)
def test_site_with_a_missing_policy_denies(cell, policy_id, reason):
    with cell.changes() as batch:
        batch.put_site(cell.alpha.number, SiteRecord(cell.alpha.site_id, "Head office", policy_id))
    assert ask_mab(cell.alpha) == packet.ACCESS_REJECT
    assert cell.decision().reason == reason


def test_nas_with_a_missing_site_is_denied(cell):
    with cell.changes() as batch:
        batch.delete_site(cell.alpha.number, cell.alpha.site_id)
    assert ask_mab(cell.alpha) == packet.ACCESS_REJECT
    assert cell.decision().reason == "no-site"


def test_rebuilt_replica_is_reopened(cell):
    cell.replica.rebuild()
    cell.restore_replica()
    cell.set_policy({"fallback": {"verdict": "permit"}})
    until(lambda: ask_mab(cell.alpha, UNKNOWN) == packet.ACCESS_ACCEPT, "the other replica decides")


@pytest.mark.parametrize(
    "eap", [b"\x02", b"\x02\x01\x00\x00", b"\x02\x01\xff\xff\x01", b"\x01\x01\x00\x05\x01", b"\x09" * 5]
)
def test_invalid_eap_packet_is_rejected(cell, eap):
    attributes = named("laptop", PRINTER) + packet.encode_eap_message(eap)
    assert Nas(cell.alpha).ask(attributes)[0] == packet.ACCESS_REJECT
    assert cell.decision().permitted is False


def test_packets_over_the_tenants_rate_limit_are_dropped():
    """A flood at one tenant is limited before it reaches the module, and affects no other tenant."""
    limit, flood = 100, 2_000
    with running_cell(Plan(max_packets_per_second=limit)) as cell, ExitStack() as stack:
        nas = Nas(cell.alpha)
        began = time.monotonic()
        sockets = [stack.enter_context(nas.socket()) for _ in range(flood // 250)]
        for number in range(flood):
            mac = f"02{number:010x}"
            request = packet.make_access_request(number % 250, os.urandom(16), named(mac, mac), nas.key, mac.encode())
            sockets[number // 250].send(request)
        assert ask_mab(cell.bravo, cell.bravo.mac(PRINTER)) == packet.ACCESS_ACCEPT
        answered = sum(answers_of(each) for each in sockets)
        assert 0 < answered <= limit * (time.monotonic() - began + 1)
        # The kernel drops the other packets because the socket is full.
        assert cell.statistics()["auth_dropped"] > limit


def answers_of(asking: socket.socket) -> int:
    asking.settimeout(0.3)
    count = 0
    with suppress(TimeoutError):
        while asking.recv(4096):
            count += 1
    return count

"""Faults below the module, in a cell with a small journal and delayed rejects."""

import os
import time
from contextlib import suppress

import pytest

from nac.cellformat.replica.records import PolicyRecord, SiteRecord
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCT_SESSION_ID, ACCT_STATUS_TYPE, CALLING_STATION_ID, USER_NAME
from tests.polling import until
from tests.radius.devices import VERSIONS, Device
from tests.radius.nas import SILENCE_SECONDS, Nas, joined, mab
from tests.radius.standalone import Plan, StandaloneCell, running_cell
from tests.radius.supplicant import eap_md5, eap_tls
from tests.radius.tenants import PRINTER
from tests.radius.test_wire import MALFORMED, MALFORMED_ACCOUNTING

JOURNAL_BYTES = 64 << 10
START = joined([(ACCT_STATUS_TYPE, 1), (ACCT_SESSION_ID, "4711"), (USER_NAME, PRINTER)])


@pytest.fixture(scope="module")
def small_cell():
    """A cell that has just started, so its counters are zero."""
    with running_cell(Plan(reject_delay_seconds=1, journal_max_bytes=JOURNAL_BYTES, journal_sync="always")) as cell:
        yield cell


def ask_mab(cell: StandaloneCell, mac: str = PRINTER) -> int:
    attributes, password = mab(mac)
    return Nas(cell.alpha).ask(attributes, password=password)[0]


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
    assert ask_mab(small_cell) == packet.ACCESS_ACCEPT
    accepted = time.monotonic()
    assert ask_mab(small_cell, "02a0c0000099") == packet.ACCESS_REJECT
    rejected = time.monotonic()
    assert accepted - began < 0.5
    assert 0.9 < rejected - accepted < 3


def test_full_journal_stops_only_accounting():
    with running_cell(Plan(journal_max_bytes=JOURNAL_BYTES)) as cell:
        fillers = [cell.paths.journal / stream / f"{1:020d}.journal" for stream in ("acct", "auth")]
        for filler in fillers:
            with filler.open("wb") as file:
                file.truncate(JOURNAL_BYTES)
        nas = Nas(cell.alpha)
        for _ in range(2):
            assert nas.account(START, seconds=SILENCE_SECONDS) is None
        for _ in range(50):
            assert ask_mab(cell) == packet.ACCESS_ACCEPT
            assert ask_mab(cell, "02a0c0000099") == packet.ACCESS_REJECT
        device = Device(cell.alpha.clients["laptop"], VERSIONS[1])
        device.visit(cell.alpha, vlan="10")
        device.visit(cell.alpha, vlan="10")
        log = cell.log()
        for stream in ("acct", "auth"):
            # A flood of rejected records does not write one log line each.
            assert 1 <= log.count(f"admit: journal-refused stream={stream}") <= 5
        for filler in fillers:
            filler.unlink()
        # The module measures a full journal again every 100 ms.
        time.sleep(0.2)
        assert nas.account(START) is not None
        assert ask_mab(cell) == packet.ACCESS_ACCEPT
        assert len(cell.accounting()) == 1
        assert cell.decision().permitted


BROKEN = {
    "no JSON": b"{garbage",
    "not UTF-8": b'"\xff"',
    "no policy": b'{"rules": 7}',
    "empty": b"",
}


@pytest.mark.parametrize("document", BROKEN.values(), ids=BROKEN)
def test_broken_policy_is_an_internal_error_for_one_request(cell, replica, document):
    before = cell.log().count("admit: internal-error")
    with replica.begin() as batch:
        batch.put_policy(cell.alpha.number, PolicyRecord(cell.alpha.policy_id, "broken", 99, document))
    assert ask_mab(cell) == packet.ACCESS_REJECT
    seen = eap_tls(cell.alpha, cell.alpha.clients["laptop"]).run()
    assert seen.codes[-1] == "Access-Reject"
    assert seen.eap_failure
    assert [record.reason for record in cell.decisions()] == ["internal-error"] * 2
    assert [record.mac for record in cell.decisions()] == [PRINTER, seen.mac]
    log = cell.log()
    assert log.count("admit: internal-error") == before + 2
    assert "admit:   Traceback (most recent call last):" in log
    cell.restore_replica()
    assert ask_mab(cell) == packet.ACCESS_ACCEPT


def test_broken_policy_of_one_tenant_affects_no_other(cell, replica):
    with replica.begin() as batch:
        batch.put_policy(cell.alpha.number, PolicyRecord(cell.alpha.policy_id, "broken", 99, b"{"))
    mac = cell.bravo.mac(PRINTER)
    attributes, password = mab(mac)
    assert Nas(cell.bravo).ask(attributes, password=password)[0] == packet.ACCESS_ACCEPT


@pytest.mark.parametrize(
    ("policy_id", "reason"),
    [("", "no-policy"), ("00000000-0000-0000-0000-000000000000", "no-policy"), ("not-an-id", "internal-error")],
)
def test_site_with_a_missing_policy_denies(cell, replica, policy_id, reason):
    with replica.begin() as batch:
        batch.put_site(cell.alpha.number, SiteRecord(cell.alpha.site_id, "Head office", policy_id))
    assert ask_mab(cell) == packet.ACCESS_REJECT
    assert cell.decision().reason == reason


def test_nas_with_a_missing_site_is_denied(cell, replica):
    with replica.begin() as batch:
        batch.delete_site(cell.alpha.number, cell.alpha.site_id)
    assert ask_mab(cell) == packet.ACCESS_REJECT
    assert cell.decision().reason == "no-site"


def test_rebuilt_replica_is_reopened(cell, replica):
    cell.replica.rebuild()
    cell.restore_replica()
    with replica.begin() as batch:
        batch.put_policy(cell.alpha.number, cell.alpha.policy_record({"fallback": {"verdict": "permit"}}, version=9))
    until(lambda: ask_mab(cell, "02a0c0000099") == packet.ACCESS_ACCEPT, "the other replica decides")


@pytest.mark.parametrize(
    "eap", [b"\x02", b"\x02\x01\x00\x00", b"\x02\x01\xff\xff\x01", b"\x01\x01\x00\x05\x01", b"\x09" * 5]
)
def test_invalid_eap_packet_is_rejected(cell, eap):
    attributes = joined([(USER_NAME, "laptop"), (CALLING_STATION_ID, PRINTER)])
    assert Nas(cell.alpha).ask(attributes + packet.encode_eap_message(eap))[0] == packet.ACCESS_REJECT
    assert cell.decision().permitted is False
    assert ask_mab(cell) == packet.ACCESS_ACCEPT

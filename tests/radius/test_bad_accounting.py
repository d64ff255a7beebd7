"""Invalid accounting from radiusd: acknowledged, stored, and parsed with flags."""

import pytest

from nac.kit.radius_packet import (
    ACCT_DELAY_TIME,
    ACCT_SESSION_ID,
    ACCT_SESSION_TIME,
    ACCT_STATUS_TYPE,
    CALLING_STATION_ID,
    NAS_IDENTIFIER,
)
from radius.agent.accounting_parser import parse_accounting
from tests.radius.nas import Nas, joined
from tests.radius.supplicant import new_mac
from tests.radius.tenants import PRINTER

EVENT_TIMESTAMP, ACCT_TUNNEL_CONNECTION, ACCT_TUNNEL_PACKETS_LOST, ACCT_LINK_COUNT = 55, 68, 86, 51
LARGEST = 2**32 - 1


def account(cell, *attributes, status=3):
    """The record of an acknowledged request, and the parsed record."""
    before = len(cell.accounting())
    sent = [(ACCT_STATUS_TYPE, status), (CALLING_STATION_ID, PRINTER), *attributes]
    assert Nas(cell.alpha).account(joined(sent)) is not None
    [record] = cell.accounting()[before:]
    return record, parse_accounting(record)


def test_invalid_text_session_ids_stay_distinct(cell):
    keys = set()
    for last in (b"\xfe", b"\xff"):
        record, usage = account(cell, (ACCT_SESSION_ID, b"\xff" * 252 + last))
        assert dict(record.attributes)["Acct-Session-Id"] == "=FF" * 252 + f"={last.hex().upper()}"
        assert (len(usage.session_id), usage.faults) == (253, ("unreadable-text",))
        keys.add(usage.session_id)
    assert len(keys) == 2


@pytest.mark.parametrize(
    "impossible",
    [(ACCT_DELAY_TIME, LARGEST), (EVENT_TIMESTAMP, 0), (EVENT_TIMESTAMP, LARGEST), (ACCT_SESSION_TIME, LARGEST)],
    ids=["delay", "1970", "2106", "session time"],
)
def test_impossible_time_is_replaced_by_the_arrival_time(cell, impossible):
    record, usage = account(cell, (ACCT_SESSION_ID, new_mac()), impossible)
    assert len(record.attributes) == 4
    assert (usage.event_at, usage.session_seconds, usage.faults) == (record.at, None, ("impossible-time",))


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (9, "Tunnel-Start"),
        (14, "Tunnel-Link-Reject"),
        (15, "Failed"),
        (LARGEST, "4294967295"),
    ],
)
@pytest.mark.parametrize("switch", [b"switch-1", b"caf\xe9"], ids=["text", "no text"])
def test_tunnel_record_keeps_its_attributes(cell, status, name, switch):
    """Tunnel records (RFC 2867 3, 4) keep their attributes even if another attribute is not text."""
    sent = [
        (ACCT_SESSION_ID, new_mac()),
        (NAS_IDENTIFIER, switch),
        (ACCT_TUNNEL_CONNECTION, "42"),
        (ACCT_TUNNEL_PACKETS_LOST, 7),
        (ACCT_LINK_COUNT, 2),
    ]
    record, usage = account(cell, *sent, status=status)
    told = dict(record.attributes)
    assert usage.status_type == name
    assert [told[f"Acct-{each}"] for each in ("Tunnel-Connection", "Tunnel-Packets-Lost", "Link-Count")] == [
        "42",
        "7",
        "2",
    ]
    assert usage.faults == (() if switch.isascii() else ("unreadable-text",))

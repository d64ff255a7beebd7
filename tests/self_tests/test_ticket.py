"""Tickets that prove that a request belongs to a self-test."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.cellformat.self_test_ticket import LIFETIME_SECONDS, Ticket, encode_ticket, read_ticket

KEY = b"k" * 16
GOOD = Ticket("00005e0053f1", "0123abcd-1", 1_000_000 + LIFETIME_SECONDS, known=True, group="printers")


def _read(port: str, **other: object) -> Ticket | None:
    given = {"mac": GOOD.mac, "group": GOOD.group, "tenant_key": KEY, "now_seconds": 1_000_000}
    return read_ticket(port=port, **{**given, **other})  # type: ignore[arg-type]


def test_ticket_round_trips():
    assert _read(encode_ticket(GOOD, KEY)) == GOOD


@pytest.mark.parametrize(
    "other",
    [
        {"mac": "00005e0053f2"},
        {"mac": "020000000001"},
        {"group": "servers"},
        {"tenant_key": b"o" * 16},
        {"tenant_key": b""},
        {"now_seconds": GOOD.until + 1},
        {"now_seconds": GOOD.until - 3 * LIFETIME_SECONDS},
    ],
)
def test_ticket_for_another_purpose_is_rejected(other: dict[str, object]):
    assert _read(encode_ticket(GOOD, KEY), **other) is None


def test_unknown_device_does_not_become_known():
    assert _read(encode_ticket(GOOD._replace(known=False), KEY).replace(".u.", ".k.")) is None


@given(st.text(max_size=300))
def test_arbitrary_text_is_no_ticket(text: str):
    assert _read(text) is None

"""A cell that listens on `::` answers over IPv4 and IPv6, and identifies each NAS by its own address."""

import os

import pytest

from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCT_STATUS_TYPE, encode_attribute
from tests.polling import until
from tests.radius.nas import Nas, mab
from tests.radius.standalone import OLD_NAS, OWN_SECRET, OWN_SECRET_NAS, Plan, running_cell
from tests.radius.tenants import PRINTER
from tests.radius.test_unsigned import is_silent, logged, unsigned

START = encode_attribute(ACCT_STATUS_TYPE, 1) + encode_attribute(44, "session-1")


@pytest.fixture(scope="module")
def listening():
    with running_cell(Plan(listen_address="::")) as cell:
        yield cell


@pytest.fixture
def cell(listening):
    listening.forget_records()
    return listening


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1"])
def test_nas_of_either_family_is_answered(cell, address):
    nas = Nas(cell.alpha, address)
    attributes, password = mab(PRINTER)
    assert nas.ask(attributes, password=password)[0] == packet.ACCESS_ACCEPT
    assert cell.decision().nas_address == address
    assert nas.account(START) is not None
    assert [record.nas_address for record in cell.accounting()] == [address]


def test_clients_by_ipv4_address_keep_their_settings(cell):
    old = Nas(cell.alpha, OLD_NAS)
    reply = old.exchange(unsigned(old))
    assert reply is not None
    assert reply[0] == packet.ACCESS_ACCEPT
    attributes, password = mab(PRINTER)
    own = Nas(cell.alpha, OWN_SECRET_NAS, OWN_SECRET)
    assert own.ask(attributes, password=password)[0] == packet.ACCESS_ACCEPT


@pytest.mark.parametrize("address", ["127.0.0.8", "::1"])
def test_unsigned_request_of_either_family_is_filtered(cell, address):
    nas = Nas(cell.alpha, address)
    assert is_silent(nas)
    until(lambda: logged(cell, address), "a line in the log")
    with nas.socket() as sending:
        for _ in range(1_000):
            sending.send(unsigned(nas))
    before = cell.statistics()["access_requests"]
    with nas.socket() as sending:
        for _ in range(1_000):
            sending.send(unsigned(nas))
    assert cell.statistics()["access_requests"] - before < 500
    assert nas.ask(*[encode_attribute(1, os.urandom(4).hex())])[0] == packet.ACCESS_REJECT

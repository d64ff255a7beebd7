"""A flood at one tenant is limited before it reaches the module, and affects no other tenant."""

import os
import socket
import time

import pytest

from nac.kit.radius_packet import ACCESS_ACCEPT, CALLING_STATION_ID, USER_NAME, encode_attribute, make_access_request
from tests.radius.nas import Nas
from tests.radius.standalone import Plan, running_cell
from tests.radius.tenants import PRINTER

LIMIT = 100
FLOOD = 2_000


@pytest.fixture(scope="module")
def limited_cell():
    with running_cell(Plan(max_packets_per_second=LIMIT)) as cell:
        yield cell


def test_packets_over_the_tenants_rate_limit_are_dropped(limited_cell):
    cell = limited_cell
    nas = Nas(cell.alpha)
    began = time.monotonic()
    sockets = [nas.socket() for _ in range(FLOOD // 250)]
    for number in range(FLOOD):
        mac = f"02{number:010x}"
        attributes = encode_attribute(USER_NAME, mac) + encode_attribute(CALLING_STATION_ID, mac)
        sockets[number // 250].send(
            make_access_request(number % 250, os.urandom(16), attributes, nas.key, mac.encode())
        )
    other = cell.bravo.mac(PRINTER)
    attributes = encode_attribute(USER_NAME, other) + encode_attribute(CALLING_STATION_ID, other)
    assert Nas(cell.bravo).ask(attributes, password=other.encode())[0] == ACCESS_ACCEPT
    answered = sum(answers_of(each) for each in sockets)
    seconds = time.monotonic() - began
    for each in sockets:
        each.close()
    assert 0 < answered <= LIMIT * (seconds + 1)
    # The kernel drops the other packets because the socket is full.
    assert cell.statistics()["auth_dropped"] > LIMIT


def answers_of(asking: socket.socket) -> int:
    asking.settimeout(0.3)
    count = 0
    try:
        while asking.recv(4096):
            count += 1
    except TimeoutError:
        return count

"""A NAS that retransmits a packet gets the same response, after the usual timeout of NASes."""

import socket
import time

from loadtest.eap_tls_client import RESPONSE
from nac.kit.radius_packet import (
    ACCESS_ACCEPT,
    ACCESS_CHALLENGE,
    CALLING_STATION_ID,
    USER_NAME,
    encode_attribute,
    encode_eap_message,
    make_access_request,
)
from tests.radius.nas import PATIENCE_SECONDS, Nas
from tests.radius.supplicant import new_mac
from tests.radius.tenants import PRINTER
from tests.radius.tunnel import IDENTITY, eap

# Cisco's default timeout is 5 s.
REPEATED_AFTER_SECONDS = 5.2


def test_late_retransmission_gets_the_same_answer(cell):
    nas = Nas(cell.alpha)
    mac = encode_attribute(USER_NAME, PRINTER) + encode_attribute(CALLING_STATION_ID, PRINTER)
    device = encode_attribute(USER_NAME, "laptop") + encode_attribute(CALLING_STATION_ID, new_mac())
    first_packet = device + encode_eap_message(eap(RESPONSE, 0, IDENTITY, b"laptop"))
    datagrams = {
        ACCESS_ACCEPT: make_access_request(1, bytes(16), mac, nas.key, PRINTER.encode()),
        ACCESS_CHALLENGE: make_access_request(2, bytes(16), first_packet, nas.key),
    }
    with nas.socket(0) as asking:
        asking.settimeout(PATIENCE_SECONDS)
        answers = {code: exchange(asking, datagram) for code, datagram in datagrams.items()}
        assert {code: answer[0] for code, answer in answers.items()} == {code: code for code in datagrams}
        time.sleep(REPEATED_AFTER_SECONDS)
        assert {code: exchange(asking, datagram) for code, datagram in datagrams.items()} == answers
    assert len(cell.decisions()) == 1


def exchange(asking: socket.socket, datagram: bytes) -> bytes:
    asking.send(datagram)
    return asking.recv(4096)

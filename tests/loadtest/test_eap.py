"""MAC authentication by EAP-MD5 with the radiusd of a cell, and the client's errors."""

import pytest

from loadtest.eap_tls_client import FAILURE, REQUEST, SUCCESS, TLS, EapMd5, eap_packet
from loadtest.radius_client import Target, UnexpectedReply
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_CHALLENGE, encode_attribute, encode_eap_message
from tests.radius.standalone import LOOPBACK, Plan, running_cell
from tests.radius.tenants import PRINTER


def reply(code, attributes):
    return bytes((code, 0)) + (20 + len(attributes)).to_bytes(2, "big") + bytes(16) + attributes


@pytest.fixture(scope="module")
def target():
    with running_cell(Plan()) as cell:
        alpha = cell.alpha
        yield Target(LOOPBACK, alpha.auth_port, alpha.acct_port, alpha.secret.encode())


def test_known_address_gets_only_its_vlan(target, client):
    client.ask(EapMd5(target, PRINTER, vlan="20"))
    with pytest.raises(UnexpectedReply, match="VLAN '20' instead of '999'"):
        client.ask(EapMd5(target, PRINTER, vlan="999"))


def test_another_eap_method_is_declined_with_md5():
    asking = reply(
        ACCESS_CHALLENGE, encode_eap_message(eap_packet(REQUEST, 7, TLS, b"\x20")) + encode_attribute(24, b"state")
    )
    answer = EapMd5(None, "020000000001").receive(asking)
    assert encode_eap_message(eap_packet(2, 7, 3, b"\x04")) in answer.attributes
    assert answer.attributes.endswith(encode_attribute(24, b"state"))


@pytest.mark.parametrize(
    ("code", "eap", "fault"),
    [
        (ACCESS_ACCEPT, bytes((SUCCESS, 1, 0, 4)), ""),
        (ACCESS_ACCEPT, bytes((FAILURE, 1, 0, 4)), "Access-Accept without EAP-Success"),
        (ACCESS_CHALLENGE, b"", "Access-Challenge without an EAP request"),
    ],
)
def test_conversation_ends_on_final_replies(code, eap, fault):
    assert EapMd5(None, "020000000001").receive(reply(code, encode_eap_message(eap) if eap else b"")) == fault

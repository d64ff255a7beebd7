"""The journal's record of a conversation's start, which is used to report conversations without an end."""

import pytest

from tests.radius.devices import VERSIONS, Device
from tests.radius.supplicant import TLS_1_2, TLS_1_3, eap_md5, eap_tls
from tests.radius.tenants import PRINTER

# In fragments of 1,300 octets, the chain of two P-256 certificates is one packet. The device has sent two packets by
# then: its identity and its ClientHello.
UNTIL_OUR_CERTIFICATE = 2


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("slug", ["alpha", "bravo"])
def test_device_that_stops_answering_leaves_certificate_sent(cell, slug, version):
    tenant = cell.tenants[slug]
    device = Device(tenant.clients["laptop"], version)
    device.abandon(tenant, rounds=UNTIL_OUR_CERTIFICATE)
    assert cell.decisions() == []
    (sent,) = cell.certificates_sent()
    assert (sent.mac, sent.identity, sent.tenant_id) == (device.mac, "laptop", tenant.tenant_id)
    assert (sent.slot, sent.site_id, sent.nas_address) == (tenant.slot, tenant.site_id, "127.0.0.1")
    assert len(sent.conversation) == 16


@pytest.mark.parametrize("version", VERSIONS)
def test_device_that_stops_early_leaves_no_record(cell, version):
    Device(cell.alpha.clients["laptop"], version).abandon(cell.alpha, rounds=UNTIL_OUR_CERTIFICATE - 1)
    assert cell.decisions() == []
    assert cell.certificates_sent() == []


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("client", ["laptop", "revoked", "expired"])
def test_ended_conversation_has_its_first_name(cell, client, version):
    eap_tls(cell.alpha, cell.alpha.clients[client], version).run()
    (sent,) = cell.certificates_sent()
    assert cell.decision().conversation == sent.conversation


@pytest.mark.parametrize("version", VERSIONS)
def test_resumed_conversation_without_certificate_has_no_name(cell, version):
    device = Device(cell.alpha.clients["laptop"], version)
    device.visit(cell.alpha)
    device.visit(cell.alpha)
    full, resumed = cell.decisions()
    (sent,) = cell.certificates_sent()
    assert (full.conversation, resumed.conversation) == (sent.conversation, "")


@pytest.mark.parametrize("version", VERSIONS)
def test_returning_device_gets_a_new_conversation(cell, version):
    device = Device(cell.alpha.clients["laptop"], version)
    device.abandon(cell.alpha, rounds=UNTIL_OUR_CERTIFICATE)
    device.visit(cell.alpha)
    abandoned, finished = cell.certificates_sent()
    assert abandoned.conversation != finished.conversation
    assert cell.decision().conversation == finished.conversation


def test_mac_authentication_by_eap_sends_no_certificate(cell):
    eap_md5(cell.alpha, PRINTER, PRINTER, mac=PRINTER).run()
    assert cell.certificates_sent() == []
    assert cell.decision().conversation == ""

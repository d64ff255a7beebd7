"""Data of a tenant has no effect at another tenant's slot. Certificates and tickets: test_eap_tls, test_resumption."""

import os
from dataclasses import replace

import pytest

from nac.cellformat.replica import keys
from nac.cellformat.replica.records import NasRecord
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCT_STATUS_TYPE, CALLING_STATION_ID, USER_NAME, encode_attribute
from radius.agent.radiusd import probe
from tests.radius.devices import VERSIONS, Device
from tests.radius.nas import SILENCE_SECONDS, Nas, joined, mab, radclient
from tests.radius.standalone import FREE_SLOT, FREE_SLOT_SECRET, LOOPBACK
from tests.radius.supplicant import eap_tls, new_mac
from tests.radius.tenants import PRINTER
from tests.radius.users import put_user


@pytest.mark.parametrize(("at", "of"), [("alpha", "bravo"), ("bravo", "alpha")])
def test_mac_of_another_tenant_is_unknown(cell, at, of):
    mac = cell.tenants[of].mac(PRINTER)
    attributes, password = mab(mac)
    assert Nas(cell.tenants[of]).ask(attributes, password=password)[0] == packet.ACCESS_ACCEPT
    assert Nas(cell.tenants[at]).ask(attributes, password=password)[0] == packet.ACCESS_REJECT
    assert cell.decision(tenant_id=cell.tenants[at].tenant_id).reason == "unknown-mac"


@pytest.mark.parametrize(("at", "of"), [("alpha", "bravo"), ("bravo", "alpha")])
def test_secret_of_another_tenant_gets_no_response(cell, at, of):
    there = Nas(cell.tenants[at], secret=cell.tenants[of].secret)
    attributes, password = mab(cell.tenants[at].mac(PRINTER))
    request = packet.make_access_request(1, os.urandom(16), attributes, there.key, password)
    assert there.exchange(request, seconds=SILENCE_SECONDS) is None
    assert there.account(encode_attribute(ACCT_STATUS_TYPE, 1), seconds=SILENCE_SECONDS) is None
    assert cell.decisions() == []
    assert cell.accounting() == []


def test_user_of_another_tenant_is_unknown(cell, replica):
    with replica.begin() as batch:
        put_user(batch, cell, "of-alpha", "secret enough")
    lines = 'User-Name="of-alpha"', 'User-Password="secret enough"'
    assert radclient(cell.alpha, *lines).code == "Access-Accept"
    assert radclient(cell.bravo, *lines).code == "Access-Reject"
    assert cell.decision(tenant_id=cell.bravo.tenant_id).reason == "unknown-user"


def test_nas_of_another_tenant_is_not_registered(cell, replica):
    with replica.begin() as batch:
        record = NasRecord(cell.alpha.nas_id, "of alpha", cell.alpha.site_id, "cisco")
        batch.put_nas(keys.by_identifier(cell.alpha.number, "of-alpha"), record)
    for tenant in cell.tenants.values():
        radclient(tenant, f'User-Name="{new_mac()}"', 'User-Password="x"', "NAS-Identifier=of-alpha")
    assert [record.nas_id for record in cell.decisions()] == [cell.alpha.nas_id, ""]
    assert [record.site_id for record in cell.decisions()] == [cell.alpha.site_id, cell.bravo.site_id]


def test_only_the_suspended_tenant_is_rejected(cell, replica):
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(status="suspended"))
    for tenant in cell.tenants.values():
        attributes, password = mab(tenant.mac(PRINTER))
        Nas(tenant).ask(attributes, password=password)
        eap_tls(tenant, tenant.clients["laptop"]).run()
    assert [record.reason for record in cell.decisions(tenant_id=cell.alpha.tenant_id)] == ["tenant-suspended"] * 2
    assert [record.permitted for record in cell.decisions(tenant_id=cell.bravo.tenant_id)] == [True, True]


def test_tenant_suspended_during_a_conversation_is_rejected(cell, replica):
    device = Device(cell.alpha.clients["laptop"], VERSIONS[1])
    mac = device.mac
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(status="suspended"))
    device.visit(cell.alpha, expected=packet.ACCESS_REJECT)
    assert cell.decision(mac=mac).reason == "tenant-suspended"


def free_slot_nas(cell):
    """A NAS at an unassigned slot, as of a tenant that left or has not arrived yet."""
    slot = cell.free_slot
    assert slot.number == FREE_SLOT
    return Nas(replace(cell.alpha, auth_port=slot.auth_port, acct_port=slot.acct_port), secret=FREE_SLOT_SECRET)


def test_unassigned_slot_is_silent_and_leaves_no_record(cell):
    """Silence makes the NASes of a moved tenant use their other server address."""
    nas, (attributes, password) = free_slot_nas(cell), mab(PRINTER)
    eap = packet.encode_eap_message(b"\x02\x07\x00\x06\x01a")
    named = joined([(USER_NAME, "a"), (CALLING_STATION_ID, PRINTER)]) + eap
    for asked, given in ((attributes, password), (named, None)):
        request = packet.make_access_request(1, os.urandom(16), asked, nas.key, given)
        assert nas.exchange(request, seconds=SILENCE_SECONDS) is None
    assert cell.decisions() == []
    assert f"admit: not-ready slot={FREE_SLOT}" in cell.log()


def test_health_check_is_answered_and_not_recorded(cell):
    before = cell.log()
    for slot, secret in ((cell.free_slot, FREE_SLOT_SECRET), (cell.alpha, cell.alpha.secret)):
        assert probe.is_deciding(LOOPBACK, slot.auth_port, secret, seconds=5)
    assert cell.decisions() == []
    assert "not-ready" not in cell.log().removeprefix(before)


def test_unassigned_slot_acknowledges_no_accounting(cell):
    assert free_slot_nas(cell).account(encode_attribute(ACCT_STATUS_TYPE, 1), seconds=SILENCE_SECONDS) is None
    assert cell.accounting() == []


def test_new_tenant_is_served_at_once(cell, replica):
    newcomer = replace(cell.alpha, slot=FREE_SLOT, number=99)
    with replica.begin() as batch:
        newcomer.fill(batch, cell.sealer)
    attributes, password = mab(PRINTER)
    assert free_slot_nas(cell).ask(attributes, password=password)[0] == packet.ACCESS_ACCEPT

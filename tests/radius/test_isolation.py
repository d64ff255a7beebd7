"""Data of a tenant has no effect at another tenant's slot. Certificates and tickets: test_eap_tls, test_resumption."""

import os
from dataclasses import replace

import pytest

from nac.cellformat.replica import keys
from nac.cellformat.replica.records import NasRecord
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, ACCT_STATUS_TYPE, NAS_IDENTIFIER, encode_attribute
from tests.radius.devices import VERSIONS, Device
from tests.radius.nas import SILENCE_SECONDS, Nas, ask_mab, log_in, mab, named
from tests.radius.standalone import FREE_SLOT, FREE_SLOT_SECRET
from tests.radius.tenants import PASSWORD, PRINTER


@pytest.mark.parametrize(("at", "of"), [("alpha", "bravo"), ("bravo", "alpha")])
def test_device_and_user_of_another_tenant_are_unknown(cell, at, of):
    own, other = cell.tenants[of], cell.tenants[at]
    mac, user = own.mac(PRINTER), f"{of}-user"
    assert [ask_mab(own, mac), log_in(own, user, PASSWORD)] == [ACCESS_ACCEPT] * 2
    assert [ask_mab(other, mac), log_in(other, user, PASSWORD)] == [ACCESS_REJECT] * 2
    reasons = [record.reason for record in cell.decisions(tenant_id=other.tenant_id)]
    assert reasons == ["unknown-mac", "unknown-user"]


def test_nas_of_another_tenant_is_not_registered(cell):
    with cell.changes() as batch:
        record = NasRecord(cell.alpha.nas_id, "of alpha", cell.alpha.site_id, "cisco")
        batch.put_nas(keys.by_identifier(cell.alpha.number, "of-alpha"), record)
    for tenant in cell.tenants.values():
        log_in(tenant, "x", "x", (NAS_IDENTIFIER, "of-alpha"))
    assert [record.nas_id for record in cell.decisions()] == [cell.alpha.nas_id, ""]
    assert [record.site_id for record in cell.decisions()] == [cell.alpha.site_id, cell.bravo.site_id]


def test_only_the_suspended_tenant_is_rejected(cell):
    cell.set_slot(status="suspended")
    for tenant, code in ((cell.alpha, ACCESS_REJECT), (cell.bravo, ACCESS_ACCEPT)):
        assert ask_mab(tenant, tenant.mac(PRINTER)) == code
        Device(tenant.clients["laptop"], VERSIONS[1]).visit(tenant, expected=code)
    reasons = [record.reason for record in cell.decisions()]
    assert reasons == ["tenant-suspended"] * 2 + ["rule-permitted"] * 2


def free_slot_nas(cell):
    """A NAS at an unassigned slot, as of a tenant that left or has not arrived yet."""
    slot = cell.free_slot
    assert slot.number == FREE_SLOT
    return Nas(replace(cell.alpha, auth_port=slot.auth_port, acct_port=slot.acct_port), secret=FREE_SLOT_SECRET)


def test_unassigned_slot_is_silent_and_leaves_no_record(cell):
    """Silence makes the NASes of a moved tenant use their other server address."""
    nas = free_slot_nas(cell)
    eap = named("a", PRINTER) + packet.encode_eap_message(b"\x02\x07\x00\x06\x01a")
    for asked, given in (mab(PRINTER), (eap, None)):
        request = packet.make_access_request(1, os.urandom(16), asked, nas.key, given)
        assert nas.exchange(request, seconds=SILENCE_SECONDS) is None
    assert nas.account(encode_attribute(ACCT_STATUS_TYPE, 1), seconds=SILENCE_SECONDS) is None
    assert cell.decisions() == cell.accounting() == []
    assert f"admit: not-ready slot={FREE_SLOT}" in cell.log()


def test_new_tenant_is_served_at_once(cell):
    newcomer = replace(cell.alpha, slot=FREE_SLOT, number=99)
    with cell.changes() as batch:
        newcomer.fill(batch, cell.sealer)
    attributes, password = mab(PRINTER)
    assert free_slot_nas(cell).ask(attributes, password=password)[0] == ACCESS_ACCEPT

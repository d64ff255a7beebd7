import re
from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.inventory.endpoints import passphrases
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.service import EndpointCriteria
from nac.inventory.groups import ENDPOINT_GROUPS, UnknownGroup
from nac.kit.clock import utc_now
from nac.kit.errors import AlreadyExists, InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.models import Endpoint
from tests.factories.tenancy import seal


def _groups(session: Session, endpoint: Endpoint) -> tuple[str, ...]:
    names = ENDPOINT_GROUPS.names_of(session, tenant_id=endpoint.tenant_id, member_ids=[endpoint.id])
    return names.get(endpoint.id, ())


@pytest.mark.parametrize("form", ["00:11:22:33:44:55", "0011.2233.4455", "00-11-22-33-44-55", "001122334455"])
def test_mac_in_every_format_is_one_endpoint(session, who, form):
    endpoint = endpoints.create_endpoint(session, **who, mac=form, name="Printer")
    session.expire_all()
    assert session.get_one(Endpoint, endpoint.id).mac == "001122334455"
    with pytest.raises(AlreadyExists):
        endpoints.create_endpoint(session, **who, mac="0011.2233.4455")


@pytest.mark.parametrize(
    "mac", ["", "00:11:22:33:44", "00:11:22:33:44:gg", "01:00:5e:00:00:01", "000000000000", "f" * 12]
)
def test_non_station_address_is_rejected(session, who, mac):
    with pytest.raises(InvalidInput, match="mac"):
        endpoints.create_endpoint(session, **who, mac=mac)


def test_invalid_attribute_name_is_rejected(session, who):
    with pytest.raises(InvalidInput, match="'Own er'"):
        endpoints.create_endpoint(session, **who, mac="001122334455", attributes={"Own er": "ann", "floor": "2"})


def test_unknown_groups_are_all_listed(session, who):
    ENDPOINT_GROUPS.create(session, **who, name="printers")
    with pytest.raises(UnknownGroup, match="'cameras', 'doors'"):
        endpoints.create_endpoint(session, **who, mac="001122334455", groups=["printers", "doors", "cameras"])


def test_groups_are_replaced_and_audited(session, who):
    for name in ("cameras", "doors", "printers"):
        ENDPOINT_GROUPS.create(session, **who, name=name)
    endpoint = endpoints.create_endpoint(session, **who, mac="001122334455", groups=["printers", "cameras"])
    assert _groups(session, endpoint) == ("cameras", "printers")
    endpoints.update_groups(session, **who, mac="001122334455", groups=["doors", "cameras"])
    assert _groups(session, endpoint) == ("cameras", "doors")
    entry = audit.list_entries(session)[0]
    assert (entry.action, entry.target) == ("endpoint.set-groups", "00:11:22:33:44:55")
    assert (entry.before, entry.after) == ({"groups": ["cameras", "printers"]}, {"groups": ["cameras", "doors"]})
    endpoints.update_groups(session, **who, mac="001122334455", groups=[])
    assert _groups(session, endpoint) == ()


def test_deleted_group_leaves_its_members(session, who):
    ENDPOINT_GROUPS.create(session, **who, name="printers")
    endpoint = endpoints.create_endpoint(session, **who, mac="001122334455", groups=["printers"])
    ENDPOINT_GROUPS.remove(session, **who, name="printers")
    assert _groups(session, endpoint) == ()
    with pytest.raises(UnknownGroup):
        ENDPOINT_GROUPS.remove(session, **who, name="printers")


@pytest.mark.parametrize("name", [".", "..", " ", "a\nb"])
def test_group_name_unusable_in_a_path_is_rejected(session, who, name):
    with pytest.raises(InvalidInput):
        ENDPOINT_GROUPS.create(session, **who, name=name)


def test_block_and_unblock_leave_one_audit_row_each(session, who):
    endpoints.create_endpoint(session, **who, mac="001122334455")
    for _ in range(2):
        assert endpoints.block_endpoint(session, **who, mac="001122334455").status == "blocked"
    assert endpoints.unblock_endpoint(session, **who, mac="001122334455").status == "active"
    actions = [entry.action for entry in audit.list_entries(session)]
    assert actions[:3] == ["endpoint.unblock", "endpoint.block", "endpoint.add"]


PHONE, PRINTER = "02aabbccddee", "001ba9010203"


@pytest.mark.parametrize("mac", [PHONE, "0631f1010203", "3a0000000001", "fe0000000001"])
def test_random_address_is_approved_only_with_consent(session, who, mac):
    with pytest.raises(endpoints.RandomAddress, match="random"):
        endpoints.create_endpoint(session, **who, mac=mac)
    assert endpoints.create_endpoint(session, **who, mac=mac, allow_random=True).status == "active"


def test_adding_a_discovered_device_approves_it(session, who, tenant_id):
    session.add(Endpoint(tenant_id=tenant_id, mac=PRINTER, status="discovered", vendor="Brother"))
    session.flush()
    added = endpoints.create_endpoint(session, **who, mac=PRINTER, name="Printer", owner="IT", notes="2nd floor")
    assert (added.status, added.vendor, added.owner, added.notes) == ("active", "Brother", "IT", "2nd floor")
    with pytest.raises(AlreadyExists):
        endpoints.create_endpoint(session, **who, mac=PRINTER)


def test_update_changes_only_fields_in_the_request(session, who):
    until = utc_now() + timedelta(days=30)
    endpoints.create_endpoint(
        session, **who, mac=PRINTER, name="Printer", valid_until=until, attributes={"floor": "2", "room": "7"}
    )
    changed = endpoints.update_endpoint(
        session, **who, mac=PRINTER, owner="IT", attributes={"floor": "3", "room": None}
    )
    assert (changed.name, changed.owner, changed.attributes) == ("Printer", "IT", {"floor": "3"})
    assert changed.valid_until == until
    entry = audit.list_entries(session)[0]
    before = {"owner": "", "attributes": {"floor": "2", "room": "7"}}
    assert (entry.action, entry.before) == ("endpoint.set", before)
    assert endpoints.update_endpoint(session, **who, mac=PRINTER, valid_until=None).valid_until is None
    with pytest.raises(InvalidInput, match="valid_until"):
        endpoints.update_endpoint(session, **who, mac=PRINTER, valid_until=utc_now() - timedelta(days=1))


def test_manual_profile_overrides_the_detected_one(session, who):
    endpoint = endpoints.create_endpoint(session, **who, mac=PRINTER)
    endpoint.found_profile, endpoint.found_confidence = "printer", 60
    endpoints.update_endpoint(session, **who, mac=PRINTER, profile="camera")
    assert (endpoint.profile, endpoint.profile_confidence) == ("camera", 100)
    endpoints.update_endpoint(session, **who, mac=PRINTER, profile="")
    assert (endpoint.profile, endpoint.profile_confidence) == ("printer", 60)
    with pytest.raises(InvalidInput, match=r"Unknown profile 'toaster'.*printer"):
        endpoints.update_endpoint(session, **who, mac=PRINTER, profile="toaster")


def test_undecided_device_cannot_be_unblocked(session, who, tenant_id):
    session.add(Endpoint(tenant_id=tenant_id, mac=PRINTER, status="discovered"))
    session.flush()
    with pytest.raises(InvalidInput, match="discovered, not blocked"):
        endpoints.unblock_endpoint(session, **who, mac=PRINTER)
    assert endpoints.block_endpoint(session, **who, mac=PRINTER).status == "blocked"


def _add(session: Session, tenant_id: TenantId, mac: str, **values: object) -> None:
    session.add(Endpoint(tenant_id=tenant_id, mac=mac, **values))
    session.flush()


def test_list_is_filtered(session, who, tenant_id):
    ENDPOINT_GROUPS.create(session, **who, name="printers")
    for mac, values in (
        ("001ba9000001", {"vendor": "Brother Ltd.", "found_profile": "printer"}),
        ("001ba9000002", {"owner": "Reception", "found_profile": "printer", "set_profile": "camera"}),
        ("001ba9000003", {"status": "blocked"}),
        ("021ba9000004", {"status": "discovered"}),
    ):
        session.add(Endpoint(tenant_id=tenant_id, mac=mac, **values))
    session.flush()
    endpoints.update_groups(session, **who, mac="001ba9000001", groups=["printers"])
    for wanted, found in (
        ({"statuses": ("active",)}, ["01", "02"]),
        ({"statuses": ("discovered", "blocked")}, ["03", "04"]),
        ({"vendor": "brother"}, ["01"]),
        ({"vendor": "%"}, []),
        ({"profile": "printer"}, ["01"]),
        ({"profile": "camera"}, ["02"]),
        ({"text": "RECEPTION"}, ["02"]),
        ({"random": True}, ["04"]),
        ({"random": False, "statuses": ("discovered", "blocked")}, ["03"]),
        ({"group": "printers"}, ["01"]),
        ({"group": "nobody"}, []),
        ({"macs": ("001ba9000003", "001ba9000009")}, ["03"]),
    ):
        listed = endpoints.list_endpoints(session, tenant_id=tenant_id, wanted=EndpointCriteria(**wanted))
        assert [endpoint.mac[-2:] for endpoint, _ in listed] == found, wanted


MAC, SECRET = "001ba9010203", "correct horse battery"


def test_passphrase_of_an_endpoint_or_group_is_sealed_for_it(session, who):
    endpoint = endpoints.create_endpoint(session, **who, mac=MAC)
    group = ENDPOINT_GROUPS.create(session, **who, name="sensors")
    passphrases.update_endpoint_psk(session, **who, mac=MAC, passphrase=SECRET, seal=seal)
    passphrases.update_group_psk(session, **who, name="sensors", passphrase=SECRET, seal=seal)
    assert endpoint.psk_sealed == seal(SECRET.encode(), f"endpoint-psk:{endpoint.id}")
    assert group.psk_sealed == seal(SECRET.encode(), f"endpoint-group-psk:{group.id}")
    entries = audit.list_entries(session)
    assert [entry.action for entry in entries[:2]] == ["endpoint-group.set-psk", "endpoint.set-psk"]
    assert [entry.after for entry in entries[:2]] == [{"psk": True}, {"psk": True}]
    assert SECRET not in repr([(entry.before, entry.after) for entry in entries])
    passphrases.update_endpoint_psk(session, **who, mac=MAC, passphrase=None, seal=seal)
    assert endpoint.psk_sealed is None
    with pytest.raises(NotFound):
        passphrases.update_group_psk(session, **who, name="nobody", passphrase=SECRET, seal=seal)


@pytest.mark.parametrize("text", ["a" * 8, "a" * 63, '~ !"#$%&'])
def test_valid_wpa_passphrase_is_accepted(text):
    assert passphrases.require_passphrase(text) == text


@pytest.mark.parametrize("text", ["", "a" * 7, "a" * 64, "passwörter", "tab\tinside", "eight chars\0"])
def test_invalid_passphrase_is_rejected_and_not_repeated(text):
    with pytest.raises(InvalidInput) as refused:
        passphrases.require_passphrase(text)
    assert not text or text not in str(refused.value)


def test_generated_passphrases_differ_and_can_be_typed():
    made = {passphrases.generate_passphrase() for _ in range(50)}
    assert len(made) == 50
    assert all(re.fullmatch("[a-km-np-z2-9]{20}", passphrases.require_passphrase(text)) for text in made)

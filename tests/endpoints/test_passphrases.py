"""Passphrases of devices and groups: sealed, never shown again, never in the audit log."""

import re

import pytest

from nac.core.audit import service as audit
from nac.inventory.endpoints import passphrases
from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.errors import InvalidInput, NotFound
from tests.factories.tenancy import seal

MAC = "001ba9010203"
SECRET = "correct horse battery"


def test_passphrase_of_an_endpoint_is_sealed_for_it(session, who):
    endpoint = endpoints.create_endpoint(session, **who, mac=MAC)
    passphrases.update_endpoint_psk(session, **who, mac=MAC, passphrase=SECRET, seal=seal)
    assert endpoint.psk_sealed == seal(SECRET.encode(), f"endpoint-psk:{endpoint.id}")
    passphrases.update_endpoint_psk(session, **who, mac=MAC, passphrase=None, seal=seal)
    assert endpoint.psk_sealed is None


def test_passphrase_of_a_group_is_sealed_for_it(session, who):
    group = ENDPOINT_GROUPS.create(session, **who, name="sensors")
    passphrases.update_group_psk(session, **who, name="sensors", passphrase=SECRET, seal=seal)
    assert group.psk_sealed == seal(SECRET.encode(), f"endpoint-group-psk:{group.id}")
    with pytest.raises(NotFound):
        passphrases.update_group_psk(session, **who, name="nobody", passphrase=SECRET, seal=seal)


def test_audit_log_records_the_change_without_the_passphrase(session, who):
    endpoints.create_endpoint(session, **who, mac=MAC)
    ENDPOINT_GROUPS.create(session, **who, name="sensors")
    passphrases.update_endpoint_psk(session, **who, mac=MAC, passphrase=SECRET, seal=seal)
    passphrases.update_group_psk(session, **who, name="sensors", passphrase=SECRET, seal=seal)
    entries = audit.list_entries(session)
    assert [entry.action for entry in entries[:2]] == ["endpoint-group.set-psk", "endpoint.set-psk"]
    assert [entry.after for entry in entries[:2]] == [{"psk": True}, {"psk": True}]
    assert SECRET not in repr([(entry.before, entry.after) for entry in entries])


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

from typing import Any

import pytest
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.errors import AlreadyExists, InvalidInput
from nac.models import Nas, Tenant
from nac.tenancy.nases import service as nases
from tests.factories.tenancy import ACTOR, seal
from tests.factories.tenant_fixtures import session, tenant, tenant_id, who

__all__ = ["session", "tenant", "tenant_id", "who"]


def _add(session: Session, tenant: Tenant, **values: Any) -> Nas:
    assert tenant.default_site_id is not None
    defaults = {"name": "core-1", "site_id": tenant.default_site_id, "seal": seal}
    return nases.create_nas(session, actor=ACTOR, tenant_id=tenant.id, **(defaults | values))


@pytest.mark.parametrize(
    ("given", "kept"), [("IOS XE", "cisco"), ("CISCO", "cisco"), ("Acme Switches", "acme switches"), ("", "")]
)
def test_vendor_is_stored_in_the_form_that_policies_match(session, tenant, given, kept):
    assert _add(session, tenant, identifier="sw", vendor=given).vendor == kept


def test_nas_secret_is_stored_sealed_and_not_audited(session, tenant):
    secret = "sixteen-octets-x"
    nas = _add(session, tenant, address="192.0.2.7", secret=secret, require_message_authenticator=False)
    assert nas.secret_sealed == seal(secret.encode(), f"nas:{nas.id}")
    session.expire_all()
    assert session.get_one(Nas, nas.id).address == "192.0.2.7"
    entry = audit.list_entries(session)[0]
    assert entry.action == "nas.add"
    assert secret not in str(entry.after)


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({}, "identifier"),
        ({"identifier": ""}, "identifier"),
        ({"identifier": "x" * 254}, "identifier"),
        ({"identifier": "tab\there"}, "identifier"),
        ({"address": "192.0.2.0/24"}, "address"),
        ({"address": "::"}, "address"),
        ({"address": "224.0.0.1"}, "address"),
        ({"address": "fe80::1%eth0"}, "address"),
        ({"address": "switch.example"}, "address"),
        ({"address": "192.0.2.7", "secret": "fifteen-octets!"}, "secret"),
        ({"address": "192.0.2.7", "secret": "with blank inside it"}, "secret"),
        # One invalid secret would block every change for the whole cell.
        ({"address": "192.0.2.7", "secret": 'quote"inside-a-secret'}, "secret"),
        ({"address": "192.0.2.7", "secret": "expands-%{User-Name}-in-radiusd"}, "secret"),
        ({"address": "192.0.2.7", "secret": "x" * 129}, "secret"),
        ({"identifier": "core-1", "secret": "sixteen-octets-x"}, "secret"),
        ({"identifier": "core-1", "require_message_authenticator": False}, "require_message_authenticator"),
        ({"identifier": "core-1", "name": " "}, "name"),
    ],
)
def test_invalid_input_is_rejected_naming_the_field(session, tenant, values, place):
    with pytest.raises(InvalidInput) as caught:
        _add(session, tenant, **values)
    assert caught.value.place == place


def _set(session: Session, tenant: Tenant, reference: str, **values: Any) -> Nas:
    return nases.update_nas(session, actor=ACTOR, tenant_id=tenant.id, reference=reference, seal=seal, **values)


def test_update_changes_only_fields_in_the_request(session, tenant):
    first = _add(session, tenant, identifier="id-1", address="192.0.2.7", vendor="cisco", behind_nat=True)
    before = nases.describe(first)
    nas = _set(session, tenant, "192.0.2.7", identifier="", vendor="Aruba", secret="sixteen-octets-x", behind_nat=False)
    assert nas.id == first.id
    changed = {"identifier": None, "vendor": "aruba", "own_secret": True, "behind_nat": False}
    assert nases.describe(nas) == before | changed
    assert nas.secret_sealed == seal(b"sixteen-octets-x", f"nas:{nas.id}")
    entry = audit.list_entries(session)[0]
    assert (entry.action, entry.before) == ("nas.set", {key: before[key] for key in changed})
    assert entry.after == changed | {"secret": "another"}
    assert "sixteen-octets-x" not in str(entry.after)
    assert not nases.describe(_set(session, tenant, "core-1", secret="", address="2001:db8::7"))["own_secret"]


def test_empty_change_makes_no_audit_entry(session, tenant):
    _add(session, tenant, identifier="id-1")
    _set(session, tenant, "id-1", identifier="id-1", name="core-1")
    assert audit.list_entries(session)[0].action == "nas.add"


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"identifier": "", "address": ""}, "identifier"),
        ({"address": "", "secret": "sixteen-octets-x"}, "secret"),
        ({"address": "", "require_message_authenticator": False}, "require_message_authenticator"),
        ({"address": "224.0.0.1"}, "address"),
        ({"secret": "short"}, "secret"),
        ({"name": ""}, "name"),
    ],
)
def test_invalid_change_is_rejected_and_changes_nothing(session, tenant, values, place):
    nas = _add(session, tenant, identifier="id-1", address="192.0.2.7")
    session.commit()
    before = nases.describe(nas)
    with pytest.raises(InvalidInput) as caught:
        _set(session, tenant, "id-1", **values)
    assert caught.value.place == place
    session.rollback()
    assert nases.describe(session.get_one(Nas, nas.id)) == before


def test_identifier_or_address_of_another_nas_is_rejected(session, tenant):
    _add(session, tenant, identifier="id-1", address="192.0.2.7")
    _add(session, tenant, name="core-2", identifier="id-2", address="2001:db8::1")
    for taken in ({"identifier": "id-2"}, {"address": "2001:db8::1"}):
        with pytest.raises(AlreadyExists, match="'core-2'"):
            _add(session, tenant, name="core-3", **taken)
        with pytest.raises(AlreadyExists, match="'core-2'"):
            _set(session, tenant, "id-1", **taken)

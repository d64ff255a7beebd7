"""Bulk approval of discovered devices: all or none, with a preview and an audit entry for each."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from nac.core.audit import service as audit
from nac.inventory.endpoints import inbox
from nac.inventory.endpoints.inbox import InboxDecision
from nac.inventory.endpoints.service import EndpointCriteria, EndpointNotFound, RandomAddress
from nac.inventory.groups import ENDPOINT_GROUPS, UnknownGroup
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput, SeveralMistakes
from nac.models import Endpoint

BROTHER, AXIS, PHONE = "001ba9010203", "00408c010203", "02aabbccddee"


@pytest.fixture
def seen(see, work):
    for mac in (BROTHER, AXIS, PHONE):
        see(mac)
    work()


def statuses(session):
    session.expire_all()
    return {endpoint.mac: endpoint.status for endpoint in session.scalars(select(Endpoint))}


@pytest.fixture
def classify(session, who, seen):
    """Function that decides about devices, given as criteria."""

    def classify(action, groups=(), until=None, *, allow_random=False, dry_run=False, **wanted):
        decision = InboxDecision(action, groups, until, allow_random=allow_random)
        wanted = EndpointCriteria(**wanted)
        return inbox.classify_endpoints(session, **who, wanted=wanted, decision=decision, dry_run=dry_run)

    return classify


@pytest.mark.parametrize(("action", "status"), [("approve", "active"), ("block", "blocked"), ("ignore", "ignored")])
def test_filtered_devices_are_decided_together(session, classify, action, status):
    before = len(audit.list_entries(session))
    assert len(classify(action, random=False, dry_run=True)) == 2
    assert set(statuses(session).values()) == {"discovered"}
    assert len(audit.list_entries(session)) == before
    assert [endpoint.mac for endpoint, _ in classify(action, random=False)] == [BROTHER, AXIS]
    assert statuses(session) == {BROTHER: status, AXIS: status, PHONE: "discovered"}
    entry = audit.list_entries(session)[0]
    assert (entry.action, entry.target) == (f"endpoint.{action}", "2 endpoints")
    assert entry.after["macs"] == ["00:1b:a9:01:02:03", "00:40:8c:01:02:03"]


def test_approved_devices_get_groups_and_an_expiry(session, who, classify, tenant_id):
    until = utc_now() + timedelta(days=7)
    ENDPOINT_GROUPS.create(session, **who, name="printers")
    classify("approve", ("printers",), until, vendor="brother")
    (endpoint,) = session.scalars(select(Endpoint).where(Endpoint.status == "active"))
    assert (endpoint.mac, endpoint.valid_until) == (BROTHER, until)
    names = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[endpoint.id])
    assert names == {endpoint.id: ("printers",)}


def test_random_addresses_are_not_approved_in_bulk(session, classify):
    with pytest.raises(RandomAddress, match="02:aa:bb:cc:dd:ee"):
        classify("approve", seen_since=utc_now() - timedelta(1))
    assert set(statuses(session).values()) == {"discovered"}
    classify("approve", allow_random=True, macs=(PHONE,))
    assert statuses(session)[PHONE] == "active"


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("macs", "action", "groups", "error"),
    [
        ((BROTHER, "001ba9999999"), "approve", (), EndpointNotFound),
        ((BROTHER,), "approve", ("nobody",), UnknownGroup),
        ((BROTHER,), "block", ("nobody",), InvalidInput),
    ],
)
def test_invalid_bulk_action_changes_nothing(session, classify, macs, action, groups, error, dry_run):
    with pytest.raises(error):
        classify(action, groups, macs=macs, dry_run=dry_run)
    assert set(statuses(session).values()) == {"discovered"}


def test_all_errors_are_listed_at_once(session, classify):
    macs = (BROTHER, PHONE, "001ba9999999", "nonsense")
    with pytest.raises(SeveralMistakes) as caught:
        classify("approve", ("nobody",), utc_now() - timedelta(1), macs=macs)
    kinds = [InvalidInput, EndpointNotFound, RandomAddress, UnknownGroup, InvalidInput]
    assert [type(mistake) for mistake in caught.value.mistakes] == kinds
    assert str(caught.value).startswith("5 mistakes:\n  mac: ")
    assert set(statuses(session).values()) == {"discovered"}


def test_ignored_device_can_be_approved_by_address_once(classify):
    classify("ignore", macs=(BROTHER,))
    assert classify("approve", vendor="brother") == []
    classify("approve", macs=(BROTHER,))
    with pytest.raises(EndpointNotFound, match="Not in the inbox"):
        classify("block", macs=(BROTHER,))


def test_more_devices_than_the_limit_are_rejected(classify, monkeypatch):
    monkeypatch.setattr(inbox, "MAX_CLASSIFIED", 1)
    with pytest.raises(InvalidInput, match="more than 1"):
        classify("block", random=False)


def test_devices_of_other_tenants_are_not_in_the_inbox(classify, two_tenants, see, work):
    see("001ba9999999", of=two_tenants[1])
    work(two_tenants[1])
    assert [endpoint.mac for endpoint, _ in classify("block", vendor="brother")] == [BROTHER]

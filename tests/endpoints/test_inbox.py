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


@pytest.mark.parametrize(("action", "status"), [("approve", "active"), ("block", "blocked"), ("ignore", "ignored")])
def test_filtered_devices_are_decided_together(session, who, seen, action, status):
    done = inbox.classify_endpoints(
        session, **who, wanted=EndpointCriteria(random=False), decision=InboxDecision(action)
    )
    assert [endpoint.mac for endpoint, _ in done] == [BROTHER, AXIS]
    assert statuses(session) == {BROTHER: status, AXIS: status, PHONE: "discovered"}
    entry = audit.list_entries(session)[0]
    assert (entry.action, entry.target) == (f"endpoint.{action}", "2 endpoints")
    assert entry.after["macs"] == ["00:1b:a9:01:02:03", "00:40:8c:01:02:03"]


def test_approved_devices_get_groups_and_an_expiry(session, who, seen, tenant_id):
    until = utc_now() + timedelta(days=7)
    ENDPOINT_GROUPS.create(session, **who, name="printers")
    inbox.classify_endpoints(
        session,
        **who,
        wanted=EndpointCriteria(vendor="brother"),
        decision=InboxDecision("approve", ("printers",), until),
    )
    (endpoint,) = session.scalars(select(Endpoint).where(Endpoint.status == "active"))
    assert (endpoint.mac, endpoint.valid_until) == (BROTHER, until)
    names = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[endpoint.id])
    assert names == {endpoint.id: ("printers",)}


def test_dry_run_reports_and_changes_nothing(session, who, seen):
    before = len(audit.list_entries(session))
    told = inbox.classify_endpoints(
        session, **who, wanted=EndpointCriteria(random=False), decision=InboxDecision("block"), dry_run=True
    )
    assert len(told) == 2
    assert set(statuses(session).values()) == {"discovered"}
    assert len(audit.list_entries(session)) == before


def test_random_addresses_are_not_approved_in_bulk(session, who, seen):
    with pytest.raises(RandomAddress, match="02:aa:bb:cc:dd:ee"):
        inbox.classify_endpoints(
            session,
            **who,
            wanted=EndpointCriteria(seen_since=utc_now() - timedelta(1)),
            decision=InboxDecision("approve"),
        )
    assert set(statuses(session).values()) == {"discovered"}
    inbox.classify_endpoints(
        session, **who, wanted=EndpointCriteria(macs=(PHONE,)), decision=InboxDecision("approve", allow_random=True)
    )
    assert statuses(session)[PHONE] == "active"


@pytest.mark.parametrize(
    ("wanted", "decision", "error"),
    [
        (EndpointCriteria(macs=(BROTHER, "001ba9999999")), InboxDecision("approve"), EndpointNotFound),
        (EndpointCriteria(macs=(BROTHER,)), InboxDecision("block", ("nobody",)), InvalidInput),
    ],
)
def test_invalid_bulk_action_changes_nothing(session, who, seen, wanted, decision, error):
    with pytest.raises(error):
        inbox.classify_endpoints(session, **who, wanted=wanted, decision=decision)
    assert set(statuses(session).values()) == {"discovered"}


def test_all_errors_are_listed_at_once(session, who, seen):
    wanted = EndpointCriteria(macs=(BROTHER, PHONE, "001ba9999999", "nonsense"))
    decision = InboxDecision("approve", ("nobody",), utc_now() - timedelta(1))
    with pytest.raises(SeveralMistakes) as caught:
        inbox.classify_endpoints(session, **who, wanted=wanted, decision=decision)
    assert [type(mistake) for mistake in caught.value.mistakes] == [
        InvalidInput,
        EndpointNotFound,
        RandomAddress,
        UnknownGroup,
        InvalidInput,
    ]
    assert str(caught.value).startswith("5 mistakes:\n  mac: ")
    assert set(statuses(session).values()) == {"discovered"}


def test_dry_run_rejects_what_the_action_rejects(session, who, seen):
    with pytest.raises(UnknownGroup):
        inbox.classify_endpoints(
            session,
            **who,
            wanted=EndpointCriteria(macs=(BROTHER,)),
            decision=InboxDecision("approve", ("nobody",)),
            dry_run=True,
        )


def test_ignored_device_can_be_approved_by_address_once(session, who, seen):
    inbox.classify_endpoints(session, **who, wanted=EndpointCriteria(macs=(BROTHER,)), decision=InboxDecision("ignore"))
    assert (
        inbox.classify_endpoints(
            session, **who, wanted=EndpointCriteria(vendor="brother"), decision=InboxDecision("approve")
        )
        == []
    )
    inbox.classify_endpoints(
        session, **who, wanted=EndpointCriteria(macs=(BROTHER,)), decision=InboxDecision("approve")
    )
    with pytest.raises(EndpointNotFound, match="Not in the inbox"):
        inbox.classify_endpoints(
            session, **who, wanted=EndpointCriteria(macs=(BROTHER,)), decision=InboxDecision("block")
        )


def test_more_devices_than_the_limit_are_rejected(session, who, seen, monkeypatch):
    monkeypatch.setattr(inbox, "MAX_CLASSIFIED", 1)
    with pytest.raises(InvalidInput, match="more than 1"):
        inbox.classify_endpoints(session, **who, wanted=EndpointCriteria(random=False), decision=InboxDecision("block"))


def test_devices_of_other_tenants_are_not_in_the_inbox(session, who, two_tenants, see, work):
    see(BROTHER, of=two_tenants.bravo)
    work(two_tenants.bravo)
    assert (
        inbox.classify_endpoints(
            session, **who, wanted=EndpointCriteria(vendor="brother"), decision=InboxDecision("block")
        )
        == []
    )

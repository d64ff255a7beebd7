"""A tenant can require a review of the differences before a policy is published."""

import pytest
from sqlalchemy import select

from nac.kit.errors import Conflict, InvalidInput
from nac.models import AuditEntry
from nac.policies import publish_gate
from nac.policies import service as policies
from nac.policies.replays import replay_policy
from nac.policies.service import UnacknowledgedDifferences
from nac.tenancy.tenants import service as tenants
from tests.policies.documents import ADMITTED, good


@pytest.fixture
def tenant_with_review(do, publish, record):
    """A tenant with a published policy, a recorded request, and a draft that decides it differently."""
    publish(good())
    record()
    do(tenants.update_replay_days, days=7)
    do(policies.save_draft, slug="main", document=good("30"))


def current_version(as_tenant):
    return as_tenant(policies.require_by_slug, slug="main").published_version


def test_difference_blocks_publish_until_acknowledged(as_tenant, do, tenant_with_review, record):
    with pytest.raises(UnacknowledgedDifferences) as caught:
        do(policies.publish_policy, slug="main")
    digest = caught.value.replay.digest
    assert f"acknowledge={digest}" in str(caught.value)
    assert current_version(as_tenant) == 1
    with pytest.raises(UnacknowledgedDifferences, match="digest 0123"):
        do(policies.publish_policy, slug="main", acknowledge="0123")
    # More differences of a reported kind change nothing ...
    record(mac="001122334466")
    # The digest of these differences equals that of the replay.
    policy = as_tenant(policies.require_by_slug, slug="main")
    assert as_tenant(replay_policy, document=good("30"), policy_id=policy.id, days=7).digest == digest
    version = as_tenant(policies.publish_policy, actor="user:ann", slug="main", acknowledge=digest)
    assert current_version(as_tenant) == 2
    assert version.replayed["acknowledged_by"] == "user:ann"
    assert (version.replayed["days"], version.replayed["changed"], version.replayed["digest"]) == (7, 2, digest)
    entry = as_tenant(lambda session, tenant_id: session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()[-1])
    assert (entry.action, entry.actor) == ("policy.publish", "user:ann")
    assert entry.after["replayed"]["acknowledged_by"] == "user:ann"
    (difference,) = entry.after["replayed"]["differences"]
    assert (difference["from"], difference["to"]) == (ADMITTED | {"vlan": "20"}, ADMITTED | {"vlan": "30"})


def test_new_kind_of_difference_needs_a_new_acknowledgement(do, tenant_with_review, record):
    with pytest.raises(UnacknowledgedDifferences) as caught:
        do(policies.publish_policy, slug="main")
    both = good("30") | {"fallback": {"verdict": "permit"}}
    record(request={"endpoint.group": ["phones"]}, permitted=False, rule_id="", vlan="", reason="fallback-denied")
    do(policies.save_draft, slug="main", document=both)
    with pytest.raises(UnacknowledgedDifferences) as again:
        do(policies.publish_policy, slug="main", acknowledge=caught.value.replay.digest)
    assert again.value.replay.groups == 2


def test_draft_without_differences_needs_no_acknowledgement(do, tenant_with_review):
    do(policies.save_draft, slug="main", document=good() | {"pinned_denies": []})
    version = do(policies.publish_policy, slug="main")
    assert (version.replayed["total"], version.replayed["changed"]) == (1, 0)
    assert "acknowledged_by" not in version.replayed


def test_rollback_and_tenant_without_review_need_no_replay(as_tenant, do, tenant_with_review):
    do(tenants.update_replay_days, days=None)
    version = do(policies.publish_policy, slug="main")
    assert (current_version(as_tenant), version.replayed) == (2, None)
    do(tenants.update_replay_days, days=7)
    assert do(policies.roll_back_policy, slug="main", number=1).number == 3


def test_draft_saved_during_the_replay_is_not_published(as_tenant, do, tenant_with_review, monkeypatch):
    replay = publish_gate.replay_policy

    def while_another_saves(session, **arguments):
        found = replay(session, **arguments)
        do(policies.save_draft, slug="main", document=good("31"))
        return found

    monkeypatch.setattr(publish_gate, "replay_policy", while_another_saves)
    policy = as_tenant(policies.require_by_slug, slug="main")
    digest = as_tenant(replay_policy, document=good("30"), policy_id=policy.id, days=7).digest
    with pytest.raises(Conflict, match="The policy changed meanwhile"):
        do(policies.publish_policy, slug="main", acknowledge=digest)
    assert current_version(as_tenant) == 1


def test_days_out_of_range_are_rejected(do):
    for days in (0, -1, 91):
        with pytest.raises(InvalidInput, match="Invalid number of replay days"):
            do(tenants.update_replay_days, days=days)

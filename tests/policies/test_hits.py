"""Counts of rule hits: their display and their deletion."""

from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.models import PolicyHits
from nac.policies import service as policies
from nac.policies.hits import RETENTION_DAYS, count_hits, prune_hits
from nac.policies.service import PolicyVersionNotFound
from tests.factories.rows import make_row
from tests.policies.documents import good, group_rule

TODAY = date(2026, 3, 31)
PINNED = {"id": "stolen", "name": "Stolen", "when": {"attribute": "mac", "operator": "exists"}}


@pytest.fixture
def hit(owner_engine, tenant):
    def hit(policy, rule_id="r", *, days_ago=0, hits=1, version=1):
        day = TODAY - timedelta(days=days_ago)
        values = {"policy_id": policy.id, "version": version, "rule_id": rule_id, "day": day, "hits": hits}
        with Session(owner_engine) as session, session.begin():
            last = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
            make_row(session, PolicyHits.__table__, tenant.id, last_at=last, **values)

    return hit


def counts(as_tenant, **options):
    return {rule.rule_id: rule for rule in as_tenant(count_hits, today=TODAY, **options).rules}


def test_recent_hits_are_summed_and_unused_rules_are_marked(as_tenant, publish, hit):
    policy = publish(good() | {"pinned_denies": [PINNED]})
    for days_ago, hits in ((0, 1), (1, 10), (6, 100), (7, 1000), (29, 10_000), (30, 100_000)):
        hit(policy, days_ago=days_ago, hits=hits)
    hit(policy, "", days_ago=3)
    found = counts(as_tenant)
    assert list(found) == ["stolen", "r", ""]
    assert found["r"].within == {1: 1, 7: 111, 30: 11_111}
    assert found["r"].last_hit == datetime(2026, 3, 31, 12, tzinfo=UTC)
    assert (found["stolen"].never, found["stolen"].kind) == (True, "pinned-deny")
    assert (found[""].within, found[""].kind, found[""].never) == ({1: 0, 7: 1, 30: 1}, "fallback", False)


def test_new_version_starts_at_zero_and_keeps_the_previous(as_tenant, publish, hit):
    policy = publish(good())
    hit(policy, days_ago=2)
    publish(good("30"))
    rule = counts(as_tenant)["r"]
    assert (rule.never, rule.within[7]) == (True, 0)
    assert rule.last_hit_before == datetime(2026, 3, 29, 12, tzinfo=UTC)


def test_unpublished_policy_has_no_counts(as_tenant, do):
    do(policies.create_policy, slug="main")
    with pytest.raises(PolicyVersionNotFound, match="Policy 'main' has no published version"):
        counts(as_tenant)


def rows(owner_engine):
    with Session(owner_engine) as session:
        return session.scalar(select(func.count()).select_from(PolicyHits))


def test_old_counts_are_deleted_except_current_last_hits(as_tenant, publish, hit, owner_engine, worker_engine):
    policy = publish({"rules": [group_rule(), group_rule("printers", "21", "s") | {"when": PINNED["when"]}]})
    for days_ago in (RETENTION_DAYS, RETENTION_DAYS + 1, RETENTION_DAYS + 2):
        hit(policy, days_ago=days_ago)
    hit(policy, "s", days_ago=RETENTION_DAYS + 200)
    hit(policy, "s", days_ago=RETENTION_DAYS + 300)
    hit(policy, "gone", days_ago=RETENTION_DAYS + 1, version=7)
    # Deleted: the two oldest counts of r, the oldest count of s, and the counts of versions that are not current.
    assert prune_hits(engine=worker_engine, today=TODAY) == 4
    assert prune_hits(engine=worker_engine, today=TODAY) == 0
    assert rows(owner_engine) == 2
    assert counts(as_tenant)["s"].last_hit == datetime(2025, 6, 12, 12, tzinfo=UTC)


def test_deleting_a_policy_deletes_its_counts(do, hit, owner_engine):
    policy = do(policies.create_policy, slug="main")
    hit(policy)
    do(policies.delete_policy, slug="main")
    assert rows(owner_engine) == 0

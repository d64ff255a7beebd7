"""Hit counts of policy rules. The cells count the hits when they send decisions to the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import CursorResult, Engine, delete, exists, func, select
from sqlalchemy.orm import Session, aliased

from nac.engine import compile_policy
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import Policy, PolicyHits, Tenant
from nac.policies.service import PolicyVersionNotFound, find_policy, require_version

# Admit deletes older rows. For each rule of a published version, Admit keeps the row of the last day with a hit.
RETENTION_DAYS = 92
_WINDOW_DAYS = (1, 7, 30)


@dataclass(frozen=True, slots=True)
class RuleHits:
    # "" for the fallback.
    rule_id: str
    rule_name: str
    # pinned-deny | rule | fallback
    kind: str
    # Number of days -> hits of the published version in these days (UTC), including today: {1: ..., 7: ..., 30: ...}.
    within: dict[int, int]
    last_hit: datetime | None
    # Last hit of this rule in another version.
    last_hit_before: datetime | None

    @property
    def never(self) -> bool:
        """Whether the rule has had no hit since the publication of the version."""
        return self.last_hit is None


@dataclass(frozen=True, slots=True)
class HitCounts:
    slug: str
    version: int
    published_at: datetime | None
    rules: tuple[RuleHits, ...]


def count_hits(session: Session, *, tenant_id: TenantId, slug: str = "", today: date | None = None) -> HitCounts:
    """Count hits of the published version: of its rules in order, then of the fallback.

    Raises PolicyVersionNotFound if no version is published.
    """
    policy = find_policy(session, tenant_id=tenant_id, slug=slug)
    if policy.published_version is None:
        raise PolicyVersionNotFound(
            f"Policy {policy.slug!r} has no published version.",
            place="policy",
            remedy=Advice("Publish a version.", NextStep("publishPolicy", {"policy": policy.slug})),
        )
    version = require_version(session, tenant_id=tenant_id, slug=policy.slug, number=policy.published_version)
    counted = _count_by_rule(session, policy, today or utc_now().date())
    before = _last_hits_before(session, policy)
    named = [
        (rule.id, rule.name, "pinned-deny" if rule.pinned else "rule")
        for rule in compile_policy(version.document).rules
    ]
    rules = []
    for rule_id, name, kind in (*named, ("", "", "fallback")):
        within, last = counted.get(rule_id, (dict.fromkeys(_WINDOW_DAYS, 0), None))
        rules.append(RuleHits(rule_id, name, kind, within, last, before.get(rule_id)))
    return HitCounts(policy.slug, version.number, version.published_at, tuple(rules))


def hit_rows(counts: HitCounts) -> list[dict[str, Any]]:
    return [
        {
            "rule": rule.rule_id,
            "name": rule.rule_name,
            "kind": rule.kind,
            **{f"hits_{days}d": hits for days, hits in rule.within.items()},
            "last_hit": rule.last_hit and rule.last_hit.isoformat(timespec="seconds"),
            "never_hit": rule.never,
            "last_hit_before": rule.last_hit_before and rule.last_hit_before.isoformat(timespec="seconds"),
        }
        for rule in counts.rules
    ]


def _count_by_rule(session: Session, policy: Policy, today: date) -> dict[str, tuple[dict[int, int], datetime]]:
    sums = [
        func.coalesce(func.sum(PolicyHits.hits).filter(PolicyHits.day > today - timedelta(days=days)), 0)
        for days in _WINDOW_DAYS
    ]
    query = (
        select(PolicyHits.rule_id, func.max(PolicyHits.last_at), *sums)
        .where(
            PolicyHits.tenant_id == policy.tenant_id,
            PolicyHits.policy_id == policy.id,
            PolicyHits.version == policy.published_version,
        )
        .group_by(PolicyHits.rule_id)
    )
    return {
        rule: (dict(zip(_WINDOW_DAYS, map(int, counts), strict=True)), last)
        for rule, last, *counts in session.execute(query).all()
    }


def _last_hits_before(session: Session, policy: Policy) -> dict[str, datetime]:
    query = (
        select(PolicyHits.rule_id, func.max(PolicyHits.last_at))
        .where(
            PolicyHits.tenant_id == policy.tenant_id,
            PolicyHits.policy_id == policy.id,
            PolicyHits.version != policy.published_version,
        )
        .group_by(PolicyHits.rule_id)
    )
    return dict(session.execute(query).all())


def prune_hits(*, engine: Engine | None = None, today: date | None = None) -> int:
    """Delete counts older than RETENTION_DAYS of all tenants; return the number of rows. Needs the role admit_worker.

    Each tenant is pruned in its own transaction. The function is repeatable and safe to run concurrently.
    """
    oldest = (today or utc_now().date()) - timedelta(days=RETENTION_DAYS)
    with session_scope(PlatformScope(), engine=engine) as session:
        tenants: Sequence[TenantId] = session.scalars(select(Tenant.id)).all()
    deleted = 0
    for tenant_id in tenants:
        with session_scope(TenantScope(tenant_id), engine=engine) as session:
            deleted += _prune_tenant(session, tenant_id, oldest)
    return deleted


def _prune_tenant(session: Session, tenant_id: TenantId, oldest: date) -> int:
    later = aliased(PolicyHits)
    hit_later = exists().where(
        later.tenant_id == PolicyHits.tenant_id,
        later.policy_id == PolicyHits.policy_id,
        later.version == PolicyHits.version,
        later.rule_id == PolicyHits.rule_id,
        later.day > PolicyHits.day,
    )
    in_force = exists().where(
        Policy.tenant_id == PolicyHits.tenant_id,
        Policy.id == PolicyHits.policy_id,
        Policy.published_version == PolicyHits.version,
    )
    result = session.execute(
        delete(PolicyHits).where(PolicyHits.tenant_id == tenant_id, PolicyHits.day < oldest, hit_later | ~in_force),
        execution_options={"synchronize_session": False},
    )
    assert isinstance(result, CursorResult)
    return result.rowcount

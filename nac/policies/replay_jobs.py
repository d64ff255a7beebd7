"""Replays and publications as somebody asks for them: of which policy and document, here and now or as a job."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from nac.clock import utc_now
from nac.decisions.recorded import count_up_to
from nac.ids import TenantId
from nac.jobs.runner import JobRun, SingleTransactionHandler
from nac.models import Tenant
from nac.policies import service as policies
from nac.policies.comparison import ReplayBaseline
from nac.policies.json_rows import replay_row
from nac.policies.replays import Replay, replay_policy

REPLAY_JOB, PUBLISH_JOB = "policies.replay", "policies.publish"
# A million take half a minute: so many are replayed while somebody waits for the answer.
MAX_INLINE_REQUESTS = 50_000


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """JSON of a job as well."""

    days: int
    # In place of what is stored.
    document: object | None = None
    # Slug; "" where the tenant has one only.
    policy: str = ""
    # Of the policy; the newest where none is said.
    version: int | None = None
    # Slug of the only site that counts.
    site: str = ""
    against: ReplayBaseline = "recorded"


def run_replay(
    session: Session, asked: ReplayOptions, *, tenant_id: TenantId, tell: Callable[[int], None] | None = None
) -> Replay:
    """`tell` is called with how many requests were replayed so far. Raises as `replay_policy`, and PolicyNotFound."""
    policy, document = None, asked.document
    # A draft at one site, or for a tenant without any policy, needs none.
    if asked.policy or document is None or (not asked.site and policies.list_page(session, tenant_id=tenant_id)):
        policy = policies.find_policy(session, tenant_id=tenant_id, slug=asked.policy)
    if document is None and policy is not None:
        stored = policies.require_newest_version(session, tenant_id=tenant_id, slug=policy.slug, number=asked.version)
        document = stored.document
    return replay_policy(
        session,
        tenant_id=tenant_id,
        document=document,
        policy_id=policy.id if policy else None,
        days=asked.days,
        site=asked.site,
        against=asked.against,
        tell=tell,
    )


def count_recorded_requests(session: Session, *, tenant_id: TenantId, days: int) -> int:
    """How many requests there are to replay; AT_ONCE_MOST + 1 where they are too many to be replayed at once."""
    since = utc_now() - timedelta(days=days)
    return count_up_to(session, tenant_id=tenant_id, since=since, most=MAX_INLINE_REQUESTS + 1)


def is_publishing_slow(session: Session, *, tenant_id: TenantId) -> bool:
    """Because of the replay that the tenant asks for."""
    days = session.get_one(Tenant, tenant_id).replay_days
    return days is not None and count_recorded_requests(session, tenant_id=tenant_id, days=days) > MAX_INLINE_REQUESTS


def _run_replay_job(session: Session, work: JobRun) -> Mapping[str, Any]:
    assert work.owner.tenant_id is not None
    asked = ReplayOptions(**work.input)
    return replay_row(run_replay(session, asked, tenant_id=work.owner.tenant_id, tell=work.tell))


def _run_publish_job(session: Session, work: JobRun) -> Mapping[str, Any]:
    """Input as `publish_policy`."""
    assert work.owner.tenant_id is not None
    version = policies.publish_policy(session, actor=work.actor, tenant_id=work.owner.tenant_id, **work.input)
    return {"slug": work.input["slug"], "version": version.number}


JOB_HANDLERS: Mapping[str, SingleTransactionHandler] = {
    REPLAY_JOB: SingleTransactionHandler(_run_replay_job),
    PUBLISH_JOB: SingleTransactionHandler(_run_publish_job),
}

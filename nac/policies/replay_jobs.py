"""Runs replays and publications, directly or as a job."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from nac.core.jobs.runner import JobRun, SingleTransactionHandler
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.models import Tenant
from nac.policies import service as policies
from nac.policies.comparison import ReplayBaseline
from nac.policies.json_rows import replay_row
from nac.policies.replays import Replay, replay_policy
from nac.sessions.decisions.recorded_requests import count_rows_up_to

REPLAY_JOB, PUBLISH_JOB = "policies.replay", "policies.publish"
# A replay of more requests runs as a job. A million requests take half a minute.
MAX_INLINE_REQUESTS = 50_000


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Parameters of a replay. The JSON input of a replay job has the same keys."""

    days: int
    # Policy document that decides the replayed requests, instead of a stored version.
    document: object | None = None
    # Slug of the policy; "" if the tenant has only one policy.
    policy: str = ""
    # Version of the policy; None for the newest.
    version: int | None = None
    # Slug of the site whose requests to replay; "" for all sites.
    site: str = ""
    against: ReplayBaseline = "recorded"


def run_replay(
    session: Session, parameters: ReplayOptions, *, tenant_id: TenantId, report: Callable[[int], None] | None = None
) -> Replay:
    """Run the replay. Calls `report` with the number of requests replayed so far.

    Raises PolicyNotFound and errors of `replay_policy`.
    """
    policy, document = None, parameters.document
    # With a document, no stored policy is needed if the replay is for one site, or if the tenant has no policies.
    if (
        parameters.policy
        or document is None
        or (not parameters.site and policies.list_page(session, tenant_id=tenant_id))
    ):
        policy = policies.find_policy(session, tenant_id=tenant_id, slug=parameters.policy)
    if document is None and policy is not None:
        stored = policies.require_newest_version(
            session, tenant_id=tenant_id, slug=policy.slug, number=parameters.version
        )
        document = stored.document
    return replay_policy(
        session,
        tenant_id=tenant_id,
        document=document,
        policy_id=policy.id if policy else None,
        days=parameters.days,
        site=parameters.site,
        against=parameters.against,
        report=report,
    )


def count_recorded_requests(session: Session, *, tenant_id: TenantId, days: int) -> int:
    """Count the requests to replay. The result is at most MAX_INLINE_REQUESTS + 1."""
    since = utc_now() - timedelta(days=days)
    return count_rows_up_to(session, tenant_id=tenant_id, since=since, most=MAX_INLINE_REQUESTS + 1)


def is_publishing_slow(session: Session, *, tenant_id: TenantId) -> bool:
    """Whether publishing takes long, because the tenant requires a replay of many requests."""
    days = session.get_one(Tenant, tenant_id).replay_days
    return days is not None and count_recorded_requests(session, tenant_id=tenant_id, days=days) > MAX_INLINE_REQUESTS


def _run_replay_job(session: Session, work: JobRun) -> Mapping[str, Any]:
    assert work.owner.tenant_id is not None
    parameters = ReplayOptions(**work.input)
    return replay_row(run_replay(session, parameters, tenant_id=work.owner.tenant_id, report=work.report))


def _run_publish_job(session: Session, work: JobRun) -> Mapping[str, Any]:
    """Publish the draft of a policy as a job. The job's input has the parameters of `publish_policy`."""
    assert work.owner.tenant_id is not None
    version = policies.publish_policy(session, actor=work.actor, tenant_id=work.owner.tenant_id, **work.input)
    return {"slug": work.input["slug"], "version": version.number}


JOB_HANDLERS: Mapping[str, SingleTransactionHandler] = {
    REPLAY_JOB: SingleTransactionHandler(_run_replay_job),
    PUBLISH_JOB: SingleTransactionHandler(_run_publish_job),
}

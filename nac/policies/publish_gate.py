"""Replay of recorded requests before the publication of a policy.

A tenant can require that users acknowledge the differences that the replay finds.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.orm import Session

from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.errors import Conflict
from nac.kit.ids import TenantId
from nac.models import Policy, Tenant
from nac.policies.json_rows import difference_rows, replay_row
from nac.policies.replays import Replay, replay_policy


class UnacknowledgedDifferences(Conflict):
    """The draft changes decisions about recorded requests. Nothing was published."""

    def __init__(self, replay: Replay, acknowledged: str) -> None:
        what = f"decisions of {replay.changed} of {replay.total} requests since {replay.since:%Y-%m-%d %H:%M} UTC"
        other = f" The digest {acknowledged} is not the current digest." if acknowledged else ""
        super().__init__(
            f"The draft changes {what}, in {replay.groups} group{'s' if replay.groups > 1 else ''}.{other}",
            place="replay",
            remedy=Advice(
                "Review the changed groups, then publish with the digest of the replay.",
                NextStep(parameters={"acknowledge": replay.digest}),
            ),
        )
        self.replay = replay

    @property
    def members(self) -> Mapping[str, Any]:
        return {"replay": replay_row(self.replay)}


def require_acknowledged(
    session: Session, *, actor: str, tenant_id: TenantId, policy: Policy, document: object, acknowledge: str
) -> dict[str, Any] | None:
    """Return the replay summary to store with the version; None if the tenant requires no replay.

    The replay compares the draft with the published version, for the requests of the last `replay_days` of the tenant.
    Raises UnacknowledgedDifferences if `acknowledge` is not the digest of the differences.
    """
    days = session.get_one(Tenant, tenant_id, populate_existing=True).replay_days
    if days is None:
        return None
    replay = replay_policy(
        session, tenant_id=tenant_id, document=document, policy_id=policy.id, days=days, against="published"
    )
    if replay.changed and acknowledge != replay.digest:
        raise UnacknowledgedDifferences(replay, acknowledge)
    kept: dict[str, Any] = {
        "days": days,
        "total": replay.total,
        "changed": replay.changed,
        "not_replayable": sum(replay.not_replayable.values()),
        "differences": [{**row, "examples": []} for row in difference_rows(replay)],
        "digest": replay.digest,
    }
    if replay.changed:
        kept |= {"acknowledged_by": actor, "acknowledged_at": utc_now().isoformat(timespec="seconds")}
    return kept

"""Suspends, resumes and deletes MSPs. Requires a session in PlatformScope.

Members and tokens of a suspended MSP have no access. The MSP's tenants continue to work, with their own members,
unless an operator also suspends the tenants.
"""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.db import enter_msp
from nac.kit.errors import Conflict
from nac.kit.ids import MspId
from nac.models import Msp
from nac.onboarding.templates import rollouts
from nac.tenancy import msps
from nac.tenancy.msps import require_msp


class MspHasTenants(Conflict):
    """The MSP has tenants."""


def suspend_msp(session: Session, *, actor: str, msp_id: MspId, with_tenants: bool = False) -> Msp:
    """Suspend the MSP, and stop its roll-outs.

    The MSP's members and tokens lose access. Tokens that the members created at tenants lose access, too.
    `with_tenants` also suspends the MSP's active tenants, even if the MSP is already suspended.
    """
    msp = require_msp(session, msp_id=msp_id, lock=True)
    was, msp.status = msp.status, "suspended"
    session.flush()
    enter_msp(session, msp_id)
    stopped = rollouts.stop_all_rollouts(session, actor=actor, msp_id=msp_id)
    tenants = msps.suspend_tenants(session, msp_id) if with_tenants else ()
    if was != msp.status or tenants:
        after = {"status": msp.status, "tenants": len(tenants), "rollouts": stopped}
        _audit(session, actor, msp, "suspend", {"status": was}, after)
    _audit_tenants(session, actor, msp, "suspend", tenants)
    return msp


def resume_msp(session: Session, *, actor: str, msp_id: MspId) -> Msp:
    """Resume the MSP, and the tenants that were suspended with the MSP. Roll-outs stay stopped."""
    msp = require_msp(session, msp_id=msp_id, lock=True)
    was, msp.status = msp.status, "active"
    session.flush()
    if was != msp.status:
        tenants = msps.resume_tenants(session, msp_id)
        _audit(session, actor, msp, "resume", {"status": was}, {"status": msp.status, "tenants": len(tenants)})
        _audit_tenants(session, actor, msp, "resume", tenants)
    return msp


def delete_msp(session: Session, *, actor: str, msp_id: MspId) -> None:
    """Delete the MSP with its members, roles, tokens, templates, jobs, sign-in rules and single sign-on.

    The MSP's audit log stays. Raises MspHasTenants if the MSP has a tenant. A tenant that is being deleted also counts,
    because the deletion can be cancelled.
    """
    msp = require_msp(session, msp_id=msp_id, lock=True)
    there, leaving = msps.count_tenants(session, msp_id)
    if there:
        detail = f"MSP {msp.slug!r} has tenants: {there}"
        detail += f", {leaving} of them being deleted." if leaving else "."
        raise MspHasTenants(
            detail, place="msp", remedy="Delete these tenants first and wait until Admit has removed them."
        )
    _audit(session, actor, msp, "delete", {"name": msp.name, "status": msp.status}, None)
    session.delete(msp)
    session.flush()


def _audit(
    session: Session, actor: str, msp: Msp, verb: str, before: dict[str, object], after: dict[str, object] | None
) -> None:
    action = f"msp.{verb}"
    audit.append(session, actor=actor, action=action, target=msp.slug, msp_id=msp.id, before=before, after=after)


def _audit_tenants(session: Session, actor: str, msp: Msp, verb: str, tenants: Sequence[msps.TenantRow]) -> None:
    was, now = ("active", "suspended") if verb == "suspend" else ("suspended", "active")
    entries = [
        {
            "actor": actor,
            "action": f"tenant.{verb}",
            "target": each.slug,
            "tenant_id": each.id,
            "msp_id": msp.id,
            "before": {"status": was},
            "after": {"status": now, "with_msp": msp.slug},
        }
        for each in tenants
    ]
    audit.append_in_batches(session, entries)

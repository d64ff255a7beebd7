"""Rules that select the members of endpoint groups.

The worker applies a new rule to all endpoints, and later to each endpoint that changes.
"""

from typing import Any, cast

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.inventory.endpoints.enrichment import ZERO_MAC
from nac.inventory.endpoints.rule_conditions import MAX_RULES, compile_rule
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import lock_quota
from nac.kit.errors import Conflict
from nac.kit.ids import TenantId
from nac.models import EndpointGroup, EndpointGroupMember


def update_group_rule(session: Session, *, actor: str, tenant_id: TenantId, name: str, rule: object) -> EndpointGroup:
    """Set the rule of a group to `rule`, a parsed JSON condition. None removes the rule and all members of the group.

    Raises InvalidRule with all mistakes, and Conflict if people added members to the group.
    """
    group = ENDPOINT_GROUPS.require(session, tenant_id=tenant_id, name=name)
    if rule is not None:
        compile_rule(rule)
    before = group.rule
    if rule == before:
        return group
    members = session.scalars(select(func.count()).where(EndpointGroupMember.group_id == group.id)).one()
    if before is None and members:
        raise Conflict(
            f"Group {name!r} has {members} members that people added.",
            place="rule",
            remedy="Create another group for the rule.",
        )
    if before is None and rule is not None:
        lock_quota(session, "group-rules", tenant_id)
        if _count_rules(session, tenant_id) >= MAX_RULES:
            raise Conflict(
                f"The tenant already has {MAX_RULES} groups by rule, the maximum.",
                place="rule",
                remedy="Delete groups by rule that you no longer need.",
            )
    group.rule = cast(dict[str, Any] | None, rule)
    group.rule_cursor = ZERO_MAC if rule is not None else None
    session.flush()
    if rule is None:
        _delete_members(session, group)
    audit.append(
        session,
        actor=actor,
        action="endpoint-group.set-rule",
        target=name,
        tenant_id=tenant_id,
        before={"rule": before},
        after={"rule": rule},
    )
    return group


def _count_rules(session: Session, tenant_id: TenantId) -> int:
    query = select(func.count()).where(EndpointGroup.tenant_id == tenant_id, EndpointGroup.rule.is_not(None))
    return session.scalars(query).one()


def _delete_members(session: Session, group: EndpointGroup) -> None:
    session.execute(delete(EndpointGroupMember).where(EndpointGroupMember.group_id == group.id))

"""Giving a group of endpoints its rule. The worker then asks all endpoints, and later each that changes."""

from typing import Any, cast

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.db.quotas import count_alone
from nac.endpoints.enrichment import NO_ADDRESS
from nac.endpoints.rules import MAX_RULES, compile_rule
from nac.errors import Conflict
from nac.groups import ENDPOINT_GROUPS
from nac.ids import TenantId
from nac.models import EndpointGroup, EndpointGroupMember


def set_rule(session: Session, *, actor: str, tenant_id: TenantId, name: str, rule: object) -> EndpointGroup:
    """`rule` is a condition as `json.loads` gives it; None makes the group one of people's again, without members.

    Raises InvalidRule with every mistake, and Conflict where people have put members into the group.
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
            f"The group {name!r} has {members} members that people put into it.",
            place="rule",
            remedy="Make another group for the rule.",
        )
    if before is None and rule is not None:
        count_alone(session, "group-rules", tenant_id)
        if _count_rules(session, tenant_id) >= MAX_RULES:
            raise Conflict(f"There are {MAX_RULES} groups by rule already.", place="rule", remedy="Remove some.")
    group.rule = cast(dict[str, Any] | None, rule)
    group.rule_cursor = NO_ADDRESS if rule is not None else None
    session.flush()
    if rule is None:
        _remove_members(session, group)
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


def _remove_members(session: Session, group: EndpointGroup) -> None:
    session.execute(delete(EndpointGroupMember).where(EndpointGroupMember.group_id == group.id))

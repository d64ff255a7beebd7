"""What a cell would find out about a stored endpoint or user, for requests that nobody has made yet.

As `radius.module.decision` does it from the replica, of the rows as they are now.
"""

import json
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from nac.endpoints import repository as endpoints
from nac.engine.matchers import Scalar
from nac.groups import ENDPOINT_GROUPS, USER_GROUPS
from nac.ids import TenantId
from nac.mac import is_random_mac
from nac.replica.compile import endpoint_record
from nac.users import repository as users

Values = tuple[Scalar, ...]


@dataclass(slots=True)
class Facts:
    """Engine attributes by name, and what stands in the way before a policy is asked."""

    values: dict[str, Values] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def stored_facts(session: Session, *, tenant_id: TenantId, mac: str, user: str, at: int) -> Facts:
    """`mac` in 12 hex digits; "" for none of either. `at` in epoch seconds."""
    facts = Facts()
    if mac:
        facts.values["mac.random"] = (is_random_mac(mac),)
        _add_endpoint(session, tenant_id, mac, at, facts)
    if user:
        _add_user(session, tenant_id, user, facts)
    return facts


def _add_endpoint(session: Session, tenant_id: TenantId, mac: str, at: int, facts: Facts) -> None:
    endpoint = endpoints.get_by_mac(session, tenant_id, mac)
    ends = endpoint.valid_until if endpoint else None
    expired = ends is not None and int(ends.timestamp()) <= at
    facts.values["endpoint.known"] = (endpoint is not None and not expired,)
    if endpoint is None:
        return
    if endpoint.status != "active":
        facts.notes.append("The stored endpoint is blocked: it is rejected before any policy is asked.")
    if expired:
        facts.notes.append("The approval of the stored endpoint has ended: it counts as unknown.")
        return
    groups = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[endpoint.id]).get(endpoint.id, ())
    row = str(endpoint.id), endpoint.name, endpoint.status, sorted(groups), 0, json.dumps(endpoint.attributes)
    record = endpoint_record(row)
    facts.values["endpoint.name"] = (record.name,)
    facts.values["endpoint.group"] = record.groups
    for name, value in record.attributes.items():
        facts.values[f"endpoint.attribute.{name}"] = (value,)


def _add_user(session: Session, tenant_id: TenantId, name: str, facts: Facts) -> None:
    user = users.get_by_name(session, tenant_id, name.casefold())
    if user is None:
        facts.notes.append(f"There is no user {name!r}: a login by that name is rejected before any policy is asked.")
        return
    if user.disabled:
        facts.notes.append("The stored user is disabled: it is rejected before any policy is asked.")
    groups = USER_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[user.id]).get(user.id, ())
    facts.values["user.group"] = tuple(sorted(groups))

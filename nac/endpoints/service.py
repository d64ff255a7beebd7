"""Endpoints of a tenant: devices known by MAC address. Groups of theirs are `nac.groups.ENDPOINT_GROUPS`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.endpoints import repository
from nac.errors import AlreadyExists, InvalidInput, NotFound
from nac.groups import ENDPOINT_GROUPS
from nac.ids import TenantId
from nac.mac import display_mac
from nac.models import Endpoint
from nac.models.endpoint import EndpointStatus
from nac.validation import require_future, require_mac, require_name

# Policies name them endpoint.attribute.<key>.
_ATTRIBUTE_KEY = re.compile(r"[a-z0-9_-]{1,63}")


_audit: audit.Recorder[Endpoint] = audit.Recorder("endpoint", lambda endpoint: display_mac(endpoint.mac))


class EndpointNotFound(NotFound):
    """There is no such endpoint."""


def add_endpoint(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    mac: str,
    name: str = "",
    groups: Iterable[str] = (),
    valid_until: datetime | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Endpoint:
    """`valid_until` (aware) ends the approval; None never."""
    mac = require_mac(mac)
    if repository.get_by_mac(session, tenant_id, mac):
        raise AlreadyExists(f"There is an endpoint {display_mac(mac)} already.", place="mac")
    endpoint = Endpoint(
        tenant_id=tenant_id,
        mac=mac,
        name=require_name(name) if name else "",
        valid_until=require_future(valid_until),
        attributes=_require_attributes(attributes or {}),
    )
    session.add(endpoint)
    session.flush()
    groups = sorted(groups)
    ENDPOINT_GROUPS.assign(session, tenant_id=tenant_id, member_id=endpoint.id, names=groups)
    after = {"name": endpoint.name, "groups": groups, "valid_until": valid_until and valid_until.isoformat()}
    _audit(session, actor, endpoint, "add", after=after)
    return endpoint


def remove_endpoint(session: Session, *, actor: str, tenant_id: TenantId, mac: str) -> None:
    endpoint = require_by_mac(session, tenant_id=tenant_id, mac=mac)
    session.delete(endpoint)
    session.flush()
    _audit(session, actor, endpoint, "remove", before={"name": endpoint.name, "status": endpoint.status})


def block_endpoint(session: Session, *, actor: str, tenant_id: TenantId, mac: str) -> Endpoint:
    """Rejected whatever its rules say, until it is unblocked."""
    return _change_status(session, actor, tenant_id, mac, "blocked", "block")


def unblock_endpoint(session: Session, *, actor: str, tenant_id: TenantId, mac: str) -> Endpoint:
    return _change_status(session, actor, tenant_id, mac, "active", "unblock")


def set_groups(session: Session, *, actor: str, tenant_id: TenantId, mac: str, groups: Iterable[str]) -> Endpoint:
    """Make `groups` the endpoint's groups, in place of those it is in."""
    endpoint = require_by_mac(session, tenant_id=tenant_id, mac=mac)
    before = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[endpoint.id]).get(endpoint.id, ())
    groups = sorted(groups)
    ENDPOINT_GROUPS.assign(session, tenant_id=tenant_id, member_id=endpoint.id, names=groups)
    _audit(session, actor, endpoint, "set-groups", before={"groups": before}, after={"groups": groups})
    return endpoint


def list_endpoints(
    session: Session, *, tenant_id: TenantId, after_mac: str = "", limit: int = 1000
) -> Sequence[Endpoint]:
    """By MAC address; page on with the last one's."""
    return repository.list_page(session, tenant_id, after_mac=after_mac, limit=limit)


def require_by_mac(session: Session, *, tenant_id: TenantId, mac: str) -> Endpoint:
    mac = require_mac(mac)
    endpoint = repository.get_by_mac(session, tenant_id, mac)
    if endpoint is None:
        raise EndpointNotFound(
            f"There is no endpoint {display_mac(mac)}.", place="mac", remedy="They are listed by: ./admit endpoint list"
        )
    return endpoint


def _change_status(
    session: Session, actor: str, tenant_id: TenantId, mac: str, to: EndpointStatus, verb: str
) -> Endpoint:
    endpoint = require_by_mac(session, tenant_id=tenant_id, mac=mac)
    if endpoint.status != to:
        before, endpoint.status = endpoint.status, to
        session.flush()
        _audit(session, actor, endpoint, verb, before={"status": before}, after={"status": to})
    return endpoint


def _require_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    if bad := [key for key in attributes if not _ATTRIBUTE_KEY.fullmatch(key)]:
        raise InvalidInput(
            f"No attribute name: {', '.join(map(repr, bad))}.",
            place="attributes",
            remedy="Use 1 to 63 of a-z, 0-9, _ and -.",
        )
    return dict(attributes)

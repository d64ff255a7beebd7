"""Endpoints of a tenant: devices that a MAC address identifies. For groups of endpoints, see `nac.inventory.groups`.

The module also has two functions for the worker: `expire_discovered` deletes discovered and ignored endpoints that were
not seen for a long time. `record_expired_approvals` records approvals whose end has passed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import CursorResult, delete, func, or_, select
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.engine import ComparisonTrace
from nac.inventory.endpoints import enrichment, repository
from nac.inventory.endpoints.enrichment import IS_RANDOM_ENDPOINT, delete_sightings
from nac.inventory.endpoints.repository import ORDERS as ORDERS
from nac.inventory.endpoints.repository import EndpointCriteria, EndpointView, EndpointWithSighting
from nac.inventory.endpoints.rule_conditions import compile_rule, explain_membership
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.inventory.holder_certificates import require_no_good_certificates
from nac.inventory.profiling.classifier import load_packaged_profiles
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db.queries import BoundedPage
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AlreadyExists, InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac, is_random_mac
from nac.kit.validation import require_future, require_mac, require_name
from nac.models import Endpoint, EndpointEvidence, EndpointSighting
from nac.models.endpoint import EndpointStatus
from nac.sessions.coa_requests import request_queue
from nac.tenancy import trial_limits

__all__ = [
    "EndpointCriteria",
    "EndpointNotFound",
    "EndpointWithSighting",
    "RandomAddress",
    "create_endpoint",
    "list_endpoints",
    "require_by_mac",
]

# Allowed names of attributes. Policies use an attribute as endpoint.attribute.<name>.
_ATTRIBUTE_KEY = re.compile(r"[a-z0-9_-]{1,63}")
_MAX_NOTES = 2_000
_MAX_ATTRIBUTE = 255


_audit: audit.AuditRecorder[Endpoint] = audit.AuditRecorder("endpoint", lambda endpoint: display_mac(endpoint.mac))


class EndpointNotFound(NotFound):
    """The endpoint does not exist."""


class RandomAddress(InvalidInput):
    """The MAC address is random: the device generated it and can change it at any time."""


def require_not_random(macs: Iterable[str], *, allow_random: bool, place: str = "mac") -> None:
    """Raise RandomAddress for locally administered addresses (IEEE 802c), unless `allow_random` is set."""
    if allow_random:
        return
    made_up = [mac for mac in macs if is_random_mac(mac)]
    if made_up:
        examples = ", ".join(display_mac(mac) for mac in made_up[:5]) + (" ..." if len(made_up) > 5 else "")
        raise RandomAddress(
            f"{len(made_up)} of the addresses {'is' if len(made_up) == 1 else 'are'} random ({examples})."
            " Devices change such addresses, and approval would admit any device that uses the same address.",
            place=place,
            remedy=Advice(
                "Turn off the private address on the device for this network, or approve random addresses.",
                NextStep(parameters={"allow_random": "true"}),
            ),
        )


def create_endpoint(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    mac: str,
    name: str = "",
    groups: Iterable[str] = (),
    valid_until: datetime | None = None,
    attributes: Mapping[str, str] | None = None,
    owner: str = "",
    notes: str = "",
    allow_random: bool = False,
) -> Endpoint:
    """Create an approved endpoint, or approve a discovered or ignored endpoint.

    The approval ends at `valid_until` (with time zone); None means never.
    """
    mac = require_mac(mac)
    require_not_random([mac], allow_random=allow_random)
    endpoint = repository.get_by_mac(session, tenant_id, mac, lock=True)
    if endpoint is not None and endpoint.status in ("active", "blocked"):
        raise AlreadyExists(f"Endpoint {display_mac(mac)} already exists.", place="mac")
    values: dict[str, Any] = {
        "name": require_name(name) if name else "",
        "valid_until": require_future(valid_until),
        "attributes": require_attributes(attributes or {}),
        "owner": require_name(owner, place="owner") if owner else "",
        "notes": require_notes(notes),
        "status": "active",
    }
    if endpoint is None:
        endpoint = Endpoint(tenant_id=tenant_id, mac=mac)
        session.add(endpoint)
    for column, value in values.items():
        setattr(endpoint, column, value)
    trial_limits.require_endpoint_limit(session, tenant_id=tenant_id)
    groups = sorted(groups)
    ENDPOINT_GROUPS.assign(session, tenant_id=tenant_id, member_id=endpoint.id, names=groups)
    enrichment.enqueue(session, tenant_id=tenant_id, macs=[mac])
    after = {"name": endpoint.name, "groups": groups, "valid_until": valid_until and valid_until.isoformat()}
    _audit(session, actor, endpoint, "add", after=after)
    return endpoint


class Unset:
    """Type of the argument `UNSET`, which leaves a stored value unchanged. None removes the stored value instead."""


UNSET = Unset()


def update_endpoint(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    mac: str,
    name: str | None = None,
    owner: str | None = None,
    notes: str | None = None,
    groups: Iterable[str] | None = None,
    valid_until: datetime | Unset | None = UNSET,
    attributes: Mapping[str, str | None] | None = None,
    profile: str | None = None,
) -> Endpoint:
    """Change an endpoint. Arguments of None (for `valid_until`: UNSET) leave the stored values unchanged.

    `attributes` has only the attributes to change; the value None deletes an attribute. With `profile` "", the endpoint
    gets the profile that Admit derives, instead of a profile that a person set.
    """
    endpoint = require_by_mac(session, tenant_id=tenant_id, mac=mac, lock=True)
    changed: dict[str, Any] = {}
    if name is not None:
        changed["name"] = require_name(name) if name else ""
    if owner is not None:
        changed["owner"] = require_name(owner, place="owner") if owner else ""
    if notes is not None:
        changed["notes"] = require_notes(notes)
    if not isinstance(valid_until, Unset):
        changed["valid_until"] = require_future(valid_until)
    if attributes is not None:
        merged = {**endpoint.attributes, **attributes}
        changed["attributes"] = require_attributes({key: text for key, text in merged.items() if text is not None})
    if profile is not None:
        changed["set_profile"] = _require_profile(profile)
    before = {column: _to_json_value(getattr(endpoint, column)) for column in changed}
    for column, value in changed.items():
        setattr(endpoint, column, value)
    session.flush()
    if groups is not None:
        update_groups(session, actor=actor, tenant_id=tenant_id, mac=mac, groups=groups)
    enrichment.enqueue(session, tenant_id=tenant_id, macs=[endpoint.mac])
    after = {column: _to_json_value(value) for column, value in changed.items()}
    if before != after:
        _audit(session, actor, endpoint, "set", before=before, after=after)
    return endpoint


def delete_endpoint(session: Session, *, actor: str, tenant_id: TenantId, mac: str) -> None:
    """Delete an endpoint. After a later sighting, Admit creates a discovered endpoint.

    Raises InUse while the endpoint has valid certificates.
    """
    endpoint = require_by_mac(session, tenant_id=tenant_id, mac=mac, lock=True)
    require_no_good_certificates(
        session,
        endpoint,
        remedy=Advice(
            "Revoke the certificates of the endpoint first",
            NextStep("revokeCertificatesOfHolder", {"endpoint": display_mac(endpoint.mac)}),
        ),
    )
    session.delete(endpoint)
    session.flush()
    repository.delete_sightings(session, tenant_id, endpoint.mac)
    _audit(session, actor, endpoint, "remove", before={"name": endpoint.name, "status": endpoint.status})


def block_endpoint(session: Session, *, actor: str, tenant_id: TenantId, mac: str) -> Endpoint:
    """Block an endpoint, and queue Disconnect-Requests (RFC 5176) for its live sessions.

    Regardless of the policy, Admit rejects all requests of the endpoint until a user unblocks the endpoint.
    """
    endpoint = _change_status(session, actor, tenant_id, mac, "blocked", "block")
    request_queue.queue_block_disconnects(session, tenant_id=tenant_id, macs=[endpoint.mac], requested_by=actor)
    return endpoint


def unblock_endpoint(session: Session, *, actor: str, tenant_id: TenantId, mac: str) -> Endpoint:
    """Unblock an endpoint, and cancel queued Disconnect-Requests for its sessions.

    Raises InvalidInput if the endpoint is discovered or ignored.
    """
    endpoint = require_by_mac(session, tenant_id=tenant_id, mac=mac)
    if endpoint.status not in ("active", "blocked"):
        raise InvalidInput(
            f"{display_mac(endpoint.mac)} is {endpoint.status}, not blocked.",
            place="mac",
            remedy=Advice("Approve it", NextStep("classifyEndpoints", {"action": "approve"})),
        )
    endpoint = _change_status(session, actor, tenant_id, mac, "active", "unblock")
    request_queue.withdraw_block_disconnects(session, tenant_id=tenant_id, macs=[endpoint.mac])
    return endpoint


def update_groups(session: Session, *, actor: str, tenant_id: TenantId, mac: str, groups: Iterable[str]) -> Endpoint:
    """Replace the groups of an endpoint, except groups by rule."""
    endpoint = require_by_mac(session, tenant_id=tenant_id, mac=mac)
    found = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[endpoint.id], by_rule=False)
    before = tuple(sorted(found.get(endpoint.id, ())))
    after = ENDPOINT_GROUPS.assign(session, tenant_id=tenant_id, member_id=endpoint.id, names=groups)
    if after != before:
        _audit(session, actor, endpoint, "set-groups", before={"groups": before}, after={"groups": after})
    return endpoint


def list_endpoints(
    session: Session, *, tenant_id: TenantId, wanted: EndpointCriteria | None = None, span: PageSpan | None = None
) -> Sequence[EndpointWithSighting]:
    """List endpoints with their sightings."""
    return repository.list_page(session, tenant_id, wanted or EndpointCriteria(), span=span or ORDERS.first())


def search_endpoints(
    session: Session, *, tenant_id: TenantId, wanted: EndpointCriteria, span: PageSpan | None = None
) -> BoundedPage[EndpointWithSighting]:
    """List like `list_endpoints`, but read only a bounded number of rows. The page can therefore be incomplete."""
    return repository.search_endpoints(session, tenant_id, wanted, span=span or ORDERS.first())


def search_endpoint_views(
    session: Session, *, tenant_id: TenantId, wanted: EndpointCriteria, span: PageSpan | None = None
) -> BoundedPage[EndpointView]:
    """Search like `search_endpoints`, but return only the columns that lists of endpoints show."""
    return repository.search_views(session, tenant_id, wanted, span=span or ORDERS.first())


def require_endpoint_view(session: Session, *, tenant_id: TenantId, mac: str) -> EndpointView:
    """Return one endpoint, with only the columns that lists of endpoints show. Raises EndpointNotFound."""
    mac = require_mac(mac)
    found = repository.list_views(session, tenant_id, EndpointCriteria(macs=(mac,)), span=ORDERS.first(1))
    if not found:
        raise _not_found_error(mac)
    return found[0]


def _not_found_error(mac: str) -> EndpointNotFound:
    return EndpointNotFound(
        f"Endpoint {display_mac(mac)} does not exist.", place="mac", remedy=Advice("List endpoints", "listEndpoints")
    )


def require_with_sighting(session: Session, *, tenant_id: TenantId, mac: str) -> EndpointWithSighting:
    """Return one endpoint with its sighting. Raises EndpointNotFound."""
    mac = require_mac(mac)
    found = repository.list_page(session, tenant_id, EndpointCriteria(macs=(mac,)), span=ORDERS.first(1))
    if not found:
        raise _not_found_error(mac)
    return found[0]


def require_by_mac(session: Session, *, tenant_id: TenantId, mac: str, lock: bool = False) -> Endpoint:
    mac = require_mac(mac)
    endpoint = repository.get_by_mac(session, tenant_id, mac, lock=lock)
    if endpoint is None:
        raise _not_found_error(mac)
    return endpoint


def list_evidence(session: Session, *, tenant_id: TenantId, mac: str) -> Sequence[EndpointEvidence]:
    return repository.list_evidence(session, tenant_id, require_mac(mac))


def explain_rule_memberships(
    session: Session, *, tenant_id: TenantId, endpoint: Endpoint
) -> dict[str, tuple[ComparisonTrace, ...]]:
    """Map the name of each of the endpoint's groups by rule to the comparisons that make the endpoint a member."""
    groups = ENDPOINT_GROUPS.list_for_member(session, tenant_id=tenant_id, member_id=endpoint.id)
    return {
        group.name: explain_membership(compile_rule(group.rule), endpoint) for group in groups if group.rule is not None
    }


def require_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    if bad := [key for key in attributes if not _ATTRIBUTE_KEY.fullmatch(key)]:
        raise InvalidInput(
            f"Invalid attribute names: {', '.join(map(repr, bad))}.",
            place="attributes",
            remedy="Use 1 to 63 characters of a-z, 0-9, _ and -.",
        )
    if bad := [key for key, text in attributes.items() if len(text) > _MAX_ATTRIBUTE or not _is_storable(text)]:
        raise InvalidInput(
            f"Invalid values of attributes: {', '.join(map(repr, bad))}.",
            place="attributes",
            remedy=f"Use up to {_MAX_ATTRIBUTE} characters, without NUL.",
        )
    return dict(attributes)


def _is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store the text: the text must not contain NUL or lone surrogates."""
    return "\0" not in text and text == text.encode("utf-8", "ignore").decode()


def require_notes(text: str) -> str:
    if len(text) > _MAX_NOTES or not _is_storable(text):
        raise InvalidInput(
            "The notes are too long or contain invalid characters.",
            place="notes",
            remedy=f"Use up to {_MAX_NOTES} characters, without NUL.",
        )
    return text


def _require_profile(name: str) -> str:
    titles = load_packaged_profiles().titles
    if name and name not in titles:
        raise InvalidInput(
            f"Unknown profile {name!r}.", place="profile", remedy=f"Use one of: {', '.join(sorted(titles))}."
        )
    return name


def _to_json_value(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def _change_status(
    session: Session, actor: str, tenant_id: TenantId, mac: str, to: EndpointStatus, verb: str
) -> Endpoint:
    endpoint = require_by_mac(session, tenant_id=tenant_id, mac=mac, lock=True)
    if endpoint.status != to:
        before, endpoint.status = endpoint.status, to
        session.flush()
        _audit(session, actor, endpoint, verb, before={"status": before}, after={"status": to})
    return endpoint


BATCH_SIZE = 1_000
EXPIRE_AFTER = timedelta(days=30)
# Most phones change their random address daily, or use another address in each network.
RANDOM_EXPIRE_AFTER = timedelta(days=1)
DISCOVERED_BATCH_SIZE = 5_000


def record_expired_approvals(session: Session) -> int:
    """Write an event note for each of a batch of expired approvals of all tenants. Returns the size of the batch.

    Requires the database role admit_worker and a session in PlatformScope.
    """
    return session.scalar(select(func.note_expired_endpoints(BATCH_SIZE))) or 0


def expire_discovered(session: Session, *, tenant_id: TenantId) -> int:
    """Delete up to `DISCOVERED_BATCH_SIZE` discovered or ignored endpoints. Returns the number of deleted endpoints.

    The time since the last sighting must exceed `EXPIRE_AFTER`, or `RANDOM_EXPIRE_AFTER` for random addresses.
    """
    now = utc_now()
    last_seen = func.coalesce(EndpointSighting.last_seen_at, Endpoint.first_seen_at, Endpoint.created_at)
    stale = (
        select(Endpoint.id, Endpoint.mac)
        .outerjoin(
            EndpointSighting,
            (EndpointSighting.tenant_id == Endpoint.tenant_id) & (EndpointSighting.mac == Endpoint.mac),
        )
        .where(
            Endpoint.tenant_id == tenant_id,
            Endpoint.status.in_(("discovered", "ignored")),
            or_(last_seen < now - EXPIRE_AFTER, IS_RANDOM_ENDPOINT & (last_seen < now - RANDOM_EXPIRE_AFTER)),
        )
        .limit(DISCOVERED_BATCH_SIZE)
        .with_for_update(of=Endpoint, skip_locked=True)
    )
    found = session.execute(stale).all()
    if not found:
        return 0
    ids = [endpoint_id for endpoint_id, _ in found]
    deleted = session.execute(delete(Endpoint).where(Endpoint.tenant_id == tenant_id, Endpoint.id.in_(ids)))
    assert isinstance(deleted, CursorResult)
    delete_sightings(session, tenant_id=tenant_id, macs=[mac for _, mac in found])
    return deleted.rowcount

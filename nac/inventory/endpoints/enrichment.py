"""Enrichment: creates endpoints from sightings, and sets the vendor, device profile and groups by rule of endpoints.

Each tenant has a queue of MAC addresses that are new, or whose vendor, profile or groups by rule may have changed. The
worker processes the queue in batches. The worker does not write unchanged rows, so cells receive no needless changes.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Function, delete, func, insert, literal_column, select, text, type_coerce
from sqlalchemy.dialects.postgresql import insert as insert_or_skip
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value
from sqlalchemy.types import NullType

from nac.engine import Policy
from nac.inventory.endpoints.rule_conditions import InvalidRule, compile_rule, is_member
from nac.inventory.profiling.classifier import load_packaged_profiles
from nac.inventory.profiling.evidence import Evidence
from nac.inventory.profiling.oui import load_registry
from nac.kit.db import force_ctid_scan
from nac.kit.ids import TenantId
from nac.kit.mac import is_random_mac
from nac.models import Endpoint, EndpointEvidence, EndpointGroup, EndpointGroupMember, EndpointSighting, EndpointWork

# Length of a tenant's queue above which agents store no sightings of new addresses and no evidence
# (radius/agent/shipping/sightings.py). If people change endpoints, Admit always queues the addresses of the endpoints.
MAX_WAITING = 100_000
_TENANTS_SQL = text("SELECT tenants_with_endpoint_work()")
_OLDEST_SQL = text("SELECT ctid::text FROM endpoint_work WHERE tenant_id = :tenant ORDER BY id LIMIT :limit")
_TAKE_SQL = text(
    "DELETE FROM endpoint_work WHERE tenant_id = :tenant AND ctid = ANY (CAST(:places AS tid[])) "
    "RETURNING replace(mac::text, ':', '')"
)


def enqueue(session: Session, *, tenant_id: TenantId, macs: Iterable[str]) -> None:
    """Queue MAC addresses. The worker processes them within a second after the commit."""
    rows = [{"tenant_id": tenant_id, "mac": mac} for mac in macs]
    if rows:
        session.execute(insert(EndpointWork), rows)


def list_tenants(session: Session) -> Sequence[UUID]:
    """Return tenants whose queue is not empty. Requires the database role admit_worker."""
    return session.scalars(_TENANTS_SQL).all()


def try_lock_queue(session: Session, *, tenant_id: TenantId) -> bool:
    """Lock the tenant's queue until the transaction ends. Returns False if another worker has the lock."""
    return bool(session.scalar(select(func.pg_try_advisory_xact_lock(*_lock_key(tenant_id)))))


def lock_queue(session: Session, *, tenant_id: TenantId) -> None:
    """Lock the tenant's queue until the transaction ends. Waits if another transaction has the lock."""
    session.execute(select(func.pg_advisory_xact_lock(*_lock_key(tenant_id))))


def _lock_key(tenant_id: TenantId) -> tuple[Function[int], Function[int]]:
    return func.hashtext("endpoint_work"), func.hashtext(str(tenant_id))


def take_batch(session: Session, *, tenant_id: TenantId, limit: int) -> set[str]:
    """Remove up to `limit` addresses from the queue, oldest first, and return them.

    If another transaction queues one of these addresses again meanwhile, the address stays in the queue.
    """
    places = session.scalars(_OLDEST_SQL, {"tenant": tenant_id, "limit": limit}).all()
    if not places:
        return set()
    with force_ctid_scan(session):
        return set(session.scalars(_TAKE_SQL, {"tenant": tenant_id, "places": places}))


_log = logging.getLogger(__name__)

# Number of rows that one transaction locks. Other changes of these rows wait for this transaction.
BATCH_SIZE = 100
# Maximum number of discovered endpoints per tenant. At most half of these endpoints can have random addresses, because
# devices can use very many random addresses.
MAX_DISCOVERED = 50_000
MAX_DISCOVERED_RANDOM = MAX_DISCOVERED // 2
ZERO_MAC = "000000000000"

# The same check as nac.kit.mac.is_random_mac, in SQL.
_LOCAL_BIT: ColumnElement[Any] = literal_column("macaddr '02:00:00:00:00:00'")
_ZERO_MACADDR: ColumnElement[Any] = literal_column("macaddr '00:00:00:00:00:00'")


def random_mac_clause(mac: Any) -> ColumnElement[bool]:  # noqa: ANN401 -- a mapped column
    return type_coerce(mac, NullType()).bool_op("&")(_LOCAL_BIT) != _ZERO_MACADDR


IS_RANDOM_ENDPOINT = random_mac_clause(Endpoint.mac)
_UPDATE_SQL = text(
    """
    UPDATE endpoints e SET first_seen_at = f.first_seen_at, vendor = f.vendor, found_profile = f.found_profile,
        found_confidence = f.found_confidence, found_why = f.found_why, os = f.os, model = f.model, updated_at = now()
    FROM jsonb_to_recordset(CAST(:found AS jsonb)) f (
        id uuid, first_seen_at timestamptz, vendor text, found_profile text, found_confidence int, found_why jsonb,
        os text, model text
    )
    WHERE e.tenant_id = :tenant AND e.id = f.id
    """
)


def enrich_batch(session: Session, *, tenant_id: TenantId) -> int:
    """Process a batch of the tenant's queue. Returns the number of processed addresses; 0 if the queue is empty or
    another worker has locked it."""
    if not try_lock_queue(session, tenant_id=tenant_id):
        return 0
    macs = take_batch(session, tenant_id=tenant_id, limit=BATCH_SIZE)
    if macs:
        rules = _lock_rules(session, tenant_id)
        _discover(session, tenant_id, macs)
        found = _lock_endpoints(session, tenant_id, Endpoint.mac.in_(macs))
        _update_profiles(session, tenant_id, found)
        _assign_groups(session, tenant_id, found, rules)
    return len(macs) + _advance_rules(session, tenant_id)


def _lock_endpoints(session: Session, tenant_id: TenantId, *where: ColumnElement[bool]) -> Sequence[Endpoint]:
    """Lock and return endpoints, so that no other transaction deletes them. To avoid deadlocks, all transactions lock
    endpoints in the order of their MAC addresses."""
    query = select(Endpoint).where(Endpoint.tenant_id == tenant_id, *where).order_by(Endpoint.mac)
    query = query.with_for_update(key_share=True)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def _discover(session: Session, tenant_id: TenantId, macs: Collection[str]) -> None:
    """Create endpoints for those addresses that have a sighting but no endpoint, up to the limit MAX_DISCOVERED."""
    known = session.scalars(select(Endpoint.mac).where(Endpoint.tenant_id == tenant_id, Endpoint.mac.in_(macs)))
    unknown = set(macs).difference(known)
    if not unknown:
        return
    seen = session.execute(
        select(EndpointSighting.mac, EndpointSighting.first_seen_at)
        .where(EndpointSighting.tenant_id == tenant_id, EndpointSighting.mac.in_(unknown))
        .order_by(EndpointSighting.first_seen_at, EndpointSighting.mac)
    ).all()
    if not seen:
        return
    room, random_room = _remaining_capacity(session, tenant_id)
    vendors = load_registry()
    rows, left_out = [], []
    for mac, first_seen_at in seen:
        random = is_random_mac(mac)
        if room <= 0 or (random and random_room <= 0):
            left_out.append(mac)
            continue
        room, random_room = room - 1, random_room - random
        # Set these values when the row is created, because the event about the discovery contains them.
        known_values = {"vendor": vendors.vendor(mac), "first_seen_at": first_seen_at}
        rows.append({"tenant_id": tenant_id, "mac": mac, "status": "discovered", **known_values})
    if rows:
        session.execute(insert_or_skip(Endpoint).on_conflict_do_nothing(), rows)
    delete_sightings(session, tenant_id=tenant_id, macs=left_out)


def _remaining_capacity(session: Session, tenant_id: TenantId) -> tuple[int, int]:
    """Return how many more discovered endpoints Admit can create: in total, and with random addresses."""
    waiting, random = session.execute(
        select(func.count(), func.count().filter(IS_RANDOM_ENDPOINT)).where(
            Endpoint.tenant_id == tenant_id, Endpoint.status == "discovered"
        )
    ).one()
    return MAX_DISCOVERED - waiting, MAX_DISCOVERED_RANDOM - random


def delete_sightings(session: Session, *, tenant_id: TenantId, macs: Collection[str]) -> None:
    """Delete sightings and evidence of those addresses that have no endpoint.

    If such an address appears again later, Admit records a first sighting.
    """
    for table in (EndpointSighting, EndpointEvidence):
        session.execute(delete(table).where(table.tenant_id == tenant_id, table.mac.in_(macs)))


def _update_profiles(session: Session, tenant_id: TenantId, endpoints: Sequence[Endpoint]) -> None:
    macs = [endpoint.mac for endpoint in endpoints]
    evidence: defaultdict[str, list[Evidence]] = defaultdict(list)
    for row in session.scalars(
        select(EndpointEvidence)
        .where(EndpointEvidence.tenant_id == tenant_id, EndpointEvidence.mac.in_(macs))
        .order_by(EndpointEvidence.source, EndpointEvidence.key)
    ):
        evidence[row.mac].append(Evidence(row.source, row.key, row.value))
    seen = {
        sighting.mac: sighting.first_seen_at
        for sighting in session.execute(
            select(EndpointSighting.mac, EndpointSighting.first_seen_at).where(
                EndpointSighting.tenant_id == tenant_id, EndpointSighting.mac.in_(macs)
            )
        )
    }
    vendors, profiles = load_registry(), load_packaged_profiles()
    changed: list[dict[str, Any]] = []
    for endpoint in endpoints:
        vendor = vendors.vendor(endpoint.mac)
        found = profiles.classify(mac=endpoint.mac, vendor=vendor, evidence=evidence[endpoint.mac])
        values = {
            "first_seen_at": endpoint.first_seen_at or seen.get(endpoint.mac),
            "vendor": vendor,
            "found_profile": found.profile,
            "found_confidence": found.confidence,
            "found_why": [reason._asdict() for reason in found.why],
            "os": found.os,
            "model": found.model,
        }
        if any(getattr(endpoint, name) != value for name, value in values.items()):
            changed.append({"id": endpoint.id, **values})
            for name, value in values.items():
                set_committed_value(endpoint, name, value)
    if changed:
        session.execute(_UPDATE_SQL, {"tenant": tenant_id, "found": json.dumps(changed, default=str)})


def _lock_rules(session: Session, tenant_id: TenantId) -> dict[UUID, Policy]:
    """Lock the tenant's groups by rule, and return their compiled rules by group id.

    A transaction that deletes a rule waits for the lock, and then removes the members of the group.
    """
    groups = session.execute(
        select(EndpointGroup.id, EndpointGroup.rule)
        .where(EndpointGroup.tenant_id == tenant_id, EndpointGroup.rule.is_not(None))
        .order_by(EndpointGroup.id)
        .with_for_update(read=True)
    )
    return {group_id: policy for group_id, rule in groups if (policy := _compile_or_none(group_id, rule)) is not None}


def _compile_or_none(group_id: UUID, rule: object) -> Policy | None:
    """Return the compiled rule, or None if this version of Admit rejects the rule.

    While a rule is rejected, the members of its group do not change.
    """
    try:
        return compile_rule(rule)
    except InvalidRule as exc:
        _log.warning("cannot evaluate the rule of group %s: %s", group_id, exc)
        return None


def _assign_groups(
    session: Session, tenant_id: TenantId, endpoints: Sequence[Endpoint], rules: Mapping[UUID, Policy]
) -> None:
    """Add the endpoints to the groups whose rules they match, and remove them from the other groups in `rules`."""
    if not rules or not endpoints:
        return
    ids = [endpoint.id for endpoint in endpoints]
    members = EndpointGroupMember
    present = {
        (endpoint_id, group_id)
        for endpoint_id, group_id in session.execute(
            select(members.endpoint_id, members.group_id).where(
                members.tenant_id == tenant_id, members.endpoint_id.in_(ids), members.group_id.in_(rules)
            )
        )
    }
    wanted = {(each.id, group_id) for each in endpoints for group_id, rule in rules.items() if is_member(rule, each)}
    _insert_memberships(session, tenant_id, wanted - present)
    for group_id in rules:
        gone = [endpoint_id for endpoint_id, of in present - wanted if of == group_id]
        if gone:
            session.execute(delete(members).where(members.group_id == group_id, members.endpoint_id.in_(gone)))


def _insert_memberships(session: Session, tenant_id: TenantId, pairs: Iterable[tuple[UUID, UUID]]) -> None:
    rows = [{"tenant_id": tenant_id, "endpoint_id": each, "group_id": group} for each, group in pairs]
    if rows:
        session.execute(insert(EndpointGroupMember), rows)


def _advance_rules(session: Session, tenant_id: TenantId) -> int:
    """Apply a new rule of a group to the next batch of endpoints, in the order of MAC addresses.

    Returns the number of endpoints in the batch; 0 if no group has a new rule.
    """
    pending = session.scalars(
        select(EndpointGroup)
        .where(EndpointGroup.tenant_id == tenant_id, EndpointGroup.rule_cursor.is_not(None))
        .order_by(EndpointGroup.rule_cursor)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).all()
    if not pending:
        return 0
    group = pending[0]
    query = (
        select(Endpoint)
        .where(Endpoint.tenant_id == tenant_id, Endpoint.mac > group.rule_cursor)
        .order_by(Endpoint.mac)
        .limit(BATCH_SIZE)
        .with_for_update(read=True, key_share=True)
    )
    found = session.scalars(query).all()
    rule = _compile_or_none(group.id, group.rule)
    if rule is not None:
        _assign_groups(session, tenant_id, found, {group.id: rule})
    group.rule_cursor = found[-1].mac if len(found) == BATCH_SIZE else None
    session.flush()
    return max(1, len(found))

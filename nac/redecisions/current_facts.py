"""Current data about the devices, users and NASes of a page of sessions. A few queries load the data."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.cellformat.replica.records import EndpointRecord
from nac.inventory.endpoints.rule_conditions import build_record
from nac.inventory.groups import USER_GROUPS
from nac.kit.ids import TenantId
from nac.models import Endpoint, EndpointGroup, EndpointGroupMember, Nas, Tenant, User
from nac.redecisions.certificate_trust import TenantTrust
from nac.redecisions.live_sessions import RecordedDecision


class KnownEndpoint(NamedTuple):
    record: EndpointRecord
    # Whether the endpoint or one of its groups has a passphrase.
    has_passphrase: bool


class KnownUser(NamedTuple):
    disabled: bool
    # Epoch seconds; 0 for no end.
    valid_until: int
    groups: tuple[str, ...]


class CurrentFacts:
    """Current data about the devices, users and NASes that recorded requests name."""

    def __init__(self, session: Session, tenant_id: TenantId, recorded: Collection[RecordedDecision]) -> None:
        tenant = session.get_one(Tenant, tenant_id, populate_existing=True)
        self.default_site_id = tenant.default_site_id
        self.tenant = tenant
        requests = [each.request for each in recorded]
        macs = {str(mac) for request in requests for mac in request.get("mac", ())}
        names = {each.identity.casefold() for each in recorded if each.identity}
        self.endpoints = _load_endpoints(session, tenant_id, macs)
        self.users = _load_users(session, tenant_id, names)
        self.trust = TenantTrust(
            session, tenant, sorted({e.certificate_serial for e in recorded if e.certificate_serial})
        )
        self._nases = _load_nases(session, tenant_id, recorded)

    def nas_of(self, recorded: RecordedDecision) -> Nas | None:
        """Find the NAS by identifier or address, as the cell does. Without a match, return the recorded NAS, if any."""
        return (
            self._nases.get(("identifier", recorded.nas_identifier))
            or self._nases.get(("address", recorded.nas_address))
            or self._nases.get(("id", str(recorded.nas_id)))
        )


def _load_nases(
    session: Session, tenant_id: TenantId, recorded: Collection[RecordedDecision]
) -> Mapping[tuple[str, str], Nas]:
    identifiers = {each.nas_identifier for each in recorded if each.nas_identifier}
    addresses = {each.nas_address for each in recorded if each.nas_address}
    ids = {each.nas_id for each in recorded if each.nas_id}
    query = select(Nas).where(
        Nas.tenant_id == tenant_id,
        Nas.identifier.in_(identifiers) | Nas.address.in_(addresses) | Nas.id.in_(ids),
    )
    found: dict[tuple[str, str], Nas] = {}
    for nas in session.scalars(query.execution_options(populate_existing=True)):
        found["id", str(nas.id)] = nas
        if nas.identifier:
            found["identifier", nas.identifier] = nas
        if nas.address:
            found["address", nas.address] = nas
    return found


def _load_endpoints(session: Session, tenant_id: TenantId, macs: Collection[str]) -> Mapping[str, KnownEndpoint]:
    query = select(Endpoint).where(Endpoint.tenant_id == tenant_id, Endpoint.mac.in_(macs))
    rows = session.scalars(query.execution_options(populate_existing=True)).all()
    groups: defaultdict[UUID, list[tuple[str, bool, bool]]] = defaultdict(list)
    for endpoint_id, name, ruled, has_one in session.execute(
        select(
            EndpointGroupMember.endpoint_id,
            EndpointGroup.name,
            EndpointGroup.rule.is_not(None),
            EndpointGroup.psk_sealed.is_not(None),
        )
        .join(EndpointGroup, EndpointGroup.id == EndpointGroupMember.group_id)
        .where(EndpointGroupMember.tenant_id == tenant_id, EndpointGroupMember.endpoint_id.in_([r.id for r in rows]))
        .order_by(EndpointGroup.name)
    ):
        groups[endpoint_id].append((name, bool(ruled), bool(has_one)))
    return {row.mac: _build_known_endpoint(row, groups[row.id]) for row in rows}


def _build_known_endpoint(row: Endpoint, groups: Sequence[tuple[str, bool, bool]]) -> KnownEndpoint:
    record = msgspec.structs.replace(
        build_record(row),
        groups=tuple(name for name, ruled, _ in groups if not ruled),
        rule_groups=tuple(name for name, ruled, _ in groups if ruled),
        valid_until=int(row.valid_until.timestamp()) if row.valid_until else 0,
    )
    return KnownEndpoint(record, row.psk_sealed is not None or any(has_one for _, _, has_one in groups))


def _load_users(session: Session, tenant_id: TenantId, names: Collection[str]) -> Mapping[str, KnownUser]:
    query = select(User).where(User.tenant_id == tenant_id, User.name.in_(names))
    rows = session.scalars(query.execution_options(populate_existing=True)).all()
    groups = USER_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[row.id for row in rows])
    return {
        row.name: KnownUser(
            row.disabled, int(row.valid_until.timestamp()) if row.valid_until else 0, groups.get(row.id, ())
        )
        for row in rows
    }

"""Data about stored endpoints and users, for simulated requests.

For a real request, the cell reads these data from its replica. This module reads the data from PostgreSQL.

The module also derives the attributes that a cell would derive from the packet of the request.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from nac.cellformat.endpoint_facts import build_device_facts
from nac.cellformat.identity_names import strip_realm
from nac.cellformat.packet_values import Pairs, get_values, packet_values
from nac.engine.admission import Standing, get_standing, refuse_user
from nac.engine.attributes import find_attribute
from nac.engine.matchers import Scalar
from nac.engine.networks import parse_address
from nac.engine.vendors import vendor_name
from nac.inventory.endpoints import repository as endpoints
from nac.inventory.endpoints.rule_conditions import build_record
from nac.inventory.groups import ENDPOINT_GROUPS, USER_GROUPS
from nac.inventory.identity_sources import service as identity_sources
from nac.inventory.users import repository as users
from nac.kit.ids import TenantId
from nac.kit.mac import is_random_mac, normalise_mac, station_mac
from nac.models import EndpointGroup, Nas, RadiusSession
from nac.tenancy.nases import service

FactValues = tuple[Scalar, ...]


class UserValidity(NamedTuple):
    disabled: bool
    # End of the validity in epoch seconds; 0 for no end.
    valid_until: int


@dataclass(slots=True)
class StoredFacts:
    """Data about the stored endpoint and user of a simulated request.

    Contains attributes by name, notes for the reader, and values for the checks before and after the policy.
    """

    values: dict[str, FactValues] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    # Whether the endpoint or one of its groups has a passphrase.
    passphrase: bool = False
    # Whether the endpoint is approved, expired, blocked or unapproved.
    standing: Standing = "unapproved"
    # The tenant's own user.
    user: UserValidity | None = None
    # Whether the checks use `user`: the tenant has this user, or no identity source can have the user.
    has_user_facts: bool = False


def load_stored_facts(
    session: Session, *, tenant_id: TenantId, mac: str, user: str, identity: str, at: int
) -> StoredFacts:
    """Load the data about the stored endpoint and user. `mac` has 12 hexadecimal digits. Unknown values are "".

    `at` is in epoch seconds.
    """
    facts = StoredFacts()
    if mac:
        facts.values["mac.random"] = (is_random_mac(mac),)
        facts.values["session.count.endpoint"] = (_count_live(session, tenant_id, RadiusSession.mac == mac),)
        _add_endpoint(session, tenant_id, mac, at, facts)
    if identity:
        named = func.lower(RadiusSession.identity) == identity.lower()
        facts.values["session.count.user"] = (_count_live(session, tenant_id, named),)
    if user:
        _add_user(session, tenant_id, user, at, facts)
    return facts


def _count_live(session: Session, tenant_id: TenantId, of_whom: ColumnElement[bool]) -> int:
    """Count live sessions by the same rules as the cell."""
    query = select(func.count()).select_from(RadiusSession)
    live = RadiusSession.tenant_id == tenant_id, RadiusSession.stopped_at.is_(None)
    return session.scalars(query.where(*live, of_whom)).one()


def find_nas(
    session: Session, *, tenant_id: TenantId, request: Mapping[str, FactValues], notes: list[str]
) -> Nas | None:
    """Find the registered NAS of a request: by identifier or address, as the cell does, otherwise by name."""
    for name, find in (
        ("nas.identifier", service.get_by_identifier),
        ("nas.address", service.get_by_address),
    ):
        for value in request.get(name, ()):
            if name == "nas.address" and parse_address(str(value)) is None:
                notes.append(f"{str(value)!r} is not an address and was ignored.")
            elif (nas := find(session, tenant_id, str(value))) is not None:
                return nas
    named = str(next(iter(request.get("nas.name", ())), ""))
    matches = service.find_by_name(session, tenant_id, named) if named else ()
    if len(matches) == 1:
        return matches[0]
    if len(matches) > 1:
        notes.append(f"{len(matches)} NASes have the name {named!r}. Set nas.identifier or nas.address.")
    elif named or "nas.identifier" in request or "nas.address" in request:
        notes.append(
            "The NAS is not registered. The NAS belongs to the default site and gets standard RADIUS attributes."
        )
    return None


def nas_values(nas: Nas) -> dict[str, FactValues]:
    return {"nas.name": (nas.name,), "nas.vendor": (vendor_name(nas.vendor),)}


def _add_endpoint(session: Session, tenant_id: TenantId, mac: str, at: int, facts: StoredFacts) -> None:
    endpoint = endpoints.get_by_mac(session, tenant_id, mac)
    if endpoint is None:
        facts.values["endpoint.known"] = (False,)
        return
    groups = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[endpoint.id])
    named = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[endpoint.id], by_rule=False)
    static: Sequence[str] = named.get(endpoint.id, ())
    every: Sequence[str] = groups.get(endpoint.id, ())
    facts.passphrase = endpoint.psk_sealed is not None or _has_group_passphrase(session, tenant_id, every)
    record = msgspec.structs.replace(
        build_record(endpoint),
        groups=tuple(static),
        rule_groups=tuple(name for name in every if name not in static),
        valid_until=_epoch_seconds(endpoint.valid_until),
    )
    facts.standing = get_standing(record, at)
    known = facts.standing == "approved"
    facts.values["endpoint.known"] = (known,)
    facts.values |= build_device_facts(record, at, known=known)
    if facts.standing == "blocked":
        facts.notes.append("The stored endpoint is blocked: Admit rejects the device before it evaluates the policy.")
    elif facts.standing == "expired":
        facts.notes.append("The approval of the stored endpoint has expired: the endpoint counts as unknown.")
    elif not known:
        facts.notes.append(f"The stored endpoint is {endpoint.status}, not approved: the endpoint counts as unknown.")


def _epoch_seconds(moment: datetime | None) -> int:
    return int(moment.timestamp()) if moment else 0


def _has_group_passphrase(session: Session, tenant_id: TenantId, names: Sequence[str]) -> bool:
    shared = select(EndpointGroup.id).where(
        EndpointGroup.tenant_id == tenant_id, EndpointGroup.name.in_(names), EndpointGroup.psk_sealed.is_not(None)
    )
    return bool(session.scalar(select(shared.exists())))


def _add_user(session: Session, tenant_id: TenantId, name: str, at: int, facts: StoredFacts) -> None:
    user = users.get_by_name(session, tenant_id, name.casefold())
    if user is None:
        sources = [
            source.name for source in identity_sources.list_sources(session, tenant_id=tenant_id) if source.enabled
        ]
        facts.has_user_facts = not sources
        facts.notes.append(_describe_unknown_user(name, sources))
        return
    facts.has_user_facts = True
    facts.user = UserValidity(user.disabled, _epoch_seconds(user.valid_until))
    if refuse_user(facts.user, at):
        facts.notes.append("The stored user is disabled or has expired: Admit rejects the login before the policy.")
    facts.values["user.name"] = (user.name,)
    groups = USER_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=[user.id]).get(user.id, ())
    facts.values["user.group"] = tuple(sorted(groups))


def _describe_unknown_user(name: str, sources: Sequence[str]) -> str:
    if not sources:
        return f"Unknown user {name!r}: Admit rejects the login before the policy."
    names = ", ".join(sources)
    return (
        f"The tenant has no own user {name!r}. At a real login, Admit queries {names}; a simulation does not. "
        "Set user.group, user.source and user.attribute.<name> to the values of its response."
    )


_PREFIX = "radius."
_LOGIN_NAME, _STATION = "User-Name", "Calling-Station-Id"


@dataclass(frozen=True, slots=True)
class _SimulatedPacket:
    """The packet of a simulated request, with the interface of `radius.module.request.AccessRequest`."""

    pairs: Pairs

    @property
    def mac(self) -> str:
        return station_mac(self.first(_STATION))

    @property
    def nas_identifier(self) -> str:
        return self.first("NAS-Identifier")

    @property
    def nas_address(self) -> str:
        return self.first("NAS-IP-Address") or self.first("NAS-IPv6-Address")

    def first(self, name: str) -> str:
        return next(iter(get_values(self.pairs, name)), "")


def use_rule_names(request: object) -> object:
    """Rename RADIUS attributes to their names in rules: `NAS-Identifier` becomes `radius.NAS-Identifier`."""
    if not isinstance(request, dict):
        return request
    return {_rule_attribute_name(name, request): values for name, values in request.items()}


def _rule_attribute_name(name: object, request: Mapping[object, object]) -> object:
    # Only names of RADIUS attributes begin with a capital letter.
    if not isinstance(name, str) or not name[:1].isupper() or find_attribute(_PREFIX + name) is None:
        return name
    return name if _PREFIX + name in request else _PREFIX + name


def packet_facts(
    attributes: Mapping[str, tuple[Scalar, ...]], realms: Collection[str] = ()
) -> dict[str, tuple[Scalar, ...]]:
    """Derive attributes from `radius.<name>` attributes; {} without such attributes.

    The function removes `realms` from user names. The authentication method can be derived only for MAB, where the user
    name is the MAC address.
    """
    packet = _SimulatedPacket(
        tuple(
            (name.removeprefix(_PREFIX), str(value))
            for name, values in attributes.items()
            if name.startswith(_PREFIX)
            for value in values
        )
    )
    if not packet.pairs:
        return {}
    found: dict[str, tuple[Scalar, ...]] = {**packet_values(packet)}
    name = packet.first(_LOGIN_NAME)
    if name:
        found["identity"] = (strip_realm(name, realms),)
    station = normalise_mac(name)
    if station and station == (packet.mac or station):
        found["method"] = ("mab",)
        # Call-Check shows that the NAS sent the MAC address as the name. Otherwise a person may have typed the name.
        if not packet.first(_STATION) and packet.first("Service-Type") == "Call-Check":
            found["mac"] = (station,)
    return found

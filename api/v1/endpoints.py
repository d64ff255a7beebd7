"""Endpoints (devices) of a tenant."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self, cast

from fastapi import Depends, Path, Query
from pydantic import Field, PrivateAttr
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.v1.inputs import GroupNames, Input, Omittable, body_references
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.timestamps import Moment, PastMoment
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.repository import ORDERS, EndpointCriteria, EndpointView
from nac.inventory.endpoints.rule_conditions import read_attributes
from nac.inventory.groups import ENDPOINT_GROUPS, is_by_rule
from nac.kit.mac import display_mac, is_random_mac
from nac.kit.permissions import ENDPOINT_EFFECTS, Effect, Permission
from nac.kit.validation import require_mac

router = NounRouter(
    prefix="/tenants/{tenant}/endpoints",
    tag="endpoints",
    description="Devices by MAC address, which are approved, blocked, discovered or ignored.",
)

Status = Literal["active", "blocked", "discovered", "ignored"]
_Mac = Annotated[
    str, Path(description="MAC address: 12 hex digits in any notation.", max_length=40, examples=["00:00:5e:00:53:01"])
]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.ENDPOINT_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.ENDPOINT_MANAGE, *ENDPOINT_EFFECTS))]
Unblocks = Annotated[Access, Depends(ChangesTenant(Permission.ENDPOINT_UNBLOCK, Effect.CREDENTIALS))]


class Endpoint(ObservedModel):
    mac: str = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    name: str = Field(description="Name of the endpoint.")
    status: Status = Field(description=("Status of the endpoint. A `discovered` endpoint waits for classification."))
    owner: str = Field(description='Owner of the endpoint, as text; "" if none.')
    notes: str = Field(description='Notes about the endpoint; "" if none.')
    groups: list[str] = Field(description="Names of the groups of the endpoint.")
    valid_until: datetime | None = Field(description="Time from which Admit rejects the device; null for no limit.")
    attributes: dict[str, str] = Field(description="Custom attributes of the endpoint by name, which policies can use.")
    random: bool = Field(description="Whether the MAC address of the device is random (IEEE 802c).")
    vendor: str = Field(description='Vendor of the device; "" if unknown.')
    profile: str = Field(description='Device profile, such as printer; "" if unknown.')
    profile_confidence: int = Field(
        description="Confidence in the device profile, 0 to 100; 100 if a person set the profile."
    )
    profile_set: bool = Field(description="Whether a person set the device profile.")
    os: str = Field(examples=["Android 15"], description='Operating system of the device; "" if unknown.')
    model: str = Field(examples=["LaserJet M507"], description='Model of the device; "" if unknown.')
    psk: bool = Field(description="Whether the device has its own passphrase. No response includes the passphrase.")
    first_seen_at: datetime | None = Field(description="Time when Admit first saw the device; null if never.")
    last_seen_at: datetime | None = Field(description="Time when Admit last saw the device; null if never.")
    created_at: datetime = Field(description="Time when the endpoint was created.")
    updated_at: datetime = Field(description="Time of the last change of the endpoint.")
    _by_rule: frozenset[str] = PrivateAttr(frozenset())

    def ruled(self, groups: frozenset[str]) -> Self:
        """Record which groups of the endpoint a rule assigned. `observed_fields` returns these groups."""
        self._by_rule = groups
        return self

    def observed_fields(self) -> dict[str, Any]:
        seen = {"vendor", "os", "model", "first_seen_at", "last_seen_at", "updated_at"}
        if not self.profile_set:
            seen |= {"profile", "profile_confidence"}
        ruled = {number for number, name in enumerate(self.groups) if name in self._by_rule}
        return dict.fromkeys(seen, True) | ({"groups": ruled} if ruled else {})


class EndpointInput(Input):
    mac: str = Field(
        max_length=40, examples=["00:00:5e:00:53:01"], description="MAC address of the device, in any notation."
    )
    name: str = Field("", max_length=200, examples=["Printer, 2nd floor"], description="Name of the endpoint.")
    owner: str = Field("", max_length=200, description='Owner of the endpoint, as text; "" if none.')
    notes: str = Field("", max_length=10_000, description='Notes about the endpoint; "" if none.')
    groups: GroupNames = Field(default=[], examples=[["printers"]], description="Names of the groups of the endpoint.")
    valid_until: Moment | None = Field(None, description="Time from which Admit rejects the device; null for no limit.")
    attributes: dict[str, str] = Field(
        default={}, max_length=100, description="Custom attributes of the endpoint, by name."
    )
    allow_random: bool = Field(
        False, description="Whether to accept random MAC addresses, which a device can change for each network."
    )


class EndpointUpdate(Input):
    name: Omittable[str] = Field(None, max_length=200, description="Name of the endpoint.")
    owner: Omittable[str] = Field(None, max_length=200, description='Owner of the endpoint, as text; "" if none.')
    notes: Omittable[str] = Field(None, max_length=10_000, description='Notes about the endpoint; "" if none.')
    groups: Omittable[GroupNames] = Field(None, description="Names of the groups of the endpoint.")
    valid_until: Moment | None = Field(None, description="Time from which Admit rejects the device; null for no limit.")
    attributes: Omittable[dict[str, str | None]] = Field(
        None, max_length=100, description="Custom attributes of the endpoint to change; null removes an attribute."
    )
    profile: Omittable[str] = Field(
        None, max_length=200, description='Device profile, such as printer; "" for the profile that Admit detects.'
    )


class EndpointFilter:
    """Query parameters that filter a list of endpoints, as a FastAPI dependency."""

    def __init__(
        self,
        text: Annotated[str, Query(max_length=200, description="Part of the name or owner of the endpoints.")] = "",
        vendor: Annotated[str, Query(max_length=200, description="Part of the vendor name of the endpoints.")] = "",
        profile: Annotated[
            str, Query(max_length=200, description="Device profile of the endpoints, such as printer.")
        ] = "",
        site: Annotated[
            str, Query(max_length=63, description="Slug of the site where Admit last saw the endpoints.")
        ] = "",
        seen_since: Annotated[
            PastMoment | None, Query(description="Start of the period in which Admit saw the endpoints (RFC 3339).")
        ] = None,
        random: Annotated[bool | None, Query(description="Whether the MAC address of the endpoints is random.")] = None,
    ) -> None:
        self._asked: dict[str, Any] = {
            "text": text,
            "vendor": vendor,
            "profile": profile,
            "site": site,
            "seen_since": seen_since,
            "random": random,
        }

    def filter(self, *, statuses: tuple[str, ...], group: str = "") -> EndpointCriteria:
        return EndpointCriteria(statuses=statuses, group=group, **self._asked)


@router.get("", operation_id="listEndpoints")
def list_endpoints(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    filters: Annotated[EndpointFilter, Depends()],
    status: Annotated[list[Status] | None, Query(description="Status of the endpoints to list.")] = None,
    group: Annotated[str, Query(max_length=200, description="Name of a group of the endpoints to list.")] = "",
) -> Page[Endpoint]:
    """List endpoints, including discovered endpoints.

    A page can have fewer items than `limit` and still have a `next`.
    """
    endpoint_filter = filters.filter(statuses=tuple(status or ()), group=group)
    with access.read() as session:
        rows, searched = endpoints.search_endpoint_views(
            session, tenant_id=access.tenant_id, wanted=endpoint_filter, span=paging.span
        )
        groups = ENDPOINT_GROUPS.names_of(session, tenant_id=access.tenant_id, member_ids=[row.id for row in rows])
        return paging.ordered(
            rows,
            lambda row: _build_endpoint(row, groups.get(row.id, ())),
            entity=lambda row: (row,),
            searched=searched,
        )


@router.post("", status_code=201, operation_id="createEndpoint")
def create_endpoint(access: Changes, body: EndpointInput) -> Endpoint:
    """Approve a new or discovered device."""
    with access.change() as change, body_references():
        row = endpoints.create_endpoint(
            change.session, actor=access.actor, tenant_id=access.tenant_id, **body.model_dump()
        )
        change.located(display_mac(row.mac))
        return change.answer(get_endpoint_model(change.session, access, row.mac))


@router.get("/{mac}", operation_id="getEndpoint")
def get_endpoint(access: Reads, mac: _Mac) -> Endpoint:
    """Get an endpoint."""
    with access.read() as session:
        return access.shown(get_endpoint_model(session, access, require_mac(mac)))


@router.patch("/{mac}", operation_id="updateEndpoint")
def update_endpoint(access: Changes, mac: _Mac, body: EndpointUpdate) -> Endpoint:
    """Update an endpoint.

    Omitted fields stay unchanged.
    """
    with access.change() as change:
        _require_match(change, access, mac)
        changes = body.model_dump(exclude_unset=True)
        who: dict[str, Any] = {"actor": access.actor, "tenant_id": access.tenant_id}
        with body_references():
            row = endpoints.update_endpoint(change.session, **who, mac=mac, **changes)
        return change.answer(get_endpoint_model(change.session, access, row.mac))


@router.delete("/{mac}", status_code=204, operation_id="deleteEndpoint")
def delete_endpoint(access: Changes, mac: _Mac) -> None:
    """Delete an endpoint. Admit discovers the device again at the next request of the device."""
    with access.change() as change:
        _require_match(change, access, mac)
        endpoints.delete_endpoint(change.session, actor=access.actor, tenant_id=access.tenant_id, mac=mac)
        change.set_empty_response()


@router.post("/{mac}/block", operation_id="blockEndpoint")
def block_endpoint(access: Changes, mac: _Mac) -> Endpoint:
    """Block a device, so that Admit rejects the device regardless of the policy.

    Admit sends requests to NASes to end live sessions of the device.
    """
    with access.change() as change:
        _require_match(change, access, mac)
        row = endpoints.block_endpoint(change.session, actor=access.actor, tenant_id=access.tenant_id, mac=mac)
        return change.answer(get_endpoint_model(change.session, access, row.mac))


@router.post("/{mac}/unblock", operation_id="unblockEndpoint")
def unblock_endpoint(access: Unblocks, mac: _Mac) -> Endpoint:
    """Unblock an endpoint. The policy decides about the device again."""
    with access.change() as change:
        _require_match(change, access, mac)
        row = endpoints.unblock_endpoint(change.session, actor=access.actor, tenant_id=access.tenant_id, mac=mac)
        return change.answer(get_endpoint_model(change.session, access, row.mac))


def _require_match(change: Change, access: Access, mac: str) -> None:
    row = endpoints.require_by_mac(change.session, tenant_id=access.tenant_id, mac=mac, lock=True)
    change.require_match(get_endpoint_model(change.session, access, row.mac))


def get_endpoint_model(session: Session, access: Access, mac: str) -> Endpoint:
    row = endpoints.require_endpoint_view(session, tenant_id=access.tenant_id, mac=mac)
    groups = ENDPOINT_GROUPS.list_for_member(session, tenant_id=access.tenant_id, member_id=row.id)
    shown = _build_endpoint(row, [group.name for group in groups])
    return shown.ruled(frozenset(group.name for group in groups if is_by_rule(group)))


def _build_endpoint(row: EndpointView, groups: Sequence[str]) -> Endpoint:
    return Endpoint(
        mac=display_mac(row.mac),
        name=row.name,
        status=cast(Status, row.status),
        owner=row.owner,
        notes=row.notes,
        groups=sorted(groups),
        valid_until=row.valid_until,
        attributes=read_attributes(row.attributes),
        random=is_random_mac(row.mac),
        vendor=row.vendor,
        profile=row.profile,
        profile_confidence=row.profile_confidence,
        profile_set=bool(row.set_profile),
        os=row.os,
        model=row.model,
        psk=row.has_psk,
        first_seen_at=row.first_seen_at,
        last_seen_at=row.last_seen_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )

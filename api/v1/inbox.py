"""Devices that were seen and that nobody has decided about, and deciding about many at once."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.v1.endpoints import EndpointFilter
from api.v1.inputs import GroupNames, Input, body_references
from api.v1.moments import Moment, PastMoment
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import OF_ENDPOINTS
from nac.accounts.permissions import Permission
from nac.endpoints import inbox
from nac.endpoints import service as endpoints
from nac.endpoints.repository import ORDERS, Filter, Listed
from nac.errors import InvalidInput
from nac.mac import display_mac, is_random_mac
from nac.sites import service as sites

# Before those of one endpoint, whose address "inbox" and "classify" are not.
router = APIRouter(prefix="/tenants/{tenant}/endpoints", tags=["inbox"])

_Text = Annotated[str, Field(max_length=200)]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.ENDPOINT_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.ENDPOINT_MANAGE, *OF_ENDPOINTS))]


class DiscoveredEndpoint(BaseModel):
    """What a decision goes by: what it is, where it was seen, how often, and what the policy said."""

    mac: str = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    random: bool = Field(description="Whether the device made its address up (IEEE 802c).")
    vendor: str = Field(description='Vendor; "" where it is not known.')
    profile: str = Field(description='What the device is, such as printer; "" where it is not known.')
    profile_confidence: int = Field(description="How sure that is, 0 to 100; 100 where a person said it.")
    site: str | None = Field(
        description='Slug of the site; null or "" where it belongs to none, or to one that is gone.'
    )
    port: str = Field(description='SSID, or port of the NAS; "" where it is not known.')
    method: str = Field(description='Authentication method, such as eap-tls or mab; "" where it is not known.')
    permitted: bool | None = Field(description="Whether it was admitted last; null where only accounting told of it.")
    times: int = Field(description="How often it was seen.")
    first_seen_at: datetime | None = Field(description="When it was seen first; null: never.")
    last_seen_at: datetime | None = Field(description="When it was seen last; null: never.")


class Classification(Input):
    """Which ones: addresses, or what the other fields mean; those that are in the inbox."""

    action: inbox.Action = Field(description="What becomes of them: approved, blocked, or ignored.")
    macs: list[Annotated[str, Field(max_length=40)]] = Field(
        default=[],
        max_length=inbox.MAX_CLASSIFIED,
        description="MAC addresses of those that are meant; empty: all that the other fields choose.",
    )
    vendor: _Text = Field("", description="Of those whose vendor has this part.")
    profile: _Text = Field("", description="Of those that are this, such as printer.")
    text: _Text = Field("", description="Of those whose name or owner has this part.")
    site: Annotated[str, Field(max_length=63)] = Field("", description="Of those seen last at this site (slug).")
    seen_since: PastMoment | None = Field(None, description="Those that were seen since.")
    random: bool | None = Field(None, description="Of those that made their address up, or of those that did not.")
    groups: GroupNames = Field(default=[], description="Groups of those that are approved.")
    valid_until: Moment | None = Field(None, description="Rejected after this moment; null: no end.")
    allow_random: bool = Field(
        False, description="Takes MAC addresses that devices made up, which change with the network."
    )
    dry_run: bool = Field(False, description="Tells what would be, and changes nothing.")

    def filter(self) -> Filter:
        """Raises InvalidInput where it names nothing in particular."""
        names = {"macs", "vendor", "profile", "text", "site", "seen_since", "random"}
        given = self.model_dump(include=names)
        wanted = Filter(**(given | {"macs": tuple(self.macs)}))
        if wanted == Filter():
            raise InvalidInput("All of the inbox is meant.", place="macs", remedy="Name addresses, or narrow it.")
        return wanted


class ClassificationResult(BaseModel):
    count: int = Field(description="How many.")
    items: list[DiscoveredEndpoint] = Field(description="The rows.")


@router.get("/inbox", operation_id="listDiscoveredEndpoints")
def list_inbox(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
    asked: Annotated[EndpointFilter, Depends()],
) -> Page[DiscoveredEndpoint]:
    """Devices that were seen and that nobody has decided about."""
    with access.read() as session:
        wanted = asked.filter(statuses=("discovered",))
        rows, searched = endpoints.search_endpoints(
            session, tenant_id=access.tenant_id, wanted=wanted, span=paging.span
        )
        shown = {seen.mac: seen for seen in _seen(session, access, rows)}
        return paging.ordered(
            rows, lambda row: shown[display_mac(row[0].mac)], entity=lambda row: row[0], searched=searched
        )


@router.post("/classify", operation_id="classifyEndpoints")
def classify(access: Changes, body: Classification) -> ClassificationResult:
    """Approve, block or ignore devices of the inbox: all of them, or none where one of them cannot be."""
    with access.change() as change, body_references(mac="macs"):
        rows = inbox.classify(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            wanted=body.filter(),
            decision=inbox.Decision(body.action, tuple(body.groups), body.valid_until, body.allow_random),
            dry_run=body.dry_run,
        )
        return change.answer(ClassificationResult(count=len(rows), items=_seen(change.session, access, rows)))


def _seen(session: Session, access: Access, rows: Sequence[Listed]) -> list[DiscoveredEndpoint]:
    slugs = {row.id: row.slug for row in sites.list_sites(session, tenant_id=access.tenant_id)}
    return [
        DiscoveredEndpoint(
            mac=display_mac(endpoint.mac),
            random=is_random_mac(endpoint.mac),
            vendor=endpoint.vendor,
            profile=endpoint.profile,
            profile_confidence=endpoint.profile_confidence,
            site=slugs.get(sighting.site_id) if sighting and sighting.site_id else None,
            port=(sighting.ssid or sighting.nas_port) if sighting else "",
            method=sighting.method if sighting else "",
            permitted=sighting.permitted if sighting else None,
            times=sighting.times if sighting else 0,
            first_seen_at=endpoint.first_seen_at,
            last_seen_at=sighting.last_seen_at if sighting else None,
        )
        for endpoint, sighting in rows
    ]

"""Routes of the inbox, which list and classify discovered endpoints."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import Depends
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.routes import NounRouter
from api.v1.endpoints import EndpointFilter
from api.v1.inputs import GroupNames, Input, body_example, body_references
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.timestamps import Moment, PastMoment
from nac.inventory.endpoints import inbox
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.repository import ORDERS, EndpointCriteria, EndpointWithSighting
from nac.kit.errors import InvalidInput
from nac.kit.mac import display_mac, is_random_mac
from nac.kit.permissions import ENDPOINT_EFFECTS, Permission
from nac.tenancy import sites

# These routes precede the routes of a single endpoint, so that "inbox" and "classify" are not read as MAC addresses.
router = NounRouter(
    prefix="/tenants/{tenant}/endpoints", tag="inbox", description="Discovered devices that wait for classification."
)

_Text = Annotated[str, Field(max_length=200)]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.ENDPOINT_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.ENDPOINT_MANAGE, *ENDPOINT_EFFECTS))]


class DiscoveredEndpoint(BaseModel):
    """A discovered endpoint with data for the classification."""

    mac: str = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    random: bool = Field(description="Whether the MAC address of the device is random (IEEE 802c).")
    vendor: str = Field(description='Vendor of the device; "" if unknown.')
    profile: str = Field(description='Device profile, such as printer; "" if unknown.')
    profile_confidence: int = Field(
        description="Confidence in the device profile, 0 to 100; 100 if a person set the profile."
    )
    site: str | None = Field(
        description="Slug of the site where Admit last saw the device; null if the site is unknown or deleted."
    )
    port: str = Field(
        examples=["Acme-Guest"], description='SSID or NAS port where Admit last saw the device; "" if unknown.'
    )
    method: str = Field(
        examples=["eap-tls"],
        description='Authentication method that the device last used, such as eap-tls or mab; "" if unknown.',
    )
    permitted: bool | None = Field(
        description="Whether Admit admitted the device at its last request; null if only accounting reported "
        "the device."
    )
    times: int = Field(description="Number of times that Admit saw the device.")
    first_seen_at: datetime | None = Field(description="Time when Admit first saw the device; null if never.")
    last_seen_at: datetime | None = Field(description="Time when Admit last saw the device; null if never.")


class Classification(Input):
    """Selection of endpoints in the inbox to classify, by MAC address or by the other fields."""

    model_config = body_example({"action": "approve", "macs": ["00:00:5e:00:53:01"], "groups": ["printers"]})

    action: inbox.InboxAction = Field(description="Action for the selected devices: approve, block or ignore.")
    macs: list[Annotated[str, Field(max_length=40)]] = Field(
        default=[],
        max_length=inbox.MAX_CLASSIFIED,
        description="MAC addresses of the devices to select; empty to select by the other fields.",
    )
    vendor: _Text = Field("", description="Part of the vendor name of the devices to select.")
    profile: _Text = Field("", description="Device profile of the devices to select, such as printer.")
    text: _Text = Field("", description="Part of the name or owner of the devices to select.")
    site: Annotated[str, Field(max_length=63)] = Field(
        "", description="Slug of the site where Admit last saw the devices to select."
    )
    seen_since: PastMoment | None = Field(
        None, description="Start of the period in which Admit saw the devices to select."
    )
    random: bool | None = Field(None, description="Whether the MAC address of the devices to select is random.")
    groups: GroupNames = Field(default=[], description="Names of the groups for approved devices.")
    valid_until: Moment | None = Field(
        None, description="Time from which Admit rejects the approved devices; null for no limit."
    )
    allow_random: bool = Field(
        False, description="Whether to accept random MAC addresses, which a device can change for each network."
    )
    dry_run: bool = Field(False, description="Whether to only return the result, without changing anything.")

    def filter(self) -> EndpointCriteria:
        """Return the filter for the selected endpoints. Raises InvalidInput if no field limits the selection."""
        names = {"macs", "vendor", "profile", "text", "site", "seen_since", "random"}
        fields = self.model_dump(include=names)
        endpoint_filter = EndpointCriteria(**(fields | {"macs": tuple(self.macs)}))
        if endpoint_filter == EndpointCriteria():
            raise InvalidInput(
                "The request selects the whole inbox.", place="macs", remedy="Set `macs` or another filter."
            )
        return endpoint_filter


class ClassificationResult(BaseModel):
    count: int = Field(description="Number of classified devices.")
    items: list[DiscoveredEndpoint] = Field(description="Devices that the request classified.")


@router.get("/inbox", operation_id="listDiscoveredEndpoints")
def list_inbox(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    filters: Annotated[EndpointFilter, Depends()],
) -> Page[DiscoveredEndpoint]:
    """List discovered endpoints that wait for classification."""
    with access.read() as session:
        endpoint_filter = filters.filter(statuses=("discovered",))
        rows, searched = endpoints.search_endpoints(
            session, tenant_id=access.tenant_id, wanted=endpoint_filter, span=paging.span
        )
        by_mac = {seen.mac: seen for seen in _build_discovered(session, access, rows)}
        return paging.ordered(
            rows, lambda row: by_mac[display_mac(row[0].mac)], entity=lambda row: row[0], searched=searched
        )


@router.post("/classify", operation_id="classifyEndpoints")
def classify(access: Changes, body: Classification) -> ClassificationResult:
    """Approve, block or ignore devices of the inbox. Admit changes all selected devices or none."""
    with access.change() as change, body_references(mac="macs"):
        rows = inbox.classify_endpoints(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            wanted=body.filter(),
            decision=inbox.InboxDecision(body.action, tuple(body.groups), body.valid_until, body.allow_random),
            dry_run=body.dry_run,
        )
        return change.answer(
            ClassificationResult(count=len(rows), items=_build_discovered(change.session, access, rows))
        )


def _build_discovered(
    session: Session, access: Access, rows: Sequence[EndpointWithSighting]
) -> list[DiscoveredEndpoint]:
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

"""What is known of one device and why, what others say of it, and its passphrase."""

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, Field, StrictBool, StrictInt, StrictStr

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change
from api.v1.endpoints import read_endpoint
from api.v1.inputs import Input
from api.v1.passphrases import GeneratedPassphrase, PassphraseInput
from nac.accounts.effects import OF_ENDPOINTS
from nac.accounts.permissions import Permission
from nac.endpoints import passphrases, posture
from nac.endpoints import service as endpoints
from nac.mac import display_mac
from nac.sites import service as sites
from nac.validation import require_mac

router = APIRouter(prefix="/tenants/{tenant}/endpoints/{mac}", tags=["endpoint findings"])

_Mac = Annotated[str, Path(description="12 hex digits in any notation.", max_length=40, examples=["00:00:5e:00:53:01"])]
_Value = StrictBool | StrictInt | Annotated[StrictStr, Field(max_length=255)] | None
Reads = Annotated[Access, Depends(ReadsTenant(Permission.ENDPOINT_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.ENDPOINT_MANAGE, *OF_ENDPOINTS))]


class EndpointEvidence(BaseModel):
    source: str = Field(description="Who says so: dhcp, lldp, cdp, http, radius, api ...")
    key: str = Field(description="What was looked at, such as a DHCP option.")
    value: str = Field(description="The value.")
    at: datetime = Field(description="When it was seen.")


class PostureComparison(BaseModel):
    attribute: str = Field(description="Name of the attribute.")
    operator: str = Field(description="How the two are compared or put together.")
    seen: list[Any] = Field(description="What is known of the device.")


class EndpointFindings(BaseModel):
    mac: str = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    why: list[dict[str, Any]] = Field(description="What spoke for its profile.")
    evidence: list[EndpointEvidence] = Field(description="What was seen of the device, and where it comes from.")
    groups_by_rule: dict[str, list[PostureComparison]] = Field(
        description="Groups by rule that it is in, with the comparisons on account of which it is."
    )
    posture: dict[str, dict[str, Any]] = Field(
        description="What was told of the device: name to value, who told it, and until when it holds (epoch seconds)."
    )
    site: str | None = Field(
        description='Slug of the site; null or "" where it belongs to none, or to one that is gone.'
    )
    port: str = Field(description='SSID, or port of the NAS; "" where it is not known.')
    method: str = Field(description='Authentication method, such as eap-tls or mab; "" where it is not known.')
    identity: str = Field(description="What the device or user called itself.")
    permitted: bool | None = Field(description="Whether it was admitted last; null where only accounting told of it.")
    times: int = Field(description="How often it was seen.")


class PostureInput(Input):
    values: dict[str, _Value] = Field(
        max_length=posture.MAX_FIELDS,
        examples=[{"mdm.compliant": True}],
        description="Name to value; null takes one away.",
    )
    source: str = Field("api", max_length=63, description="Who says so: dhcp, lldp, cdp, http, radius, api ...")
    lifetime_seconds: int = Field(
        int(posture.DEFAULT_LIFETIME.total_seconds()),
        ge=1,
        le=int(posture.LONGEST_LIFETIME.total_seconds()),
        description="For how many seconds it holds.",
    )


class Posture(BaseModel):
    mac: str = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    posture: dict[str, dict[str, Any]] = Field(
        description="What was told of the device: name to value, who told it, and until when it holds (epoch seconds)."
    )


@router.get("/findings", operation_id="getEndpointFindings")
def get_findings(access: Reads, mac: _Mac) -> EndpointFindings:
    with access.read() as session:
        row, sighting = endpoints.require_listed(session, tenant_id=access.tenant_id, mac=mac)
        ruled = endpoints.memberships_by_rule(session, tenant_id=access.tenant_id, endpoint=row)
        slugs = {site.id: site.slug for site in sites.list_sites(session, tenant_id=access.tenant_id)}
        evidence = endpoints.evidence_of(session, tenant_id=access.tenant_id, mac=row.mac)
        return access.shown(
            EndpointFindings(
                mac=display_mac(row.mac),
                why=row.found_why,
                evidence=[EndpointEvidence(source=e.source, key=e.key, value=e.value, at=e.at) for e in evidence],
                groups_by_rule={
                    name: [
                        PostureComparison(attribute=each.attribute, operator=each.operator, seen=list(each.seen))
                        for each in because
                    ]
                    for name, because in ruled.items()
                },
                posture=row.posture,
                site=slugs.get(sighting.site_id) if sighting and sighting.site_id else None,
                port=(sighting.ssid or sighting.nas_port) if sighting else "",
                method=sighting.method if sighting else "",
                identity=sighting.identity if sighting else "",
                permitted=sighting.permitted if sighting else None,
                times=sighting.times if sighting else 0,
            )
        )


@router.patch("/posture", operation_id="updateEndpointPosture")
def update_posture(access: Changes, mac: _Mac, body: PostureInput) -> Posture:
    """Add to what is told of it, such as by a device management. A value holds for its lifetime, and is gone then."""
    with access.change() as change:
        row = posture.set_posture(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            mac=mac,
            values=body.values,
            source=body.source,
            lifetime=timedelta(seconds=body.lifetime_seconds),
        )
        return change.answer(Posture(mac=display_mac(row.mac), posture=row.posture))


@router.put("/passphrase", operation_id="updateEndpointPassphrase")
def update_passphrase(access: Changes, mac: _Mac, body: PassphraseInput) -> GeneratedPassphrase:
    """Of a wireless network with a passphrase for each device (iPSK, PPSK, DPSK)."""
    with access.change() as change:
        _set(change, access, mac, body.chosen)
        return change.answer(body.shown(), state=read_endpoint(change.session, access, require_mac(mac)))


@router.delete("/passphrase", status_code=204, operation_id="deleteEndpointPassphrase")
def delete_passphrase(access: Changes, mac: _Mac) -> None:
    with access.change() as change:
        _set(change, access, mac, None)
        change.answer_nothing()


def _set(change: Change, access: Access, mac: str, passphrase: str | None) -> None:
    row = endpoints.require_by_mac(change.session, tenant_id=access.tenant_id, mac=mac, lock=True)
    change.require_match(read_endpoint(change.session, access, row.mac))
    passphrases.set_endpoint_psk(
        change.session,
        actor=access.actor,
        tenant_id=access.tenant_id,
        mac=mac,
        passphrase=passphrase,
        seal=access.sealer.seal,
    )

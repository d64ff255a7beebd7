"""Findings, posture and passphrase of an endpoint."""

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, Path
from pydantic import BaseModel, Field, StrictBool, StrictInt, StrictStr

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change
from api.routes import NounRouter
from api.v1.endpoints import get_endpoint_model
from api.v1.inputs import GeneratedPassphrase, Input, PassphraseInput
from nac.inventory.endpoints import passphrases, posture
from nac.inventory.endpoints import service as endpoints
from nac.kit.mac import display_mac
from nac.kit.permissions import ENDPOINT_EFFECTS, Permission
from nac.kit.validation import require_mac
from nac.tenancy import sites

router = NounRouter(
    prefix="/tenants/{tenant}/endpoints/{mac}",
    tag="endpoint findings",
    description="Evidence about a device, its profile, groups by rule, posture and passphrase.",
)

_Mac = Annotated[
    str, Path(description="MAC address: 12 hex digits in any notation.", max_length=40, examples=["00:00:5e:00:53:01"])
]
_Value = StrictBool | StrictInt | Annotated[StrictStr, Field(max_length=255)] | None
Reads = Annotated[Access, Depends(ReadsTenant(Permission.ENDPOINT_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.ENDPOINT_MANAGE, *ENDPOINT_EFFECTS))]


class EndpointEvidence(BaseModel):
    source: str = Field(description="Source of the observation, such as dhcp, lldp, cdp, http, radius or api.")
    key: str = Field(description="Key of the observation, such as a DHCP option.")
    value: str = Field(description="Value that Admit observed.")
    at: datetime = Field(description="Time when Admit observed the value.")


class PostureComparison(BaseModel):
    attribute: str = Field(description="Name of the compared attribute.")
    operator: str = Field(description="Operator of the comparison.")
    seen: list[Any] = Field(description="Values of the compared attribute that the device has.")


class EndpointFindings(BaseModel):
    mac: str = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    why: list[dict[str, Any]] = Field(description="Reasons why the device has its profile.")
    evidence: list[EndpointEvidence] = Field(description="Observations of the device, with their sources.")
    groups_by_rule: dict[str, list[PostureComparison]] = Field(
        description="Groups whose rule selected the device, each with the matching comparisons of the rule."
    )
    posture: dict[str, dict[str, Any]] = Field(
        description="Posture values of the device by name, each with its source and expiry (epoch seconds)."
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
    identity: str = Field(description="Identity that the device or user last sent.")
    permitted: bool | None = Field(
        description="Whether Admit admitted the device at its last request; null if only accounting reported "
        "the device."
    )
    times: int = Field(description="Number of times that Admit saw the device.")


class PostureInput(Input):
    values: dict[str, _Value] = Field(
        max_length=posture.MAX_FIELDS,
        examples=[{"mdm.compliant": True}],
        description="Posture values by name; null removes a value.",
    )
    source: str = Field(
        "api", max_length=63, description="Source of the posture values, such as dhcp, lldp, cdp, http, radius or api."
    )
    lifetime_seconds: int = Field(
        int(posture.DEFAULT_LIFETIME.total_seconds()),
        ge=1,
        le=int(posture.MAX_LIFETIME.total_seconds()),
        description="Time in seconds after which the posture values expire.",
    )


class Posture(BaseModel):
    mac: str = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    posture: dict[str, dict[str, Any]] = Field(
        description="Posture values of the device by name, each with its source and expiry (epoch seconds)."
    )


@router.get("/findings", operation_id="getEndpointFindings")
def get_findings(access: Reads, mac: _Mac) -> EndpointFindings:
    """Get the evidence about a device, and the reasons for its profile."""
    with access.read() as session:
        row, sighting = endpoints.require_with_sighting(session, tenant_id=access.tenant_id, mac=mac)
        ruled = endpoints.explain_rule_memberships(session, tenant_id=access.tenant_id, endpoint=row)
        slugs = {site.id: site.slug for site in sites.list_sites(session, tenant_id=access.tenant_id)}
        evidence = endpoints.list_evidence(session, tenant_id=access.tenant_id, mac=row.mac)
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
    """Update the posture of a device, for example with values from an MDM.

    Values that the request omits stay unchanged. A posture value expires after `lifetime_seconds`.
    """
    with access.change() as change:
        row = posture.update_posture(
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
    """Set the passphrase of a device.

    Wireless networks with a passphrase per device (iPSK, PPSK, DPSK) use this passphrase.
    """
    with access.change() as change:
        _update_passphrase(change, access, mac, body.chosen)
        return change.answer(body.shown(), state=get_endpoint_model(change.session, access, require_mac(mac)))


@router.delete("/passphrase", status_code=204, operation_id="deleteEndpointPassphrase")
def delete_passphrase(access: Changes, mac: _Mac) -> None:
    """Delete the passphrase of a device."""
    with access.change() as change:
        _update_passphrase(change, access, mac, None)
        change.set_empty_response()


def _update_passphrase(change: Change, access: Access, mac: str, passphrase: str | None) -> None:
    row = endpoints.require_by_mac(change.session, tenant_id=access.tenant_id, mac=mac, lock=True)
    change.require_match(get_endpoint_model(change.session, access, row.mac))
    passphrases.update_endpoint_psk(
        change.session,
        actor=access.actor,
        tenant_id=access.tenant_id,
        mac=mac,
        passphrase=passphrase,
        seal=access.sealer.seal,
    )

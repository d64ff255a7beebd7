"""Routes for enrolment, with one-time secrets, links and files that set up devices."""

import base64
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, cast

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import ObservedModel
from api.routes import NounRouter
from api.v1.certificate_models import Sans
from api.v1.certificate_settings import Manages
from api.v1.inputs import Input, Text, body_example, body_examples, body_references
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.certificates.enrolment import service as enrolment
from nac.certificates.enrolment.repository import ORDERS
from nac.certificates.issuance import ClientProfile
from nac.certificates.scep.service import build_scep_url
from nac.certificates.supplicants import service as supplicants
from nac.kit.clock import utc_now
from nac.kit.db import lock_row
from nac.kit.permissions import Effect, Permission
from nac.models import EnrolmentSecret as EnrolmentSecretRow
from nac.models.enrolment import EnrolmentKind
from nac.tenancy.tenants import service as tenants

router = NounRouter(
    prefix="/tenants/{tenant}",
    tag="enrolment",
    description="Enrolment of devices by link, EST and SCEP, with one-time secrets.",
)

SecretName = Annotated[str, Path(description="Id or name of the secret.", max_length=64)]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.CERTIFICATE_READ))]
Issues = Annotated[Access, Depends(ChangesTenant(Permission.CERTIFICATE_ISSUE, Effect.CREDENTIALS))]
_LIFETIME_FIELD = Field(
    7 * 86_400, ge=1, le=365 * 86_400, description="Time in seconds after which the enrolment secret or link expires."
)


class EnrolmentSecret(ObservedModel):
    """An enrolment secret or link, without the secret itself."""

    id: str = Field(description="Permanent id of the enrolment secret or link.")
    kind: EnrolmentKind = Field(description="Kind of the enrolment secret or link.")
    name: str | None = Field(description="Name of the enrolment secret or link.")
    status: Literal["open", "used", "expired", "revoked"] = Field(description="Status of the enrolment secret or link.")
    profile: str = Field(
        description="Certificate profile of certificates that devices get with the enrolment secret or link."
    )
    common_name: str | None = Field(
        description="Common name of the certificate to issue; null if the device chooses the name."
    )
    sans: list[str] = Field(
        description="Alternative names of the certificate to issue with their type, such as dns:laptop-1.acme.example."
    )
    owner: str = Field(description='Owner of the enrolled devices, as text; "" if none.')
    ssid: str = Field(description='SSID of the Wi-Fi network to set up; "" for none.')
    uses: int = Field(description="Number of times that the enrolment secret or link was used.")
    most_uses: int = Field(description="Maximum number of times that the enrolment secret or link can be used.")
    expires_at: datetime = Field(description="Time when the enrolment secret or link expires.")
    last_used_at: datetime | None = Field(
        description="Time when the enrolment secret or link was last used; null if never."
    )
    created_by: str = Field(description="Actor who created the enrolment secret or link.")

    def observed_fields(self) -> set[str]:
        used = {"uses", "last_used_at"}
        return used if self.status == "revoked" else used | {"status"}


class CreatedEnrolmentLink(EnrolmentSecret):
    url: str = Field(
        description="Enrolment link, only in this response. Anyone with the link can get the certificate, so send the "
        "link only to the owner."
    )


class CreatedEnrolmentSecret(EnrolmentSecret):
    url: str = Field(description="URL at which devices enrol.")
    user: str | None = Field(
        description="User name for HTTP basic authentication with EST; null for SCEP, which uses only the secret."
    )
    secret: str = Field(description="Text of the enrolment secret, only in this response.")


class _EnrolmentInput(Input):
    profile: ClientProfile = Field("eap-client-device", description="Certificate profile of the certificate to issue.")
    common_name: Text | None = Field(
        None,
        examples=["laptop-1"],
        description="Common name of the certificate to issue; null for the name of the endpoint or user.",
    )
    sans: Sans = Field(
        default=[],
        description="Alternative names of the certificate to issue with their type, such as dns:laptop-1.acme.example.",
    )
    endpoint_mac: str | None = Field(
        None,
        max_length=40,
        examples=["00:00:5e:00:53:01"],
        description="MAC address of the device that gets the certificate.",
    )
    user_name: str | None = Field(
        None, max_length=256, examples=["ann"], description="Name of the user who gets the certificate."
    )
    owner: Text = Field("", description='Owner of the enrolled devices, as text; "" if none.')
    life_seconds: int = _LIFETIME_FIELD


class EnrolmentLinkInput(_EnrolmentInput):
    model_config = body_example(
        {
            "common_name": "laptop-1",
            "endpoint_mac": "00:00:5e:00:53:01",
            "owner": "Ann",
            "life_seconds": 86400,
            "ssid": "Acme",
        }
    )

    ssid: Text = Field("", description='SSID of the Wi-Fi network to set up; "" for none.')


class EnrolmentSecretInput(_EnrolmentInput):
    model_config = body_examples(
        ("est", "EST, for one device", {"kind": "est", "name": "laptop-1", "endpoint_mac": "00:00:5e:00:53:01"}),
        ("scep", "SCEP, for many devices", {"kind": "scep", "owner": "Facilities", "uses": 20, "life_seconds": 86400}),
    )

    kind: Literal["est", "scep"] = Field("est", description="Kind of the enrolment secret: est or scep.")
    name: Text | None = Field(
        None, description="User name that a device sends with an EST secret; null to generate a name."
    )
    uses: int = Field(
        1, ge=1, le=enrolment.MAX_USES, description="Maximum number of times that the enrolment secret can be used."
    )
    any_name: bool = Field(
        False,
        description="Whether the device chooses the names in the certificate. A secret for one use requires "
        "`any_name` or a name.",
    )


class RenewalSettings(Input):
    keeps_key: bool = Field(description="Whether devices can renew a certificate with the same key.")


class DeviceSetUpFile(BaseModel):
    name: str = Field(description="Name of the file.")
    content: str = Field(examples=["SGVsbG8="], description="Content of the file, in base64.")


class DeviceSetUp(BaseModel):
    network: str = Field(examples=["Acme"], description='SSID of the Wi-Fi network; "" for a wired network.')
    server_names: list[str] = Field(description="Names that devices check in the RADIUS server's certificate.")
    files: list[DeviceSetUpFile] = Field(description="Files that set up the device.")


@router.get("/enrolment-secrets", operation_id="listEnrolmentSecrets")
def list_secrets(
    access: Reads, paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))]
) -> Page[EnrolmentSecret]:
    """List enrolment secrets and links."""
    with access.read() as session:
        rows = enrolment.list_secrets(session, tenant_id=access.tenant_id, span=paging.span)
        return paging.ordered(rows, _build_secret)


@router.get("/enrolment-secrets/{secret}", operation_id="getEnrolmentSecret")
def get_secret(access: Reads, secret: SecretName) -> EnrolmentSecret:
    """Get an enrolment link or secret, without the secret itself."""
    with access.read() as session:
        return access.shown(_build_secret(enrolment.require_secret(session, tenant_id=access.tenant_id, name=secret)))


@router.post("/enrolment-links", status_code=201, operation_id="createEnrolmentLink")
def create_link(access: Issues, body: EnrolmentLinkInput) -> CreatedEnrolmentLink:
    """Create an enrolment link for one certificate.

    The link opens a page that issues the certificate as PKCS#12, as an Apple profile, or for a signing request. Opening
    the page does not use up the link.
    """
    with access.change() as change, body_references(mac="endpoint_mac", name="user_name"):
        made = enrolment.create_secret(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            kind="link",
            now=utc_now(),
            **_dump_fields(body),
        )
        url = f"{access.asked.request.app.state.settings.link_url}/enrol/{made.token.reveal()}"
        change.located(made.row.public_id, at="enrolment-secrets")
        return change.answer(CreatedEnrolmentLink(**_build_secret(made.row).model_dump(), url=url))


@router.post("/enrolment-secrets", status_code=201, operation_id="createEnrolmentSecret")
def create_secret(access: Issues, body: EnrolmentSecretInput) -> CreatedEnrolmentSecret:
    """Create an enrolment secret for EST or SCEP.

    EST uses the secret as the password of HTTP basic authentication. SCEP uses the secret as the challenge.

    With a secret for one use, the certificate is for `common_name`, or for the name of the endpoint or user. With
    `any_name`, the device chooses the names in the certificate. The device also chooses the names if a secret for
    several uses has no name.
    """
    settings = access.asked.request.app.state.settings
    with access.change() as change, body_references(mac="endpoint_mac", name="user_name"):
        made = enrolment.create_secret(
            change.session, actor=access.actor, tenant_id=access.tenant_id, now=utc_now(), **_dump_fields(body)
        )
        slug = tenants.require_tenant(change.session, tenant_id=access.tenant_id).slug
        fields = _build_secret(made.row).model_dump()
        change.located(made.row.public_id)
        if body.kind == "scep":
            url = build_scep_url(settings.public_url, slug)
            return change.answer(CreatedEnrolmentSecret(**fields, url=url, user=None, secret=made.token.reveal()))
        url, user = f"{settings.enrolment_url}/.well-known/est/{slug}", made.row.name or made.row.public_id
        return change.answer(CreatedEnrolmentSecret(**fields, url=url, user=user, secret=made.token.secret))


@router.post("/enrolment-secrets/{secret}/revoke", operation_id="revokeEnrolmentSecret")
def revoke_secret(access: Issues, secret: SecretName) -> EnrolmentSecret:
    """Revoke an enrolment secret or link.

    Issued certificates stay valid.
    """
    with access.change() as change:
        now = enrolment.require_secret(change.session, tenant_id=access.tenant_id, name=secret, lock=True)
        change.require_match(_build_secret(now))
        row = enrolment.revoke_secret(change.session, actor=access.actor, tenant_id=access.tenant_id, name=secret)
        return change.answer(_build_secret(row))


@router.get("/renewal-settings", operation_id="getRenewalSettings")
def get_renewal(access: Reads) -> RenewalSettings:
    """Get the settings for renewals by EST and SCEP."""
    with access.read() as session:
        row = tenants.require_tenant(session, tenant_id=access.tenant_id)
        return access.shown(RenewalSettings(keeps_key=row.renewal_keeps_key))


@router.put("/renewal-settings", operation_id="updateRenewalSettings")
def update_renewal(access: Manages, body: RenewalSettings) -> RenewalSettings:
    """Set whether devices can renew a certificate with the same key."""
    with access.change() as change:
        row = tenants.require_tenant(change.session, tenant_id=access.tenant_id)
        lock_row(change.session, row)
        change.require_match(RenewalSettings(keeps_key=row.renewal_keeps_key))
        tenants.update_renewal(change.session, actor=access.actor, tenant_id=access.tenant_id, keeps_key=body.keeps_key)
        return change.answer(body)


@router.get("/device-set-up", operation_id="getDeviceSetUp")
def get_set_up(
    access: Reads,
    form: Annotated[
        Literal["apple", "windows", "wpa_supplicant", "networkmanager", "android"],
        Query(description="Format of the file that sets up devices."),
    ],
    ssid: Annotated[
        str, Query(max_length=32, description="SSID of the Wi-Fi network. Omit `ssid` for a wired network.")
    ] = "",
    identity: Annotated[
        str, Query(max_length=200, description="Identity that devices send to the RADIUS server.")
    ] = "device",
    server_name: Annotated[
        list[Annotated[str, Field(max_length=253)]] | None,
        Query(
            max_length=20,
            description="Name in the RADIUS server's certificate that devices check; the default is all of the "
            "tenant's names.",
        ),
    ] = None,
    device_folder: Annotated[
        str, Query(max_length=200, description="Folder for the certificates on a Linux device.")
    ] = "/etc/admit",
) -> DeviceSetUp:
    """Get files that set up devices for EAP-TLS.

    The files contain the tenant's roots and server names, but no key or secret.
    """
    with access.read() as session:
        network = supplicants.describe_network(
            session, tenant_id=access.tenant_id, now=utc_now(), ssid=ssid, server_names=server_name or ()
        )
    files = supplicants.export_files(network, form=form, identity=identity, folder=device_folder)
    return DeviceSetUp(
        network=network.title,
        server_names=list(network.server_names),
        files=[
            DeviceSetUpFile(name=name, content=base64.b64encode(content).decode()) for name, content in files.items()
        ],
    )


def _dump_fields(body: _EnrolmentInput) -> dict[str, Any]:
    fields = body.model_dump()
    return fields | {"life": timedelta(seconds=fields.pop("life_seconds"))}


def _build_secret(row: EnrolmentSecretRow) -> EnrolmentSecret:
    return EnrolmentSecret(
        id=row.public_id,
        kind=cast(EnrolmentKind, row.kind),
        name=row.name,
        status=enrolment.get_status(row, utc_now()),
        profile=row.profile,
        common_name=row.common_name,
        sans=row.sans,
        owner=row.owner,
        ssid=row.ssid,
        uses=row.uses,
        most_uses=row.most_uses,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        created_by=row.created_by,
    )

"""SCEP of a tenant, with the enrolment URL, the registration authority, and the webhook for challenges."""

from datetime import datetime
from typing import Annotated

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from fastapi import Depends
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant
from api.openapi_document import error_responses
from api.routes import NounRouter
from api.v1.enrolment import Reads
from api.v1.inputs import Input, body_example
from nac.certificates.issuance import ClientProfile
from nac.certificates.scep import registration_authority, webhook_config
from nac.certificates.scep.service import build_scep_url
from nac.certificates.scep.settings import WebhookSettings
from nac.kit.clock import utc_now
from nac.kit.permissions import Effect, Permission
from nac.models import ScepWebhook as ScepWebhookRow
from nac.tenancy.tenants import service as tenants

router = NounRouter(
    prefix="/tenants/{tenant}/scep",
    tag="scep",
    description="SCEP of a tenant, with the URL, the registration authority, and the webhook for challenges.",
)

Connects = Annotated[Access, Depends(ChangesTenant(Permission.AUTHORITY_MANAGE, Effect.TRUST, Effect.CONNECTION))]

_Network = Annotated[str, Field(max_length=50)]


class ScepSettings(BaseModel):
    """SCEP settings for an MDM.

    One-time challenges are enrolment secrets of the kind `scep`.
    """

    url: str = Field(description="SCEP URL at which devices enrol.")
    ra_serial: str = Field(
        description="Serial number in hex of the registration authority, which decrypts requests and signs responses."
    )
    ra_not_after: datetime = Field(description="End of the validity of the registration authority's certificate.")
    ra_sha256: str = Field(description="SHA-256 of the registration authority's certificate, in hex.")
    webhook: str | None = Field(
        description="URL of the webhook that checks challenges from other systems; null if none."
    )


class ScepWebhookInput(Input):
    model_config = body_example(
        {
            "url": "https://mdm.acme.example/scep",
            "profile": "eap-client-device",
            "timeout_seconds": 5.0,
            "networks": ["192.0.2.0/24"],
        }
    )

    url: str = Field(
        max_length=1_000,
        examples=["https://mdm.acme.example/scep"],
        description="URL of the webhook that checks challenges.",
    )
    profile: ClientProfile = Field(
        "eap-client-device", description="Certificate profile of certificates that the webhook permits."
    )
    timeout_seconds: float = Field(5.0, ge=0.5, le=10.0, description="Timeout of a request to the webhook, in seconds.")
    networks: list[_Network] = Field(
        default=[],
        max_length=50,
        description=(
            "Networks (CIDR) in which the webhook's address must be; empty for all networks that the installation "
            "allows."
        ),
    )
    ca_certificate: str = Field(
        "",
        max_length=64 * 1024,
        description='CA certificates (PEM) that verify the server; null or "" for the CA certificates of the system.',
    )


class ScepWebhook(BaseModel):
    url: str = Field(description="URL of the webhook that checks challenges.")
    profile: str = Field(description="Certificate profile of certificates that the webhook permits.")
    timeout_seconds: float = Field(description="Timeout of a request to the webhook, in seconds.")
    networks: list[str] = Field(
        description=(
            "Networks (CIDR) in which the webhook's address must be; empty for all networks that the installation "
            "allows."
        )
    )
    ca_certificate: str = Field(
        description='CA certificates (PEM) that verify the server; null or "" for the CA certificates of the system.'
    )


class CreatedScepWebhook(ScepWebhook):
    secret: str = Field(
        description="Secret that signs requests to the webhook. Each change creates a new secret, and only this "
        "response contains the secret."
    )


@router.get("", operation_id="getScep", responses=error_responses(409))
def get_scep(access: Reads) -> ScepSettings:
    """Get the SCEP settings.

    The first request creates the registration authority, which requires an issuing authority.
    """
    settings = access.asked.request.app.state.settings
    with access.read() as session:
        current, *_ = registration_authority.ensure_registration_authority(
            session, tenant_id=access.tenant_id, signing=access.signing, now=utc_now()
        )
        webhook = webhook_config.find_webhook_row(session, tenant_id=access.tenant_id)
        assert current.certificate_der is not None
        certificate = x509.load_der_x509_certificate(current.certificate_der)
        return ScepSettings(
            url=build_scep_url(settings.public_url, tenants.require_tenant(session, tenant_id=access.tenant_id).slug),
            ra_serial=current.serial.hex(),
            ra_not_after=current.not_after,
            ra_sha256=certificate.fingerprint(hashes.SHA256()).hex(":"),
            webhook=webhook_config.parse_settings(webhook).url if webhook else None,
        )


@router.get("/webhook", operation_id="getScepWebhook")
def get_webhook(access: Reads) -> ScepWebhook:
    """Get the webhook that checks SCEP challenges from other systems."""
    with access.read() as session:
        return access.shown(_build_webhook(webhook_config.require_webhook(session, tenant_id=access.tenant_id)))


@router.put("/webhook", operation_id="updateScepWebhook")
def update_webhook(access: Connects, body: ScepWebhookInput) -> CreatedScepWebhook:
    """Set the webhook that checks SCEP challenges from other systems."""
    wanted = WebhookSettings(**body.model_dump(exclude={"networks"}), networks=tuple(body.networks))
    with access.change() as change:
        before = webhook_config.find_webhook_row(change.session, tenant_id=access.tenant_id, lock=True)
        change.require_match(None if before is None else _build_webhook(before))
        secret = webhook_config.set_webhook(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            settings=wanted,
            sealer=access.signing.sealer,
            now=utc_now(),
        )
        row = webhook_config.require_webhook(change.session, tenant_id=access.tenant_id)
        shown = _build_webhook(row)
        return change.answer(CreatedScepWebhook(**shown.model_dump(), secret=secret), state=shown)


@router.delete("/webhook", status_code=204, operation_id="deleteScepWebhook")
def delete_webhook(access: Connects) -> None:
    """Delete the webhook that checks SCEP challenges.

    Admit then rejects challenges from other systems.
    """
    with access.change() as change:
        change.require_match(
            _build_webhook(webhook_config.require_webhook(change.session, tenant_id=access.tenant_id, lock=True))
        )
        webhook_config.delete_webhook(change.session, actor=access.actor, tenant_id=access.tenant_id)
        change.set_empty_response()


def _build_webhook(row: ScepWebhookRow) -> ScepWebhook:
    settings = webhook_config.parse_settings(row)
    return ScepWebhook(
        url=settings.url,
        profile=settings.profile,
        timeout_seconds=settings.timeout_seconds,
        networks=list(settings.networks),
        ca_certificate=settings.ca_certificate,
    )

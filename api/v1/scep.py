"""SCEP of a tenant: where devices enrol, and who judges their challenges."""

from datetime import datetime
from typing import Annotated

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant
from api.description import refuses
from api.v1.enrolment import Reads
from api.v1.inputs import Input
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.certificates.issuing import ClientProfile
from nac.clock import utc_now
from nac.models import ScepWebhook as ScepWebhookRow
from nac.scep import registration_authority, webhook_config
from nac.scep.service import build_scep_url
from nac.scep.settings import WebhookSettings
from nac.tenants import service as tenants

router = APIRouter(prefix="/tenants/{tenant}/scep", tags=["scep"])

Connects = Annotated[Access, Depends(ChangesTenant(Permission.AUTHORITY_MANAGE, Effect.TRUST, Effect.CONNECTION))]

_Network = Annotated[str, Field(max_length=50)]


class ScepSettings(BaseModel):
    """What is entered in an MDM. One-time challenges are enrolment secrets of the kind scep."""

    url: str = Field(description="Where devices enrol.")
    ra_serial: str = Field(
        description="Serial number (hex) of the registration authority, which opens requests and signs answers."
    )
    ra_not_after: datetime = Field(description="Until when the registration authority's certificate is valid.")
    ra_sha256: str = Field(description="SHA-256 of the registration authority's certificate, in hex.")
    webhook: str | None = Field(description="Where challenges are sent that are not made here; null: nowhere.")


class ScepWebhookInput(Input):
    url: str = Field(max_length=1_000, examples=["https://mdm.acme.example/scep"], description="Address (URL).")
    profile: ClientProfile = Field("eap-client-device", description="Of the certificates that it allows.")
    timeout_seconds: float = Field(5.0, ge=0.5, le=10.0, description="For how many seconds an answer is waited for.")
    networks: list[_Network] = Field(
        default=[],
        max_length=50,
        description="Where alone its host may be, as CIDR; empty for anywhere that the installation allows.",
    )
    ca_certificate: str = Field(
        "",
        max_length=64 * 1024,
        description='PEM of the authorities that the other side\'s certificate may come from; null or "" '
        "for those of the system.",
    )


class ScepWebhook(BaseModel):
    url: str = Field(description="Address (URL).")
    profile: str = Field(description="Of the certificates that it allows.")
    timeout_seconds: float = Field(description="For how many seconds an answer is waited for.")
    networks: list[str] = Field(
        description="Networks (CIDR) that the receiver's addresses must be of; empty or null for any that "
        "the installation allows."
    )
    ca_certificate: str = Field(
        description='PEM of the authorities that the other side\'s certificate may come from; null or "" '
        "for those of the system."
    )


class CreatedScepWebhook(ScepWebhook):
    secret: str = Field(description="Signs what is sent there: a new one each time, shown this once.")


@router.get("", operation_id="getScep", responses=refuses(409))
def get_scep(access: Reads) -> ScepSettings:
    """The registration authority is made when it is first asked for; without an issuing authority none can be."""
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
    with access.read() as session:
        return access.shown(_webhook(webhook_config.require_webhook(session, tenant_id=access.tenant_id)))


@router.put("/webhook", operation_id="updateScepWebhook")
def update_webhook(access: Connects, body: ScepWebhookInput) -> CreatedScepWebhook:
    """Where challenges are sent that are not made here."""
    wanted = WebhookSettings(**body.model_dump(exclude={"networks"}), networks=tuple(body.networks))
    with access.change() as change:
        before = webhook_config.find_webhook_row(change.session, tenant_id=access.tenant_id, lock=True)
        change.require_match(None if before is None else _webhook(before))
        secret = webhook_config.set_webhook(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            settings=wanted,
            sealer=access.signing.sealer,
            now=utc_now(),
        )
        row = webhook_config.require_webhook(change.session, tenant_id=access.tenant_id)
        shown = _webhook(row)
        return change.answer(CreatedScepWebhook(**shown.model_dump(), secret=secret), state=shown)


@router.delete("/webhook", status_code=204, operation_id="deleteScepWebhook")
def delete_webhook(access: Connects) -> None:
    """Challenges that are not made here are refused from now on."""
    with access.change() as change:
        change.require_match(
            _webhook(webhook_config.require_webhook(change.session, tenant_id=access.tenant_id, lock=True))
        )
        webhook_config.delete_webhook(change.session, actor=access.actor, tenant_id=access.tenant_id)
        change.answer_nothing()


def _webhook(row: ScepWebhookRow) -> ScepWebhook:
    settings = webhook_config.parse_settings(row)
    return ScepWebhook(
        url=settings.url,
        profile=settings.profile,
        timeout_seconds=settings.timeout_seconds,
        networks=list(settings.networks),
        ca_certificate=settings.ca_certificate,
    )

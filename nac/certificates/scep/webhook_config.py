"""Functions to get, set and delete the settings of a tenant's SCEP webhook."""

import secrets
from datetime import datetime

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.certificates.scep.settings import InvalidWebhookSettings, WebhookSettings, check_settings
from nac.certificates.scep.webhook_client import Webhook
from nac.core.audit import service as audit
from nac.kit.advice import Advice, NextStep
from nac.kit.errors import InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.kit.outbound.reach import OutboundReach
from nac.kit.secrets import Sealer
from nac.models import ScepWebhook

_SECRET_BYTES = 32
_NETWORKS_REMEDY = Advice(
    "Set the webhook again, with a network that includes the address of the webhook",
    NextStep("updateScepWebhook", {"networks": ""}),
)


class InvalidScepWebhook(InvalidInput):
    """The settings of the webhook are not valid."""


class ScepWebhookNotFound(NotFound):
    """The tenant has no SCEP webhook."""


def get_webhook(session: Session, *, tenant_id: TenantId, sealer: Sealer, reach: OutboundReach) -> Webhook | None:
    """Return the tenant's webhook with the decrypted secret, or None."""
    row = find_webhook_row(session, tenant_id=tenant_id)
    if row is None:
        return None
    settings = parse_settings(row)
    within = reach.within(settings.networks, remedy=_NETWORKS_REMEDY, owner=str(tenant_id))
    return Webhook(settings, within, sealer.open(row.secret_sealed, _context(tenant_id)))


def find_webhook_row(session: Session, *, tenant_id: TenantId, lock: bool = False) -> ScepWebhook | None:
    """Return the tenant's webhook row with the encrypted secret, or None."""
    query = select(ScepWebhook).where(ScepWebhook.tenant_id == tenant_id)
    return session.scalar(query.with_for_update() if lock else query)


def parse_settings(row: ScepWebhook) -> WebhookSettings:
    return msgspec.convert(row.settings, WebhookSettings)


def require_webhook(session: Session, *, tenant_id: TenantId, lock: bool = False) -> ScepWebhook:
    row = find_webhook_row(session, tenant_id=tenant_id, lock=lock)
    if row is None:
        raise ScepWebhookNotFound(
            "The tenant has no SCEP webhook.", place="webhook", remedy=Advice("Create a webhook.", "updateScepWebhook")
        )
    return row


def set_webhook(
    session: Session, *, actor: str, tenant_id: TenantId, settings: WebhookSettings, sealer: Sealer, now: datetime
) -> str:
    """Create or replace the webhook. Returns the webhook's new secret, which cannot be read later. Raises
    InvalidScepWebhook."""
    _require_valid(settings)
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    document = msgspec.to_builtins(settings)
    sealed = sealer.seal(secret.encode(), _context(tenant_id))
    row = find_webhook_row(session, tenant_id=tenant_id, lock=True)
    before = None if row is None else row.settings
    if row is None:
        session.add(ScepWebhook(tenant_id=tenant_id, settings=document, secret_sealed=sealed))
    else:
        row.settings, row.secret_sealed, row.updated_at = document, sealed, now
    session.flush()
    _audit(session, actor, tenant_id, "set", before=before, after=document)
    return secret


def check_webhook(document: dict[str, object]) -> None:
    """Check webhook settings from a tenant file. Raises InvalidScepWebhook."""
    try:
        settings = msgspec.convert(document, WebhookSettings)
    except msgspec.ValidationError as exc:
        raise InvalidScepWebhook(f"{exc}.", place="webhook") from exc
    _require_valid(settings)


def _require_valid(settings: WebhookSettings) -> None:
    try:
        check_settings(settings)
    except InvalidWebhookSettings as exc:
        raise InvalidScepWebhook(f"{exc}.", place="webhook", remedy="See docs/how-to/scep.md for the fields.") from exc


def delete_webhook(session: Session, *, actor: str, tenant_id: TenantId) -> None:
    """Delete the webhook. Without a webhook, Admit rejects all challenges that are not Admit enrolment secrets."""
    row = require_webhook(session, tenant_id=tenant_id)
    session.delete(row)
    session.flush()
    _audit(session, actor, tenant_id, "remove", before=row.settings, after=None)


def _audit(
    session: Session,
    actor: str,
    tenant_id: TenantId,
    verb: str,
    *,
    before: dict[str, object] | None,
    after: dict[str, object] | None,
) -> None:
    audit.append(
        session,
        actor=actor,
        action=f"scep-webhook.{verb}",
        target="scep-webhook",
        tenant_id=tenant_id,
        before=before,
        after=after,
    )


def _context(tenant_id: TenantId) -> str:
    return f"scep-webhook:{tenant_id}"

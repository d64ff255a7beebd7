"""`./admit scep`."""

from typing import TextIO

import click
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from cli.domain import Domain
from cli.fail import text_read
from cli.output import Row, json_option, show_one, tenant_option
from nac.clock import utc_now
from nac.models import Certificate, ScepWebhook
from nac.scep import registration_authority, service, webhook_config
from nac.scep.settings import WebhookSettings


@click.group()
def command() -> None:
    """SCEP of a tenant: where devices enrol, and who judges their challenges (docs/how-to/scep.md)."""


@command.command()
@tenant_option
@json_option
def show(tenant: str, as_json: bool) -> None:
    """Show what is entered in an MDM, and the webhook if there is one.

    One-time challenges are made by: ./admit enrol secret --kind scep
    """
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        current, *_ = registration_authority.ensure_registration_authority(
            session, tenant_id=tenant_id, signing=domain.signing, now=utc_now()
        )
        webhook = webhook_config.find_webhook_row(session, tenant_id=tenant_id)
    row = {"url": service.build_scep_url(domain.settings.public_url, tenant), **_registration(current)}
    show_one(row | {"webhook": webhook and webhook_config.parse_settings(webhook).url}, as_json=as_json)


def _registration(row: Certificate) -> Row:
    assert row.certificate_der is not None
    certificate = x509.load_der_x509_certificate(row.certificate_der)
    return {
        "ra_serial": row.serial.hex(),
        "ra_not_after": row.not_after.isoformat(),
        "ra_sha256": certificate.fingerprint(hashes.SHA256()).hex(":"),
    }


@command.command()
@tenant_option
@click.option("--url", help="Set it: where challenges are sent that are not made here, https://host/path")
@click.option("--profile", default="eap-client-device", show_default=True, help="Of the certificates it allows.")
@click.option("--timeout", "timeout_seconds", default=5.0, show_default=True, help="Seconds for its answer.")
@click.option("--network", "networks", multiple=True, help="Where alone its host may be, as CIDR.")
@click.option("--ca-file", type=click.File(encoding="utf-8"), help="PEM of the authority of its server certificate.")
@click.option("--remove", is_flag=True, help="Ask nobody any more.")
@json_option
def webhook(
    tenant: str,
    url: str | None,
    profile: str,
    timeout_seconds: float,
    networks: tuple[str, ...],
    ca_file: TextIO | None,
    remove: bool,
    as_json: bool,
) -> None:
    """Show, set or remove the webhook that judges challenges.

    Setting it makes a new secret, which signs what is sent there and is shown this once.
    """
    if remove and url:
        raise click.UsageError("--remove and --url do not go together.")
    ca_certificate = ""
    if ca_file is not None:
        with text_read(ca_file.name):
            ca_certificate = ca_file.read()
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        if remove:
            webhook_config.delete_webhook(session, actor=domain.actor, tenant_id=tenant_id)
            row: Row = {"webhook": None}
        elif url is None:
            row = _webhook(webhook_config.require_webhook(session, tenant_id=tenant_id))
        else:
            settings = WebhookSettings(
                url=url,
                profile=profile,
                timeout_seconds=timeout_seconds,
                networks=networks,
                ca_certificate=ca_certificate,
            )
            secret = webhook_config.set_webhook(
                session,
                actor=domain.actor,
                tenant_id=tenant_id,
                settings=settings,
                sealer=domain.sealer,
                now=utc_now(),
            )
            row = {**_webhook(webhook_config.require_webhook(session, tenant_id=tenant_id)), "secret": secret}
    show_one(row, as_json=as_json)


def _webhook(row: ScepWebhook) -> Row:
    settings = webhook_config.parse_settings(row)
    return {
        "webhook": settings.url,
        "profile": settings.profile,
        "timeout_seconds": settings.timeout_seconds,
        "networks": list(settings.networks),
        "ca_certificate": "(PEM)" if settings.ca_certificate else None,
    }

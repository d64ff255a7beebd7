"""`./admit scep`."""

from typing import TextIO

import click

from cli.command_context import CommandContext
from cli.errors import require_utf8
from cli.output import Row, json_option, show_one, tenant_option
from nac.certificates.scep import webhook_config
from nac.certificates.scep.settings import WebhookSettings
from nac.kit.clock import utc_now
from nac.models import ScepWebhook


@click.group()
def command() -> None:
    """Manage SCEP of a tenant: URL, challenges and webhook (docs/how-to/scep.md)."""


@command.command()
@tenant_option
@click.option("--url", help="New webhook for challenges that Admit did not create, such as https://host/path.")
@click.option(
    "--profile", default="eap-client-device", show_default=True, help="Profile of the certificates that it allows."
)
@click.option("--timeout", "timeout_seconds", default=5.0, show_default=True, help="Timeout in seconds.")
@click.option("--network", "networks", multiple=True, help="Network that the host must be in (CIDR); repeatable.")
@click.option(
    "--ca-file", type=click.File(encoding="utf-8"), help="PEM file with the authority of the server's certificate."
)
@click.option("--remove", is_flag=True, help="Remove the webhook.")
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
    """Show, set or remove the webhook that checks challenges.

    Setting it creates a new signing secret, which is displayed only once.
    """
    if remove and url:
        raise click.UsageError("--remove and --url exclude each other.")
    ca_certificate = ""
    if ca_file is not None:
        with require_utf8(ca_file.name):
            ca_certificate = ca_file.read()
    domain = CommandContext()
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

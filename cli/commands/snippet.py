"""`./admit snippet`."""

import click

from cli.command_context import CommandContext
from cli.output import json_option, show_json, show_list, tenant_option
from nac.onboarding.snippets import service as snippets


@click.group()
def command() -> None:
    """Generate configurations for switches and access points, with a tenant's addresses and ports."""


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the snippets."""
    rows = [
        {"id": each.id, "title": each.title, "access": each.access, "features": ", ".join(each.features)}
        for each in snippets.list_templates()
    ]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("snippet")
@tenant_option
@click.option("--site", default="", metavar="SLUG", help="Site in the first remark.")
@click.option("--nas", default="", help="Name, address or identifier of the NAS.")
@click.option("--reveal-secret", is_flag=True, help="Include the shared secret. The audit log records this.")
@json_option
def show(snippet: str, tenant: str, site: str, nas: str, reveal_secret: bool, as_json: bool) -> None:
    """Show SNIPPET with the tenant's values."""
    domain = CommandContext()
    template = snippets.require_template(snippet)
    with domain.tenant(tenant) as (session, tenant_id):
        secret = ""
        if reveal_secret:
            secret = snippets.reveal_secret(
                session, actor=domain.actor, tenant_id=tenant_id, unseal=domain.sealer.open, nas=nas
            )
        text = snippets.render_snippet(
            session,
            tenant_id=tenant_id,
            name=snippet,
            usual_host=domain.settings.radius_host,
            site=site,
            nas=nas,
            secret=secret,
        )
    if as_json:
        show_json({"id": snippet, "title": template.title, "text": text})
        return
    click.echo(text, nl=False)
    click.echo(f"Message-Authenticator: {template.message_authenticator}", err=True)

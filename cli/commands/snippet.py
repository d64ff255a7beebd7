"""`./admit snippet`."""

import click

from cli.output import json_option, show_json, show_list, tenant_option
from cli.remote.commands import call_operation
from cli.remote.local_api import connect


@click.group()
def command() -> None:
    """Generate configurations for switches and access points, with a tenant's addresses and ports."""


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the snippets."""
    from nac.onboarding.snippets.service import load_templates

    rows = [
        {"id": each.id, "title": each.title, "access": each.access, "features": ", ".join(each.features)}
        for each in load_templates().values()
    ]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("snippet")
@tenant_option
@click.option("--site", default="", metavar="SLUG", help="Site that the first comment of the snippet names.")
@click.option("--nas", default="", help="Name, address or identifier of the NAS.")
@click.option(
    "--reveal-secret", is_flag=True, help="Include the shared secret. The audit log records that you viewed the secret."
)
@json_option
def show(snippet: str, tenant: str, site: str, nas: str, reveal_secret: bool, as_json: bool) -> None:
    """Show SNIPPET with the tenant's values."""
    api = connect()
    found = call_operation(api, "get-snippet", tenant=tenant, snippet=snippet, site=site, nas=nas)
    text = found["text"]
    if reveal_secret:
        names = {"snippet": snippet, "site": site, "nas": nas}
        text = call_operation(api, "reveal-radius-secret", tenant=tenant, **names, wait=None)["text"]
    if as_json:
        show_json({"id": snippet, "title": found["title"], "text": text})
        return
    click.echo(text, nl=False)
    click.echo(f"Message-Authenticator: {found['message_authenticator']}", err=True)

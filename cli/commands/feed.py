"""`./admit feed`."""

from typing import Any, TextIO

import click

from cli.command_context import CommandContext
from cli.commands import _feed_options as options
from cli.commands._feed_rows import whole_feed_row
from cli.output import json_option, show_one, tenant_option
from nac.kit.clock import utc_now
from nac.logs.feeds import service as feeds
from nac.logs.feeds.event_sources import list_kinds_without_events
from nac.logs.feeds.settings import AnyFeedSettings, SyslogSettings, WebhookSettings, parse_settings
from nac.models import Feed

name_argument = click.argument("name")


@click.group()
def command() -> None:
    """Manage feeds, which send a tenant's events to syslog servers and webhooks (docs/how-to/feeds.md)."""


def _add(tenant: str, name: str, settings: AnyFeedSettings, *, client_key: str = "", as_json: bool) -> None:
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        added = feeds.create_feed(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            slug=name,
            settings=settings,
            client_key=client_key,
            sealer=domain.sealer,
            reach=domain.settings.outbound_reach,
        )
        session.refresh(added.feed)
        row = whole_feed_row(session, added.feed, now=utc_now())
    _tell_unheard(added.feed)
    show_one({**row, **({"secret": added.secret} if added.secret else {})}, as_json=as_json)


def _tell_unheard(feed: Feed) -> None:
    settings = parse_settings(feed.kind, feed.settings)
    if kinds := list_kinds_without_events(settings.kinds, settings.outcomes):
        click.echo(f"Note: {', '.join(kinds)} have none of these outcomes, so none of their events are sent.", err=True)


@command.command("add-syslog")
@name_argument
@click.argument("host")
@options.of_syslog
@click.option("--client-cert", type=options.PEM, help="PEM file with the client certificate and its chain.")
@click.option("--client-key", type=options.PEM, help="PEM file with the client certificate's key.")
@options.shared
@tenant_option
@json_option
def add_syslog(
    tenant: str,
    name: str,
    host: str,
    client_cert: TextIO | None,
    client_key: TextIO | None,
    as_json: bool,
    **given: Any,  # noqa: ANN401 -- settings
) -> None:
    """Create the feed NAME to the syslog server at HOST over TLS (RFC 5424, RFC 5425)."""
    settings = SyslogSettings(host=host, client_certificate=options.pem(client_cert), **options.collect_settings(given))
    _add(tenant, name, settings, client_key=options.pem(client_key), as_json=as_json)


@command.command("add-webhook")
@name_argument
@click.argument("url")
@options.of_webhook
@options.shared
@tenant_option
@json_option
def add_webhook(
    tenant: str,
    name: str,
    url: str,
    as_json: bool,
    **given: Any,  # noqa: ANN401 -- settings
) -> None:
    """Create the feed NAME to the webhook at URL (https; "-": first line of standard input).

    The signing secret is displayed only once.
    """
    _add(tenant, name, WebhookSettings(**options.collect_settings(given | {"url": url})), as_json=as_json)


@command.command("set")
@name_argument
@click.option("--url", help='URL of a webhook; "-": first line of standard input.')
@options.of_webhook
@click.option("--host", help="Host of a syslog server.")
@options.of_syslog
@options.shared
@click.option(
    "--reset", multiple=True, metavar="SETTING", help="Setting to return to its default, such as outcomes; repeatable."
)
@tenant_option
@json_option
def set_(
    tenant: str,
    name: str,
    reset: tuple[str, ...],
    as_json: bool,
    **given: Any,  # noqa: ANN401 -- settings
) -> None:
    """Update the feed NAME. Omitted settings do not change.

    Waiting events are sent immediately with the new settings.
    """
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        feed = feeds.update_feed(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            slug=name,
            changes=options.collect_settings(given),
            reset=reset,
            sealer=domain.sealer,
            reach=domain.settings.outbound_reach,
            now=utc_now(),
        )
        session.refresh(feed)
        row = whole_feed_row(session, feed, now=utc_now())
    _tell_unheard(feed)
    show_one(row, as_json=as_json)

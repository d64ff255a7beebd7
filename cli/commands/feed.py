"""`./admit feed`."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TextIO

import click

from cli.command_context import CommandContext
from cli.commands import _feed_options as options
from cli.commands._feed_rows import feed_row, whole_feed_row
from cli.output import json_option, show_list, show_one, tenant_option
from cli.time_options import DurationType, SinceType
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
    **arguments: Any,  # noqa: ANN401 -- settings
) -> None:
    """Create the feed NAME to the syslog server at HOST over TLS (RFC 5424, RFC 5425)."""
    settings = SyslogSettings(
        host=host, client_certificate=options.pem(client_cert), **options.collect_settings(arguments)
    )
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
    **arguments: Any,  # noqa: ANN401 -- settings
) -> None:
    """Create the feed NAME to the webhook at URL (https; "-": first line of standard input).

    The signing secret is displayed only once.
    """
    _add(tenant, name, WebhookSettings(**options.collect_settings(arguments | {"url": url})), as_json=as_json)


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
    **arguments: Any,  # noqa: ANN401 -- settings
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
            changes=options.collect_settings(arguments),
            reset=reset,
            sealer=domain.sealer,
            reach=domain.settings.outbound_reach,
            now=utc_now(),
        )
        session.refresh(feed)
        row = whole_feed_row(session, feed, now=utc_now())
    _tell_unheard(feed)
    show_one(row, as_json=as_json)


@command.command("list")
@tenant_option
@json_option
def list_command(tenant: str, as_json: bool) -> None:
    """List feeds with their progress."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        now = utc_now()
        rows = [feed_row(session, feed, now=now) for feed in feeds.list_feeds(session, tenant_id=tenant_id)]
    show_list(rows, as_json=as_json)


@command.command()
@name_argument
@tenant_option
@json_option
def show(name: str, tenant: str, as_json: bool) -> None:
    """Show the feed NAME: settings, progress and the cause of a failure."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        feed = feeds.require_feed(session, tenant_id=tenant_id, slug=name)
        row = whole_feed_row(session, feed, now=utc_now())
    show_one(row, as_json=as_json)


@command.command()
@name_argument
@tenant_option
@json_option
def test(name: str, tenant: str, as_json: bool) -> None:
    """Send a test event to NAME immediately, even if the feed is paused."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        feed = feeds.require_feed(session, tenant_id=tenant_id, slug=name)
    reach = domain.settings.outbound_reach
    sent = feeds.send_test_event(feed, tenant_slug=tenant, reach=reach, sealer=domain.sealer, now=utc_now())
    show_one({"name": name, "sent": sent}, as_json=as_json)


def _changed(tenant: str, as_json: bool, change: Callable[..., Feed], **arguments: object) -> None:
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        feed = change(session, actor=domain.actor, tenant_id=tenant_id, **arguments)
        row = feed_row(session, feed, now=utc_now())
    show_one(row, as_json=as_json)


@command.command()
@name_argument
@click.argument("new_name")
@tenant_option
@json_option
def rename(name: str, new_name: str, tenant: str, as_json: bool) -> None:
    """Rename the feed NAME to NEW_NAME. Waiting events are still sent."""
    _changed(tenant, as_json, feeds.rename_feed, slug=name, new_slug=new_name)


@command.command()
@name_argument
@tenant_option
@click.option("--because", default="", help="Reason for the pause.")
@json_option
def pause(name: str, tenant: str, because: str, as_json: bool) -> None:
    """Pause the feed NAME. Admit keeps its events for up to a week."""
    _changed(tenant, as_json, feeds.pause_feed, slug=name, because=because)


@command.command()
@name_argument
@tenant_option
@json_option
def resume(name: str, tenant: str, as_json: bool) -> None:
    """Resume the feed NAME where it stopped. A failing feed is retried immediately."""
    _changed(tenant, as_json, feeds.resume_feed, slug=name, now=utc_now())


@command.command()
@name_argument
@tenant_option
@click.option("--from", "since", type=SinceType(), required=True, help="Start: an age (2h, 3d) or a date (2026-01-31).")
@click.option("--until", type=SinceType(), help="End (default now).")
@json_option
def replay(name: str, tenant: str, since: datetime, until: datetime | None, as_json: bool) -> None:
    """Replay logged events to NAME from a time on, with the same ids."""
    now = utc_now()
    _changed(tenant, as_json, feeds.replay_feed, slug=name, since=since, until=until or now, now=now)


@command.command("rotate-secret")
@name_argument
@tenant_option
@click.option(
    "--keep", type=DurationType(), default="1d", show_default=True, help="Time for which the old secret also signs."
)
@click.option(
    "--client-cert", type=options.PEM, help="PEM file with the new client certificate of a syslog feed, and its chain."
)
@click.option("--client-key", type=options.PEM, help="PEM file with the new certificate's key.")
@json_option
def rotate_secret(
    name: str, tenant: str, keep: timedelta, client_cert: TextIO | None, client_key: TextIO | None, as_json: bool
) -> None:
    """Rotate the secret of the webhook NAME, or replace the client certificate of a syslog feed.

    A new secret is displayed only once.
    """
    if (client_cert is None) != (client_key is None):
        raise click.UsageError("--client-cert and --client-key require each other.")
    domain = CommandContext()
    row: dict[str, object] = {"name": name}
    with domain.tenant(tenant) as (session, tenant_id):
        if client_cert is not None:
            feeds.update_client_certificate(
                session,
                actor=domain.actor,
                tenant_id=tenant_id,
                slug=name,
                certificate=options.pem(client_cert),
                key=options.pem(client_key),
                sealer=domain.sealer,
            )
        else:
            row["secret"] = feeds.rotate_secret(
                session,
                actor=domain.actor,
                tenant_id=tenant_id,
                slug=name,
                sealer=domain.sealer,
                keep=keep,
                now=utc_now(),
            )
    show_one(row, as_json=as_json)


@command.command()
@name_argument
@tenant_option
@json_option
def remove(name: str, tenant: str, as_json: bool) -> None:
    """Delete the feed NAME and its waiting events."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        feeds.delete_feed(session, actor=domain.actor, tenant_id=tenant_id, slug=name)
    show_one({"removed": name}, as_json=as_json)

"""`./admit feed`."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TextIO

import click

from cli.commands import _feed_options as options
from cli.commands._feed_rows import feed_row, whole_feed_row
from cli.domain import Domain
from cli.moments import Lifetime, Since
from cli.output import json_option, show_list, show_one, tenant_option
from nac.clock import utc_now
from nac.feeds import service as feeds
from nac.feeds.event_sources import list_kinds_without_events
from nac.feeds.settings import AnyFeedSettings, SyslogSettings, WebhookSettings, parse_settings
from nac.models import Feed

name_argument = click.argument("name")


@click.group()
def command() -> None:
    """Where a tenant's events are sent: syslog servers and webhooks (docs/how-to/feeds.md)."""


def _add(tenant: str, name: str, settings: AnyFeedSettings, *, client_key: str = "", as_json: bool) -> None:
    domain = Domain()
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
        click.echo(f"Note: {', '.join(kinds)} have no such outcome, so that nothing of them is sent.", err=True)


@command.command("add-syslog")
@name_argument
@click.argument("host")
@options.of_syslog
@click.option(
    "--client-cert", type=options.PEM, help="PEM of the certificate that is shown to the server, with its chain."
)
@click.option("--client-key", type=options.PEM, help="PEM of its key.")
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
    """Send events to the syslog server at HOST by TLS (RFC 5424, RFC 5425), under the name NAME."""
    settings = SyslogSettings(host=host, client_certificate=options.pem(client_cert), **options.given(given))
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
    """Post events to URL (https; "-": first line of standard input), under the name NAME.

    Its secret, which signs, is shown this once.
    """
    _add(tenant, name, WebhookSettings(**options.given(given | {"url": url})), as_json=as_json)


@command.command("set")
@name_argument
@click.option("--url", help='Of a webhook; "-": first line of standard input.')
@options.of_webhook
@click.option("--host", help="Of syslog.")
@options.of_syslog
@options.shared
@click.option("--reset", multiple=True, metavar="SETTING", help="As usual again, such as outcomes; may be repeated.")
@tenant_option
@json_option
def set_(
    tenant: str,
    name: str,
    reset: tuple[str, ...],
    as_json: bool,
    **given: Any,  # noqa: ANN401 -- settings
) -> None:
    """Change settings of NAME; the others stay. What waits is sent by the new ones, at once."""
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        feed = feeds.update_feed(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            slug=name,
            changes=options.given(given),
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
    """List feeds, and how far each has come."""
    with Domain().tenant(tenant) as (session, tenant_id):
        now = utc_now()
        rows = [feed_row(session, feed, now=now) for feed in feeds.list_feeds(session, tenant_id=tenant_id)]
    show_list(rows, as_json=as_json)


@command.command()
@name_argument
@tenant_option
@json_option
def show(name: str, tenant: str, as_json: bool) -> None:
    """Show the feed NAME: its settings, how far it is, and why it fails where it does."""
    with Domain().tenant(tenant) as (session, tenant_id):
        feed = feeds.require_feed(session, tenant_id=tenant_id, slug=name)
        row = whole_feed_row(session, feed, now=utc_now())
    show_one(row, as_json=as_json)


@command.command()
@name_argument
@tenant_option
@json_option
def test(name: str, tenant: str, as_json: bool) -> None:
    """Send an event to NAME at once that says it is a test; a paused feed is tried, too."""
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        feed = feeds.require_feed(session, tenant_id=tenant_id, slug=name)
    reach = domain.settings.outbound_reach
    sent = feeds.send_test_event(feed, tenant_slug=tenant, reach=reach, sealer=domain.sealer, now=utc_now())
    show_one({"name": name, "sent": sent}, as_json=as_json)


def _changed(tenant: str, as_json: bool, change: Callable[..., Feed], **given: object) -> None:
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        feed = change(session, actor=domain.actor, tenant_id=tenant_id, **given)
        row = feed_row(session, feed, now=utc_now())
    show_one(row, as_json=as_json)


@command.command()
@name_argument
@click.argument("new_name")
@tenant_option
@json_option
def rename(name: str, new_name: str, tenant: str, as_json: bool) -> None:
    """Call the feed NAME NEW_NAME; what waits is sent as before."""
    _changed(tenant, as_json, feeds.rename_feed, slug=name, new_slug=new_name)


@command.command()
@name_argument
@tenant_option
@click.option("--because", default="", help="For whoever reads it later.")
@json_option
def pause(name: str, tenant: str, because: str, as_json: bool) -> None:
    """Send nothing to NAME until it is resumed; what happens meanwhile is kept for a week."""
    _changed(tenant, as_json, feeds.pause_feed, slug=name, because=because)


@command.command()
@name_argument
@tenant_option
@json_option
def resume(name: str, tenant: str, as_json: bool) -> None:
    """Go on with NAME where it stands; one that fails is tried at once."""
    _changed(tenant, as_json, feeds.resume_feed, slug=name, now=utc_now())


@command.command()
@name_argument
@tenant_option
@click.option("--from", "since", type=Since(), required=True, help="Such as 2h, 3d or 2026-01-31.")
@click.option("--until", type=Since(), help="Up to now otherwise.")
@json_option
def replay(name: str, tenant: str, since: datetime, until: datetime | None, as_json: bool) -> None:
    """Send NAME once more what the logs hold since then, with the same ids."""
    now = utc_now()
    _changed(tenant, as_json, feeds.replay_feed, slug=name, since=since, until=until or now, now=now)


@command.command("rotate-secret")
@name_argument
@tenant_option
@click.option("--keep", type=Lifetime(), default="1d", show_default=True, help="So long the former one signs, too.")
@click.option("--client-cert", type=options.PEM, help="Of syslog: PEM of the new certificate, with its chain.")
@click.option("--client-key", type=options.PEM, help="PEM of its key.")
@json_option
def rotate_secret(
    name: str, tenant: str, keep: timedelta, client_cert: TextIO | None, client_key: TextIO | None, as_json: bool
) -> None:
    """Make a new secret for the webhook NAME, shown this once; of syslog, set the client's certificate and key."""
    if (client_cert is None) != (client_key is None):
        raise click.UsageError("--client-cert and --client-key go together.")
    domain = Domain()
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
    """Send nothing to NAME any more; what waits is forgotten."""
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        feeds.delete_feed(session, actor=domain.actor, tenant_id=tenant_id, slug=name)
    show_one({"removed": name}, as_json=as_json)

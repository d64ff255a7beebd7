"""`./admit feed`."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TextIO, TypeVar

import click

from cli.commands._feed_rows import feed_row, whole_feed_row
from cli.domain import Domain
from cli.fail import text_read
from cli.moments import Lifetime, Since
from cli.output import json_option, show_list, show_one, tenant_option
from nac.clock import utc_now
from nac.feeds import service as feeds
from nac.feeds.settings import FACILITIES, OUTCOMES, SEVERITIES, Settings, SyslogSettings, WebhookSettings
from nac.feeds.sources import KINDS
from nac.models import Feed

F = TypeVar("F", bound=Callable[..., object])
name_argument = click.argument("name")
_PEM = click.File(encoding="utf-8")


@click.group()
def command() -> None:
    """Where a tenant's events are sent: syslog servers and webhooks (docs/feeds.md)."""


def _common(function: F) -> F:
    """Options of both kinds."""
    for option in (
        json_option,
        click.option(
            "--timeout", "timeout_seconds", default=5.0, show_default=True, help="Seconds of a step, 1 to 10."
        ),
        click.option("--network", "networks", multiple=True, help="Where alone its host may be, as CIDR."),
        click.option("--ca-file", type=_PEM, help="PEM of the authority of its server certificate."),
        click.option("--outcome", "outcomes", multiple=True, type=click.Choice(OUTCOMES), help="Only these events."),
        click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only these; all otherwise."),
        tenant_option,
    ):
        function = option(function)
    return function


def _shared(
    kinds: tuple[str, ...], outcomes: tuple[str, ...], ca_file: TextIO | None, **others: object
) -> dict[str, Any]:
    return {"kinds": kinds or KINDS, "outcomes": outcomes, "ca_certificate": _pem(ca_file), **others}


def _pem(file: TextIO | None) -> str:
    if file is None:
        return ""
    with text_read(file.name):
        return file.read()


def _add(tenant: str, name: str, settings: Settings, *, client_key: str = "", as_json: bool) -> None:
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        added = feeds.add(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            slug=name,
            settings=settings,
            client_key=client_key,
            sealer=domain.sealer,
        )
        session.refresh(added.feed)
        row = whole_feed_row(session, added.feed, now=utc_now())
    show_one({**row, **({"secret": added.secret} if added.secret else {})}, as_json=as_json)


@command.command("add-syslog")
@name_argument
@click.argument("host")
@click.option("--port", default=6514, show_default=True, help="TCP, with TLS.")
@click.option("--facility", default="authpriv", show_default=True, type=click.Choice(list(FACILITIES)))
@click.option("--app-name", default="admit", show_default=True, help="APP-NAME of messages.")
@click.option("--hostname", default="", help="HOSTNAME of messages; this machine's otherwise.")
@click.option("--enterprise", default=32473, show_default=True, help="Private enterprise number in the SD-ID.")
@click.option("--severity", "severities", multiple=True, metavar="KIND[.OUTCOME]=NAME", help="May be repeated.")
@click.option("--bom", is_flag=True, help="Messages are UTF-8 with a byte order mark, not ASCII.")
@click.option("--client-cert", type=_PEM, help="PEM of the certificate that is shown to the server, with its chain.")
@click.option("--client-key", type=_PEM, help="PEM of its key.")
@_common
def add_syslog(
    tenant: str,
    name: str,
    severities: tuple[str, ...],
    client_cert: TextIO | None,
    client_key: TextIO | None,
    as_json: bool,
    host: str,
    port: int,
    facility: str,
    app_name: str,
    hostname: str,
    enterprise: int,
    bom: bool,
    **shared: Any,  # noqa: ANN401 -- options of both kinds
) -> None:
    """Send events to the syslog server at HOST by TLS (RFC 5424, RFC 5425), under the name NAME."""
    settings = SyslogSettings(
        host=host,
        port=port,
        facility=facility,
        app_name=app_name,
        hostname=hostname,
        enterprise=enterprise,
        severities=dict(_pairs(severities)),
        bom=bom,
        client_certificate=_pem(client_cert),
        **_shared(**shared),
    )
    _add(tenant, name, settings, client_key=_pem(client_key), as_json=as_json)


def _pairs(severities: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in severities:
        what, equals, severity = text.partition("=")
        if not equals:
            raise click.UsageError(f"--severity {text}: write KIND=NAME, NAME one of {', '.join(SEVERITIES)}.")
        yield what, severity


@command.command("add-webhook")
@name_argument
@click.argument("url")
@click.option("--batch", default=100, show_default=True, help="Events of one request at the most, 1 to 500.")
@_common
def add_webhook(
    tenant: str,
    name: str,
    url: str,
    batch: int,
    as_json: bool,
    **shared: Any,  # noqa: ANN401 -- options of both kinds
) -> None:
    """Post events to URL (https), under the name NAME. Its secret, which signs, is shown this once."""
    _add(tenant, name, WebhookSettings(url=url, batch=batch, **_shared(**shared)), as_json=as_json)


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
        feed = feeds.require(session, tenant_id=tenant_id, slug=name)
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
        feed = feeds.require(session, tenant_id=tenant_id, slug=name)
    reach = domain.settings.outbound_reach
    sent = feeds.send_test(feed, tenant_slug=tenant, reach=reach, sealer=domain.sealer, now=utc_now())
    show_one({"name": name, "sent": sent}, as_json=as_json)


def _changed(tenant: str, as_json: bool, change: Callable[..., Feed], **given: object) -> None:
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        feed = change(session, actor=domain.actor, tenant_id=tenant_id, **given)
        row = feed_row(session, feed, now=utc_now())
    show_one(row, as_json=as_json)


@command.command()
@name_argument
@tenant_option
@click.option("--because", default="", help="For whoever reads it later.")
@json_option
def pause(name: str, tenant: str, because: str, as_json: bool) -> None:
    """Send nothing to NAME until it is resumed; what happens meanwhile is kept for a week."""
    _changed(tenant, as_json, feeds.pause, slug=name, because=because)


@command.command()
@name_argument
@tenant_option
@json_option
def resume(name: str, tenant: str, as_json: bool) -> None:
    """Go on with NAME where it stands; one that fails is tried at once."""
    _changed(tenant, as_json, feeds.resume, slug=name, now=utc_now())


@command.command()
@name_argument
@tenant_option
@click.option("--from", "since", type=Since(), required=True, help="Such as 2h, 3d or 2026-01-31.")
@click.option("--until", type=Since(), help="Up to now otherwise.")
@json_option
def replay(name: str, tenant: str, since: datetime, until: datetime | None, as_json: bool) -> None:
    """Send NAME once more what the logs hold since then, with the same ids."""
    now = utc_now()
    _changed(tenant, as_json, feeds.replay, slug=name, since=since, until=until or now, now=now)


@command.command("rotate-secret")
@name_argument
@tenant_option
@click.option("--keep", type=Lifetime(), default="1d", show_default=True, help="So long the former one signs, too.")
@click.option("--client-cert", type=_PEM, help="Of syslog: PEM of the new certificate, with its chain.")
@click.option("--client-key", type=_PEM, help="PEM of its key.")
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
            feeds.change_client_certificate(
                session,
                actor=domain.actor,
                tenant_id=tenant_id,
                slug=name,
                certificate=_pem(client_cert),
                key=_pem(client_key),
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
        feeds.remove(session, actor=domain.actor, tenant_id=tenant_id, slug=name)
    show_one({"removed": name}, as_json=as_json)

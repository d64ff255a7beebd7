"""`./admit usage`."""

from datetime import datetime

import click

from cli.command_context import CommandContext
from cli.output import json_option, show_list, tenant_option
from cli.time_options import SinceType
from nac.kit.mac import display_mac
from nac.sessions.usage import USAGE_DIMENSIONS, UsageDimension, list_usage


@click.command()
@tenant_option
@click.option(
    "--by", type=click.Choice(USAGE_DIMENSIONS), default="hour", show_default=True, help="Dimension of the totals."
)
@click.option(
    "--since",
    type=SinceType(),
    default="1d",
    show_default=True,
    help="Start, rounded down to the hour: an age or a date and time (UTC).",
)
@click.option("--until", type=SinceType(), help="End, including its hour.")
@click.option("--limit", type=click.IntRange(min=1), default=1_000, show_default=True, help="Maximum number of rows.")
@json_option
def command(
    tenant: str, by: UsageDimension, since: datetime, until: datetime | None, limit: int, as_json: bool
) -> None:
    """Show usage by the hour in which NASes reported it, largest first. Hours are in order of time."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        usage = list_usage(session, tenant_id=tenant_id, by=by, since=since, until=until, limit=limit)
    rows = [
        {
            by: display_mac(use.what) if by == "endpoint" and use.what else use.what,
            "sessions": use.sessions,
            "seconds": use.seconds,
            "input_octets": use.input_octets,
            "output_octets": use.output_octets,
        }
        for use in usage
    ]
    show_list(rows, as_json=as_json)

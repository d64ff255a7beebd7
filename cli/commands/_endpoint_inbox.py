"""`./admit endpoint inbox` and `classify`: discovered devices."""

from datetime import datetime
from itertools import chain, islice
from typing import Any

import click

from cli.command_context import CommandContext
from cli.commands._endpoint_rows import filter_options, inbox_rows, is_narrow, take_filter
from cli.output import json_option, show_list, tenant_option
from cli.time_options import until_option
from nac.inventory.endpoints import inbox as service
from nac.inventory.endpoints import service as endpoints


@click.command()
@tenant_option
@filter_options
@click.option("--after", default="", metavar="MAC", help="Start after this address.")
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True)
@json_option
def inbox(tenant: str, after: str, limit: int, as_json: bool, **options: Any) -> None:  # noqa: ANN401 -- click's
    """List the discovered devices that wait to be classified."""
    criteria = take_filter(options, statuses=("discovered",))
    with CommandContext().tenant(tenant) as (session, tenant_id):
        pages = endpoints.ORDERS.pages(
            lambda span: endpoints.list_endpoints(session, tenant_id=tenant_id, wanted=criteria, span=span),
            after=endpoints.parse_after_key(after),
        )
        rows = inbox_rows(session, tenant_id, list(islice(chain.from_iterable(pages), limit)))
    show_list(rows, as_json=as_json)


@click.command()
@click.argument("macs", nargs=-1)
@tenant_option
@click.option("--approve", "action", flag_value="approve", help="Approve them, so that policies know them.")
@click.option("--block", "action", flag_value="block", help="Reject them in any policy.")
@click.option("--ignore", "action", flag_value="ignore", help="Remove them from the inbox without a decision.")
@filter_options
@click.option("--group", "groups", multiple=True, help="Group for approved devices; repeatable.")
@until_option("End of the approval (UTC).")
@click.option("--allow-random", is_flag=True, help="Also approve random MAC addresses.")
@click.option("--dry-run", is_flag=True, help="List the devices without changing them.")
@json_option
def classify(
    macs: tuple[str, ...],
    tenant: str,
    action: service.InboxAction | None,
    groups: tuple[str, ...],
    valid_until: datetime | None,
    allow_random: bool,
    dry_run: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401 -- click's
) -> None:
    """Classify discovered devices: MACS, or all that match the options."""
    if action is None:
        raise click.UsageError("Use --approve, --block or --ignore.")
    criteria = take_filter(options, macs=macs)
    if not is_narrow(criteria):
        raise click.UsageError("No device selected. Use MAC addresses, or an option such as --vendor.")
    domain = CommandContext()
    with domain.tenant(tenant) if dry_run else domain.change(tenant) as (session, tenant_id):
        decision = service.InboxDecision(action, groups, valid_until, allow_random)
        classified = service.classify_endpoints(
            session, actor=domain.actor, tenant_id=tenant_id, wanted=criteria, decision=decision, dry_run=dry_run
        )
        rows = inbox_rows(session, tenant_id, classified)
    show_list(rows, as_json=as_json)
    click.echo(f"{len(rows)} would be: {action}" if dry_run else f"{len(rows)}: {action}", err=True)

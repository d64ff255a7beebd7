"""`./admit redecide`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain, islice
from typing import Any, BinaryIO, TypedDict, Unpack
from uuid import UUID

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.commands.policy.group import read_document, slug_option
from cli.mistakes import report_policy_mistakes
from cli.output import ROW_ID, escape_unprintable, json_option, show_json, show_list, show_one, tenant_option
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.models import Redecision
from nac.models.redecision import REDECISION_MODES
from nac.policies import service as policies
from nac.redecisions import service as redecisions
from nac.redecisions.settings import MIN_CEILING

_PAGE = 500
_SHOWN = 20


class _SettingOptions(TypedDict):
    mode: str | None
    per_second: int | None
    ceiling_percent: int | None
    ceiling_sessions: int | None
    every_minutes: int | None


@click.group()
def command() -> None:
    """Redecide live sessions after a change, and send the differences to NASes (docs/how-to/redecisions.md)."""


@command.command()
@tenant_option
@slug_option
@click.option("--draft", type=click.File("rb"), help="File with a policy document to preview.")
@click.option("--version", "number", type=int, help="Policy version to preview.")
@click.option("--in-force", is_flag=True, help="Preview the version in force, as start does.")
@json_option
def preview(tenant: str, slug: str, draft: BinaryIO | None, number: int | None, in_force: bool, as_json: bool) -> None:
    """Preview the requests that a policy version (default the newest) would cause. Sends and stores nothing."""
    if (draft is not None) + (number is not None) + in_force > 1:
        raise InvalidInput(
            "--draft, --version and --in-force exclude each other.",
            place="draft, version, in-force",
            remedy="Use at most one of them.",
        )
    with report_policy_mistakes(as_json=as_json), CommandContext().tenant(tenant) as (session, tenant_id):
        drafts = {} if in_force else _drafts(session, tenant_id, slug, draft, number)
        expected = redecisions.preview_redecision(session, tenant_id=tenant_id, drafts=drafts)
    tallies = expected.tallies
    row = {
        "sessions": tallies.sessions,
        "unchanged": tallies.unchanged,
        "asked_already": tallies.asked_already,
        **tallies.row(),
        "cannot_be_redecided": dict(tallies.undecidable),
        # Whether a step of the vendor's recipe is a Disconnect-Request.
        "may_disconnect": tallies.may_disconnect,
        # Whether the run would wait for approval.
        "over_ceiling": expected.over_ceiling,
        "mode": expected.settings.mode,
    }
    _show(row, as_json=as_json)


def _drafts(
    session: Session, tenant_id: TenantId, slug: str, draft: BinaryIO | None, number: int | None
) -> Mapping[UUID, object]:
    policy = policies.find_policy(session, tenant_id=tenant_id, slug=slug)
    if draft is not None:
        return {policy.id: read_document(draft)}
    version = policies.require_newest_version(session, tenant_id=tenant_id, slug=policy.slug, number=number)
    return {policy.id: version.document}


@command.command()
@tenant_option
@json_option
def start(tenant: str, as_json: bool) -> None:
    """Start a re-decision of all live sessions, and send the differences."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        run = redecisions.start_redecision(session, actor=domain.actor, tenant_id=tenant_id)
        row = redecisions.summary_row(run)
    show_one(row, as_json=as_json)


@command.command("list")
@tenant_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of re-decisions."
)
@json_option
def list_command(tenant: str, limit: int, as_json: bool) -> None:
    """List re-decisions, newest first."""

    def fetch(span: PageSpan) -> Sequence[Redecision]:
        return redecisions.list_redecisions(session, tenant_id=tenant_id, span=span)

    with CommandContext().tenant(tenant) as (session, tenant_id):
        runs = islice(chain.from_iterable(redecisions.ORDERS.pages(fetch, size=min(limit, _PAGE))), limit)
        rows = [redecisions.summary_row(run) for run in runs]
    show_list(rows, as_json=as_json)


@command.command()
@tenant_option
@click.argument("number", metavar="ID", type=ROW_ID)
@json_option
def show(tenant: str, number: int, as_json: bool) -> None:
    """Show the differences and the progress of the re-decision ID."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        run = redecisions.require_redecision(session, tenant_id=tenant_id, number=number)
        row = redecisions.redecision_row(session, run)
    _show(row, as_json=as_json)


@command.command()
@tenant_option
@click.argument("number", metavar="ID", type=ROW_ID)
@json_option
def approve(tenant: str, number: int, as_json: bool) -> None:
    """Approve the re-decision ID, which is a preview or disconnects many sessions."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        run = redecisions.approve_redecision(session, actor=domain.actor, tenant_id=tenant_id, number=number)
        row = redecisions.summary_row(run)
    show_one(row, as_json=as_json)


@command.command()
@tenant_option
@click.argument("number", metavar="ID", type=ROW_ID)
@json_option
def stop(tenant: str, number: int, as_json: bool) -> None:
    """Stop the re-decision ID and withdraw its queued requests. Requests already sent are not reverted."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        withdrawn = redecisions.stop_redecision(session, actor=domain.actor, tenant_id=tenant_id, number=number)
        run = redecisions.require_redecision(session, tenant_id=tenant_id, number=number)
        row = {**redecisions.summary_row(run), "withdrawn": withdrawn}
    show_one(row, as_json=as_json)


@command.command("set")
@tenant_option
@click.option(
    "--mode", type=click.Choice(REDECISION_MODES), help="Action for differences: none, a preview or requests."
)
@click.option(
    "--per-second", type=int, metavar="N", help="Maximum requests per second to the tenant's NASes, 1 to 500."
)
@click.option(
    "--ceiling-percent",
    type=int,
    metavar="N",
    help=f"Maximum disconnects without approval, as a share of live sessions; up to {MIN_CEILING} never need approval.",
)
@click.option(
    "--ceiling-sessions", type=int, metavar="N", help="Maximum disconnects without approval, as a number of sessions."
)
@click.option(
    "--every-minutes",
    type=int,
    metavar="N",
    help="Interval of re-decisions without a change, for rules on time; 0 for never.",
)
@json_option
def set_(tenant: str, as_json: bool, **options: Unpack[_SettingOptions]) -> None:
    """Update the tenant's settings of re-decisions, or show them without options."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        settings = redecisions.update_settings(session, actor=domain.actor, tenant_id=tenant_id, **options)
    show_one(asdict(settings), as_json=as_json)


def _show(row: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(row)
        return
    lists = {name: value for name, value in row.items() if name in ("changes", "nases", "sites")}
    show_one({name: value for name, value in row.items() if name not in lists}, as_json=False)
    for change in lists["changes"][:_SHOWN]:
        click.echo("")
        click.echo(f"{change['sessions']} to {change['action']}:")
        click.echo(escape_unprintable(f"  before  {change['before']['text']}"))
        click.echo(escape_unprintable(f"  after   {change['after']['text']} ({change['after']['reason']})"))
        for example in change["examples"]:
            click.echo(
                escape_unprintable(f"  such as session {example['session']}: {_who(example)} at {example['nas']}")
            )
    for name in ("nases", "sites"):
        click.echo("")
        show_list(lists[name][:_SHOWN], as_json=False)


def _who(example: Mapping[str, Any]) -> str:
    return " ".join(part for part in (example["mac"], example["identity"]) if part)

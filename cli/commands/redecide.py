"""`./admit redecide`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain, islice
from typing import Any, BinaryIO, TypedDict, Unpack
from uuid import UUID

import click
from sqlalchemy.orm import Session

from cli.commands.policy.group import read_document, slug_option
from cli.domain import Domain
from cli.mistakes import mistakes_listed
from cli.output import ROW_ID, json_option, printable, show_json, show_list, show_one, tenant_option
from nac.db.sort_orders import PageSpan
from nac.errors import InvalidInput
from nac.ids import TenantId
from nac.models import Redecision
from nac.models.redecision import REDECISION_MODES
from nac.policies import service as policies
from nac.redecisions import service as redecisions
from nac.redecisions.settings import MIN_CEILING

_PAGE = 500
_SHOWN = 20


class _Given(TypedDict):
    mode: str | None
    per_second: int | None
    ceiling_percent: int | None
    ceiling_sessions: int | None
    every_minutes: int | None


@click.group()
def command() -> None:
    """Decide live sessions anew after a change, and have NASes do what differs (docs/how-to/redecisions.md)."""


@command.command()
@tenant_option
@slug_option
@click.option("--draft", type=click.File("rb"), help="As if this document were in force, whatever is stored.")
@click.option("--version", "number", type=int, help="As if this version were in force.")
@click.option("--in-force", is_flag=True, help="By what is in force now: what start would find.")
@json_option
def preview(tenant: str, slug: str, draft: BinaryIO | None, number: int | None, in_force: bool, as_json: bool) -> None:
    """Tell what would be sent if the newest version of a policy were in force; nothing is sent or stored."""
    if (draft is not None) + (number is not None) + in_force > 1:
        raise InvalidInput(
            "They exclude each other.", place="draft, version, in-force", remedy="Give one of them, or none."
        )
    with mistakes_listed(as_json=as_json), Domain().tenant(tenant) as (session, tenant_id):
        drafts = {} if in_force else _drafts(session, tenant_id, slug, draft, number)
        found = redecisions.preview_redecision(session, tenant_id=tenant_id, drafts=drafts)
    tallies = found.tallies
    row = {
        "sessions": tallies.sessions,
        "unchanged": tallies.unchanged,
        "asked_already": tallies.asked_already,
        **tallies.row(),
        "cannot_be_redecided": dict(tallies.undecidable),
        # Where a step of the vendor's recipe is a Disconnect.
        "may_disconnect": tallies.may_disconnect,
        # Whether it would wait for approve.
        "over_ceiling": found.over_ceiling,
        "mode": found.settings.mode,
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
    """Look at every live session now, and send what differs."""
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        run = redecisions.start_redecision(session, actor=domain.actor, tenant_id=tenant_id)
        row = redecisions.summary_row(run)
    show_one(row, as_json=as_json)


@command.command("list")
@tenant_option
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at most.")
@json_option
def list_command(tenant: str, limit: int, as_json: bool) -> None:
    """List re-decisions, the newest first."""

    def fetch(span: PageSpan) -> Sequence[Redecision]:
        return redecisions.list_redecisions(session, tenant_id=tenant_id, span=span)

    with Domain().tenant(tenant) as (session, tenant_id):
        found = islice(chain.from_iterable(redecisions.ORDERS.pages(fetch, size=min(limit, _PAGE))), limit)
        rows = [redecisions.summary_row(run) for run in found]
    show_list(rows, as_json=as_json)


@command.command()
@tenant_option
@click.argument("number", metavar="ID", type=ROW_ID)
@json_option
def show(tenant: str, number: int, as_json: bool) -> None:
    """Show what the re-decision ID of list found, and how far it was sent."""
    with Domain().tenant(tenant) as (session, tenant_id):
        run = redecisions.require_redecision(session, tenant_id=tenant_id, number=number)
        row = redecisions.redecision_row(session, run)
    _show(row, as_json=as_json)


@command.command()
@tenant_option
@click.argument("number", metavar="ID", type=ROW_ID)
@json_option
def approve(tenant: str, number: int, as_json: bool) -> None:
    """Send what the re-decision ID has found, which waits for it: for a preview, or because it disconnects many."""
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        run = redecisions.approve_redecision(session, actor=domain.actor, tenant_id=tenant_id, number=number)
        row = redecisions.summary_row(run)
    show_one(row, as_json=as_json)


@command.command()
@tenant_option
@click.argument("number", metavar="ID", type=ROW_ID)
@json_option
def stop(tenant: str, number: int, as_json: bool) -> None:
    """Send no more of the re-decision ID, and withdraw what is queued; what NASes have done stays done."""
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        withdrawn = redecisions.stop_redecision(session, actor=domain.actor, tenant_id=tenant_id, number=number)
        run = redecisions.require_redecision(session, tenant_id=tenant_id, number=number)
        row = {**redecisions.summary_row(run), "withdrawn": withdrawn}
    show_one(row, as_json=as_json)


@command.command("set")
@tenant_option
@click.option(
    "--mode", type=click.Choice(REDECISION_MODES), help="What becomes of changes: nothing, a preview, or requests."
)
@click.option("--per-second", type=int, metavar="N", help="Requests to the NASes of the tenant, 1 to 500.")
@click.option(
    "--ceiling-percent",
    type=int,
    metavar="N",
    help=f"More disconnects than that of all live sessions wait for approval; up to {MIN_CEILING} never do.",
)
@click.option("--ceiling-sessions", type=int, metavar="N", help="The same, as a number of sessions.")
@click.option(
    "--every-minutes",
    type=int,
    metavar="N",
    help="Look at all sessions so often without a change, for rules that go by the time; 0 for never.",
)
@json_option
def set_(tenant: str, as_json: bool, **given: Unpack[_Given]) -> None:
    """Change what the tenant wants of re-decisions, or show it where nothing is given."""
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        found = redecisions.update_settings(session, actor=domain.actor, tenant_id=tenant_id, **given)
    show_one(asdict(found), as_json=as_json)


def _show(row: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(row)
        return
    lists = {name: value for name, value in row.items() if name in ("changes", "nases", "sites")}
    show_one({name: value for name, value in row.items() if name not in lists}, as_json=False)
    for change in lists["changes"][:_SHOWN]:
        click.echo("")
        click.echo(f"{change['sessions']} to {change['action']}:")
        click.echo(printable(f"  before  {change['before']['text']}"))
        click.echo(printable(f"  after   {change['after']['text']} ({change['after']['reason']})"))
        for example in change["examples"]:
            click.echo(printable(f"  such as session {example['session']}: {_who(example)} at {example['nas']}"))
    for name in ("nases", "sites"):
        click.echo("")
        show_list(lists[name][:_SHOWN], as_json=False)


def _who(example: Mapping[str, Any]) -> str:
    return " ".join(part for part in (example["mac"], example["identity"]) if part)

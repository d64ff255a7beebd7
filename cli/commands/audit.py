"""`./admit audit`."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.errors import require_utf8
from cli.output import Row, escape_unprintable, format_value, json_option, show_json, show_one
from cli.time_options import SinceType
from nac.core.access.owners import Owner
from nac.core.audit import chain_export, service
from nac.core.audit.differences import list_differences
from nac.core.audit.repository import AuditEntryFilter
from nac.core.audit.verification import parse_known_head
from nac.core.audit.verification import verify_export as verify_lines
from nac.kit.errors import InvalidInput
from nac.models import AuditEntry
from nac.tenancy.msps import service as msps
from nac.tenancy.tenants import service as tenants

F = TypeVar("F", bound=Callable[..., Any])
_PAGE = 500


class _Criteria(TypedDict):
    actor: str
    action: str
    target: str
    text: str
    request_id: str
    address: str
    since: datetime | None
    until: datetime | None


@click.group()
def command() -> None:
    """Show, export and verify the audit log of a tenant, an MSP or, by default, the platform."""


def _owner_options(function: F) -> F:
    function = click.option("--msp", metavar="SLUG", help="The MSP.")(function)
    return click.option("--tenant", "-t", metavar="SLUG", help="The tenant.")(function)


def _owner(session: Session, tenant: str | None, msp: str | None) -> Owner:
    if tenant and msp:
        raise InvalidInput("--tenant and --msp exclude each other.", place="--msp", remedy="Use only one of them.")
    if tenant:
        return Owner(tenant_id=tenants.require_by_slug(session, slug=tenant).id)
    return Owner(msps.require_by_slug(session, slug=msp).id) if msp else Owner()


@command.command("list")
@_owner_options
@click.option("--actor", default="", help="Actor as kind and name, such as cli:root.")
@click.option("--action", default="", help="Action, such as endpoint.set.")
@click.option("--target", default="", help="Target, exactly as in an entry.")
@click.option("--text", default="", help="Part of the target.")
@click.option("--request", "request_id", metavar="ID", default="", help="ID of the API request.")
@click.option("--address", default="", help="Source address of the request.")
@click.option("--since", type=SinceType(), help="Start: an age (15m, 1h, 2d) or a date and time (UTC).")
@click.option("--until", type=SinceType(), help="End (exclusive), in the same formats.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of entries.")
@json_option
def list_(tenant: str | None, msp: str | None, limit: int, as_json: bool, **criteria: Unpack[_Criteria]) -> None:
    """List entries with their changes, newest first."""
    with CommandContext().platform() as session:
        owner = _owner(session, tenant, msp)
        rows = list(islice(_entries(session, owner, AuditEntryFilter(**criteria), limit), limit))
    if as_json:
        show_json([_row(row) for row in rows])
        return
    for row in rows:
        where = f" from {row.address}" if row.address else ""
        click.echo(escape_unprintable(f"{row.at:%Y-%m-%d %H:%M:%S}  {row.action} {row.target}  by {row.actor}{where}"))
        for name, before, after in list_differences(row.before, row.after):
            click.echo(f"    {escape_unprintable(name)}: {format_value(before)} -> {format_value(after)}")
    if not rows:
        click.echo("none")


def _entries(session: Session, owner: Owner, criteria: AuditEntryFilter, limit: int) -> Iterator[AuditEntry]:
    span = service.ORDERS.first(min(limit, _PAGE))
    while True:
        rows, searched = service.search_entries(session, owner=owner, wanted=criteria, span=span)
        yield from rows
        behind = span.order.row_key(rows[-1]) if len(rows) == span.limit else searched
        if behind is None:
            return
        span = replace(span, after=behind)


def _row(row: AuditEntry) -> Row:
    names = ("id", "at", "actor", "action", "target", "tenant_id", "msp_id", "address", "request_id", "before", "after")
    return {name: getattr(row, name) for name in names}


@command.command()
@_owner_options
@click.option("--after", type=click.IntRange(min=0), default=0, help="Start after this position.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False, writable=True), required=True)
@json_option
def export(tenant: str | None, msp: str | None, after: int, output: Path, as_json: bool) -> None:
    """Export the chain to a file for `audit verify`."""
    domain = CommandContext()
    with domain.platform() as session:
        owner = _owner(session, tenant, msp)
    pieces = chain_export.export_chain(domain.platform, owner=owner, behind=after)
    with output.open("w", encoding="utf-8") as file:
        for piece in pieces:
            file.write(piece)
    show_one({"file": str(output), "bytes": output.stat().st_size}, as_json=as_json)


_File = click.Path(path_type=Path, exists=True, dir_okay=False)


@command.command()
@click.argument("file", type=_File)
@click.option("--head", "heads", type=_File, multiple=True, help="Stored head or earlier export; repeatable.")
@click.option("--key", type=_File, help="PEM file with the platform's public key from a trusted source.")
@json_option
def verify(file: Path, heads: tuple[Path, ...], key: Path | None, as_json: bool) -> None:
    """Verify FILE, an export of the audit log; exit status 1 if it was altered. Needs no database."""
    known = [parse_known_head(_read(head)) for head in heads]
    with require_utf8(file.name), file.open(encoding="utf-8") as lines:
        result = verify_lines(lines, known=known, public_key=_read(key) if key else "")
    row: Row = {
        "chain": result.chain,
        "verified": not result.findings,
        "after": result.after,
        "last": result.last,
        "entries": result.entries,
        "findings": result.findings,
        "notes": result.notes if known else [*result.notes, "not compared with a stored head (--head)"],
    }
    show_one(row, as_json=as_json)
    if result.findings:
        click.get_current_context().exit(1)


def _read(path: Path) -> str:
    with require_utf8(path.name):
        return path.read_text(encoding="utf-8")

"""`./admit session`."""

from collections.abc import Sequence
from datetime import datetime
from itertools import chain, islice
from typing import TypedDict, Unpack

import click

from cli.command_context import CommandContext
from cli.commands._coa_rows import coa_row, read_changes, short_coa_row
from cli.output import ROW_ID, Row, iterate_pages, json_option, show_list, show_one, tenant_option
from cli.time_options import SinceType
from nac.kit.mac import display_mac
from nac.models.coa_request import CoaKind
from nac.sessions import service as sessions
from nac.sessions.coa_requests import service as coa_requests
from nac.sessions.repository import SessionKey
from nac.sessions.service import SessionView

_PAGE = 500


class _Criteria(TypedDict):
    mac: str
    user: str
    address: str
    nas: str
    site: str
    session_id: str
    chargeable_user: str
    since: datetime | None
    until: datetime | None


@click.group()
def command() -> None:
    """Manage live and ended sessions."""


@command.command("list")
@tenant_option
@click.option("--mac", default="", help="MAC address of the device, in any notation.")
@click.option("--user", metavar="NAME", default="", help="User name.")
@click.option("--address", metavar="IP", default="", help="IP address, its prefix, or a network.")
@click.option("--nas", metavar="NAME|ID", default="", help="NAS name or id.")
@click.option("--site", metavar="SLUG", default="", help="The site.")
@click.option("--session-id", metavar="ID", default="", help="Acct-Session-Id.")
@click.option("--chargeable-user", metavar="ID", default="", help="Chargeable-User-Identity (RFC 4372).")
@click.option("--all", "ended", is_flag=True, help="Include ended sessions.")
@click.option("--since", type=SinceType(), help="Earliest end: an age (15m, 1h, 2d) or a date and time (UTC).")
@click.option("--until", type=SinceType(), help="Latest start, in the same formats.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum number of sessions.")
@json_option
def list_command(tenant: str, ended: bool, limit: int, as_json: bool, **criteria: Unpack[_Criteria]) -> None:
    """List live sessions, newest first. With --all, ended ones follow, last ended first."""

    def fetch(after: SessionKey | None) -> Sequence[SessionView]:
        return sessions.list_sessions(
            session, tenant_id=tenant_id, ended=ended, after=after, limit=min(limit, _PAGE), **criteria
        )

    with CommandContext().tenant(tenant) as (session, tenant_id):
        views = list(islice(chain.from_iterable(iterate_pages(fetch, lambda view: view.key, first=None)), limit))
        rows = [_row(view) for view in views]
    show_list(rows if as_json else [_short(row) for row in rows], as_json=as_json)


@command.command("show")
@tenant_option
@click.argument("session_id", metavar="ID", type=ROW_ID)
@json_option
def show_command(tenant: str, session_id: int, as_json: bool) -> None:
    """Show a session with the decision that admitted it. ID is from session list --json."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        view = sessions.get_session(session, tenant_id=tenant_id, row=session_id)
        decision = sessions.find_deciding_row(session, view)
        row = dict(_row(view))
        row["rule"] = decision.rule_name if decision else ""
        row["policy_version"] = decision.policy_version if decision else None
        row["vlan"] = decision.vlan if decision else ""
        row["decided_as"] = decision.identity if decision else ""
    show_one(row, as_json=as_json)


@command.command()
@tenant_option
@click.option("--session", "session_id", metavar="ID", type=ROW_ID, help="Session id from session list --json.")
@click.option("--mac", default="", help="MAC address of the device, in any notation.")
@click.option("--user", metavar="NAME", default="", help="User name.")
@click.option("--nas", metavar="NAME|ID", default="", help="NAS name or id.")
@click.option("--reauthenticate", is_flag=True, help="Make the device authenticate again.")
@click.option("--bounce", is_flag=True, help="Switch the port off and on.")
@json_option
def disconnect(
    tenant: str,
    session_id: int | None,
    mac: str,
    user: str,
    nas: str,
    reauthenticate: bool,
    bounce: bool,
    as_json: bool,
) -> None:
    """Disconnect the live sessions that match (RFC 5176). See the NAS responses in coa list."""
    if reauthenticate and bounce:
        raise click.UsageError("--reauthenticate and --bounce exclude each other.")
    kind: CoaKind = "reauthenticate" if reauthenticate else "bounce" if bounce else "disconnect"
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        requests = coa_requests.create_requests(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            kind=kind,
            row=session_id,
            mac=mac,
            user=user,
            nas=nas,
        )
        rows = [coa_row(request) if as_json else short_coa_row(request) for request in requests]
    show_list(rows, as_json=as_json)


@command.command()
@tenant_option
@click.option("--session", "session_id", metavar="ID", type=ROW_ID, help="Session id from session list --json.")
@click.option("--mac", default="", help="MAC address of the device, in any notation.")
@click.option("--user", metavar="NAME", default="", help="User name.")
@click.option("--nas", metavar="NAME|ID", default="", help="NAS name or id.")
@click.option(
    "--set",
    "attributes",
    metavar="ATTRIBUTE=VALUE",
    multiple=True,
    required=True,
    help="Attribute to change, such as Session-Timeout=600 or, with a tag, Tunnel-Private-Group- Id:1=30; repeatable.",
)
@json_option
def change(
    tenant: str, session_id: int | None, mac: str, user: str, nas: str, attributes: tuple[str, ...], as_json: bool
) -> None:
    """Change attributes of the live sessions that match (CoA-Request). See the NAS responses in coa list.

    The next authentication follows the policy again.
    """
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        requests = coa_requests.create_requests(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            kind="change",
            row=session_id,
            mac=mac,
            user=user,
            nas=nas,
            attributes=read_changes(attributes),
        )
        rows = [coa_row(request) if as_json else short_coa_row(request) for request in requests]
    show_list(rows, as_json=as_json)


def _row(view: SessionView) -> Row:
    row = view.row
    return {
        "id": row.id,
        "mac": display_mac(row.mac) if row.mac else "",
        "user": row.identity,
        "nas": view.nas,
        "nas_port": row.nas_port,
        "site": view.site,
        "address": row.framed_ip or "",
        "ipv6_address": row.framed_ipv6 or "",
        "ipv6_prefix": row.framed_prefix or "",
        "delegated_prefix": row.delegated_prefix or "",
        "session_id": row.session_id,
        "start": row.started_at.isoformat(),
        # None while the session is live.
        "stop": row.stopped_at and row.stopped_at.isoformat(),
        "heard": row.updated_at.isoformat(),
        "seconds": view.seconds,
        "input_octets": row.input_octets,
        "output_octets": row.output_octets,
        "cause": row.terminate_cause,
        "flags": list(row.flags),
        "chargeable_user": row.cui,
    }


def _short(row: Row) -> Row:
    columns = ("id", "mac", "user", "nas", "nas_port", "site", "address", "start", "stop", "seconds", "cause")
    return {name: str(row[name])[:19] if name in ("start", "stop") and row[name] else row[name] for name in columns}

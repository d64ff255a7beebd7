"""`./admit decisions`."""

import json
import shutil
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain, islice

import click

from cli.domain import Domain
from cli.moments import Since
from cli.output import Row, json_option, pages, printable, tenant_option
from nac.decisions import service as decisions
from nac.decisions.service import LoggedDecision
from nac.mac import display_mac, normalise_mac
from nac.reasons import REASONS

_PAGE = 500
_NARROWEST = 80
_WIDTH_OF_A_PIPE = 120
_INDENT = " " * 21
_VERDICTS = {True: click.style("permit", fg="green"), False: click.style("deny  ", fg="red")}


@click.command()
@tenant_option
@click.option("--mac", default="", help="Of this device, in any notation.")
@click.option("--user", default="", help="Of this user or certificate name, as the device sends it.")
@click.option("--reason", metavar="CODE", type=click.Choice(list(REASONS)), help="With this reason alone.")
@click.option("--since", type=Since(), help="Not before: 15m, 1h, 2d ago, or a date and time (UTC).")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many of the newest.")
@json_option
def command(
    tenant: str, mac: str, user: str, reason: str | None, since: datetime | None, limit: int, as_json: bool
) -> None:
    """Tell who was admitted or rejected and why, newest first, with what to do about a reject."""

    def fetch(before: tuple[datetime, int] | None) -> Sequence[LoggedDecision]:
        return decisions.list_decisions(
            session,
            tenant_id=tenant_id,
            mac=mac,
            user=user,
            reason=reason or "",
            since=since,
            before=before,
            limit=min(limit, _PAGE),
        )

    with Domain().tenant(tenant) as (session, tenant_id):
        newest = chain.from_iterable(pages(fetch, lambda decision: decision.key, first=None))
        found = list(islice(newest, limit))
    if as_json:
        click.echo(json.dumps([_row(decision) for decision in found], indent=2))
        return
    for decision in found:
        _show(decision)
    if not found:
        click.echo("none")


def _row(decision: LoggedDecision) -> Row:
    log = decision.log
    return {
        "at": log.at.astimezone(UTC).isoformat(),
        "verdict": "permit" if log.permitted else "deny",
        "mac": log.mac and display_mac(log.mac),
        "user": log.identity,
        "nas": decision.nas,
        "nas_port": log.nas_port,
        "site": decision.site,
        "method": log.method,
        "reason": log.reason,
        "title": decision.reason.title,
        "detail": log.detail,
        "advice": "" if log.permitted else decision.reason.advice,
        "rule": log.rule_name,
        "policy_version": log.policy_version,
        "vlan": log.vlan,
        "certificate_serial": log.certificate_serial,
        "resumed": log.resumed,
        # Rejects like it that were not logged one by one.
        "suppressed": log.suppressed,
    }


def _show(decision: LoggedDecision) -> None:
    """A line of who, where and how; below it why, and what to do."""
    log, reason = decision.log, decision.reason
    mac = display_mac(log.mac) if log.mac else "-"
    # MAB names the device by its MAC address again.
    user = "" if log.mac and normalise_mac(log.identity) == log.mac else log.identity
    where = " at ".join(filter(None, (decision.nas, decision.site)))
    facts = (f"VLAN {log.vlan}" if log.vlan else "", log.method, user, where and f"from {where}")
    click.echo(f"{log.at.astimezone(UTC):%Y-%m-%d %H:%M:%S}  {_VERDICTS[log.permitted]}  {mac:<17}  {_line(facts)}")
    rule = f"rule {log.rule_name!r}" if log.rule_name else ""
    more = f"and {log.suppressed} more like it" if log.suppressed else ""
    _tell(_line((f"{reason.title} ({reason.code})", rule, log.detail, more)))
    if not log.permitted:
        _tell(f"-> {reason.advice}")


def _line(parts: tuple[str, ...]) -> str:
    return printable(", ".join(filter(None, parts)))


def _tell(text: str) -> None:
    width = max(_NARROWEST, shutil.get_terminal_size(fallback=(_WIDTH_OF_A_PIPE, 0)).columns)
    click.echo(textwrap.fill(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT))

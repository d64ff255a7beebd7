"""`./admit decisions`."""

import json
import shutil
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TypedDict, Unpack

import click

from cli.command_context import CommandContext
from cli.operation_commands import render_advice
from cli.output import Row, escape_unprintable, iterate_pages, json_option, tenant_option
from cli.time_options import SinceType
from nac.engine.reasons import REASONS
from nac.kit.mac import display_mac, normalise_mac
from nac.pools.extent import ATTRIBUTE_BY_KIND as POOL_ATTRIBUTE
from nac.sessions.decisions import service as decisions
from nac.sessions.decisions.service import DecisionLogRow, LoggedDecision

_PAGE = 500
_NARROWEST = 80
_WIDTH_OF_A_PIPE = 120
_INDENT = " " * 21
_VERDICTS = {
    "permit": click.style("permit", fg="green"),
    "quarantine": click.style("quarantine", fg="yellow"),
    "deny": click.style("deny  ", fg="red"),
}
_WOULD_BE = {"permit": "admitted", "quarantine": "put into quarantine", "deny": "denied"}


class _Criteria(TypedDict):
    mac: str
    user: str
    nas: str
    site: str
    rejects: bool
    monitored: bool


@click.command()
@tenant_option
@click.option("--mac", default="", help="MAC address of the device, in any notation.")
@click.option("--user", metavar="NAME|SERIAL", default="", help="User name, certificate name or serial number.")
@click.option("--nas", default="", help="NAS, by name, NAS-Identifier or address.")
@click.option("--site", metavar="SLUG", default="", help="The site.")
@click.option("--rejects", is_flag=True, help="Only rejects.")
@click.option("--monitored", is_flag=True, help="Only decisions in monitor mode.")
@click.option("--reason", metavar="CODE", type=click.Choice(list(REASONS)), help="Reason code.")
@click.option("--since", type=SinceType(), help="Start: an age (15m, 1h, 2d) or a date and time (UTC).")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of decisions.")
@json_option
def command(
    tenant: str, reason: str | None, since: datetime | None, limit: int, as_json: bool, **criteria: Unpack[_Criteria]
) -> None:
    """List decisions with their reasons, newest first, and advice for rejects.

    Without --since, a search by NAS, site or permitting rule covers only the newest 100,000 requests.
    """

    def fetch(before: tuple[datetime, int] | None) -> Sequence[LoggedDecision]:
        return decisions.list_decisions(
            session,
            tenant_id=tenant_id,
            reason=reason or "",
            since=since,
            **criteria,
            before=before,
            limit=min(limit, _PAGE),
        )

    with CommandContext().tenant(tenant) as (session, tenant_id):
        newest = chain.from_iterable(iterate_pages(fetch, lambda decision: decision.key, first=None))
        decision_list = list(islice(newest, limit))
        searched = None
        if len(decision_list) < limit and since is None:
            searched = decisions.get_search_start(session, tenant_id=tenant_id, reason=reason or "", **criteria)
    if searched is not None:
        click.echo(
            f"Note: searched the newest {decisions.MAX_SEARCHED_ROWS:,} requests, back to {_at(searched)} UTC. "
            "To search further back, use --since",
            err=True,
        )
    if as_json:
        click.echo(json.dumps([_row(decision) for decision in decision_list], indent=2))
        return
    for decision in decision_list:
        _show(decision)
    if not decision_list:
        click.echo("none")


def _row(decision: LoggedDecision) -> Row:
    log = decision.log
    return {
        "id": decision.reference,
        "at": log.at.astimezone(UTC).isoformat(),
        "verdict": decision.verdict,
        # Whether the device was admitted. In monitor mode, always.
        "permitted": log.permitted,
        "monitored": bool(log.monitored),
        "monitored_by": log.monitored,
        "mac": log.mac and display_mac(log.mac),
        "user": log.identity,
        "outer_user": decision.outer_user,
        "nas": decision.nas,
        "nas_port": log.nas_port,
        "site": decision.site,
        "method": log.method,
        "reason": log.reason,
        "title": decision.reason.title,
        "detail": log.detail,
        "advice": render_advice(decision.reason.advice) if decision.verdict == "deny" else "",
        "rule": log.rule_name,
        "policy_version": log.policy_version,
        "vlan": log.vlan,
        "addresses": _addresses(log),
        "certificate": decision.certificate,
        "certificate_serial": log.certificate_serial,
        "resumed": log.resumed,
        # Similar rejects that were not logged separately.
        "suppressed": log.suppressed,
    }


def _show(decision: LoggedDecision) -> None:
    """Print one decision: user, port and NAS, then reason and advice."""
    log, reason = decision.log, decision.reason
    mac = display_mac(log.mac) if log.mac else "-"
    # In MAB, the user name is the MAC address again.
    user = "" if log.mac and normalise_mac(log.identity) == log.mac else log.identity
    outer = decision.outer_user
    user += f" ({outer} outside)" if outer else ""
    port = f"port {log.nas_port}" if log.nas_port else ""
    where = " at ".join(filter(None, (" ".join(filter(None, (decision.nas, port))), decision.site)))
    facts = (f"VLAN {log.vlan}" if log.vlan else "", *_addresses(log), log.method, user, where and f"from {where}")
    # Monitor mode admits all devices. The line below has the verdict.
    verdict = "permit" if log.monitored else decision.verdict
    click.echo(f"{_at(log.at)}  {_VERDICTS.get(verdict, verdict)}  {mac:<17}  {_line(facts)}")
    rule = f"rule {log.rule_name!r}" if log.rule_name else ""
    more = f"and {log.suppressed} more like it" if log.suppressed else ""
    if log.method == "eap-tls" and log.certificate_serial:
        _tell(_line((f"certificate {decision.certificate or 'of unknown name'}", f"serial {log.certificate_serial}")))
    _tell(_line((f"{reason.title} ({reason.code})", rule, log.detail, more)))
    if log.monitored:
        _tell(_line((_monitored(decision),)))
    if decision.verdict == "deny":
        _tell(f"-> {render_advice(reason.advice)}")


def _addresses(log: DecisionLogRow) -> list[str]:
    """Addresses of the device, from a pool or by its rule."""
    return [value for name, _, value in log.reply or () if name in POOL_ATTRIBUTE.values()]


def _monitored(decision: LoggedDecision) -> str:
    log = decision.log
    by = f" by rule {log.rule_name!r}" if log.rule_name else ""
    what = f"rule {log.rule_name!r}" if log.monitored == "rule" else f"site {decision.site or 'that is gone'}"
    would_be = _WOULD_BE.get(decision.verdict, decision.verdict)
    return f"would be {would_be}{by}; admitted because {what} is in monitor mode"


def _at(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _line(parts: tuple[str, ...]) -> str:
    return escape_unprintable(", ".join(filter(None, parts)))


def _tell(text: str) -> None:
    width = max(_NARROWEST, shutil.get_terminal_size(fallback=(_WIDTH_OF_A_PIPE, 0)).columns)
    click.echo(textwrap.fill(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT))

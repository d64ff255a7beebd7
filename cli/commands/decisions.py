"""`./admit decisions`."""

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import click

from cli.output import escape_unprintable, json_option, show_json, tenant_option
from cli.remote.commands import list_items
from cli.remote.local_api import connect
from cli.remote.results import name_commands
from cli.time_options import SinceType
from nac.kit.mac import normalise_mac

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

# Fields as in the API's `Decision`.
_Decision = Mapping[str, Any]


@click.command()
@tenant_option
@click.option("--mac", help="MAC address of the device, in any notation.")
@click.option(
    "--user", metavar="NAME|SERIAL", help="User name, certificate name or certificate serial number of the decisions."
)
@click.option("--nas", help="Name, NAS-Identifier or address of the NAS.")
@click.option("--site", metavar="SLUG", help="Slug of the site.")
@click.option("--rejects", is_flag=True, help="Show only rejects.")
@click.option("--monitored", is_flag=True, help="Show only decisions in monitor mode.")
@click.option("--reason", metavar="CODE", help="Reason code of the decisions.")
@click.option("--since", type=SinceType(), help="Start of the period: an age (15m, 1h, 2d) or a date and time (UTC).")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of decisions.")
@json_option
def command(tenant: str, since: datetime | None, limit: int, as_json: bool, **criteria: str | bool | None) -> None:
    """List decisions with reasons, newest first, and advice for rejects.

    A search only by NAS, by site, or by a reason for an admission can read the whole log. With --since, the search
    reads only the log after that time.
    """
    found = list_items(
        connect(),
        "list-decisions",
        tenant=tenant,
        since=since and since.isoformat(),
        limit=min(limit, _PAGE),
        **criteria,
    )
    decisions = name_commands(list(islice(found, limit)))
    if as_json:
        show_json(decisions)
        return
    for decision in decisions:
        _show(decision)
    if not decisions:
        click.echo("none")


def _show(decision: _Decision) -> None:
    """Print one decision: user, port and NAS, then reason and advice."""
    mac, user = decision["mac"], decision["user"]
    # In MAB, the user name is the MAC address again.
    if mac and normalise_mac(user) == normalise_mac(mac):
        user = ""
    if decision["outer_user"]:
        user += f" ({decision['outer_user']} outside)"
    port = decision["nas_port"] and f"port {decision['nas_port']}"
    where = " at ".join(filter(None, (" ".join(filter(None, (decision["nas"], port))), decision["site"])))
    vlan = decision["vlan"] and f"VLAN {decision['vlan']}"
    facts = (vlan, *decision["addresses"], decision["method"], user, where and f"from {where}")
    # Monitor mode admits all devices. The verdict is in a later line of the output.
    verdict = "permit" if decision["monitored_by"] else decision["verdict"]
    at = datetime.fromisoformat(decision["at"]).astimezone(UTC)
    click.echo(f"{at:%Y-%m-%d %H:%M:%S}  {_VERDICTS.get(verdict, verdict)}  {mac or '-':<17}  {_line(facts)}")
    if decision["method"] == "eap-tls" and decision["certificate_serial"]:
        name = decision["certificate"] or "of unknown name"
        _show_below(_line((f"certificate {name}", f"serial {decision['certificate_serial']}")))
    rule = decision["rule"] and f"rule {decision['rule']!r}"
    more = decision["suppressed"] and f"and {decision['suppressed']} more decisions of this kind"
    _show_below(_line((f"{decision['title']} ({decision['reason']})", rule, decision["detail"], more)))
    if decision["monitored_by"]:
        _show_below(_line((_describe_monitoring(decision),)))
    if decision["remedy"]:
        _show_below(f"-> {decision['remedy']}")


def _describe_monitoring(decision: _Decision) -> str:
    rule = f"rule {decision['rule']!r}"
    by = f" by {rule}" if decision["rule"] else ""
    what = rule if decision["monitored_by"] == "rule" else f"site {decision['site'] or '(deleted)'}"
    would_be = _WOULD_BE.get(decision["verdict"], decision["verdict"])
    return f"would be {would_be}{by}; admitted because {what} is in monitor mode"


def _line(parts: Iterable[str]) -> str:
    return escape_unprintable(", ".join(filter(None, parts)))


def _show_below(text: str) -> None:
    width = max(_NARROWEST, shutil.get_terminal_size(fallback=(_WIDTH_OF_A_PIPE, 0)).columns)
    click.echo(textwrap.fill(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT))

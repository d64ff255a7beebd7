"""Trying a policy: its own tests, and single requests."""

from typing import BinaryIO

import click
from sqlalchemy.orm import Session

from cli.commands.policy.group import command, read_document, site_option, slug_option
from cli.domain import Domain
from cli.fail import BAD_INPUT
from cli.mistakes import list_mistakes, mistakes_listed
from cli.output import json_option, printable, show_json, tenant_option
from nac.decisions import service as decisions
from nac.decisions.service import LoggedDecision
from nac.engine import DocumentMistake, PolicyErrors, parse_moment
from nac.ids import TenantId
from nac.policies import service as policies
from nac.policies.explanation import explain_rule
from nac.policies.policy_tests import test_row
from nac.policies.simulation import (
    POLICY_SIDE,
    REQUEST_SIDE,
    InvalidSimulation,
    Simulation,
    recorded_row,
    simulate,
    simulation_row,
)


@command.command()
@tenant_option
@slug_option
@click.option("--file", "file", type=click.File("rb"), help="Of this document in place of the policy's newest version.")
@click.option("--version", "number", type=int, help="Of this version in place of the newest.")
@json_option
def test(tenant: str, slug: str, file: BinaryIO | None, number: int | None, as_json: bool) -> None:
    """Run the tests that a policy carries; exit status 1 where one fails, 2 where it is no policy."""
    with mistakes_listed(as_json=as_json), Domain().tenant(tenant) as (session, tenant_id):
        document = read_document(file) if file else _stored(session, tenant_id, slug, number)
        results = policies.run_document_tests(session, tenant_id=tenant_id, document=document)
    failed = [result for result in results if not result.passed]
    if as_json:
        show_json({"passed": not failed, "tests": [test_row(result) for result in results]})
    else:
        for result in results:
            click.echo(printable(str(result)))
        click.echo(f"{len(results) - len(failed)} of {len(results)} tests passed.")
    if failed:
        raise click.exceptions.Exit(1)


def _stored(session: Session, tenant_id: TenantId, slug: str, number: int | None) -> object:
    slug = policies.find_policy(session, tenant_id=tenant_id, slug=slug).slug
    return policies.require_newest_version(session, tenant_id=tenant_id, slug=slug, number=number).document


class _Moment(click.ParamType[int]):
    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_moment(value)
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


@command.command("simulate")
@tenant_option
@slug_option
@click.option("--draft", type=click.File("rb"), help="By this document, whatever is stored.")
@site_option
@click.option("--request", "request_file", type=click.File("rb"), help="JSON: attribute -> values.")
@click.option(
    "--decision",
    metavar="ID",
    help="In place of --request, that of this decision, with all that the cell knew; `decisions --json` tells it.",
)
@click.option(
    "--at", type=_Moment(), help="When, such as 2026-01-05T09:00:00Z; now where not given, or when it was decided."
)
@click.option("--as-given", is_flag=True, help="Add nothing that the request does not say.")
@json_option
def simulate_(
    tenant: str,
    slug: str,
    draft: BinaryIO | None,
    site: str,
    request_file: BinaryIO | None,
    decision: str | None,
    at: int | None,
    as_given: bool,
    as_json: bool,
) -> None:
    """Tell what a policy answers to one request, and why; nothing is stored and nobody is let in.

    --draft is asked or, without it, what is in force of the policy or at the site; without --site, at that of the NAS.
    Attributes are named as in conditions, those of the packet also as RADIUS does (NAS-Identifier). What follows from
    the packet, and what is stored about the NAS, the endpoint of `mac` and the user of `user.name`, is added where the
    request does not say it. Exit status 0 for permit and deny alike, 2 for a request or policy with mistakes.
    """
    if (request_file is None) == (decision is None):
        raise click.UsageError("Give either --request or --decision.")
    recorded = None
    with mistakes_listed(as_json=as_json):
        request, document = _read_both(request_file, draft, as_json=as_json)
        with Domain().tenant(tenant) as (session, tenant_id):
            if decision is not None:
                recorded = decisions.require_decision(session, tenant_id=tenant_id, reference=decision)
                request, as_given = recorded.log.request, True
                site = site or recorded.site
                at = int(recorded.log.at.timestamp()) if at is None else at
            try:
                simulation = simulate(
                    session,
                    tenant_id=tenant_id,
                    request=request,
                    document=document,
                    slug=slug,
                    site=site,
                    at=at,
                    fill=not as_given,
                )
            except InvalidSimulation as exc:
                raise _listed(list(exc.mistakes), as_json=as_json) from exc
    if as_json:
        show_json(simulation_row(simulation) | ({"recorded": recorded_row(recorded)} if recorded else {}))
        return
    if recorded:
        click.echo(_recorded_line(recorded))
    _tell(simulation)


def _recorded_line(recorded: LoggedDecision) -> str:
    row = recorded_row(recorded)
    by = f"by version {row['policy_version']}" if row["policy_version"] else "before any policy was asked"
    vlan = f", VLAN {row['vlan']}" if row["vlan"] else ""
    return printable(f"answered then: {row['verdict']}{vlan} ({row['reason']}) {by}")


def _read_both(request_file: BinaryIO | None, draft: BinaryIO | None, *, as_json: bool) -> tuple[object, object | None]:
    mistakes: list[tuple[str, DocumentMistake]] = []
    read: dict[str, object] = {}
    for side, file in ((REQUEST_SIDE, request_file), (POLICY_SIDE, draft)):
        if file is not None:
            try:
                read[side] = read_document(file)
            except PolicyErrors as errors:
                mistakes.extend((side, mistake) for mistake in errors.mistakes)
    if mistakes:
        raise _listed(mistakes, as_json=as_json)
    return read.get(REQUEST_SIDE), read.get(POLICY_SIDE)


def _listed(mistakes: list[tuple[str, DocumentMistake]], *, as_json: bool) -> click.exceptions.Exit:
    placed = [DocumentMistake(f"{side}: {mistake.place or 'document'}", mistake.message) for side, mistake in mistakes]
    list_mistakes(placed, as_json=as_json, what="What was given")
    return click.exceptions.Exit(BAD_INPUT)


def _tell(simulation: Simulation) -> None:
    decision = simulation.decision
    vlan = f", VLAN {decision.vlan}" if decision.vlan else ""
    answer = f"{decision.verdict} ({decision.reason})"
    if decision.monitored:
        click.echo(f"admitted{vlan}, as the {decision.monitored} is in monitor mode; would be: {answer}")
    else:
        click.echo(f"{decision.verdict}{vlan} ({decision.reason})")
    if decision.detail:
        click.echo(printable(decision.detail))
    by = f"{simulation.policy} version {simulation.version}" if simulation.version else simulation.policy or "the draft"
    if decision.reason == "no-policy":
        by = "no policy"
    where = f" at site {simulation.site}" if simulation.site else ""
    click.echo(f"by {by}{where}, at {simulation.at:%Y-%m-%d %H:%M:%S} UTC")
    lines = [explain_rule(tried) for tried in decision.trace]
    if not decision.rule_id:
        lines.append(simulation.why)
    lines += [f"reply: {name} {operator} {value}" for name, operator, value in decision.reply]
    if simulation.filled:
        stored = ", ".join(f"{name} = {list(simulation.request[name])}" for name in simulation.filled)
        lines.append(f"added, as the request does not say it: {stored}")
    lines += [f"Note: {note}" for note in simulation.notes]
    for line in lines:
        click.echo(printable(line))

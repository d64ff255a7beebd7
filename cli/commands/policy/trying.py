"""Policy tests and simulations."""

from typing import BinaryIO

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.commands.policy.group import command, read_document, site_option, slug_option
from cli.errors import EXIT_INVALID_INPUT
from cli.mistakes import print_mistakes, report_policy_mistakes
from cli.output import escape_unprintable, json_option, show_json, tenant_option
from nac.engine import DocumentMistake, PolicyErrors, parse_moment
from nac.kit.ids import TenantId
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
from nac.sessions.decisions import service as decisions
from nac.sessions.decisions.service import LoggedDecision


@command.command()
@tenant_option
@slug_option
@click.option(
    "--file", "file", type=click.File("rb"), help="File with the document to test, instead of the newest version."
)
@click.option("--version", "number", type=int, help="Version to test (default the newest).")
@json_option
def test(tenant: str, slug: str, file: BinaryIO | None, number: int | None, as_json: bool) -> None:
    """Run the tests of a policy. Exit status 1 if one fails, 2 if the policy is invalid."""
    with report_policy_mistakes(as_json=as_json), CommandContext().tenant(tenant) as (session, tenant_id):
        document = read_document(file) if file else _stored(session, tenant_id, slug, number)
        results = policies.run_document_tests(session, tenant_id=tenant_id, document=document)
    failed = [result for result in results if not result.passed]
    if as_json:
        show_json({"passed": not failed, "tests": [test_row(result) for result in results]})
    else:
        for result in results:
            click.echo(escape_unprintable(str(result)))
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
@click.option("--draft", type=click.File("rb"), help="File with the document to use.")
@site_option
@click.option("--request", "request_file", type=click.File("rb"), help="JSON: attribute -> values.")
@click.option(
    "--decision",
    metavar="ID",
    help="Decision whose request and context to use, instead of --request; an id from `decisions --json`.",
)
@click.option(
    "--at", type=_Moment(), help="Time, such as 2026-01-05T09:00:00Z (default now or the time of the decision)."
)
@click.option("--as-given", is_flag=True, help="Use only the data in the request.")
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
    """Simulate a policy's decision about one request. Stores nothing and admits no device.

    Uses --draft, the policy in force or the policy of the site. The default site is that of the NAS. Attributes have
    the names of conditions; RADIUS attributes can also have theirs (NAS-Identifier). Missing values are derived from
    the packet and from stored data of the NAS, the endpoint `mac` and the user `user.name`. Exit status 0 for permit
    and deny, 2 if the request or policy has mistakes.
    """
    if (request_file is None) == (decision is None):
        raise click.UsageError("Use either --request or --decision.")
    recorded = None
    with report_policy_mistakes(as_json=as_json):
        request, document = _read_both(request_file, draft, as_json=as_json)
        with CommandContext().tenant(tenant) as (session, tenant_id):
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
    by = f"by version {row['policy_version']}" if row["policy_version"] else "before any policy decision"
    vlan = f", VLAN {row['vlan']}" if row["vlan"] else ""
    return escape_unprintable(f"recorded result: {row['verdict']}{vlan} ({row['reason']}) {by}")


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
    print_mistakes(placed, as_json=as_json, what="The input")
    return click.exceptions.Exit(EXIT_INVALID_INPUT)


def _tell(simulation: Simulation) -> None:
    decision = simulation.decision
    vlan = f", VLAN {decision.vlan}" if decision.vlan else ""
    answer = f"{decision.verdict} ({decision.reason})"
    if decision.monitored:
        click.echo(f"admitted{vlan}, because the {decision.monitored} is in monitor mode; otherwise: {answer}")
    else:
        click.echo(f"{decision.verdict}{vlan} ({decision.reason})")
    if decision.detail:
        click.echo(escape_unprintable(decision.detail))
    by = f"{simulation.policy} version {simulation.version}" if simulation.version else simulation.policy or "the draft"
    if decision.reason == "no-policy":
        by = "no policy"
    elif simulation.is_refused:
        by = "a check before the policy"
    where = f" at site {simulation.site}" if simulation.site else ""
    click.echo(f"by {by}{where}, at {simulation.at:%Y-%m-%d %H:%M:%S} UTC")
    lines = [explain_rule(tried) for tried in decision.trace]
    if not decision.rule_id:
        lines.append(simulation.why)
    lines += [f"reply: {name} {operator} {value}" for name, operator, value in decision.reply]
    if simulation.filled:
        stored = ", ".join(f"{name} = {list(simulation.request[name])}" for name in simulation.filled)
        lines.append(f"added to the request: {stored}")
    lines += [f"Note: {note}" for note in simulation.notes]
    for line in lines:
        click.echo(escape_unprintable(line))

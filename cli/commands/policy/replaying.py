"""Replay of a draft on recorded requests."""

from collections.abc import Iterator
from typing import BinaryIO

import click

from cli.command_context import CommandContext
from cli.commands.policy.group import command, read_document, site_option, slug_option
from cli.mistakes import report_policy_mistakes
from cli.output import escape_unprintable, json_option, show_json, tenant_option
from nac.engine.reasons import get_reason
from nac.kit.mac import normalise_mac
from nac.policies.comparison import OLDER_FORMAT, ReplayBaseline
from nac.policies.json_rows import replay_row
from nac.policies.replay_jobs import ReplayOptions, run_replay
from nac.policies.replays import MAX_DAYS, Replay


@command.command()
@tenant_option
@slug_option
@click.option("--draft", type=click.File("rb"), help="File with the document to replay.")
@click.option("--version", "number", type=int, help="Version to replay (default the newest).")
@click.option("--days", type=click.IntRange(1, MAX_DAYS), required=True, help="Days of requests up to now.")
@site_option
@click.option(
    "--against",
    type=click.Choice(("recorded", "published")),
    default="recorded",
    show_default=True,
    help="Compare with the recorded responses, or with the policy in force.",
)
@click.option("--exit-code", is_flag=True, help="Exit status 1 if there are differences.")
@json_option
def replay(
    tenant: str,
    slug: str,
    draft: BinaryIO | None,
    number: int | None,
    days: int,
    site: str,
    against: ReplayBaseline,
    exit_code: bool,
    as_json: bool,
) -> None:
    """Replay recorded requests with a draft, and show the differences in groups with counts and examples.

    Includes the sites of the policy, or only --site. Requests without a policy decision, such as failed logins, are
    counted but not replayed. Exit status 2 if the draft has mistakes.
    """
    with report_policy_mistakes(as_json=as_json), CommandContext().tenant(tenant) as (session, tenant_id):
        document = read_document(draft) if draft else None
        asked = ReplayOptions(days=days, document=document, policy=slug, version=number, site=site, against=against)
        found = run_replay(session, asked, tenant_id=tenant_id)
    if as_json:
        show_json(replay_row(found))
    else:
        tell_differences(found)
    if exit_code and found.changed:
        raise click.exceptions.Exit(1)


def tell_differences(found: Replay, *, err: bool = False) -> None:
    for line in _lines(found):
        click.echo(escape_unprintable(line), err=err)


def _lines(found: Replay) -> Iterator[str]:
    where = f"site{'s' if len(found.sites) > 1 else ''} {', '.join(found.sites)}" if found.sites else "no site"
    since = f"{found.since:%Y-%m-%d %H:%M} UTC"
    yield f"{_count(found.total, 'request')} at {where} since {since}, against what was {found.against}"
    yield f"{found.unchanged:,} answered the same, {found.changed:,} otherwise"
    for difference in found.differences:
        how_many = f"{_count(difference.requests, 'request')} of {_count(difference.devices, 'device')}"
        yield f"  {how_many}: {difference.before} -> {difference.after}"
        for example in difference.examples:
            # In MAB, the user name is the MAC address again.
            named = not example.mac or normalise_mac(example.identity) != normalise_mac(example.mac)
            who = " ".join(filter(None, (example.mac, example.identity if named else "")))
            at = " ".join(filter(None, (example.nas, example.nas_port and f"port {example.nas_port}")))
            yield f"    {example.at[:19]} {who} from {at or 'an unknown NAS'} at {example.site}: {example.why}"
    if found.groups > len(found.differences):
        yield f"  and {found.groups - len(found.differences)} smaller groups"
    for reason, count in found.not_replayable.items():
        title = "Recorded in an older format" if reason == OLDER_FORMAT else get_reason(reason).title
        yield f"{count:,} not replayed: {title} ({reason})"
    if found.suppressed:
        yield f"{found.suppressed:,} more rejects were not recorded separately (too many failures)"
    yield from (f"Note: {each}" for each in found.unrecorded)
    if found.changed:
        yield f"digest {found.digest}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"

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
        options = ReplayOptions(days=days, document=document, policy=slug, version=number, site=site, against=against)
        result = run_replay(session, options, tenant_id=tenant_id)
    if as_json:
        show_json(replay_row(result))
    else:
        tell_differences(result)
    if exit_code and result.changed:
        raise click.exceptions.Exit(1)


def tell_differences(replay_result: Replay, *, err: bool = False) -> None:
    for line in _lines(replay_result):
        click.echo(escape_unprintable(line), err=err)


def _lines(replay_result: Replay) -> Iterator[str]:
    where = (
        f"site{'s' if len(replay_result.sites) > 1 else ''} {', '.join(replay_result.sites)}"
        if replay_result.sites
        else "no site"
    )
    since = f"{replay_result.since:%Y-%m-%d %H:%M} UTC"
    yield f"{_count(replay_result.total, 'request')} at {where} since {since}, against what was {replay_result.against}"
    yield f"{replay_result.unchanged:,} answered the same, {replay_result.changed:,} otherwise"
    for difference in replay_result.differences:
        how_many = f"{_count(difference.requests, 'request')} of {_count(difference.devices, 'device')}"
        yield f"  {how_many}: {difference.before} -> {difference.after}"
        for example in difference.examples:
            # In MAB, the user name is the MAC address again.
            named = not example.mac or normalise_mac(example.identity) != normalise_mac(example.mac)
            who = " ".join(filter(None, (example.mac, example.identity if named else "")))
            at = " ".join(filter(None, (example.nas, example.nas_port and f"port {example.nas_port}")))
            yield f"    {example.at[:19]} {who} from {at or 'an unknown NAS'} at {example.site}: {example.why}"
    if replay_result.groups > len(replay_result.differences):
        yield f"  and {replay_result.groups - len(replay_result.differences)} smaller groups"
    for reason, count in replay_result.not_replayable.items():
        title = "Recorded in an older format" if reason == OLDER_FORMAT else get_reason(reason).title
        yield f"{count:,} not replayed: {title} ({reason})"
    if replay_result.suppressed:
        yield f"{replay_result.suppressed:,} more rejects were not recorded separately (too many failures)"
    yield from (f"Note: {each}" for each in replay_result.unrecorded)
    if replay_result.changed:
        yield f"digest {replay_result.digest}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"

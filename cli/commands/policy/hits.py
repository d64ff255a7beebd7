"""Hits of rules."""

import click

from cli.command_context import CommandContext
from cli.commands.policy.group import command, slug_option
from cli.mistakes import report_policy_mistakes
from cli.output import json_option, show_json, show_list, tenant_option
from nac.policies.hits import count_hits, hit_rows


@command.command()
@tenant_option
@slug_option
@json_option
def hits(tenant: str, slug: str, as_json: bool) -> None:
    """Show the hits of each rule of the version in force in the last 1, 7 and 30 days (UTC), and the last hit.

    Marks rules without a hit since publication.
    """
    with report_policy_mistakes(as_json=as_json), CommandContext().tenant(tenant) as (session, tenant_id):
        counts = count_hits(session, tenant_id=tenant_id, slug=slug)
    rows = hit_rows(counts)
    published = counts.published_at and counts.published_at.isoformat(timespec="seconds")
    if as_json:
        show_json({"slug": counts.slug, "version": counts.version, "published_at": published, "rules": rows})
        return
    click.echo(f"{counts.slug} version {counts.version}, published {published}")
    report = [
        {
            **{name: value for name, value in row.items() if name not in ("never_hit", "last_hit_before")},
            "last_hit": _last(row["last_hit"], row["last_hit_before"]),
        }
        for row in rows
    ]
    show_list(report, as_json=False)


def _last(last: str | None, before: str | None) -> str:
    if last:
        return last
    earlier = f" (an earlier version: {before})" if before else ""
    return f"no hits since publication{earlier}"

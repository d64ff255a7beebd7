"""Commands for policies in force: publish, roll back, assign, remove."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from cli.command_context import CommandContext
from cli.commands.policy.documents import version_row
from cli.commands.policy.group import command, slug_option
from cli.commands.policy.replaying import tell_differences
from cli.errors import describe_error
from cli.mistakes import report_policy_mistakes
from cli.output import escape_unprintable, json_option, show_json, show_one, tenant_option
from nac.policies import service as policies
from nac.policies import site_settings
from nac.policies.json_rows import replay_row
from nac.policies.policy_tests import test_row


@contextmanager
def _report_refusals(*, as_json: bool) -> Iterator[None]:
    """Report mistakes, failing tests and differences that block a version."""
    with report_policy_mistakes(as_json=as_json):
        try:
            yield
        except policies.PolicyTestsFailed as exc:
            if as_json:
                show_json({"published": False, "failed_tests": [test_row(failure) for failure in exc.failures]})
            else:
                lines = f"Error: {describe_error(exc)}".splitlines()
                click.echo("\n".join(map(escape_unprintable, lines)), err=True)
            raise click.exceptions.Exit(1) from exc
        except policies.UnacknowledgedDifferences as exc:
            if as_json:
                show_json({"published": False, "replay": replay_row(exc.replay)})
            else:
                tell_differences(exc.replay, err=True)
                click.echo(f"Error: {describe_error(exc)}", err=True)
            raise click.exceptions.Exit(1) from exc


@command.command()
@tenant_option
@slug_option
@click.option("--version", "number", type=int, help="Number of the reviewed draft; a newer draft is not published.")
@click.option(
    "--acknowledge",
    metavar="DIGEST",
    default="",
    help="Digest of a replay whose differences you accept. Required by `tenant set --replay-days`.",
)
@json_option
def publish(tenant: str, slug: str, number: int | None, acknowledge: str, as_json: bool) -> None:
    """Publish the draft at every site of the policy.

    Fails if a test of the policy fails. If the tenant requires a replay, also fails on differences that you did not
    acknowledge.
    """
    domain = CommandContext()
    with _report_refusals(as_json=as_json), domain.change(tenant) as (session, tenant_id):
        version = policies.publish_policy(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            slug=policies.find_policy(session, tenant_id=tenant_id, slug=slug).slug,
            number=number,
            acknowledge=acknowledge,
        )
    show_one(version_row(version), as_json=as_json)


@command.command()
@tenant_option
@slug_option
@click.option("--version", "number", type=int, required=True, help="Version that was in force before.")
@click.option("--comment", default="", help="Why.")
@json_option
def rollback(tenant: str, slug: str, number: int, comment: str, as_json: bool) -> None:
    """Publish an earlier version again, as a new version. Its tests must pass; no replay is required."""
    domain = CommandContext()
    with _report_refusals(as_json=as_json), domain.change(tenant) as (session, tenant_id):
        version = policies.roll_back_policy(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            slug=policies.find_policy(session, tenant_id=tenant_id, slug=slug).slug,
            number=number,
            comment=comment,
        )
    show_one(version_row(version), as_json=as_json)


@command.command()
@tenant_option
@slug_option
@click.option("--site", required=True, metavar="SLUG", help="Site of the policy.")
@json_option
def assign(tenant: str, slug: str, site: str, as_json: bool) -> None:
    """Assign the policy to a site."""
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        policy = policies.find_policy(session, tenant_id=tenant_id, slug=slug)
        site_settings.assign_policy(session, actor=domain.actor, tenant_id=tenant_id, slug=site, policy_id=policy.id)
        row = {"site": site, "policy": policy.slug, "in_force": policy.published_version}
    show_one(row, as_json=as_json)
    if policy.published_version is None:
        click.echo(
            f"Note: {policy.slug} has no published version, so site {site} denies all requests. Publish it: "
            f"./admit policy publish -t {tenant} -s {policy.slug}",
            err=True,
        )


@command.command()
@tenant_option
@click.option("--slug", "-s", required=True, help="The policy.")
@json_option
def remove(tenant: str, slug: str, as_json: bool) -> None:
    """Delete a policy with all its versions. It must be assigned to no site."""
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        policies.delete_policy(session, actor=domain.actor, tenant_id=tenant_id, slug=slug)
    show_one({"removed": slug}, as_json=as_json)

"""`./admit policy`."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import click

from cli.domain import Domain
from cli.output import Row, json_option, show_list, show_one, tenant_option
from nac.engine import DocumentErrors, Mistake, read_policy_text
from nac.engine.attributes import CATALOGUE, Attribute, open_attributes
from nac.engine.operators import operators_of
from nac.models import Policy, PolicyVersion
from nac.policies import service as policies
from nac.policies.reading import in_reading_order
from nac.policies.schema import policy_schema
from nac.sites import service as sites

slug_option = click.option("--slug", "-s", required=True, help="The policy.")
document_argument = click.argument("file", type=click.File("rb"))


@click.group()
def command() -> None:
    """Policies of a tenant: who is admitted, and on which VLAN. FILE is JSON, "-" reads standard input."""


def _row(version: PolicyVersion) -> Row:
    return {
        "version": version.number,
        "status": version.status,
        "created_at": version.created_at.isoformat(timespec="seconds"),
        "published_at": version.published_at and version.published_at.isoformat(timespec="seconds"),
        "comment": version.comment,
    }


def _policy_row(policy: Policy) -> Row:
    return {"slug": policy.slug, "name": policy.name, "in_force": policy.published_version, "id": policy.id}


@contextmanager
def _mistakes_listed(*, as_json: bool) -> Iterator[None]:
    """Every mistake on a line of its own; with --json as a list on standard output. Exit status 1 either way."""
    try:
        yield
    except (policies.InvalidPolicy, DocumentErrors) as exc:
        _list(exc.mistakes, as_json=as_json)
        raise click.exceptions.Exit(1) from exc


def _list(mistakes: tuple[Mistake, ...], *, as_json: bool) -> None:
    if as_json:
        rows = [{"place": mistake.place, "message": mistake.message} for mistake in mistakes]
        click.echo(json.dumps({"valid": False, "mistakes": rows}, indent=2))
        return
    click.echo(f"The policy has {len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''}:", err=True)
    for mistake in mistakes:
        click.echo(f"  {mistake}", err=True)


@command.command()
@document_argument
@tenant_option
@json_option
def check(file: BinaryIO, tenant: str, as_json: bool) -> None:
    """Check FILE against the tenant's groups, sites and the dictionaries of its cell; store nothing."""
    with _mistakes_listed(as_json=as_json), Domain().tenant(tenant) as (session, tenant_id):
        compiled = policies.check_document(session, tenant_id=tenant_id, document=read_policy_text(file.read()))
    if as_json:
        click.echo(json.dumps({"valid": True, "rules": len(compiled.rules)}))
    else:
        click.echo(f"The policy is valid: {len(compiled.rules)} rules, fallback {compiled.fallback.verdict}.")


@command.command()
@document_argument
@tenant_option
@slug_option
@click.option("--name", default="", help="For people, where the policy is new; the slug where not given.")
@click.option("--comment", default="", help="What changed and why.")
@json_option
def save(file: BinaryIO, tenant: str, slug: str, name: str, comment: str, as_json: bool) -> None:
    """Save FILE as the draft of a policy, made where it is new. It decides nothing until it is published."""
    domain = Domain()
    with _mistakes_listed(as_json=as_json), domain.tenant(tenant) as (session, tenant_id):
        document = read_policy_text(file.read())
        if slug not in {policy.slug for policy in policies.list_policies(session, tenant_id=tenant_id)}:
            policies.create_policy(session, actor=domain.actor, tenant_id=tenant_id, slug=slug, name=name)
        version = policies.save_draft(
            session, actor=domain.actor, tenant_id=tenant_id, slug=slug, document=document, comment=comment
        )
    show_one(_row(version), as_json=as_json)


@command.command()
@tenant_option
@slug_option
@click.option("--version", "number", type=int, help="Only if this is the draft: publish what was reviewed.")
@json_option
def publish(tenant: str, slug: str, number: int | None, as_json: bool) -> None:
    """Put the draft in force at every site that the policy is assigned to."""
    domain = Domain()
    with _mistakes_listed(as_json=as_json), domain.change(tenant) as (session, tenant_id):
        version = policies.publish_policy(session, actor=domain.actor, tenant_id=tenant_id, slug=slug, number=number)
    show_one(_row(version), as_json=as_json)


@command.command()
@tenant_option
@slug_option
@click.option("--version", "number", type=int, required=True, help="A version that was in force before.")
@click.option("--comment", default="", help="Why.")
@json_option
def rollback(tenant: str, slug: str, number: int, comment: str, as_json: bool) -> None:
    """Put an earlier version back in force, as a new version."""
    domain = Domain()
    with _mistakes_listed(as_json=as_json), domain.change(tenant) as (session, tenant_id):
        version = policies.roll_back_policy(
            session, actor=domain.actor, tenant_id=tenant_id, slug=slug, number=number, comment=comment
        )
    show_one(_row(version), as_json=as_json)


@command.command()
@tenant_option
@slug_option
@click.option("--site", required=True, metavar="SLUG", help="The site where it decides from now on.")
@json_option
def assign(tenant: str, slug: str, site: str, as_json: bool) -> None:
    """Let the policy decide at a site."""
    domain = Domain()
    with domain.change(tenant) as (session, tenant_id):
        policy = policies.require_by_slug(session, tenant_id=tenant_id, slug=slug)
        sites.assign_policy(session, actor=domain.actor, tenant_id=tenant_id, slug=site, policy_id=policy.id)
        row = {"site": site, "policy": policy.slug, "in_force": policy.published_version}
    show_one(row, as_json=as_json)
    if policy.published_version is None:
        click.echo(
            f"Note: {slug} was never published, so site {site} denies everyone until it is: "
            f"./admit policy publish -t {tenant} -s {slug}",
            err=True,
        )


@command.command()
@tenant_option
@slug_option
@click.option("--version", "number", type=int, help="Default: the one in force or, where none is, the newest.")
@json_option
def show(tenant: str, slug: str, number: int | None, as_json: bool) -> None:
    """Print the document of a version: with --json beside what is known of the version."""
    with Domain().tenant(tenant) as (session, tenant_id):
        version = policies.require_version(session, tenant_id=tenant_id, slug=slug, number=number)
    document = in_reading_order(version.document)
    if as_json:
        click.echo(json.dumps({**_row(version), "document": document}, indent=2))
    else:
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))


@command.command("list")
@tenant_option
@click.option("--slug", "-s", help="List the versions of this policy, newest first.")
@json_option
def list_(tenant: str, slug: str | None, as_json: bool) -> None:
    """List the policies, or the versions of one."""
    with Domain().tenant(tenant) as (session, tenant_id):
        if slug is None:
            rows = [_policy_row(policy) for policy in policies.list_policies(session, tenant_id=tenant_id)]
        else:
            rows = [_row(version) for version in policies.list_versions(session, tenant_id=tenant_id, slug=slug)]
    show_list(rows, as_json=as_json)


@command.command()
@json_option
def attributes(as_json: bool) -> None:
    """List the attributes that conditions may read, with the values of those that have only a few.

    docs/policy.md says what the operators mean.
    """
    found = [*CATALOGUE.values(), *open_attributes()]
    rows: list[Row] = [
        {
            "attribute": attribute.name,
            "kind": attribute.kind,
            "values": "many" if attribute.many else "one",
            "choices": attribute.choices,
            "meaning": attribute.meaning,
        }
        for attribute in found
    ]
    if as_json:
        rows = [{**row, "operators": operators_of(attribute)} for row, attribute in zip(rows, found, strict=True)]
    show_list(rows, as_json=as_json)
    if not as_json:
        # In a column of the table they would make its lines wider than any terminal.
        click.echo()
        for operators, what in _by_operators(found).items():
            click.echo(f"operators of {', '.join(what)}: {', '.join(operators)}")


@command.command()
def schema() -> None:
    """Print the JSON Schema of policy documents, for editors and for checks before anything is sent here."""
    click.echo(json.dumps(policy_schema(), indent=2))


def _by_operators(found: Iterable[Attribute]) -> dict[tuple[str, ...], dict[str, None]]:
    """The kinds that each set of operators applies to, and the attributes to which more do than to their kind."""
    told: dict[tuple[str, ...], dict[str, None]] = {}
    for attribute in found:
        what = attribute.kind
        told.setdefault(operators_of(attribute), {})[what] = None
    return told

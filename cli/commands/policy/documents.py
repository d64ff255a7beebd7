"""Commands for policy documents: attributes, schema, validation, drafts."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import click

from cli.command_context import CommandContext
from cli.commands.policy.group import command, document_argument, read_document, read_text, slug_option
from cli.mistakes import report_policy_mistakes
from cli.output import Row, json_option, show_json, show_list, show_one, tenant_option
from nac.engine import Policy as CompiledPolicy
from nac.engine import ReplyDictionary, compile_policy, parse_policy_text
from nac.engine.attributes import ATTRIBUTE_CATALOGUE, PolicyAttribute, list_open_attributes
from nac.engine.dictionary import DictionaryDamaged, read_dictionary
from nac.engine.operators import list_operators
from nac.models import Policy, PolicyVersion
from nac.policies import service as policies
from nac.policies.json_rows import decode_policy_text, mistake_rows, order_keys
from nac.policies.nas_support import list_vendor_limits, list_vendor_names
from nac.policies.schema import policy_schema
from nac.tenancy.nases import service as nases

# Dictionaries of the radiusd on this machine, which serves the cell of `./admit up`.
_DICTIONARY = Path("/usr/share/freeradius/dictionary")


def version_row(version: PolicyVersion) -> Row:
    return {
        "version": version.number,
        "status": version.status,
        "created_at": version.created_at.isoformat(timespec="seconds"),
        "published_at": version.published_at and version.published_at.isoformat(timespec="seconds"),
        "comment": version.comment,
    }


def _policy_row(policy: Policy) -> Row:
    return {"slug": policy.slug, "name": policy.name, "in_force": policy.published_version, "id": policy.id}


@command.command()
@document_argument
@click.option("--tenant", "-t", metavar="SLUG", help="Tenant whose groups and sites to check.")
@json_option
def validate(file: BinaryIO, tenant: str | None, as_json: bool) -> None:
    """Validate FILE and store nothing.

    Without a tenant, checks only the format and the dictionaries of the radiusd on this machine.
    """
    if tenant is not None:
        _check(file, tenant, as_json=as_json)
        return
    replies = _installed_dictionary()
    with report_policy_mistakes(as_json=as_json):
        compiled = compile_policy(read_document(file), replies=replies)
    _tell_valid(compiled, as_json=as_json)


def _installed_dictionary() -> ReplyDictionary | None:
    try:
        return read_dictionary(_DICTIONARY)
    except (OSError, DictionaryDamaged) as exc:
        click.echo(
            f"Note: reply attributes were not checked, because this machine has no radiusd dictionaries ({exc}).",
            err=True,
        )
        return None


@command.command()
@document_argument
@tenant_option
@json_option
def check(file: BinaryIO, tenant: str, as_json: bool) -> None:
    """Check FILE against the tenant's groups, sites and the dictionaries of its cell. Stores nothing."""
    _check(file, tenant, as_json=as_json)


def _check(file: BinaryIO, tenant: str, *, as_json: bool) -> None:
    with report_policy_mistakes(as_json=as_json), CommandContext().tenant(tenant) as (session, tenant_id):
        compiled = policies.check_document(
            session, tenant_id=tenant_id, document=read_document(file), refuse_absent=True
        )
        vendors = list_vendor_names(nases.list_nases(session, tenant_id=tenant_id))
    # Before the first NAS is registered, any vendor is possible.
    _tell_valid(compiled, as_json=as_json, vendors=vendors or None)


def _tell_valid(compiled: CompiledPolicy, *, as_json: bool, vendors: Sequence[str] | None = None) -> None:
    noted = list_vendor_limits(compiled)
    if as_json:
        counts = {"rules": len(compiled.rules), "tests": len(compiled.tests)}
        click.echo(json.dumps({"valid": True, **counts, "notes": mistake_rows(noted)}))
        return
    count = f"{len(compiled.rules)} rule{'' if len(compiled.rules) == 1 else 's'}"
    tests = f" {len(compiled.tests)} tests (run them with `policy test`)." if compiled.tests else ""
    click.echo(f"The policy is valid: {count}, fallback {compiled.fallback.verdict}.{tests}")
    notes = noted if vendors is None else list_vendor_limits(compiled, vendors)
    for note in notes:
        click.echo(f"Note: {note}", err=True)
    if more := len(noted) - len(notes):
        click.echo(f"Note: {more} more about vendors without a NAS in the tenant. Use --json to list them.", err=True)


@command.command()
@document_argument
@tenant_option
@slug_option
@click.option("--name", default="", help="Display name of a new policy (default its slug).")
@click.option("--comment", default="", help="Summary of the change.")
@json_option
def save(file: BinaryIO, tenant: str, slug: str, name: str, comment: str, as_json: bool) -> None:
    """Save FILE as the draft of a policy, and create the policy if needed. The draft is not in force until you publish
    it.
    """
    domain = CommandContext()
    with report_policy_mistakes(as_json=as_json), domain.tenant(tenant) as (session, tenant_id):
        text = read_text(file)
        document = parse_policy_text(text)
        slug = slug or policies.find_policy(session, tenant_id=tenant_id).slug
        if slug not in {policy.slug for policy in policies.list_policies(session, tenant_id=tenant_id)}:
            policies.create_policy(session, actor=domain.actor, tenant_id=tenant_id, slug=slug, name=name)
        version = policies.save_draft(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            slug=slug,
            document=document,
            comment=comment,
            written=decode_policy_text(text),
        )
    show_one(version_row(version), as_json=as_json)


@command.command()
@click.argument("name")
@tenant_option
@slug_option
@json_option
def rename(name: str, tenant: str, slug: str, as_json: bool) -> None:
    """Rename a policy to NAME. Its slug does not change."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        slug = slug or policies.find_policy(session, tenant_id=tenant_id).slug
        policy = policies.rename_policy(session, actor=domain.actor, tenant_id=tenant_id, slug=slug, name=name)
        row = _policy_row(policy)
    show_one(row, as_json=as_json)


@command.command()
@tenant_option
@slug_option
@click.option("--version", "number", type=int, help="Version (default the one in force, or the newest).")
@json_option
def show(tenant: str, slug: str, number: int | None, as_json: bool) -> None:
    """Print the document of a version. With --json, also the version's data."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        slug = policies.find_policy(session, tenant_id=tenant_id, slug=slug).slug
        version = policies.require_version(session, tenant_id=tenant_id, slug=slug, number=number)
    if as_json:
        read = order_keys(version.document) if version.written is None else parse_policy_text(version.written)
        show_json({"slug": slug, **version_row(version), "replayed": version.replayed, "document": read})
    elif version.written is None:
        click.echo(json.dumps(order_keys(version.document), indent=2, ensure_ascii=False))
    else:
        click.echo(version.written, nl=not version.written.endswith("\n"))


@command.command("list")
@tenant_option
@click.option("--slug", "-s", help="Policy whose versions to list, newest first.")
@json_option
def list_(tenant: str, slug: str | None, as_json: bool) -> None:
    """List policies, or the versions of one."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        if slug is None:
            rows = [_policy_row(policy) for policy in policies.list_policies(session, tenant_id=tenant_id)]
        else:
            rows = [version_row(version) for version in policies.list_versions(session, tenant_id=tenant_id, slug=slug)]
    show_list(rows, as_json=as_json)


@command.command()
@json_option
def attributes(as_json: bool) -> None:
    """List the attributes for conditions, with their values if there are only a few.

    For the operators, see docs/reference/policy.md.
    """
    attribute_list = [*ATTRIBUTE_CATALOGUE.values(), *list_open_attributes()]
    rows: list[Row] = [
        {
            "attribute": attribute.name,
            "kind": attribute.kind,
            "values": "many" if attribute.many else "one",
            "choices": attribute.choices,
            "meaning": attribute.meaning,
        }
        for attribute in attribute_list
    ]
    if as_json:
        rows = [
            {**row, "operators": list_operators(attribute)} for row, attribute in zip(rows, attribute_list, strict=True)
        ]
    show_list(rows, as_json=as_json)
    if not as_json:
        # Not a table column, because it would be wider than any terminal.
        click.echo()
        for operators, what in _by_operators(attribute_list).items():
            click.echo(f"operators of {', '.join(what)}: {', '.join(operators)}")


@command.command()
def schema() -> None:
    """Print the JSON Schema of policy documents, for editors and checks."""
    show_json(policy_schema())


def _by_operators(attribute_list: Iterable[PolicyAttribute]) -> dict[tuple[str, ...], dict[str, None]]:
    """Kinds by their operators, and attributes with more operators than their kind."""
    kinds: dict[tuple[str, ...], dict[str, None]] = {}
    for attribute in attribute_list:
        kinds.setdefault(list_operators(attribute), {})[attribute.kind] = None
    return kinds

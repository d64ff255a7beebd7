"""`./admit policy`: commands that read files or explain results."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from cli.commands._policy_descriptions import describe_replay, describe_simulation, describe_test
from cli.commands._policy_files import parse_text, read_document, read_text, report_mistakes
from cli.errors import describe_error
from cli.output import Row, escape_unprintable, json_option, show_json, show_list, show_one, tenant_option
from cli.remote.aliases import Lookup
from cli.remote.client import ApiClient
from cli.remote.commands import call_operation, choose_item, list_items
from cli.remote.local_api import connect
from nac.kit.errors import AdmitError, InvalidInput

if TYPE_CHECKING:
    from nac.engine import ReplyDictionary
    from nac.engine.attributes import PolicyAttribute

# RADIUS dictionaries of this machine, which radiusd of `./admit up` uses.
_DICTIONARY = Path("/usr/share/freeradius/dictionary")
slug_option = click.option(
    "--slug", "-s", default="", help="Slug of the policy; optional if the tenant has only one policy."
)
site_option = click.option("--site", metavar="SLUG", help="Slug of the site at which the command evaluates requests.")
document_argument = click.argument("file", type=click.File("rb"))


@click.group()
def command() -> None:
    """Manage policies of a tenant. FILE is JSON; "-" reads standard input."""


def _find_slug(api: ApiClient, tenant: str, slug: str) -> str:
    """Return `slug`, or the slug of the tenant's only policy. Raises InvalidInput."""
    return slug or choose_item(
        list_items(api, "list-policies", tenant=tenant), Lookup("", "slug", "slug"), "", "policy"
    )


@command.command()
@document_argument
@click.option("--tenant", "-t", metavar="SLUG", help="Slug of the tenant whose groups and sites to check.")
@json_option
def validate(file: BinaryIO, tenant: str | None, as_json: bool) -> None:
    """Validate FILE and store nothing.

    Without a tenant, the command checks only the format, and the attributes against the dictionaries of the radiusd on
    this machine.
    """
    if tenant is not None:
        _check(file, tenant, as_json=as_json)
        return
    # Imported here because it loads the policy engine, which other commands do not need.
    from nac.engine import compile_policy
    from nac.policies.nas_support import list_vendor_limits

    replies = _read_installed_dictionary()
    with report_mistakes():
        policy = compile_policy(read_document(file), replies=replies)
    notes = [{"place": each.place, "message": each.message} for each in list_vendor_limits(policy)]
    counts = {"rules": len(policy.rules), "tests": len(policy.tests)}
    _tell_valid({**counts, "fallback": policy.fallback.verdict, "notes": notes}, as_json=as_json)


def _read_installed_dictionary() -> "ReplyDictionary | None":
    from nac.engine.dictionary import DictionaryDamaged, read_dictionary

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
    """Check FILE against the tenant's groups, the tenant's sites and the dictionaries of the tenant's cell.

    Stores nothing.
    """
    _check(file, tenant, as_json=as_json)


def _check(file: BinaryIO, tenant: str, *, as_json: bool) -> None:
    with report_mistakes():
        document = read_document(file)
    _tell_valid(call_operation(connect(), "check-policy", tenant=tenant, document=document), as_json=as_json)


def _tell_valid(found: Row, *, as_json: bool) -> None:
    rules, tests, notes = found["rules"], found["tests"], found["notes"]
    assert isinstance(notes, list)
    if as_json:
        click.echo(json.dumps({"valid": True, "rules": rules, "tests": tests, "notes": notes}))
        return
    count = f"{rules} rule{'' if rules == 1 else 's'}"
    run = f" {tests} tests (run them with `policy test`)." if tests else ""
    click.echo(f"The policy is valid: {count}, fallback {found['fallback']}.{run}")
    for note in notes:
        click.echo(escape_unprintable(f"Note: {note['place'] or 'document'}: {note['message']}"), err=True)


@command.command()
@document_argument
@tenant_option
@slug_option
@click.option("--name", default="", help="Display name of a new policy (default the slug).")
@click.option("--comment", default="", help="Summary of the change to the policy.")
@json_option
def save(file: BinaryIO, tenant: str, slug: str, name: str, comment: str, as_json: bool) -> None:
    """Save FILE as the draft of a policy, and create the policy if needed.

    The draft is not in force until you publish the draft.
    """
    with report_mistakes():
        text = read_text(file)
        parse_text(text)
    api = connect()
    slug = _find_slug(api, tenant, slug)
    is_new = slug not in {policy["slug"] for policy in list_items(api, "list-policies", tenant=tenant)}
    if is_new:
        call_operation(api, "create-policy", tenant=tenant, slug=slug, name=name)
    try:
        draft = call_operation(api, "update-policy-draft", tenant=tenant, policy=slug, comment=comment, body=text)
    except AdmitError:
        if is_new:
            call_operation(api, "delete-policy", tenant=tenant, policy=slug)
        raise
    show_one(_version_row(draft), as_json=as_json)


def _version_row(version: Row) -> Row:
    return {name: version[name] for name in ("version", "status", "created_at", "published_at", "comment")}


@command.command()
@tenant_option
@slug_option
@click.option(
    "--version",
    "number",
    type=int,
    help="Number of the policy version (default the version in force, or the newest version).",
)
@json_option
def show(tenant: str, slug: str, number: int | None, as_json: bool) -> None:
    """Print the document of a version. With --json, the output also has the version's other fields."""
    api = connect()
    slug = _find_slug(api, tenant, slug)
    of: dict[str, Any] = {"tenant": tenant, "policy": slug}
    number = number or call_operation(api, "get-policy", **of)["published_version"]
    if number is None:
        newest = next(list_items(api, "list-policy-versions", **of), None)
        if newest is None:
            raise InvalidInput(
                "The policy has no version.", place="version", remedy="Save a draft: ./admit policy save"
            )
        number = newest["version"]
    version = call_operation(api, "get-policy-version", **of, version=number)
    written = version["written"]
    if as_json:
        document = version["document"] if written is None else json.loads(written)
        show_json({"slug": slug, **_version_row(version), "replayed": version["replayed"], "document": document})
    elif written is None:
        click.echo(json.dumps(version["document"], indent=2, ensure_ascii=False))
    else:
        click.echo(written, nl=not written.endswith("\n"))


@contextmanager
def _report_refusals(*, as_json: bool) -> Iterator[None]:
    """Print the failing tests and the replay differences that prevent the publication of a version."""
    try:
        yield
    except AdmitError as exc:
        failed, replayed = exc.members.get("failed_tests"), exc.members.get("replay")
        if failed is None and replayed is None:
            raise
        if as_json:
            show_json({"published": False, **exc.members})
        else:
            lines = [f"  {describe_test(each)}" for each in failed or ()]
            if replayed:
                lines = list(describe_replay(replayed))
            for line in (*lines, f"Error: {describe_error(exc)}"):
                click.echo(escape_unprintable(line), err=True)
        raise click.exceptions.Exit(1) from exc


@command.command()
@tenant_option
@slug_option
@click.option(
    "--version", "number", type=int, help="Version number of the reviewed draft. Admit does not publish a newer draft."
)
@click.option(
    "--acknowledge",
    metavar="DIGEST",
    default="",
    help=(
        "Digest of a replay whose differences you accept. Required if `tenant set --replay-days` is "
        "set and the replay has differences."
    ),
)
@json_option
def publish(tenant: str, slug: str, number: int | None, acknowledge: str, as_json: bool) -> None:
    """Publish the draft at every site of the policy.

    The command fails if a test of the policy fails. If the tenant requires a replay, the command also fails on
    differences that you did not acknowledge.
    """
    api = connect()
    of: dict[str, Any] = {"tenant": tenant, "policy": _find_slug(api, tenant, slug)}
    with _report_refusals(as_json=as_json):
        version = call_operation(api, "publish-policy", **of, version=number, acknowledge=acknowledge)
    if "status" not in version:
        # The replay took long, so a job published the draft.
        version = call_operation(api, "get-policy-version", **of, version=version["version"])
    show_one(_version_row(version), as_json=as_json)


@command.command()
@tenant_option
@slug_option
@click.option("--version", "number", type=int, required=True, help="Number of the earlier policy version.")
@click.option("--comment", default="", help="Reason of the rollback.")
@json_option
def rollback(tenant: str, slug: str, number: int, comment: str, as_json: bool) -> None:
    """Publish an earlier version again, as a new version. The tests of the version must pass. No replay is required."""
    api = connect()
    slug = _find_slug(api, tenant, slug)
    with _report_refusals(as_json=as_json):
        version = call_operation(api, "roll-back-policy", tenant=tenant, policy=slug, version=number, comment=comment)
    show_one(_version_row(version), as_json=as_json)


@command.command()
@tenant_option
@slug_option
@click.option("--site", required=True, metavar="SLUG", help="Slug of the site that gets the policy.")
@json_option
def assign(tenant: str, slug: str, site: str, as_json: bool) -> None:
    """Assign the policy to a site."""
    api = connect()
    slug = _find_slug(api, tenant, slug)
    call_operation(api, "update-site", tenant=tenant, site=site, policy=slug)
    in_force = call_operation(api, "get-policy", tenant=tenant, policy=slug)["published_version"]
    show_one({"site": site, "policy": slug, "in_force": in_force}, as_json=as_json)
    if in_force is None:
        click.echo(
            f"Note: {slug} has no published version, so site {site} denies all requests. Publish {slug}: "
            f"./admit policy publish -t {tenant} -s {slug}",
            err=True,
        )


@command.command()
@tenant_option
@slug_option
@click.option(
    "--file", type=click.File("rb"), help="File with the policy document to test, instead of the newest version."
)
@click.option(
    "--version", "number", type=int, help="Number of the policy version to test (default the newest version)."
)
@json_option
def test(tenant: str, slug: str, file: BinaryIO | None, number: int | None, as_json: bool) -> None:
    """Run the tests of a policy. Exit status 1 if a test fails, 2 if the policy is invalid."""
    with report_mistakes():
        document = read_document(file)
    result = call_operation(
        connect(), "test-policy", tenant=tenant, document=document, policy=slug or None, version=number
    )
    tests = result["tests"]
    if as_json:
        show_json(result)
    else:
        for each in tests:
            click.echo(escape_unprintable(describe_test(each)))
        click.echo(f"{sum(each['passed'] for each in tests)} of {len(tests)} tests passed.")
    if not result["passed"]:
        raise click.exceptions.Exit(1)


@command.command()
@tenant_option
@slug_option
@json_option
def hits(tenant: str, slug: str, as_json: bool) -> None:
    """Show the hits of each rule in the last 1, 7 and 30 days (UTC), and the last hit, for the version in force.

    The output marks rules without a hit since publication.
    """
    api = connect()
    counts = call_operation(api, "get-policy-hits", tenant=tenant, policy=_find_slug(api, tenant, slug))
    if as_json:
        show_json(counts)
        return
    click.echo(f"{counts['slug']} version {counts['version']}, published {counts['published_at']}")
    show_list([_hits_row(row) for row in counts["rules"]], as_json=False)


def _hits_row(row: Row) -> Row:
    earlier = f" (an earlier version: {row['last_hit_before']})" if row["last_hit_before"] else ""
    counts = {name: value for name, value in row.items() if name not in ("never_hit", "last_hit_before")}
    return counts | {"last_hit": row["last_hit"] or f"no hits since publication{earlier}"}


@command.command()
@tenant_option
@slug_option
@click.option(
    "--draft", type=click.File("rb"), help="File with the policy document that decides the replayed requests."
)
@click.option(
    "--version", "number", type=int, help="Policy version that decides the replayed requests (default newest)."
)
@click.option("--days", type=click.IntRange(min=1), required=True, help="Number of past days to replay requests from.")
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
    site: str | None,
    against: str,
    exit_code: bool,
    as_json: bool,
) -> None:
    """Replay recorded requests with a draft, and show the differences in groups with counts and examples.

    The replay includes all sites of the policy, or only the site of --site. Admit counts requests without a policy
    decision, such as failed logins, but does not replay these requests. Exit status 2 if the draft has mistakes.
    """
    with report_mistakes():
        document = read_document(draft)
    result = call_operation(
        connect(),
        "replay-policy",
        tenant=tenant,
        document=document,
        policy=slug or None,
        version=number,
        days=days,
        site=site,
        against=against,
    )
    if as_json:
        show_json(result)
    else:
        for line in describe_replay(result):
            click.echo(escape_unprintable(line))
    if exit_code and result["changed"]:
        raise click.exceptions.Exit(1)


@command.command()
@tenant_option
@slug_option
@click.option("--draft", type=click.File("rb"), help="File with the policy document that decides the request.")
@site_option
@click.option(
    "--request",
    "request_file",
    type=click.File("rb"),
    help="JSON file with the request: an object that maps attributes to their values.",
)
@click.option(
    "--decision",
    metavar="ID",
    help="Id of a logged decision (`decisions --json`) whose request and context to use, instead of --request.",
)
@click.option(
    "--at", help="Time of the request, such as 2026-01-05T09:00:00Z (default now or the time of the decision)."
)
@click.option(
    "--policy-only", is_flag=True, help="Use only the attributes in the request, without attributes that Admit adds."
)
@json_option
def simulate(
    tenant: str,
    slug: str,
    draft: BinaryIO | None,
    site: str | None,
    request_file: BinaryIO | None,
    decision: str | None,
    at: str | None,
    policy_only: bool,
    as_json: bool,
) -> None:
    """Simulate a policy's decision about one request. Stores nothing and admits no device.

    The policy is --draft. Without --draft, the command uses the policy of --slug, the policy of the site, or the
    tenant's only policy, in this order. The default site is the site of the NAS. Attributes have the names that
    conditions use. RADIUS attributes can also have the names from RADIUS (NAS-Identifier). Missing values are derived
    from the packet and from stored data of the NAS, the endpoint `mac` and the user `user.name`. Exit status 0 for
    every verdict, 2 if the request or policy has mistakes.
    """
    if (request_file is None) == (decision is None):
        raise click.UsageError("Use either --request or --decision.")
    with report_mistakes("request"):
        request = read_document(request_file)
    with report_mistakes("policy"):
        document = read_document(draft)
    simulation = call_operation(
        connect(),
        "simulate-policy",
        tenant=tenant,
        request=request,
        decision=decision,
        document=document,
        policy=slug or None,
        site=site,
        at=at,
        policy_only=policy_only,
    )
    if as_json:
        show_json(simulation)
        return
    for line in describe_simulation(simulation):
        click.echo(escape_unprintable(line))


@command.command()
@json_option
def attributes(as_json: bool) -> None:
    """List the attributes for conditions. If an attribute has only a few possible values, the list includes the values.

    For the operators, see docs/reference/policy.md.
    """
    from nac.engine.attributes import ATTRIBUTE_CATALOGUE, list_open_attributes
    from nac.engine.operators import list_operators

    all_attributes = [*ATTRIBUTE_CATALOGUE.values(), *list_open_attributes()]
    rows: list[Row] = [
        {
            "attribute": each.name,
            "kind": each.kind,
            "values": "many" if each.many else "one",
            "choices": each.choices,
            "meaning": each.meaning,
            **({"operators": list_operators(each)} if as_json else {}),
        }
        for each in all_attributes
    ]
    show_list(rows, as_json=as_json)
    if not as_json:
        # Operators are not a table column, because the column would be wider than a terminal.
        click.echo()
        for operators, what in _group_by_operators(all_attributes).items():
            click.echo(f"operators of {', '.join(what)}: {', '.join(operators)}")


def _group_by_operators(all_attributes: "Iterable[PolicyAttribute]") -> dict[Sequence[str], dict[str, None]]:
    from nac.engine.operators import list_operators

    kinds: dict[Sequence[str], dict[str, None]] = {}
    for attribute in all_attributes:
        kinds.setdefault(list_operators(attribute), {})[attribute.kind] = None
    return kinds


@command.command()
def schema() -> None:
    """Print the JSON Schema of policy documents, for editors and checks."""
    from nac.policies.schema import policy_schema

    show_json(policy_schema())

"""`./admit endpoint import` and `export`."""

import csv
import json
from itertools import chain
from typing import Any, TextIO

import click

from cli.command_context import CommandContext
from cli.errors import require_utf8
from cli.mistakes import report_file_mistakes
from cli.output import json_option, show_one, tenant_option
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.bulk import COLUMNS
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.mac import display_mac
from nac.models import Endpoint
from nac.onboarding.imports import endpoint_file
from nac.onboarding.imports.table import escape_formula


@click.command("import")
@click.argument("file", type=click.File("rb"))
@tenant_option
@click.option("--make-groups", is_flag=True, help="Create missing groups.")
@click.option("--allow-random", is_flag=True, help="Also approve random MAC addresses.")
@click.option("--update", is_flag=True, help="Update endpoints that exist.")
@json_option
def import_(
    file: Any,  # noqa: ANN401 -- a binary file of click's
    tenant: str,
    make_groups: bool,
    allow_random: bool,
    update: bool,
    as_json: bool,
) -> None:
    """Import the endpoints of FILE (CSV or JSON lines). If a line is invalid, nothing is imported."""
    with require_utf8(file.name):
        text = file.read().decode("utf-8")
    domain = CommandContext()
    with report_file_mistakes(as_json=as_json), domain.change(tenant) as (session, tenant_id):
        done = endpoint_file.import_endpoints(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            text=text,
            make_groups=make_groups,
            allow_random=allow_random,
            update=update,
        )
    row = {"added": done.added, "changed": done.changed, "groups_made": done.groups_made}
    show_one(row, as_json=as_json)


@click.command()
@tenant_option
@click.option("--format", "form", type=click.Choice(["csv", "jsonl"]), default="csv", show_default=True)
@click.option(
    "--output", type=click.File("w", encoding="utf-8"), default="-", help="Output file (default standard output)."
)
def export(tenant: str, form: str, output: TextIO) -> None:
    """Export the active and blocked endpoints, in the format of `import`."""
    criteria = endpoints.EndpointCriteria(statuses=("active", "blocked"))
    with CommandContext().tenant(tenant) as (session, tenant_id):
        rows = []
        for page in endpoints.ORDERS.pages(
            lambda span: endpoints.list_endpoints(session, tenant_id=tenant_id, wanted=criteria, span=span)
        ):
            ids = [endpoint.id for endpoint, _ in page]
            names = ENDPOINT_GROUPS.names_of(session, tenant_id=tenant_id, member_ids=ids, by_rule=False)
            rows += [_row(endpoint, names.get(endpoint.id, ())) for endpoint, _ in page]
    if form == "jsonl":
        for row in rows:
            output.write(json.dumps(row, ensure_ascii=False) + "\n")
        return
    keys = sorted(set(chain.from_iterable(row["attributes"] for row in rows)))
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([*COLUMNS, *(f"attribute.{key}" for key in keys)])
    for row in rows:
        cells = {**row, "groups": ";".join(row["groups"])}
        texts = [*(cells[name] for name in COLUMNS), *(row["attributes"].get(key, "") for key in keys)]
        writer.writerow(map(escape_formula, texts))


def _row(endpoint: Endpoint, groups: tuple[str, ...]) -> dict[str, Any]:
    return {
        "mac": display_mac(endpoint.mac),
        "name": endpoint.name,
        "status": endpoint.status,
        "groups": list(groups),
        "owner": endpoint.owner,
        "notes": endpoint.notes,
        "valid_until": endpoint.valid_until.isoformat() if endpoint.valid_until else "",
        "attributes": endpoint.attributes,
    }

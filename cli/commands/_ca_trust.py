"""`./admit ca import|set|refresh|remove|revoke`: authorities that a tenant trusts."""

import time
from pathlib import Path

import click

from cli.command_context import CommandContext
from cli.commands._ca_rows import authority_row, status_rows
from cli.errors import Refused
from cli.mistakes import report_row_mistakes
from cli.output import Row, json_option, show_list, tenant_option
from nac.certificates import external_authorities, status_refresh
from nac.kit.clock import utc_now

# The worker starts a turn every 20 s. A tenant whose servers do not respond takes up to a minute.
_ANSWERED_SECONDS = 90
_PAUSE_SECONDS = 0.5
_crl_url = click.option("--crl-url", metavar="URL", help="URL of the authority's certificate revocation list.")
_ocsp_url = click.option("--ocsp-url", metavar="URL", help="URL of the authority's OCSP responder.")


@click.command("import")
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@tenant_option
@_crl_url
@_ocsp_url
@json_option
def import_(files: tuple[Path, ...], tenant: str, crl_url: str | None, ocsp_url: str | None, as_json: bool) -> None:
    """Trust the authorities in FILEs for devices of the tenant: PEM, DER or PKCS#7.

    Include every authority that issues certificates to devices, and those above it up to the root. If one of them is
    invalid, none is imported. Without URLs, status comes from the URLs in the device certificates
    (docs/reference/trust.md).
    """
    contents = [(path.name, _read(path)) for path in files]
    domain = CommandContext()
    with report_row_mistakes(external_authorities.InvalidUpload, as_json=as_json):
        with domain.change(tenant) as (session, tenant_id):
            imported = external_authorities.import_authorities(
                session,
                actor=domain.actor,
                tenant_id=tenant_id,
                files=contents,
                now=utc_now(),
                crl_url=crl_url or "",
                ocsp_url=ocsp_url or "",
            )
            rows = [authority_row(session, tenant_id, row) for row in imported.authorities]
        if imported.needs_exchange:
            domain.await_exchange(tenant)
    show_list(rows, as_json=as_json)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise Refused(f"Cannot read the file: {exc.strerror}.", place=str(path)) from exc


@click.command()
@click.argument("authority", required=False)
@tenant_option
@json_option
@click.pass_context
def refresh(ctx: click.Context, authority: str | None, tenant: str, as_json: bool) -> None:
    """Fetch the status of certificates of the external AUTHORITY now, or of all external authorities.

    Waits until the worker has fetched the lists and queried OCSP. Then shows the age of each list and any errors. Exit
    status 1 if a fetch failed or no URL is known.
    """
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        asked = status_refresh.request_refresh(session, tenant_id=tenant_id, which=authority, now=utc_now())
    _await_answers(domain, tenant, asked)
    rows: list[Row] = []
    with domain.tenant(tenant) as (session, tenant_id):
        for found in asked.authorities:
            source = external_authorities.get_status_source(session, tenant_id=tenant_id, authority_id=found.id)
            shown = authority_row(session, tenant_id, found)
            rows.append({**shown, "asked": asked.about(found.id), **status_rows(session, source)})
    show_list(rows if as_json else [_in_short(row) for row in rows], as_json=as_json)
    ctx.exit(1 if any(not row["asked"] or row["crl_failure"] or row["ocsp_failures"] for row in rows) else 0)


def _in_short(row: Row) -> Row:
    short = {name: row[name] for name in ("id", "name", "revocations", "asked")}
    return short | {"failure": row["crl_failure"] or row["ocsp_failure"]}


def _await_answers(domain: CommandContext, tenant: str, asked: status_refresh.RefreshRequest) -> None:
    deadline = time.monotonic() + _ANSWERED_SECONDS
    while True:
        with domain.tenant(tenant) as (session, tenant_id):
            if status_refresh.is_refresh_answered(session, asked, tenant_id=tenant_id, now=utc_now()):
                return
        if time.monotonic() > deadline:
            raise Refused(
                f"The worker did not fetch all statuses within {_ANSWERED_SECONDS} s.",
                remedy="It continues. See ./admit ca show for the result and ./admit status for the worker.",
            )
        time.sleep(_PAUSE_SECONDS)


COMMANDS = (import_, refresh)

"""`./admit ca import|set|refresh|remove|revoke`: authorities that a tenant trusts."""

import time
from dataclasses import asdict
from pathlib import Path

import click

from cli.command_context import CommandContext
from cli.commands._ca_rows import authority_row, status_rows
from cli.errors import Refused, confirm
from cli.mistakes import report_row_mistakes
from cli.output import Row, json_option, show_list, show_one, tenant_option
from nac.certificates import bulk_revocation, external_authorities, status_refresh
from nac.certificates import service as certificates
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput

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


@click.command("set")
@click.argument("authority")
@tenant_option
@_crl_url
@_ocsp_url
@json_option
def set_(authority: str, tenant: str, crl_url: str | None, ocsp_url: str | None, as_json: bool) -> None:
    """Set the status URLs of the external AUTHORITY; "" uses the URLs in its certificates."""
    if crl_url is None and ocsp_url is None:
        raise InvalidInput("No setting to change.", remedy="Use --crl-url or --ocsp-url.")
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        row = external_authorities.update_status_sources(
            session, actor=domain.actor, tenant_id=tenant_id, which=authority, crl_url=crl_url, ocsp_url=ocsp_url
        )
        authority_data = authority_row(session, tenant_id, row)
    show_one(authority_data, as_json=as_json)


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
        request = status_refresh.request_refresh(session, tenant_id=tenant_id, which=authority, now=utc_now())
    _await_answers(domain, tenant, request)
    rows: list[Row] = []
    with domain.tenant(tenant) as (session, tenant_id):
        for each in request.authorities:
            source = external_authorities.get_status_source(session, tenant_id=tenant_id, authority_id=each.id)
            authority_data = authority_row(session, tenant_id, each)
            rows.append({**authority_data, "asked": request.about(each.id), **status_rows(session, source)})
    show_list(rows if as_json else [_in_short(row) for row in rows], as_json=as_json)
    ctx.exit(1 if any(not row["asked"] or row["crl_failure"] or row["ocsp_failures"] for row in rows) else 0)


def _in_short(row: Row) -> Row:
    short = {name: row[name] for name in ("id", "name", "revocations", "asked")}
    return short | {"failure": row["crl_failure"] or row["ocsp_failure"]}


def _await_answers(domain: CommandContext, tenant: str, request: status_refresh.RefreshRequest) -> None:
    deadline = time.monotonic() + _ANSWERED_SECONDS
    while True:
        with domain.tenant(tenant) as (session, tenant_id):
            if status_refresh.is_refresh_answered(session, request, tenant_id=tenant_id, now=utc_now()):
                return
        if time.monotonic() > deadline:
            raise Refused(
                f"The worker did not fetch all statuses within {_ANSWERED_SECONDS} s.",
                remedy="It continues. See ./admit ca show for the result and ./admit status for the worker.",
            )
        time.sleep(_PAUSE_SECONDS)


@click.command()
@click.argument("authority")
@tenant_option
@json_option
def remove(authority: str, tenant: str, as_json: bool) -> None:
    """Stop trusting the external AUTHORITY, and those below it that have no other trusted issuer."""
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        gone = external_authorities.delete_authority(session, actor=domain.actor, tenant_id=tenant_id, which=authority)
        rows = [{"id": str(row.id), "name": row.name} for row in gone]
    show_one(
        {"removed": [row["id"] for row in rows]} if as_json else {"removed": [row["name"] for row in rows]},
        as_json=as_json,
    )


@click.command()
@click.argument("authority")
@tenant_option
@click.option(
    "--reason",
    type=click.Choice(bulk_revocation.AUTHORITY_REVOCATION_REASONS),
    default="unspecified",
    show_default=True,
)
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@json_option
def revoke(authority: str, tenant: str, reason: str, yes: bool, as_json: bool) -> None:
    """Revoke AUTHORITY permanently, with the authorities below it and every certificate that they issued.

    For the tenant's own authority, this includes the RADIUS server certificate. Certificates and tunnels then stop
    working until you create a new authority (./admit ca rollover).
    """
    domain = CommandContext()
    if not yes:
        with domain.tenant(tenant) as (session, tenant_id):
            name = certificates.require_authority(session, tenant_id=tenant_id, which=authority).name
        confirm(f"Revoke {name} ({authority}) and every certificate that it issued?")
    with domain.change(tenant) as (session, tenant_id):
        done = bulk_revocation.revoke_authority(
            session, actor=domain.actor, tenant_id=tenant_id, which=authority, now=utc_now(), reason=reason
        )
    show_one(asdict(done), as_json=as_json)


COMMANDS = (import_, set_, refresh, remove, revoke)

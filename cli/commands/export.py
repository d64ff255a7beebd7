"""`./admit export`."""

import os
import shutil
import time
from collections.abc import Sequence
from datetime import datetime
from itertools import chain, islice
from pathlib import Path

import click

from cli.command_context import CommandContext
from cli.commands._export_rows import export_row, short_export_row
from cli.errors import Refused
from cli.output import json_option, show_list, show_one, tenant_option
from cli.time_options import SinceType
from nac.kit.clock import utc_now
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.logs.exports import service
from nac.logs.exports.export_folder import MANIFEST, ExportFolder
from nac.logs.log_tables import EXPORTED_LOGS
from nac.models import ExportJob
from nac.models.export import EXPORT_FORMATS, EXPORT_STATES

_PAGE = 500
_POLL_SECONDS = 0.5


@click.group()
def command() -> None:
    """Export logs to files: CSV, JSON lines or Parquet."""


@command.command()
@tenant_option
@click.option("--log", type=click.Choice(EXPORTED_LOGS), required=True, help="Log to export.")
@click.option("--since", type=SinceType(), required=True, help="Start: an age (15m, 1h, 2d) or a date and time (UTC).")
@click.option("--until", type=SinceType(), help="End (exclusive), in the same formats (default now).")
@click.option(
    "--format", "form", type=click.Choice(EXPORT_FORMATS), default="csv", show_default=True, help="Format of the files."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="New or empty folder for the files; waits for the export.",
)
@click.option("--wait", is_flag=True, help="Wait until the export ends; exit status 1 if it fails.")
@json_option
def start(
    tenant: str,
    log: str,
    since: datetime,
    until: datetime | None,
    form: str,
    output: Path | None,
    wait: bool,
    as_json: bool,
) -> None:
    """Start an export of a log. The worker runs it; export show displays its progress."""
    domain = CommandContext()
    if output is not None:
        _require_empty(output)
    with domain.tenant(tenant) as (session, tenant_id):
        job = service.start_export(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            log=log,
            since=since,
            until=until or utc_now(),
            format=form,
            most_bytes=domain.settings.export_tenant_max_bytes,
        )
    if wait or output is not None:
        job = _ended(domain, tenant, job)
    if output is not None:
        _copy(ExportFolder(domain.settings.export_dir).job_path(tenant_id, job.id), output, job)
    show_one(export_row(job), as_json=as_json)


@command.command("list")
@tenant_option
@click.option(
    "--state", "states", type=click.Choice(EXPORT_STATES), multiple=True, help="State of the exports; repeatable."
)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum number of exports.")
@json_option
def list_command(tenant: str, states: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List exports, newest first."""

    def fetch(span: PageSpan) -> Sequence[ExportJob]:
        return service.list_exports(session, tenant_id=tenant_id, states=states, span=span)

    with CommandContext().tenant(tenant) as (session, tenant_id):
        exports = islice(chain.from_iterable(service.ORDERS.pages(fetch, size=min(limit, _PAGE))), limit)
        rows = [export_row(job) if as_json else short_export_row(job) for job in exports]
    show_list(rows, as_json=as_json)


@command.command()
@tenant_option
@click.argument("export_id", metavar="ID", type=int)
@json_option
def show(tenant: str, export_id: int, as_json: bool) -> None:
    """Show the export ID of export list: state, progress, rows, bytes, files, error."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        row = export_row(service.require_export(session, tenant_id=tenant_id, job_id=export_id))
    show_one(row, as_json=as_json)


@command.command()
@tenant_option
@click.argument("export_id", metavar="ID", type=int)
@json_option
def cancel(tenant: str, export_id: int, as_json: bool) -> None:
    """Cancel the export ID and delete its files."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        row = export_row(service.cancel_export(session, actor=domain.actor, tenant_id=tenant_id, job_id=export_id))
    show_one(row, as_json=as_json)


@command.command()
@tenant_option
@click.argument("export_id", metavar="ID", type=int)
@json_option
def remove(tenant: str, export_id: int, as_json: bool) -> None:
    """Delete the files of the finished export ID before they expire."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        row = export_row(service.delete_export(session, actor=domain.actor, tenant_id=tenant_id, job_id=export_id))
    show_one(row, as_json=as_json)


@command.command()
@tenant_option
@click.argument("export_id", metavar="ID", type=int)
@json_option
def retry(tenant: str, export_id: int, as_json: bool) -> None:
    """Retry the failed export ID."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        row = export_row(service.retry_export(session, actor=domain.actor, tenant_id=tenant_id, job_id=export_id))
    show_one(row, as_json=as_json)


@command.command("download-path")
@tenant_option
@click.argument("export_id", metavar="ID", type=int)
@json_option
def download_path(tenant: str, export_id: int, as_json: bool) -> None:
    """Print the folder with the files of the export ID and their manifest.json."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        job = service.require_export(session, tenant_id=tenant_id, job_id=export_id)
    path = _require_done(domain, tenant_id, job)
    if as_json:
        show_one({"path": str(path), "sha256": job.sha256}, as_json=True)
    else:
        click.echo(path)


def _require_done(domain: CommandContext, tenant_id: TenantId, job: ExportJob) -> Path:
    if job.state != "done":
        causes = {"pruned": "its files have expired", "failed": f"it failed: {job.error}"}
        raise Refused(f"Export {job.id} has no files: {causes.get(job.state, f'it is {job.state}')}.", place="export")
    return ExportFolder(domain.settings.export_dir).job_path(tenant_id, job.id)


def _ended(domain: CommandContext, tenant: str, job: ExportJob) -> ExportJob:
    while job.state in ("queued", "running"):
        if job.failures:
            raise Refused(
                f"Export {job.id} fails: {job.error}. Admit retries it automatically.",
                place="export",
                remedy="See ./admit export show, or retry now: ./admit export retry.",
            )
        time.sleep(_POLL_SECONDS)
        with domain.tenant(tenant) as (session, tenant_id):
            job = service.require_export(session, tenant_id=tenant_id, job_id=job.id)
    _require_done(domain, tenant_id, job)
    return job


def _require_empty(output: Path) -> None:
    if output.exists() and any(output.iterdir()):
        raise InvalidInput(f"The folder {output} is not empty.", place="output", remedy="Use a new or empty folder.")


def _copy(folder: Path, output: Path, job: ExportJob) -> None:
    try:
        output.mkdir(mode=0o750, parents=True, exist_ok=True)
        for name in [*(part["file"] for part in job.parts), MANIFEST]:
            # Same mode as the source, which others cannot read.
            handle = os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
            with (folder / name).open("rb") as file, os.fdopen(handle, "wb") as copy:
                shutil.copyfileobj(file, copy)
    except OSError as exc:
        raise Refused(
            f"Cannot copy the files to {output}: {exc.strerror}.",
            place="output",
            remedy=f"They are in {folder}.",
        ) from exc

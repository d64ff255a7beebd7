"""`./admit export`."""

import os
import shutil
import time
from datetime import datetime
from pathlib import Path

import click

from cli.command_context import CommandContext
from cli.errors import Refused
from cli.output import Row, json_option, show_one, tenant_option
from cli.time_options import SinceType
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.logs.exports import service
from nac.logs.exports.export_folder import MANIFEST, ExportFolder
from nac.logs.log_tables import EXPORTED_LOGS
from nac.models import ExportJob
from nac.models.export import EXPORT_FORMATS

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
    show_one(_export_row(job), as_json=as_json)


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


def _export_row(job: ExportJob) -> Row:
    whole = (job.until - job.since).total_seconds()
    return {
        "id": job.id,
        "log": job.log,
        "format": job.format,
        "since": job.since.isoformat(),
        "until": job.until.isoformat(),
        "state": job.state,
        "percent": round(100 * (job.done_until - job.since).total_seconds() / whole),
        "rows": job.rows,
        "bytes": job.bytes,
        "files": [part["file"] for part in job.parts],
        # SHA-256 of manifest.json, which contains the hashes of the files.
        "sha256": job.sha256,
        "error": job.error,
        "failures": job.failures,
        "before_deletion": job.standing,
        "asked_by": job.asked_by,
        "asked": job.created_at.isoformat(),
        "started": job.started_at and job.started_at.isoformat(),
        # Only for an export before deletion: when its files became the only copy.
        "rows_gone": job.rows_gone_at and job.rows_gone_at.isoformat(),
        "ended": job.ended_at and job.ended_at.isoformat(),
    }

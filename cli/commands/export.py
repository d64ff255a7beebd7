"""Commands of `./admit export` that wait for an export or copy the exported files."""

import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from cli import environment
from cli.errors import Refused
from cli.output import json_option, show_one, tenant_option
from cli.remote.client import ApiClient
from cli.remote.commands import call_operation, download, start_operation
from cli.remote.local_api import connect
from cli.remote.results import show_result
from cli.time_options import SinceType
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.logs.exports.export_folder import MANIFEST, ExportFolder

_LOGS = ("auth", "accounting", "sessions", "usage")
_FORMATS = ("csv", "jsonl", "parquet")
_POLL_SECONDS = 0.5


@click.group()
def command() -> None:
    """Export logs of a tenant to files in CSV, JSON lines or Parquet."""


@command.command()
@tenant_option
@click.option("--log", type=click.Choice(_LOGS), required=True, help="Log to export.")
@click.option(
    "--since",
    type=SinceType(),
    required=True,
    help="Start of the exported period: an age (15m, 1h, 2d) or a date and time (UTC).",
)
@click.option(
    "--until", type=SinceType(), help="End of the exported period (exclusive), in the formats of --since (default now)."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="csv",
    show_default=True,
    help="Format of the exported files.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="New or empty folder for the files. The command waits until the export ends.",
)
@click.option("--wait", is_flag=True, help="Wait until the export ends; exit status 1 if the export fails.")
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
    """Start an export of a log. The worker runs the export; `export show` displays the progress."""
    if output is not None:
        _require_empty(output)
    api = connect()
    job = start_operation(
        api,
        "start-export",
        tenant=tenant,
        log=log,
        since=since.isoformat(),
        until=until and until.isoformat(),
        format=form,
    )
    if wait or output is not None:
        job = _await_end(api, tenant, job)
    if output is not None:
        _copy(api, tenant, job, output)
    show_result(job, as_json=as_json)


@command.command("download-path")
@tenant_option
@click.argument("export_id", metavar="ID", type=int)
@json_option
def download_path(tenant: str, export_id: int, as_json: bool) -> None:
    """Print the folder with the files and the manifest.json of the export ID."""
    api = connect()
    job = call_operation(api, "get-export", tenant=tenant, export=export_id)
    _require_done(job)
    tenant_id = TenantId(UUID(call_operation(api, "get-tenant", tenant=tenant)["id"]))
    path = ExportFolder(environment.load_into_process().export_dir).job_path(tenant_id, export_id)
    if as_json:
        show_one({"path": str(path), "sha256": job["sha256"]}, as_json=True)
    else:
        click.echo(path)


def _require_done(job: dict[str, Any]) -> None:
    state = job["state"]
    if state != "done":
        causes = {"pruned": "the files have expired", "failed": f"the export failed: {job['error']}"}
        raise Refused(
            f"Export {job['id']} has no files: {causes.get(state, f'the export is {state}')}.", place="export"
        )


def _await_end(api: ApiClient, tenant: str, job: dict[str, Any]) -> dict[str, Any]:
    while job["state"] in ("queued", "running"):
        if job["failures"]:
            raise Refused(
                f"Export {job['id']} fails: {job['error']}. Admit retries the export automatically.",
                place="export",
                remedy="See ./admit export show, or retry now: ./admit export retry.",
            )
        time.sleep(_POLL_SECONDS)
        job = call_operation(api, "get-export", tenant=tenant, export=job["id"])
    _require_done(job)
    return job


def _require_empty(output: Path) -> None:
    if output.exists() and any(output.iterdir()):
        raise InvalidInput(f"The folder {output} is not empty.", place="output", remedy="Use a new or empty folder.")


def _copy(api: ApiClient, tenant: str, job: dict[str, Any], output: Path) -> None:
    try:
        output.mkdir(mode=0o750, parents=True, exist_ok=True)
        for name in [*(part["file"] for part in job["files"]), MANIFEST]:
            # Same mode as in the folder of exports, which other users cannot read.
            handle = os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
            with os.fdopen(handle, "wb") as copy:
                download(api, "download-export-file", copy, tenant=tenant, export=str(job["id"]), file=name)
    except OSError as exc:
        raise Refused(
            f"Cannot copy the files to {output}: {exc.strerror}.",
            place="output",
            remedy=f"Print the folder of the files: ./admit export download-path {job['id']} --tenant {tenant}",
        ) from exc

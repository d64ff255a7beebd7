"""Rows for exports."""

from cli.output import Row
from nac.models import ExportJob


def export_row(job: ExportJob) -> Row:
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


def short_export_row(job: ExportJob) -> Row:
    row = export_row(job)
    columns = ("id", "log", "format", "since", "until", "state", "percent", "rows", "bytes", "error")
    return {name: str(row[name])[:16] if name in ("since", "until") else row[name] for name in columns}

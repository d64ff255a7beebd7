"""Exports of logs."""

from datetime import timedelta

from nac.kit.clock import utc_now
from nac.logs.exports.export_folder import MANIFEST, ExportFolder
from nac.models import ExportJob
from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_numbers


def _fill_tenant(filler: Filler, things: Things) -> None:
    things["export"] = filler.ask("startExport", things)["id"]
    tenant_id, now = things["tenant_id"], utc_now()
    period = {"since": now - timedelta(days=1), "until": now, "done_until": now - timedelta(days=1)}
    job = {"tenant_id": tenant_id, "log": "auth", "format": "csv", "requested_by": things["domain"], **period}
    waiting = ExportJob(**job)
    failed, done = (ExportJob(**job, state=state, ended_at=now) for state in ("failed", "done"))
    with filler.session() as session:
        session.add_all((waiting, failed, done))
        session.flush()
        things |= {"waiting_export": waiting.id, "failed_export": failed.id, "done_export": done.id}
    folder = ExportFolder(filler.exports).make(tenant_id, things["done_export"])
    (folder / MANIFEST).write_text(f"Export of {things['mark']}")


NOUN = Noun(
    operations={
        "listExports": Operation(2),
        "startExport": Operation(9, {"log": "auth", "since": "2026-01-31T08:00:00Z"}),
        "getExport": Operation(2),
        "downloadExportFile": Operation(2, path={"export": "done_export"}),
        "cancelExport": Operation(7, path={"export": "waiting_export"}),
        "retryExport": Operation(7, path={"export": "failed_export"}),
        "deleteExport": Operation(7, path={"export": "failed_export"}),
    },
    things={"file": "manifest.json"},
    unknown=unknown_numbers("export", "waiting_export", "failed_export", "done_export"),
    fill_tenant=_fill_tenant,
)

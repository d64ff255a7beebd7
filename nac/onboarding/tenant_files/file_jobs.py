"""Export and import of tenant files as jobs of an MSP. Jobs run in the MSP's scope.

Admit checks the caller's permissions when the job is created.
"""

import base64
import binascii
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from nac.certificates.signing import SigningContext
from nac.core.jobs.runner import JobRun
from nac.kit.db import PlatformScope, enter_tenant
from nac.kit.ids import MspId, TenantId
from nac.kit.secrets import Sealer
from nac.onboarding.tenant_files.importer import TenantImportResult, import_tenant
from nac.onboarding.tenant_files.reader import TenantFileRefused
from nac.onboarding.tenant_files.writer import write_tenant

EXPORT_JOB, IMPORT_JOB = "tenants.export", "tenants.import"
# Maximum size of an uploaded file. The command line imports larger files without a job.
MAX_JOB_FILE_BYTES = 16 << 20


def get_folder(export_dir: Path) -> Path:
    return export_dir / "tenants-asked"


def get_path(export_dir: Path, job_id: UUID) -> Path:
    return get_folder(export_dir) / f"{job_id}.zip"


def run_export_job(work: JobRun, *, export_dir: Path, sealer: Sealer) -> Mapping[str, Any]:
    path = get_path(export_dir, work.id)
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    # Each run of the job writes its own file, because after a long delay another worker may run the job, too.
    part = path.with_suffix(f".{work.takes}.part")
    tenant_id = TenantId(UUID(work.input["tenant_id"]))
    try:
        with (
            open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640), "wb") as file,
            work.open_session(is_snapshot=True) as session,
        ):
            enter_tenant(session, tenant_id)
            written = write_tenant(
                session,
                file,
                actor=work.actor,
                tenant_id=tenant_id,
                sealer=sealer,
                passphrase=work.input["passphrase"],
                logs=work.input["logs"],
                report=work.report,
            )
            file.flush()
            os.fsync(file.fileno())
        rows = sum(written.rows.values())
        with work.transaction() as session:
            # Raises an error if another worker runs the job now.
            work.hold(session, done=rows, total=rows)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return {"bytes": path.stat().st_size, "rows": written.rows, "notes": written.notes}


def run_import_job(work: JobRun, *, signing: SigningContext) -> Mapping[str, Any]:
    """Import the file in one transaction, which also records the end of the job.

    If the file has no authorities, creates new authorities after this transaction.
    """
    if work.place:
        return work.place
    result: dict[str, Any] = {}
    try:
        content = base64.b64decode(work.input["file"], validate=True)
    except (binascii.Error, ValueError) as exc:
        raise TenantFileRefused("The file is not valid base64.", place="file") from exc
    with work.open_session(PlatformScope()) as session:

        def note(done: TenantImportResult) -> None:
            result.update(tenant=done.tenant.slug, id=str(done.tenant.id), rows=done.rows, notes=done.notes)
            work.save_place(session, result)

        import_tenant(
            session,
            io.BytesIO(content),
            actor=work.actor,
            slug=work.input["slug"],
            msp_id=MspId(UUID(work.input["msp_id"])),
            signing=signing,
            passphrase=work.input["passphrase"],
            label=work.input["place"],
            keeps_authorities=work.input["keeps_authorities"],
            report=work.report,
            note=note,
        )
    return result

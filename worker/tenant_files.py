"""Handlers for tenant files, with the keys and folders of this installation."""

from collections.abc import Mapping
from typing import Any

from nac.certificates.signing import SigningContext
from nac.core.jobs.runner import JobRun, MultiTransactionHandler
from nac.kit.settings import load_settings
from nac.onboarding.tenant_files import file_jobs


def _run_export(work: JobRun) -> Mapping[str, Any]:
    settings = load_settings()
    return file_jobs.run_export_job(
        work, export_dir=settings.export_dir, sealer=SigningContext.from_settings(settings).sealer
    )


def _run_import(work: JobRun) -> Mapping[str, Any]:
    return file_jobs.run_import_job(work, signing=SigningContext.from_settings(load_settings()))


TENANT_FILE_HANDLERS = {
    file_jobs.EXPORT_JOB: MultiTransactionHandler(_run_export),
    file_jobs.IMPORT_JOB: MultiTransactionHandler(_run_import),
}

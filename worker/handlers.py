"""Maps each kind of job that clients can start (`nac.core.jobs`) to the handler that does its work."""

from collections.abc import Mapping
from typing import Any, Final

from nac.certificates.signing import SigningContext
from nac.core.jobs.runner import JobHandler, JobRun, MultiTransactionHandler
from nac.kit.sealing import Seal
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings
from nac.onboarding.imports import jobs as imports
from nac.onboarding.templates import rollouts
from nac.onboarding.tenant_files import file_jobs
from nac.policies import replay_jobs as policies


def _seal() -> Seal:
    return Sealer(MasterKeyFile(load_settings().master_key_file)).seal


def _export_tenant(work: JobRun) -> Mapping[str, Any]:
    settings = load_settings()
    sealer = SigningContext.from_settings(settings).sealer
    return file_jobs.run_export_job(work, export_dir=settings.export_dir, sealer=sealer)


def _import_tenant(work: JobRun) -> Mapping[str, Any]:
    return file_jobs.run_import_job(work, signing=SigningContext.from_settings(load_settings()))


JOB_HANDLERS: Final[Mapping[str, JobHandler]] = {
    **imports.build_handlers(_seal),
    **policies.JOB_HANDLERS,
    file_jobs.EXPORT_JOB: MultiTransactionHandler(_export_tenant),
    file_jobs.IMPORT_JOB: MultiTransactionHandler(_import_tenant),
    rollouts.JOB_KIND: rollouts.ROLLOUT_HANDLER,
}

"""Handlers of the worker for each kind of job that a client starts (`nac.core.jobs`)."""

from collections.abc import Mapping
from typing import Final

from nac.core.jobs.runner import JobHandler
from nac.kit.sealing import Seal
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings
from nac.onboarding.imports import jobs as imports
from nac.onboarding.templates import rollouts
from nac.policies import replay_jobs as policies
from worker.tenant_files import TENANT_FILE_HANDLERS


def _seal() -> Seal:
    return Sealer(MasterKeyFile(load_settings().master_key_file)).seal


JOB_HANDLERS: Final[Mapping[str, JobHandler]] = {
    **imports.build_handlers(_seal),
    **policies.JOB_HANDLERS,
    **TENANT_FILE_HANDLERS,
    rollouts.JOB_KIND: rollouts.ROLLOUT_HANDLER,
}

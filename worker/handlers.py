"""Handlers of the worker for each kind of job that a client starts (`nac.jobs`)."""

from collections.abc import Mapping
from typing import Final

from nac.imports import jobs as imports
from nac.jobs.runner import JobHandler
from nac.policies import replay_jobs as policies
from nac.sealing import Seal
from nac.secrets import MasterKeyFile, Sealer
from nac.settings import load_settings
from nac.templates import rollouts
from worker.tenant_files import TENANT_FILE_HANDLERS


def _seal() -> Seal:
    return Sealer(MasterKeyFile(load_settings().master_key_file)).seal


JOB_HANDLERS: Final[Mapping[str, JobHandler]] = {
    **imports.build_handlers(_seal),
    **policies.JOB_HANDLERS,
    **TENANT_FILE_HANDLERS,
    rollouts.JOB_KIND: rollouts.ROLLOUT_HANDLER,
}

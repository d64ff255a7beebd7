"""Files of tenants, with the keys and folders of this installation."""

from collections.abc import Mapping
from typing import Any

from nac.certificates.signing import Signing
from nac.jobs.running import SeveralTransactions, Work
from nac.settings import load_settings
from nac.tenant_files import asked


def _export(work: Work) -> Mapping[str, Any]:
    settings = load_settings()
    return asked.run_export(work, export_dir=settings.export_dir, sealer=Signing.from_settings(settings).sealer)


def _import(work: Work) -> Mapping[str, Any]:
    return asked.run_import(work, signing=Signing.from_settings(load_settings()))


TENANT_FILES = {asked.EXPORT: SeveralTransactions(_export), asked.IMPORT: SeveralTransactions(_import)}

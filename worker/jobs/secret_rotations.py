"""Secrets whose time to change over is up."""

from celery import shared_task

from nac.secret_rotations.expiry import finish_expired
from nac.secrets import MasterKeyFile, Sealer
from nac.settings import load_settings


@shared_task(name="secret_rotations.finish", ignore_result=True)
def finish() -> None:
    """The old secret ends, where that was asked for."""
    settings = load_settings(required=("DATABASE_WORKER_URL", "MASTER_KEY_FILE"))
    finish_expired(Sealer(MasterKeyFile(settings.master_key_file)))

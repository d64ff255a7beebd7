"""Finishes secret rotations."""

from celery import shared_task

from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings
from nac.tenancy.secret_rotations.service import finish_expired


@shared_task(name="secret_rotations.finish")
def finish() -> None:
    """Finish the rotations that end automatically and whose time window has ended."""
    settings = load_settings(required=("DATABASE_WORKER_URL", "MASTER_KEY_FILE"))
    finish_expired(Sealer(MasterKeyFile(settings.master_key_file)))

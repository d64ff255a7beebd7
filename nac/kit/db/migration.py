"""Runs Alembic migrations."""

from importlib.resources import files

from alembic import command
from alembic.config import Config


def alembic_config(owner_url: str = "") -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    config.attributes["url"] = owner_url
    return config


def upgrade_schema(owner_url: str) -> None:
    """Migrate to this version's schema as role admit_owner. Fails if the database is newer."""
    command.upgrade(alembic_config(owner_url), "head")

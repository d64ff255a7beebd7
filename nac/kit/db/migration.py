"""Creation and upgrade of the database schema with Alembic."""

from importlib.resources import files

from alembic import command
from alembic.config import Config

# Oldest revision from which Admit can upgrade. This revision creates the whole schema in an empty database.
BASELINE = "0081"


def alembic_config(owner_url: str = "") -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    config.attributes["url"] = owner_url
    return config


def upgrade_schema(owner_url: str) -> None:
    """Upgrade the schema to this version, as role admit_owner.

    Raises SchemaTooNew if the database is newer than this version. Raises SchemaTooOld if the database is older
    than the baseline.
    """
    config = alembic_config(owner_url)
    # In an empty database, this call creates the complete current schema, and migrations/env.py records the last
    # revision as applied.
    command.upgrade(config, BASELINE)
    command.upgrade(config, "head")

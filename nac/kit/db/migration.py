"""Creates and upgrades the schema with Alembic."""

from importlib.resources import files

from alembic import command
from alembic.config import Config

# Creates the whole schema in an empty database. Databases of earlier revisions cannot be upgraded.
BASELINE = "0081"


def alembic_config(owner_url: str = "") -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    config.attributes["url"] = owner_url
    return config


def upgrade_schema(owner_url: str) -> None:
    """Migrate to this version's schema as role admit_owner.

    Raises SchemaTooNew if the database is newer, and SchemaTooOld if it is older than the baseline.
    """
    config = alembic_config(owner_url)
    # Completes an empty database: migrations/env.py then stamps it with the last revision.
    command.upgrade(config, BASELINE)
    command.upgrade(config, "head")

"""A copy of the migrations with one more revision, as the next version will contain it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from nac.kit.db.schema import list_revisions
from tests.postgres import Database

_CHECKOUT = Path(__file__).parents[2]

# The last column of the table pools.
_COLUMN = ("    created_at timestamptz NOT NULL DEFAULT now(),\n", "    rank int NOT NULL DEFAULT 1,\n")
_FUNCTION = """
CREATE OR REPLACE FUNCTION pool_rank(pool pools) RETURNS int LANGUAGE sql STABLE AS $$ SELECT pool.rank $$;
GRANT EXECUTE ON FUNCTION pool_rank TO admit_cell;
"""
_TRIGGER = """
CREATE OR REPLACE TRIGGER ranked AFTER UPDATE OF rank ON pools
    FOR EACH ROW WHEN (OLD.rank <> NEW.rank) EXECUTE FUNCTION record_replica_change('pool', 'id');
"""
_POLICY = """
CREATE POLICY ranked ON pools FOR SELECT TO admit_cell USING (pool_rank(pools) > 0);
"""
_REVISION = """
from alembic import op

revision = "9000"
down_revision = "{previous}"
replaced = {{"functions": ["pool"], "triggers": ["pool"], "policies": ["pool"]}}


def upgrade() -> None:
    op.execute("ALTER TABLE pools ADD COLUMN rank int NOT NULL DEFAULT 1")
"""


def write_next_version(directory: Path) -> None:
    migrations = directory / "migrations"
    shutil.copytree(_CHECKOUT / "migrations", migrations, ignore=shutil.ignore_patterns("__pycache__"))
    schema = migrations / "sql" / "schema" / "pool.sql"
    before, after = _COLUMN
    schema.write_text(schema.read_text().replace(before, before + after, 1))
    for kind, addition in (("functions", _FUNCTION), ("triggers", _TRIGGER), ("policies", _POLICY)):
        with (migrations / "sql" / kind / "pool.sql").open("a") as file:
            file.write(addition)
    revision = _REVISION.format(previous=list_revisions()[-1])
    (migrations / "versions" / "9000_rank.py").write_text(revision)


def upgrade_to_version(directory: Path, database: Database) -> None:
    """Upgrade the database with the migrations in the directory, in a separate process."""
    code = "import sys; from nac.kit.db.migration import upgrade_schema; upgrade_schema(sys.argv[1])"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(directory), str(_CHECKOUT)])}
    subprocess.run([sys.executable, "-P", "-c", code, database.owner_url], check=True, env=environment)

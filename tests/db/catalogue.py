"""The content of a database as pg_dump prints it, to compare two databases."""

import gzip
import re
import subprocess
from pathlib import Path

import psycopg

from tests.postgres import Cluster, Database

# A database at the baseline revision, from pg_dump --inserts without daily partitions, and the database's rights.
_BASELINE = Path(__file__).with_name("baseline.sql.gz")
_DAILY_PARTITIONS = "*_20[0-9][0-9][01][0-9][0-3][0-9]"


def read_catalogue(database: Database) -> dict[str, str]:
    """The definition of each object and the rows of each table, without daily partitions."""
    arguments = ["--create", "--inserts", "--exclude-table", _DAILY_PARTITIONS, "--dbname", database.superuser_url]
    dump = subprocess.run(["pg_dump", *arguments], check=True, capture_output=True, text=True).stdout
    dump = dump.replace(database.name, "the_database")
    # The first and last lines of pg_dump's output contain a random key.
    dump = re.sub(r"^\\(un)?restrict .*$", "", dump, flags=re.MULTILINE)
    _, *entries = re.split(r"^-- (?=Name: |Data for Name: )", dump, flags=re.MULTILINE)
    catalogue = {}
    for entry in entries:
        title, _, text = entry.partition("\n")
        lines = text.strip("-\n").splitlines()
        # pg_dump prints rights in the order in which they were granted.
        catalogue[title] = "\n".join(sorted(lines) if "; Type: ACL;" in title else lines)
    return catalogue


def list_differences(left: dict[str, str], right: dict[str, str]) -> list[str]:
    return sorted(title for title in left.keys() | right.keys() if left.get(title) != right.get(title))


def create_baseline(cluster: Cluster, name: str) -> Database:
    """Create a database at the revision of the baseline."""
    database = cluster.create_database(name, migrated=False)
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute(gzip.decompress(_BASELINE.read_bytes()))
    return database

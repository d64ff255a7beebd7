"""Fixtures that every test may use. PostgreSQL is real, private to the run, and made by migrating."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from nac.db import make_engine
from tests.postgres import Cluster, Database, empty


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture(scope="session")
def migrated_database(cluster: Cluster) -> Database:
    return cluster.create_database()


@pytest.fixture
def database(migrated_database: Database) -> Iterator[Database]:
    """The migrated database, empty at the start of the test."""
    yield migrated_database
    empty(migrated_database)


def _engine(url: str) -> Iterator[Engine]:
    engine = make_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture
def app_engine(database: Database) -> Iterator[Engine]:
    yield from _engine(database.app_url)


@pytest.fixture
def cell_engine(database: Database) -> Iterator[Engine]:
    yield from _engine(database.cell_url)


@pytest.fixture
def worker_engine(database: Database) -> Iterator[Engine]:
    yield from _engine(database.worker_url)


@pytest.fixture
def owner_engine(database: Database) -> Iterator[Engine]:
    yield from _engine(database.owner_url)

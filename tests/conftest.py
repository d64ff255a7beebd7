"""Fixtures that every test may use. PostgreSQL is real, private to the run, and made by migrating."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine

from nac.db import make_engine
from tests.factories.certificates import Certified, certify
from tests.factories.tenancy import Platform, make_platform, make_tenant
from tests.postgres import Cluster, Database, empty

# How long an example takes says on a busy machine nothing of what is tested.
settings.register_profile("admit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("admit")


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


@pytest.fixture
def platform(app_engine: Engine, cell_engine: Engine) -> Platform:
    return make_platform(app_engine, cell_engine)


@pytest.fixture
def alpha(app_engine: Engine, platform: Platform) -> Certified:
    return certify(app_engine, make_tenant(app_engine, platform, "alpha").id)


@pytest.fixture
def bravo(app_engine: Engine, platform: Platform) -> Certified:
    return certify(app_engine, make_tenant(app_engine, platform, "bravo").id)

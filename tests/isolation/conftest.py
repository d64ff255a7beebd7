from collections.abc import Iterator

import pytest

from tests.isolation.installation import Installation, installed
from tests.isolation.request_isolation import RequestIsolation
from tests.postgres import Cluster, Database


@pytest.fixture(scope="session")
def isolation_database(cluster: Cluster) -> Database:
    return cluster.create_database("isolation")


@pytest.fixture(scope="session")
def world(isolation_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(isolation_database, tmp_path_factory.mktemp("isolation")) as world:
        yield world


@pytest.fixture(scope="session")
def isolation(world: Installation, isolation_database: Database) -> Iterator[RequestIsolation]:
    yield from _open_isolation(isolation_database, has_row_security=True)


@pytest.fixture(scope="session")
def isolation_without_row_security(world: Installation, isolation_database: Database) -> Iterator[RequestIsolation]:
    """The same requests, but row-level security does not apply to the application."""
    yield from _open_isolation(isolation_database, has_row_security=False)


def _open_isolation(database: Database, *, has_row_security: bool) -> Iterator[RequestIsolation]:
    isolation = RequestIsolation(database, has_row_security=has_row_security)
    isolation.remember()
    yield isolation
    isolation.close()

from collections.abc import Iterator

import pytest

from tests.isolation.installation import Installation, installed
from tests.isolation.request_isolation import RequestIsolation
from tests.postgres import Cluster, Database


@pytest.fixture(scope="session")
def walls_database(cluster: Cluster) -> Database:
    return cluster.create_database("walls")


@pytest.fixture(scope="session")
def world(walls_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(walls_database, tmp_path_factory.mktemp("walls")) as world:
        yield world


@pytest.fixture(scope="session")
def hall(world: Installation, walls_database: Database) -> Iterator[RequestIsolation]:
    yield from _hall(walls_database, behind_walls=True)


@pytest.fixture(scope="session")
def bare_hall(world: Installation, walls_database: Database) -> Iterator[RequestIsolation]:
    """A hall in which row-level security does not apply to the application."""
    yield from _hall(walls_database, behind_walls=False)


def _hall(database: Database, *, behind_walls: bool) -> Iterator[RequestIsolation]:
    hall = RequestIsolation(database, behind_walls=behind_walls)
    hall.remember()
    yield hall
    hall.close()

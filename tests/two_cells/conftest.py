"""Two running cells that all files here share. Each test has its own tenants, and the database is never emptied."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.agent.cell_process import RunningCell, RunningTenant, running_cell, running_tenant
from tests.postgres import Cluster, Database, Engines
from tests.redis_server import RedisServer

# Tests that replace radiusd, which restarts pending conversations. Tests with long conversations run before them.
_EXCHANGING = ("test_moving", "test_moving_faults", "test_secret_rotation", "test_unsigned")
# Enough slots for a tenant of every test. New tenants go to the first cell, which has more free slots.
_SLOTS, _SLOTS_OF_OTHER = 40, 16
_numbers = count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.parent == here and item.path.stem in _EXCHANGING)


@pytest.fixture(scope="package")
def database(cluster: Cluster) -> Database:
    return cluster.create_database("cells")


@pytest.fixture(scope="package")
def engines(database: Database) -> Iterator[Engines]:
    engines = Engines(database)
    yield engines
    engines.dispose()


@pytest.fixture(scope="package")
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="package")
def started_cells(
    database: Database, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningCell, RunningCell]]:
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    with running_cell(database, first, slots=_SLOTS, CELL_NAME="cell-1", REDIS_URL=redis_server.url) as one:
        key = str(first / "master.key")
        with running_cell(database, second, slots=_SLOTS_OF_OTHER, CELL_NAME="cell-2", MASTER_KEY_FILE=key) as other:
            yield one, other


@pytest.fixture
def cells(started_cells: tuple[RunningCell, RunningCell]) -> tuple[RunningCell, RunningCell]:
    """The two running cells, repaired after any earlier test."""
    for cell in started_cells:
        cell.ensure_started()
    return started_cells


@pytest.fixture
def cell(cells: tuple[RunningCell, RunningCell]) -> RunningCell:
    """The cell of new tenants."""
    return cells[0]


@pytest.fixture
def add_tenant(cell: RunningCell, app_engine: Engine) -> Callable[..., RunningTenant]:
    """A tenant in the first cell, with its own MSP and a unique slug."""

    def add(name: str = "alpha", **given: object) -> RunningTenant:
        return running_tenant(cell, app_engine, f"{name}-{next(_numbers)}", **given)

    return add

"""Fixtures of all tests. PostgreSQL is real, private to the run, and has the migrated schema."""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests import cheap_hashing, run_depth
from tests.factories.certificates import Certified, certify
from tests.factories.tenancy import Platform, make_platform, make_tenant
from tests.postgres import Cluster, Database, Engines
from tests.preparation import Preparation
from tests.row_snapshots import SnapshotStore, snapshotted
from tests.shared_engines import dispose_all

# Imported and collected objects never become garbage. Their examination would take a fifth of the time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    run_depth.select_part_run(is_part="not long" in config.option.markexpr)
    # On a busy machine, the duration of an example proves nothing about the code.
    slow = [HealthCheck.too_slow]
    settings.register_profile(
        "admit",
        deadline=None,
        max_examples=run_depth.examples(100),
        suppress_health_check=slow,
        # Equal examples each time, so that only changes cause failures. The long run uses new examples.
        derandomize=not run_depth.is_whole(),
        print_blob=True,
    )
    settings.load_profile("admit")
    if config.getoption("numprocesses", None):
        preparation = Preparation()
        config.add_cleanup(preparation.close)


# The shared fixtures of such folders take up to 15 seconds of CPU time to start and stop.
_SHARING = ("tests/isolation", "tests/two_cells", "tests/whole")


class WholeFiles(LoadFileScheduling):
    """Schedule each file, or each folder with expensive shared fixtures, in one process."""

    def _split_scope(self, nodeid: str) -> str:
        return _sharing(nodeid) or super()._split_scope(nodeid)


def _sharing(nodeid: str) -> str:
    return next((folder for folder in _SHARING if nodeid.startswith(f"{folder}/")), "")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeFiles | None:
    return WholeFiles(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the slowest groups first."""
    items.sort(key=lambda item: (not _sharing(item.nodeid), item.get_closest_marker("early") is None))


@pytest.fixture(scope="session", autouse=True)
def cheap_secrets() -> Iterator[None]:
    with cheap_hashing.cheap_hashes():
        yield


@pytest.fixture
def costs_in_use(cheap_secrets: None) -> Iterator[None]:
    """Use production costs of passwords and passphrases, in tests of these costs."""
    with cheap_hashing.production_hashes():
        yield


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture(scope="session")
def migrated_database(cluster: Cluster) -> Iterator[Database]:
    yield cluster.create_database()
    dispose_all()


@pytest.fixture(scope="session")
def lasting_standing(migrated_database: Database) -> Iterator[SnapshotStore]:
    standing = SnapshotStore(migrated_database)
    standing.empty()
    yield standing
    standing.close()


@pytest.fixture
def database(migrated_database: Database, lasting_standing: SnapshotStore) -> Iterator[Database]:
    """The migrated database, empty at the start of the test."""
    yield migrated_database
    lasting_standing.empty()


@pytest.fixture
def standing(database: Database, lasting_standing: SnapshotStore) -> SnapshotStore:
    """Function that creates the initial data of a test, or restores a saved copy of the data."""
    return lasting_standing


@pytest.fixture(scope="session")
def engines(migrated_database: Database) -> Iterator[Engines]:
    engines = Engines(migrated_database)
    yield engines
    engines.dispose()


@pytest.fixture
def app_engine(database: Database, engines: Engines) -> Engine:
    return engines.app


@pytest.fixture
def cell_engine(database: Database, engines: Engines) -> Engine:
    return engines.cell


@pytest.fixture
def worker_engine(database: Database, engines: Engines) -> Engine:
    return engines.worker


@pytest.fixture
def owner_engine(database: Database, engines: Engines) -> Engine:
    return engines.owner


@pytest.fixture
@snapshotted
def platform(app_engine: Engine, cell_engine: Engine) -> Platform:
    return make_platform(app_engine, cell_engine)


@pytest.fixture
@snapshotted
def alpha(app_engine: Engine, platform: Platform) -> Certified:
    return certify(app_engine, make_tenant(app_engine, platform, "alpha").id)


@pytest.fixture
@snapshotted
def bravo(app_engine: Engine, platform: Platform) -> Certified:
    return certify(app_engine, make_tenant(app_engine, platform, "bravo").id)

"""A cell with tenants, and a database connection of the tables' owner that changes rows as the services would."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine

from loadtest.bare_cell import BareCell
from loadtest.tenants import make_tenants
from nac.cellformat.replica.records import SlotRecord
from nac.cellformat.replica.store import ReplicaWriter
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import CellId, TenantId
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings
from radius.agent.alarms import Alarms
from radius.agent.paths import CellPaths
from radius.agent.radiusd import process
from radius.agent.radiusd.generation import Generations
from radius.agent.radiusd.replacement import Radiusd
from radius.agent.replica.sync import ReplicaSync
from tests.agent.journal_records import Clock, Journal, Reports
from tests.agent.nas_simulator import SimulatedNas, add_session, ask, make_sender, running
from tests.agent.pool_cell import PoolCell
from tests.factories.tenancy import Platform, make_platform, make_tenant
from tests.postgres import Database
from tests.replica.contents import everything, view_of
from tests.row_snapshots import SnapshotStore, snapshotted


@dataclass
class Tenant:
    id: TenantId
    number: int
    slot: int


class Replica:
    """Replica that applies the database's changes only when the test calls `catch_up`."""

    def __init__(self, cell_id: CellId, engine: Engine, directory, *, before_commit=None, reseal=None) -> None:
        self.alarms = Alarms()
        self.writer = ReplicaWriter(directory)
        self.sync = ReplicaSync(
            cell_id,
            engine,
            self.writer,
            dictionary=None,
            reseal=reseal or (lambda sealed, context: b"resealed " + context.encode() + b" " + sealed),
            alarms=self.alarms,
            before_commit=before_commit,
        )

    def catch_up(self):
        while self.sync.catch_up():
            continue
        return self

    @property
    def view(self):
        return view_of(self.writer)

    @property
    def everything(self):
        return everything(self.writer)

    @property
    def alarm_codes(self):
        return {alarm.code for alarm in self.alarms.standing()}

    def slots(self) -> dict[int, SlotRecord]:
        return self.writer.slots()


class SealedReplica(Replica):
    """A replica whose secrets are sealed with the key of its cell instead of the master key."""

    def __init__(self, cell_id: CellId, engine: Engine, folder: Path) -> None:
        self.cell_key = folder / "cell.key"
        self.master = Sealer(MasterKeyFile.create(folder / "master.key"))
        self.cell = Sealer(MasterKeyFile.create(self.cell_key))
        super().__init__(
            cell_id,
            engine,
            folder / "sealed",
            reseal=lambda sealed, context: self.cell.seal(self.master.open(sealed, context), context),
        )


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


@pytest.fixture
@snapshotted
def platform(app_engine: Engine, cell_engine: Engine) -> Platform:
    return make_platform(app_engine, cell_engine, slots=4)


@pytest.fixture
def owner(database: Database, platform: Platform) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def make(app_engine: Engine, platform: Platform, owner: psycopg.Connection):
    """Create a tenant and notify those who wait for changes."""

    def make(slug: str) -> Tenant:
        tenant = make_tenant(app_engine, platform, slug)
        (slot,) = owner.execute("SELECT number FROM slots WHERE tenant_id = %s", (tenant.id,)).fetchone()
        return Tenant(tenant.id, tenant.number, slot)

    return make


@pytest.fixture
def alpha(standing: SnapshotStore, make) -> Tenant:
    return standing(make, "alpha")


@pytest.fixture
def replica(platform: Platform, cell_engine: Engine, tmp_path) -> Iterator[Replica]:
    replica = Replica(platform.cell_id, cell_engine, tmp_path / "replica")
    yield replica
    replica.writer.close()


@pytest.fixture
def sealed_replica(platform: Platform, cell_engine: Engine, tmp_path) -> Iterator[SealedReplica]:
    replica = SealedReplica(platform.cell_id, cell_engine, tmp_path)
    yield replica
    replica.writer.close()


@pytest.fixture
def fresh_replica(platform: Platform, cell_engine: Engine, tmp_path):
    """Create another replica of this cell, which loads every row."""
    made = []

    def make() -> Replica:
        made.append(Replica(platform.cell_id, cell_engine, tmp_path / f"fresh-{len(made)}"))
        return made[-1].catch_up()

    yield make
    for replica in made:
        replica.writer.close()


@pytest.fixture
def radiusd(tmp_path) -> Iterator[Radiusd]:
    with adopted_radiusd(tmp_path) as radiusd:
        yield radiusd


@contextmanager
def adopted_radiusd(folder: Path, listen_address: str = "127.0.0.1") -> Iterator[Radiusd]:
    """A real radiusd that an agent has adopted, with a tenant in the first of two slots."""
    with BareCell(folder, make_tenants((2,)), slots=2, listen_address=listen_address) as cell:
        variables = {"VAR_DIR": str(folder), "CELL_DIR": str(folder / "cell"), "LISTEN_ADDRESS": listen_address}
        settings = load_settings({f"ADMIT_{name}": value for name, value in variables.items()})
        paths = CellPaths(settings.cell_dir)
        generations = Generations(settings, paths)
        directory = generations.newest().directory
        process.save_running(paths.running, process.RunningRadiusd(cell.pid, process.start_ticks(cell.pid), directory))
        radiusd = Radiusd(paths, generations)
        assert radiusd.adopt()
        yield radiusd
        radiusd.stop()


@pytest.fixture
def journal(database: Database, platform: Platform, alpha: Tenant, tmp_path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal", database, platform.cell_id)
    yield journal
    journal.close()


@pytest.fixture
def reports(alpha: Tenant) -> Reports:
    return Reports(alpha)


@pytest.fixture(params=["together", "one by one"])
def ship(request, journal: Journal):
    """Ship records in one batch, or each in its own batch."""

    def ship(*records):
        for batch in [records] if request.param == "together" else [[record] for record in records]:
            journal.ship(*batch)

    return ship


@pytest.fixture
def nas() -> Iterator[SimulatedNas]:
    nas = SimulatedNas()
    yield nas
    nas.socket.close()


@pytest.fixture
def other_nas() -> Iterator[SimulatedNas]:
    nas = SimulatedNas()
    yield nas
    nas.socket.close()


@pytest.fixture
def sender(cell_engine, platform: Platform, alpha: Tenant):
    """A thread that sends CoA requests."""
    with running(make_sender(cell_engine, platform.cell_id)) as sender:
        yield sender


@pytest.fixture
def request_of(owner, alpha: Tenant):
    """Queue a CoA request to the NAS at an address, for a new session. Returns the request's id."""

    def request_of(address, kind="disconnect", *, nas_id=None, **values) -> int:
        return ask(owner, add_session(owner, alpha, address, nas_id=nas_id), kind, **values)

    return request_of


@pytest.fixture
def as_tenant(app_engine, alpha):
    def call(function, **arguments):
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            return function(session, tenant_id=alpha.id, **arguments)

    return call


@pytest.fixture
def bare_world(owner, cell_engine, replica, alpha, platform, tmp_path, as_tenant):
    """A cell that assigns addresses, still without a pool."""
    return PoolCell(
        owner=owner,
        engine=cell_engine,
        replica=replica,
        tenant=alpha,
        cell_id=platform.cell_id,
        directory=tmp_path,
        as_tenant=as_tenant,
    )


@pytest.fixture
def world(bare_world):
    bare_world.add_pool()
    bare_world.settle()
    return bare_world

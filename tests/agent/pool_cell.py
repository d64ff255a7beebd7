"""A cell that assigns addresses, in one process: the module's pool, the agent's keeper, the replica and the database.

The test decides when reports of the NASes and records of the journal reach the database.
"""

from nac.kit.clock import epoch_microseconds
from nac.kit.db import CellScope, driver_connection, session_scope
from nac.pools.claims import ClaimsFile
from nac.pools.service import PoolOptions, create_pool
from radius.agent.accounting_parser import parse_accounting
from radius.agent.alarms import Alarms
from radius.agent.pools import leases
from radius.agent.pools.maintenance import ClaimsDirectory, PoolMaintenance
from radius.module.open_pool import OpenPool
from tests.agent.journal_records import accounting

SECOND = 1_000_000
POOL = "guests"
ANNA, BEN, CLEO, DORA, EVE = (f"02a0c000000{number}" for number in range(1, 6))


class PoolCell:
    def __init__(self, *, owner, engine, replica, tenant, cell_id, directory, as_tenant):
        self.owner, self.engine, self.replica, self.tenant, self.cell_id = owner, engine, replica, tenant, cell_id
        self.as_tenant = as_tenant
        self.now = epoch_microseconds()
        # Unshipped records of the journal: (time, callable that ships the record).
        self.journal = []
        self.conflicts = 0
        self.alarms = Alarms()
        self._directory = directory / "claims"
        self._directory.mkdir(exist_ok=True)
        self._boot = directory / "boot_id"
        self.boots = self.read_at = self.made_at = 0
        self.replica.sync._mirror._claims_of = lambda pool_id: self.claims.name(pool_id)
        self.boot()

    # -- the cell

    def boot(self):
        self.boots += 1
        self._boot.write_text(f"boot {self.boots}")
        self.start_agent()
        self.start_radiusd()

    def start_agent(self):
        self.claims = ClaimsDirectory(self._directory, boot_id=self._boot, clock=self.moment)
        self.claims.begin()
        self.keeper = PoolMaintenance(
            self.cell_id,
            self.engine,
            self.claims,
            alarms=self.alarms,
            shipped_until=self.shipped_until,
            read_at=lambda: self.read_at,
            given_twice=lambda: self.conflicts,
            clock=lambda: self.now,
        )

    def moment(self):
        """Advance the clock a little, so that no two files have equal times."""
        self.made_at = max(self.now, self.made_at + 1)
        return self.made_at

    def start_radiusd(self):
        self.opened = {}

    def lose_files(self):
        """Lose the cell's files while radiusd continues."""
        for path in self._directory.glob("*.claims"):
            path.unlink()

    def shipped_until(self):
        return min((at for at, _ in self.journal), default=self.now)

    def step(self):
        for chore in self.keeper._due:
            self.keeper._due[chore] = 0.0
        self.keeper.step()

    def sync(self):
        self.replica.catch_up()
        self.read_at = self.now
        # The pool's addresses, as the cell knows them.
        self.heard = {address for address, leaving in self.rows("host(address), leaving").items() if not leaving}

    def settle(self):
        """Let some seconds pass without outages or new devices."""
        for _ in range(5):
            self.ship()
            self.step()
            self.sync()
            self.now += SECOND

    def ship(self, most=None):
        shipped, self.journal = self.journal[:most], self.journal[len(self.journal[:most]) :]
        for _, ship in shipped:
            ship()

    def request_address(self, mac, *, pool=POOL, journalled=True):
        """The address in the Access-Accept, None if no address is ready. Without a record if radiusd is killed."""
        with self.replica.view as view:
            record = view.pool(self.tenant.number, "", pool)
            opened = record and self._open(record)
            if not opened:
                return None
            if opened.stocked_at != record.stocked_at:
                opened.restock(record.stocked_at, view.pool_stock(self.tenant.number, record.pool_id))
            lease = view.pool_lease(self.tenant.number, record.pool_id, mac)
            taken = opened.take(mac, lease, now=self.now // SECOND)
        if taken is None:
            return None
        if journalled:
            given = leases.AddressAssignment(str(self.tenant.id), record.pool_id, taken.number, mac, self.now)
            self.journal.append((self.now, lambda: self._give(given)))
        self.now += 1_000
        return taken.address

    def request_addresses(self, *macs):
        return [self.request_address(mac) for mac in macs]

    def _open(self, record):
        if record.claims not in self.opened:
            claims = ClaimsFile.open(self._directory / record.claims)
            if claims is None:
                return None
            self.opened[record.claims] = OpenPool(self._directory / record.claims, claims)
        return self.opened[record.claims]

    def _give(self, given):
        with session_scope(CellScope(self.cell_id), engine=self.engine) as session:
            self.conflicts += leases.record_assignments(driver_connection(session).cursor(), self.cell_id, [given])

    # -- the NAS

    def starts(self, mac, address):
        at = self.now
        self.journal.append((at, lambda: self._start(mac, address, at)))

    def _start(self, mac, address, at):
        self.owner.execute(
            "INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, mac, started_at, updated_at, framed_ip) "
            "VALUES (%s, 'nas', %s, %s, %s, to_timestamp(%s), to_timestamp(%s), %s)",
            (self.tenant.id, f"s{at}", mac, mac, at / SECOND, at / SECOND, address),
        )
        record = accounting(self.tenant, "Start", at=at, session=f"s{at}", station=mac, Framed_IP_Address=address or "")
        with session_scope(CellScope(self.cell_id), engine=self.engine) as session:
            cursor = driver_connection(session).cursor()
            leases.reclaim_addresses(cursor, self.cell_id, [parse_accounting(record)], now=at)

    def stops(self, mac):
        at = self.now
        self.journal.append((at, lambda: self._stop(mac, at)))

    def _stop(self, mac, at):
        self.owner.execute(
            "UPDATE sessions SET stopped_at = to_timestamp(%s) WHERE mac = %s AND stopped_at IS NULL",
            (at / SECOND, mac),
        )

    # -- pools and stored rows

    def add_pool(self, name=POOL, ranges=("10.0.0.1-10.0.0.4",), **more):
        options = {"stock": 64, "grace_seconds": 60, "quarantine_seconds": 60} | more.pop("options", {})
        return self.as_tenant(
            create_pool, actor="test", name=name, ranges=ranges, options=PoolOptions(**options), **more
        )

    def rows(self, what="host(address), state"):
        return dict(self.owner.execute(f"SELECT {what} FROM pool_addresses ORDER BY number").fetchall())

    def forget_all(self):
        for table in ("pool_addresses", "pools", "sessions"):
            self.owner.execute(f"DELETE FROM {table}")
        self.journal.clear()
        self.sync()


def later(world, seconds, *, times=1):
    for _ in range(times):
        world.now += seconds * SECOND
        world.settle()

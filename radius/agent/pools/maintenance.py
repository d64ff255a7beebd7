"""Keeps pool addresses ready in the cell for new devices, and frees the addresses of devices that have left.

In a claim file, radiusd records the addresses that it assigned (nac.pools.claims). Each pool has a claim file. This
module also detects lost claim files.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from nac.kit.advice import Advice, NextStep
from nac.kit.clock import epoch_microseconds
from nac.kit.db import CellScope, driver_connection, session_scope
from nac.kit.errors import AdmitError
from nac.kit.ids import CellId
from nac.pools.claims import SUFFIX, Claim, allocate_entries, parse_created_at, read_claims, read_grants
from radius.agent.alarms import Alarms, first_error_line
from radius.agent.pools import leases
from radius.agent.small_files import write_small_file

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT = "boot"


class ClaimsDirectory:
    """Directory of the claim files. The name of a file contains the pool's id and the creation time.

    If the machine crashes, claims that are not on disk yet are lost. So the agent deletes claim files from before the
    last boot.
    """

    def __init__(
        self, directory: Path, *, boot_id: Path = _BOOT_ID, clock: Callable[[], int] = epoch_microseconds
    ) -> None:
        self._directory = directory
        self._boot_id = boot_id
        self._clock = clock
        # Name of the claim file, by pool.
        self._names: dict[str, str] = {}

    def begin(self) -> None:
        """Load the directory, and delete files from before the last boot.

        Call this method before radiusd starts or is taken over. Raises OSError.
        """
        boot = self._boot_id.read_bytes()
        known = self._directory / _BOOT
        if not known.exists() or known.read_bytes() != boot:
            for path in self._directory.glob(f"*{SUFFIX}"):
                path.unlink()
            write_small_file(known, boot)
        for path in sorted(self._directory.glob(f"*{SUFFIX}"), key=lambda path: path.name):
            self._names[path.name.partition("_")[0]] = path.name

    def name(self, pool_id: str) -> str:
        """Name of the pool's claim file; "" if the pool has no claim file."""
        return self._names.get(pool_id, "")

    def is_lost(self, pool_id: str) -> bool:
        """Whether the pool has no usable claim file. If the claim file is lost, none of the pool's ready addresses
        may be assigned."""
        name = self.name(pool_id)
        return not name or not (self._directory / name).exists()

    def make(self, pool_id: str, numbers: int) -> None:
        """Create a claim file for `numbers` addresses. Raises OSError.

        The caller must have withdrawn the pool's ready addresses.
        """
        name = f"{pool_id}_{self._clock()}{SUFFIX}"
        allocate_entries(self._directory / name, numbers)
        self._names[pool_id] = name

    def make_room(self, pool_id: str, numbers: int) -> None:
        """Extend the file to `numbers` addresses. Raises OSError."""
        allocate_entries(self._directory / self._names[pool_id], numbers)

    def made_at(self, pool_id: str) -> int:
        """Creation time of the pool's claim file in epoch microseconds; 0 if the pool has no file.

        The file contains no claims from before this time.
        """
        name = self.name(pool_id)
        return parse_created_at(name) if name else 0

    def grants(self, pool_id: str, numbers: Iterable[int]) -> dict[int, int]:
        """Return the grant of the last claim of each address. A grant is the time when the address was made ready.

        `numbers` are the numbers of the addresses in the pool. Raises OSError.
        """
        return read_grants(self._directory / self._names[pool_id], numbers)

    def read(self, pool_id: str, *, since: int) -> list[tuple[int, Claim]]:
        """Claims of the pool since a time in epoch seconds, each with the number of its address. Raises OSError."""
        return read_claims(self._directory / self._names[pool_id], since=since)

    def remove_other_files(self, pool_ids: set[str]) -> None:
        """Remove the claim files of all pools except `pool_ids`, which are the pools of this cell."""
        for pool_id in self._names.keys() - pool_ids:
            (self._directory / self._names.pop(pool_id)).unlink(missing_ok=True)


STEP_SECONDS = 1.0
# Seconds between two steps while the cell has no pools.
IDLE_SECONDS = 3.0
WITHDRAW_SECONDS = 15.0
COMPARE_SECONDS = 30.0
ALARM_SECONDS = 5.0
# Longest time between the claim of an address and the journal record of the decision.
SETTLE_SECONDS = 2
# Shares of the stock that are still ready. Below REFILL_SHARE, the agent makes more addresses ready. Below LOW_SHARE,
# it raises an alarm.
REFILL_SHARE = 0.5
LOW_SHARE = 0.2
# After each step, the thread pauses for this many times the duration of the step. A check of half a million ready
# addresses takes 1 to 2 s.
REST_SHARE = 2.0
MAX_REST_SECONDS = 10.0
_MAX_BACKOFF_SECONDS = 5.0
_SECOND = 1_000_000

_POOLS = """
SELECT p.id::text, p.tenant_id::text, t.number, t.slug, p.name, p.stock, p.removing,
    coalesce(most.number, -1) + 1, ready.count,
    EXISTS (
        SELECT FROM pool_addresses a
        WHERE a.pool_id = p.id AND a.state = 'free' AND NOT a.leaving AND a.reserved_for IS NULL
    )
FROM pools p JOIN tenants t ON t.id = p.tenant_id
LEFT JOIN LATERAL (SELECT max(a.number) AS number FROM pool_addresses a WHERE a.pool_id = p.id) most ON true
CROSS JOIN LATERAL (
    SELECT count(*) FROM (
        SELECT FROM pool_addresses a
        WHERE a.pool_id = p.id AND a.cell_id = %(cell)s AND a.state = 'stock' AND NOT a.leaving
            AND a.reserved_for IS NULL LIMIT p.stock
    ) a
) ready
"""
_READY = """
SELECT a.number, a.grant_number FROM pool_addresses a
WHERE a.pool_id = %(pool)s AND a.cell_id = %(cell)s AND a.state = 'stock' AND NOT a.leaving
    AND a.reserved_for IS NULL
ORDER BY a.mac IS NOT NULL, a.until NULLS FIRST, a.number LIMIT %(most)s
"""
_NOTIFY_POOLS = "SELECT tell_pool_changes(%s::uuid[])"


def step_pause_seconds(took: float) -> float:
    return min(max(STEP_SECONDS, REST_SHARE * took), MAX_REST_SECONDS)


class PoolRow(NamedTuple):
    id: str
    tenant_id: str
    tenant_number: int
    tenant: str
    name: str
    stock: int
    removing: bool
    # Number of the pool's addresses; they are numbered from 0.
    numbers: int
    ready: int
    # Whether more addresses can be made ready.
    has_free: bool


class PoolMaintenance:
    """Thread that maintains the cell's pools. Times are epoch microseconds.

    `shipped_until` returns the time up to which both journal streams are in the database. `read_at` returns the time
    when the replica last had all changes. `given_twice` returns how many addresses were assigned to two devices at the
    same time.
    """

    def __init__(
        self,
        cell_id: CellId,
        engine: Engine,
        claims: ClaimsDirectory,
        *,
        alarms: Alarms,
        shipped_until: Callable[[], int],
        read_at: Callable[[], int],
        given_twice: Callable[[], int] = int,
        clock: Callable[[], int] = epoch_microseconds,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._cell_id = cell_id
        self._engine = engine
        self._claims = claims
        self._alarms = alarms
        self._shipped_until = shipped_until
        self._read_at = read_at
        self._given_twice = given_twice
        self._clock = clock
        self._reaped_until = 0
        self._compared_until = 0
        # The first time: addresses that were removed before it may be deleted. The second time: when the replica had
        # all changes up to the first time (`_delete_departed`).
        self._left_until: int | None = None
        self._heard_at: int | None = None
        # When the agent notified the database of each pool's claim file (infinity: not yet), and when the agent first
        # saw that the replica names this file. Until the second time, the module may use the previous, deleted file.
        self._notified_at: dict[str, float] = {}
        self._named_at: dict[str, int] = {}
        self._due = {"withdraw": 0.0, "compare": 0.0, "alarms": 0.0}
        self._pools: dict[str, PoolRow] = {}
        # Ready addresses at the last check: for each pool, the grant of each address number.
        self._offered: dict[str, dict[int, int]] = {}
        self._alarmed: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        backoff = 0.0
        while not stop.is_set():
            began = time.monotonic()
            try:
                self.step()
                backoff = 0.0
                self._alarms.clear("pools")
            except (psycopg.Error, SQLAlchemyError, AdmitError, OSError) as exc:
                backoff = min(max(0.5, backoff * 2), _MAX_BACKOFF_SECONDS)
                self.counters["failures"] += 1
                self._alarms.report("pools", f"No new pool addresses can be made ready: {first_error_line(exc)}")
            self.check_stock()
            took = time.monotonic() - began
            stop.wait(backoff or (step_pause_seconds(took) if self._pools else IDLE_SECONDS))

    def step(self) -> None:
        """Run all maintenance steps once. Raises errors of the database and the disk."""
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            cursor = driver_connection(session).cursor()
            self._pools = {row[0]: PoolRow(*row) for row in cursor.execute(_POOLS.encode(), {"cell": self._cell_id})}
            lost = self._keep(cursor) if self._pools else []
        if self._left_until is None:
            self._left_until = self._clock()
        # The transaction above is committed, so none of these pools has a ready address.
        self._create_claim_files(lost)
        self._refill()
        for by_pool in (self._offered, self._notified_at, self._named_at):
            for pool_id in by_pool.keys() - self._pools.keys():
                del by_pool[pool_id]
        self._claims.remove_other_files(set(self._pools))

    def _keep(self, cursor: psycopg.Cursor) -> list[str]:
        """Update leases. Returns the pools whose claim file is lost and that have no ready addresses.

        The agent can create a new claim file for such a pool.
        """
        tenants = sorted({pool.tenant_id for pool in self._pools.values()})
        now = self._clock()
        shipped = self._settled_until(now)
        lost = [pool_id for pool_id in self._pools if self._claims.is_lost(pool_id)]
        self._update_named_files()
        if self._is_due("compare", COMPARE_SECONDS):
            self._compare(cursor, shipped, [pool_id for pool_id in self._pools if pool_id not in lost])
        self.counters["looked_at"] += leases.end_leases(
            cursor,
            self._cell_id,
            tenants,
            since=self._reaped_until or shipped,
            now=shipped,
            clock=now,
            # Skip only pools with a young claim file. So a tenant that creates pools endlessly does not delay other
            # pools.
            young=[pool_id for pool_id in self._pools if self._has_young_file(pool_id, shipped)],
        )
        self._reaped_until = shipped
        if self._is_due("withdraw", WITHDRAW_SECONDS) or lost:
            self.counters["withdrawn"] += leases.withdraw_stock(cursor, self._cell_id, tenants, now=now, lost=lost)
            self._delete_departed(cursor, now, shipped)
        return [pool_id for pool_id in lost if not leases.has_stock(cursor, pool_id)]

    def _delete_departed(self, cursor: psycopg.Cursor, now: int, shipped: int) -> None:
        """Delete addresses that were removed from their pool.

        Waits until the module knows the pool's new ranges, and until the database has all earlier claims. Until then,
        the module may assign a removed address to the device that had the address last.
        """
        if self._left_until is None:
            return
        if self._heard_at is None and self._left_until <= self._read_at():
            self._heard_at = now
        if self._heard_at is not None and self._heard_at <= shipped:
            leases.delete_departed(cursor, until=self._left_until)
            self._left_until = self._heard_at = None

    def _compare(self, cursor: psycopg.Cursor, shipped: int, pool_ids: list[str]) -> None:
        """Add to the database each address that radiusd assigned to a device if the journal has no record of the
        decision.
        """
        until = shipped // _SECOND
        for pool_id in pool_ids:
            recent = [
                (number, claim)
                for number, claim in self._claims.read(pool_id, since=self._compared_until)
                if claim.at < until
            ]
            unrecorded = leases.list_unrecorded_claims(cursor, pool_id, recent) if recent else []
            self.counters["untold"] += len(unrecorded)
            leases.record_assignments(cursor, self._cell_id, unrecorded)
        self._compared_until = max(self._compared_until, until)

    def _update_named_files(self) -> None:
        """Record when the replica first named the claim file of each pool.

        For a file from an earlier process, assumes that the database was not notified: that process may have ended
        before.
        """
        read_at = self._read_at()
        for pool_id in self._pools:
            if self._notified_at.setdefault(pool_id, math.inf) <= read_at:
                self._named_at.setdefault(pool_id, self._clock())

    def _has_young_file(self, pool_id: str, settled: int) -> bool:
        """Whether the database may lack claims that only the pool's previous claim file contains.

        `settled` is the time up to which the database has all claims.
        """
        named_at = self._named_at.get(pool_id)
        return named_at is None or settled <= max(named_at, self._claims.made_at(pool_id))

    def _create_claim_files(self, lost: list[str]) -> None:
        for pool in self._pools.values():
            if pool.id in lost:
                self._named_at.pop(pool.id, None)
                self._notified_at[pool.id] = math.inf
                self._claims.make(pool.id, max(1, pool.numbers))
            elif pool.numbers and not self._claims.is_lost(pool.id):
                self._claims.make_room(pool.id, pool.numbers)
        if created := [pool_id for pool_id in self._pools if self._notified_at[pool_id] == math.inf]:
            with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
                driver_connection(session).execute(_NOTIFY_POOLS, (created,))
            # The time after the commit: a replica that was read later names the new files.
            self._notified_at |= dict.fromkeys(created, self._clock())

    def _settled_until(self, now: int) -> int:
        """Return the time up to which the database has all claims (epoch microseconds)."""
        return min(now, self._shipped_until()) - SETTLE_SECONDS * _SECOND

    def _refill(self) -> None:
        # The time `settled` becomes the number of new grants, so that the module recognizes later claims; see ADR 0011.
        settled = self._settled_until(self._clock())
        for pool in self._pools.values():
            if pool.removing or self._claims.is_lost(pool.id) or self._has_young_file(pool.id, settled):
                continue
            is_low = pool.ready < REFILL_SHARE * pool.stock and pool.has_free
            missing = pool.stock - pool.ready if is_low else 0
            if not missing and self._is_offer_current(pool):
                continue
            with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
                cursor = driver_connection(session).cursor()
                leased = 0
                if missing:
                    leased = leases.refill_stock(cursor, self._cell_id, pool.id, wanted=missing, grant=settled)
                    self.counters["refilled"] += leased
                if leased or not self._is_offer_current(pool):
                    parameters = {"pool": pool.id, "cell": self._cell_id, "most": pool.stock}
                    self._offered[pool.id] = dict(cursor.execute(_READY.encode(), parameters).fetchall())

    def _is_offer_current(self, pool: PoolRow) -> bool:
        """Whether the number of ready addresses is the same as at the last check."""
        return pool.id in self._offered and len(self._offered[pool.id]) == pool.ready

    def check_stock(self) -> None:
        """Raise alarms for pools that run out of addresses. Works without the database."""
        if not self._is_due("alarms", ALARM_SECONDS):
            return
        alarmed = set()
        for pool_id, offered in self._offered.items():
            pool = self._pools.get(pool_id)
            if pool is None or pool.removing:
                continue
            left = self._count_left(pool_id, offered)
            if left < LOW_SHARE * min(pool.stock, pool.numbers):
                code = f"pool-low-{pool_id}"
                what = f"Pool {pool.name} of tenant {pool.tenant} has {left} addresses left in this cell."
                detail = Advice(
                    f"{what} Devices get no address when the pool is empty. Shorten the quarantine of the pool, or"
                    " enlarge the pool.",
                    NextStep("updatePool", {"tenant": pool.tenant, "pool": pool.name, "ranges": ""}),
                )
                if self._alarms.report_row(code, detail, tenant=pool.tenant_number):
                    alarmed.add(code)
        for code in self._alarmed - alarmed:
            self._alarms.clear(code)
        self._alarmed = alarmed
        if self._given_twice():
            self._alarms.report_event(
                "addresses-twice",
                f"{self._given_twice()} pool addresses were assigned while another device had them. Either a NAS "
                "reports sessions later than the pool's grace and quarantine together, or files of the cell or its "
                "database were restored from an earlier state.",
            )

    def _count_left(self, pool_id: str, offered: dict[int, int]) -> int:
        try:
            taken = self._claims.grants(pool_id, offered)
        except OSError:
            return 0
        return sum(taken.get(number) != grant for number, grant in offered.items())

    def _is_due(self, chore: str, seconds: float) -> bool:
        now = time.monotonic()
        if now < self._due[chore]:
            return False
        self._due[chore] = now + seconds
        return True

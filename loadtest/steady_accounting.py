"""P4, second half: accounting at a fixed rate, and whether the database keeps up or the journal grows."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from loadtest.installation import Installation, StoredRows
from loadtest.radius_client import RadiusClient
from loadtest.workloads import AccountingSource, BenchDevice

# A little over the target, since a pace is never quite reached.
PACE_PER_SECOND = 15_500
_WINDOW = 256


@dataclass(frozen=True, slots=True)
class SteadyAccounting:
    acknowledged_per_second: float
    # Rows that arrived in PostgreSQL during the second half of the run, each second of it.
    arrived_per_second: float
    # Journal bytes that had not arrived, at half-time and at the end.
    backlog_bytes: tuple[int, int]


def measure_steady_accounting(
    installation: Installation, devices: Sequence[BenchDevice], rows: StoredRows, *, seconds: float
) -> SteadyAccounting:
    source = AccountingSource(devices, prefix=f"steady-{os.urandom(4).hex()}")
    with RadiusClient() as client:
        first = client.run(source, seconds=seconds / 2, window=_WINDOW, per_second=PACE_PER_SECOND)
        half, rows_before = perf_counter(), installation.accounting_rows_ever()
        backlog_before = installation.backlog_bytes()["acct"]
        second = client.run(source, seconds=seconds / 2, window=_WINDOW, per_second=PACE_PER_SECOND)
        elapsed, rows_after = perf_counter() - half, installation.accounting_rows_ever()
        backlog_after = installation.backlog_bytes()["acct"]
    rows.settle(first)
    rows.settle(second)
    return SteadyAccounting(
        second.right / elapsed, (rows_after - rows_before) / elapsed, (backlog_before, backlog_after)
    )

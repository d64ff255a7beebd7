"""`./admit bench quick`: a private installation and the peers run the same workloads in turns."""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from time import perf_counter

from loadtest import findings
from loadtest.bare_cell import BareCell
from loadtest.bench_tenants import BenchTenants, ProvisionedTenant
from loadtest.change_latency import ChangeBench, ChangeTimes
from loadtest.eap_tls_client import EapTlsSource
from loadtest.findings import Footprint, SteadyAccounting
from loadtest.installation import Installation, StoredRows
from loadtest.peers.peer_systems import PEERS_OF, running_peers
from loadtest.private_installation import PrivateInstallation
from loadtest.processes import BenchError, resident_bytes
from loadtest.radius_client import RadiusClient
from loadtest.systems import ExpectedSupplicant, Results, SystemUnderTest, make_supplicants, run_rounds
from loadtest.tenants import CERTIFICATE_VLAN, list_known_devices, make_tenants
from loadtest.workloads import AccountingSource, BenchDevice, mab_source

_CLIENTS_PER_TENANT = 4
_CHANGES, _NEW_TENANTS = 10, 3
_SLOTS = 32
# Slightly more than the target, because the measured rate is always slightly lower.
_ACCOUNTING_PER_SECOND = 15_500
_ACCOUNTING_WINDOW = 256
# Numbers of tenants in two cells. The benchmark compares the memory of the cells after the same workload.
_FEW_TENANTS, _MANY_TENANTS = 8, 40
_TENANT_ENDPOINTS = 200
_REQUESTS, _HANDSHAKES = 800, 80

LogLine = Callable[[str], None]


def run_quick(
    works: Sequence[str], *, rounds: int, seconds: float, log_line: LogLine
) -> tuple[Results, list[findings.Finding]]:
    """Start the installation, run the measurements, and remove the installation.

    Raises BenchError if a result is missing or unreliable.
    """
    footprint: Footprint | None = None
    with ExitStack() as stack:
        log_line("starting a private installation")
        private = stack.enter_context(PrivateInstallation(slots=_SLOTS, CELL_TENANT_PACKETS_PER_SECOND="0"))
        installation = private.installation
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-bench-")))
        made = stack.enter_context(BenchTenants(installation, folder, log_line))
        tenants = _provision(made, log_line)
        rows = StoredRows(installation, [tenant.tenant_id for tenant in tenants])
        product = _system(installation, tenants, rows)
        results: Results = {}
        if "tls-full" in works:
            fresh = replace(product, name=findings.PRODUCT_NEW_TENANTS)
            results |= run_rounds({"tls-full": [fresh]}, rounds=rounds, seconds=seconds, log_line=log_line)
        log_line("loading server certificates into radiusd")
        made.bake(tenants)
        results |= _measure(product, works, rounds=rounds, seconds=seconds, log_line=log_line)
        steady: SteadyAccounting | None = None
        if "acct" in works:
            log_line("accounting at a steady pace")
            steady = _measure_steady_accounting(installation, product.devices, rows, seconds=2 * seconds)
        stored = rows.verify()
        for stream, (found, answered) in stored.items():
            log_line(f"{stream}: {answered:,} answered, {found:,} rows in PostgreSQL")
        changes: ChangeTimes | None = None
        if "mab" in works:
            log_line(f"{2 * _CHANGES} changes and {_NEW_TENANTS} new tenants, one by one")
            changes = ChangeBench(installation, made, tenants[0], rows).measure(changes=_CHANGES, tenants=_NEW_TENANTS)
            log_line("a cell's start and memory")
            footprint = _measure_footprint(installation.settings.cell_slots)
    return results, findings.judge_targets(results, stored=stored, steady=steady, changes=changes, footprint=footprint)


def _provision(made: BenchTenants, log_line: LogLine) -> list[ProvisionedTenant]:
    plans = make_tenants()
    log_line(f"making {len(plans)} tenants with {sum(len(plan.endpoints) for plan in plans):,} devices")
    start = perf_counter()
    tenants = [made.provision_when_free(plan, clients=_CLIENTS_PER_TENANT) for plan in plans]
    committed = perf_counter()
    for tenant in tenants:
        made.wait_live(tenant)
    log_line(f"made in {committed - start:.1f} s, live {perf_counter() - committed:.1f} s later")
    return tenants


def _system(installation: Installation, tenants: Sequence[ProvisionedTenant], rows: StoredRows) -> SystemUnderTest:
    devices = [
        BenchDevice(tenant.target, endpoint.mac, endpoint.vlan)
        for tenant in tenants
        for endpoint in tenant.tenant.endpoints
    ]
    supplicants: list[ExpectedSupplicant] = []
    for tenant in tenants:
        supplicants += make_supplicants(tenant.target, tenant.clients, tenant.server_certificate, CERTIFICATE_VLAN)
    # Order the devices at random, so that no tenant and no cache has an advantage.
    mixed = Random(7).sample(devices, len(devices))
    return SystemUnderTest(findings.PRODUCT, mixed, supplicants, installation.processes, rows.settle)


def _measure(
    product: SystemUnderTest, works: Sequence[str], *, rounds: int, seconds: float, log_line: LogLine
) -> Results:
    names = list(dict.fromkeys(name for work in works for name in PEERS_OF[work]))
    with running_peers(names, list_known_devices(make_tenants())) as peers:
        plan = {work: [product, *(peers[name] for name in PEERS_OF[work])] for work in works}
        return run_rounds(plan, rounds=rounds, seconds=seconds, log_line=log_line)


def _measure_steady_accounting(
    installation: Installation, devices: Sequence[BenchDevice], rows: StoredRows, *, seconds: float
) -> SteadyAccounting:
    source = AccountingSource(devices, prefix=f"steady-{os.urandom(4).hex()}")
    with RadiusClient() as client:
        first = client.run(source, seconds=seconds / 2, window=_ACCOUNTING_WINDOW, per_second=_ACCOUNTING_PER_SECOND)
        half, rows_before = perf_counter(), installation.accounting_rows_ever()
        backlog_before = installation.backlog_bytes()["acct"]
        second = client.run(source, seconds=seconds / 2, window=_ACCOUNTING_WINDOW, per_second=_ACCOUNTING_PER_SECOND)
        elapsed, rows_after = perf_counter() - half, installation.accounting_rows_ever()
        backlog_after = installation.backlog_bytes()["acct"]
    rows.settle(first)
    rows.settle(second)
    return SteadyAccounting(
        second.right / elapsed, (rows_after - rows_before) / elapsed, (backlog_before, backlog_after)
    )


def _measure_footprint(default_slots: int) -> Footprint:
    ready, _ = _start_cell(default_slots, tenants=0)
    _, few = _start_cell(_FEW_TENANTS, tenants=_FEW_TENANTS)
    _, many = _start_cell(_MANY_TENANTS, tenants=_MANY_TENANTS)
    return Footprint(ready, (many - few) / (_MANY_TENANTS - _FEW_TENANTS))


def _start_cell(slots: int, *, tenants: int) -> tuple[float, int]:
    """Return the seconds until the cell responds, and radiusd's resident bytes after a fixed number of requests.

    The requests are spread over the tenants.
    """
    with (
        tempfile.TemporaryDirectory(prefix="admit-bench-") as folder,
        BareCell(Path(folder), make_tenants([_TENANT_ENDPOINTS] * tenants), slots=slots) as cell,
        RadiusClient() as client,
    ):
        if tenants:
            system = cell.system()
            run = client.run(mab_source(system.devices), count=_REQUESTS, window=16)
            run.merge(client.run(EapTlsSource(system.supplicants), count=_HANDSHAKES, window=8))
            if run.faults():
                raise BenchError(f"a cell with {tenants} tenants failed: {dict(run.faults())}")
        return cell.ready_seconds, resident_bytes(cell.pid)

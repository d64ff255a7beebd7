"""`./admit bench quick`: a private installation and its peers, with the same work in turns."""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from time import perf_counter

from loadtest import findings
from loadtest.bench_tenants import BenchTenants, ProvisionedTenant
from loadtest.change_latency import ChangeBench, ChangeTimes
from loadtest.footprint import Footprint, measure_footprint
from loadtest.installation import Installation, StoredRows
from loadtest.peers.peer_systems import PEERS_OF, running_peers
from loadtest.private_installation import PrivateInstallation
from loadtest.rounds import Results, run_rounds
from loadtest.steady_accounting import SteadyAccounting, measure_steady_accounting
from loadtest.systems import ExpectedSupplicant, SystemUnderTest, make_supplicants
from loadtest.tenants import CERTIFICATE_VLAN, list_known_devices, make_tenants
from loadtest.workloads import BenchDevice

_CLIENTS_PER_TENANT = 4
_CHANGES, _NEW_TENANTS = 10, 3
_SLOTS = 32

LogLine = Callable[[str], None]


def run_quick(
    works: Sequence[str], *, rounds: int, seconds: float, tell: LogLine
) -> tuple[Results, list[findings.Finding]]:
    """Start the installation, measure, and remove it. Raises BenchError if a result is missing or unreliable."""
    footprint: Footprint | None = None
    with ExitStack() as stack:
        tell("starting a private installation")
        private = stack.enter_context(PrivateInstallation(slots=_SLOTS, CELL_TENANT_PACKETS_PER_SECOND="0"))
        installation = private.installation
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-bench-")))
        made = stack.enter_context(BenchTenants(installation, folder, tell))
        tenants = _provision(made, tell)
        rows = StoredRows(installation, [tenant.tenant_id for tenant in tenants])
        product = _system(installation, tenants, rows)
        results: Results = {}
        if "tls-full" in works:
            fresh = replace(product, name=findings.PRODUCT_NEW_TENANTS)
            results |= run_rounds({"tls-full": [fresh]}, rounds=rounds, seconds=seconds, tell=tell)
        tell("loading server certificates into radiusd")
        made.bake(tenants)
        results |= _measure(product, works, rounds=rounds, seconds=seconds, tell=tell)
        steady: SteadyAccounting | None = None
        if "acct" in works:
            tell("accounting at a steady pace")
            steady = measure_steady_accounting(installation, product.devices, rows, seconds=2 * seconds)
        stored = rows.verify()
        for stream, (found, answered) in stored.items():
            tell(f"{stream}: {answered:,} answered, {found:,} rows in PostgreSQL")
        changes: ChangeTimes | None = None
        if "mab" in works:
            tell(f"{2 * _CHANGES} changes and {_NEW_TENANTS} new tenants, one by one")
            changes = ChangeBench(installation, made, tenants[0], rows).measure(changes=_CHANGES, tenants=_NEW_TENANTS)
            tell("a cell's start and memory")
            footprint = measure_footprint(installation.settings.cell_slots)
    return results, findings.judge_targets(results, stored=stored, steady=steady, changes=changes, footprint=footprint)


def _provision(made: BenchTenants, tell: LogLine) -> list[ProvisionedTenant]:
    plans = make_tenants()
    tell(f"making {len(plans)} tenants with {sum(len(plan.endpoints) for plan in plans):,} devices")
    start = perf_counter()
    tenants = [made.provision_when_free(plan, clients=_CLIENTS_PER_TENANT) for plan in plans]
    committed = perf_counter()
    for tenant in tenants:
        made.wait_live(tenant)
    tell(f"made in {committed - start:.1f} s, live {perf_counter() - committed:.1f} s later")
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
    # An order that favours no tenant and no cache.
    mixed = Random(7).sample(devices, len(devices))
    return SystemUnderTest(findings.PRODUCT, mixed, supplicants, installation.processes, rows.settle)


def _measure(product: SystemUnderTest, works: Sequence[str], *, rounds: int, seconds: float, tell: LogLine) -> Results:
    names = list(dict.fromkeys(name for work in works for name in PEERS_OF[work]))
    with running_peers(names, list_known_devices(make_tenants())) as peers:
        plan = {work: [product, *(peers[name] for name in PEERS_OF[work])] for work in works}
        return run_rounds(plan, rounds=rounds, seconds=seconds, tell=tell)

"""`./admit bench moj` (target P8): the data set of NACS' load test, in one tenant of a private installation.

Measures the time until the cell uses the data set, and the time until the cell uses a changed rule. Then measures
authentications per core while PostgreSQL is stopped. NACS is the network access control service of the British Ministry
of Justice.
"""

import copy
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from loadtest.bench_tenants import ACTOR, BenchTenants, ProvisionedTenant
from loadtest.change_latency import seconds_until_decided
from loadtest.eap_tls_client import Supplicant, client_context
from loadtest.findings import Finding
from loadtest.installation import Installation, StoredRows
from loadtest.moj_data import MojSite, make_sites
from loadtest.moj_load import LoadTimes, load_data_set
from loadtest.private_installation import PrivateInstallation
from loadtest.processes import BenchError, ProcessTree, resident_bytes
from loadtest.radius_client import Exchange, RadiusClient
from loadtest.systems import Results, SystemUnderTest, run_rounds
from loadtest.tally import RunResult
from loadtest.tenants import GROUPS, BenchEndpoint, BenchTenant
from loadtest.workloads import BenchDevice, mab_request
from nac.kit.db import TenantScope, session_scope
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT
from nac.policies import service as policies

# Measured workloads for each requested workload. NACS' own test sent MAC addresses by EAP-MD5.
_WORKS = {"mab": ("mab", "mab-md5"), "tls-full": ("tls-full",)}
NAME = "admit, no PostgreSQL"
_CLIENTS = 10
_CHANGES = 10
# NACS: 340 MAB/s, 315 EAP-TLS/s, from up to 20 servers of one core each.
_PER_SECOND_AND_CORE = 340

LogLine = Callable[[str], None]


def run_moj(works: Sequence[str], *, rounds: int, seconds: float, log_line: LogLine) -> tuple[Results, list[Finding]]:
    """Start the installation, run the measurements, and remove the installation.

    Raises BenchError if a result is missing or unreliable.
    """
    chosen = [each for work in works for each in _WORKS.get(work, ())]
    if not chosen:
        raise BenchError(f"The data set does not support {', '.join(works)}. Choose mab or tls.")
    with ExitStack() as stack:
        log_line("starting a private installation")
        private = stack.enter_context(PrivateInstallation(CELL_TENANT_PACKETS_PER_SECOND="0"))
        installation = private.installation
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-bench-")))
        tenants = BenchTenants(installation, folder, log_line)
        made = tenants.provision(BenchTenant("moj", [BenchEndpoint("02bd00000000", GROUPS[0])]), clients=_CLIENTS)
        tenants.wait_live(made)
        log_line("loading its server certificate into radiusd")
        tenants.bake([made])
        sites = make_sites()
        log_line(f"{len(sites):,} sites, {sum(len(site.nases) for site in sites):,} NASes")
        before = resident_bytes(installation.radiusd_pid())
        loaded = load_data_set(installation, made, sites)
        devices = [BenchDevice(made.target, nas.mac, nas.vlan, nas.nas) for site in sites for nas in site.nases]
        rows = StoredRows(installation, [made.tenant_id])
        for visit in ("first", "second"):
            log_line(f"{visit} request of each site: {_visit(devices[:: len(sites[0].nases)], rows)}")
        log_line(f"{2 * _CHANGES} changes of a rule, one by one")
        changes = list(_change_rules(installation, made, sites, devices, rows))
        grown = (resident_bytes(installation.radiusd_pid()) - before) / 1e6
        log_line(
            f"in use {loaded.live:.1f} s after the commit; slowest policy compiled in {loaded.slowest * 1e3:.1f} ms"
        )
        log_line(f"radiusd has grown by {grown:.0f} MB")
        runs: list[RunResult] = []
        system = _system(installation, made, sites, devices, runs.append)
        with private.without("postgres"):
            results = run_rounds({work: [system] for work in chosen}, rounds=rounds, seconds=seconds, log_line=log_line)
        back = perf_counter()
        for run in runs:
            rows.settle(run)
        found, answered = rows.verify()["auth"]
        log_line(f"{answered:,} answered, {found:,} rows {perf_counter() - back:.1f} s after PostgreSQL came back")
    return results, _judge(results, loaded, changes)


def _system(
    installation: Installation,
    made: ProvisionedTenant,
    sites: Sequence[MojSite],
    devices: Sequence[BenchDevice],
    settle: Callable[[RunResult], None],
) -> SystemUnderTest:
    """Return the cell as system under test.

    Every NAS sends MAC authentications. The first NAS of each site also has a device with a certificate.
    """
    trees = installation.processes()
    ours = {role: trees[role] for role in ("radiusd", "agent")}
    contexts = [
        (client.identity, client_context(certificate=str(client.certificate), key=str(client.key)))
        for client in made.clients
    ]
    supplicants = []
    for site, (identity, context) in zip(sites, cycle(contexts), strict=False):
        nas = site.nases[0]
        attributes = nas.nas.attributes()
        supplicant = Supplicant(context, identity, attributes, server_certificate=made.server_certificate)
        supplicants.append((made.target, supplicant, nas.vlan))
    random = Random(7)
    mixed, certified = random.sample(devices, len(devices)), random.sample(supplicants, len(supplicants))

    def processes() -> Mapping[str, ProcessTree]:
        if installation.radiusd_pid() != ours["radiusd"].root:
            raise BenchError("the agent replaced radiusd during the measurement; measure again")
        return ours

    return SystemUnderTest(NAME, mixed, certified, processes, settle)


def _visit(devices: Sequence[BenchDevice], rows: StoredRows) -> str:
    """Authenticate the devices one after the other, and return a text with the latencies."""
    exchanges = iter([mab_request(each.target, each.mac, each.nas.attributes(), vlan=each.vlan) for each in devices])
    with RadiusClient() as client:
        run = client.run(lambda: next(exchanges, None), count=len(devices), window=1)
    if run.faults():
        raise BenchError(f"responses differ from those of the data set: {dict(run.faults())}")
    rows.settle(run)
    latency = run.tallies["mab"].latency
    half, most = (latency.percentile(share) * 1e3 for share in (0.5, 0.99))
    return f"p50 {half:.2f} ms, p99 {most:.2f} ms, at most {latency.max_seconds * 1e3:.2f} ms"


def _change_rules(
    installation: Installation,
    made: ProvisionedTenant,
    sites: Sequence[MojSite],
    devices: Sequence[BenchDevice],
    rows: StoredRows,
) -> Iterator[float]:
    """Change a rule of a site to deny, then to permit.

    Yields the seconds from each change until the cell uses the change.
    """
    changed = sites[:: len(sites) // _CHANGES][:_CHANGES]
    touched = {nas.nas for site in changed for nas in site.nases}
    turns = cycle([device for device in devices if device.nas not in touched])

    def others() -> Exchange:
        device = next(turns)
        return mab_request(device.target, device.mac, device.nas.attributes(), kind="others")

    for site in changed:
        nas = site.nases[0]
        denying: dict[str, Any] = copy.deepcopy(site.document())
        denying["rules"][0]["then"] = {"verdict": "deny"}
        for document, wanted in ((denying, ACCESS_REJECT), (site.document(), ACCESS_ACCEPT)):
            asked = mab_request(made.target, nas.mac, nas.nas.attributes())
            start = perf_counter()
            with session_scope(TenantScope(made.tenant_id), engine=installation.engine) as session:
                policies.save_draft(session, actor=ACTOR, tenant_id=made.tenant_id, slug=site.slug, document=document)
                policies.publish_policy(session, actor=ACTOR, tenant_id=made.tenant_id, slug=site.slug)
            yield seconds_until_decided(start, asked, wanted, others, rows.settle)


def _judge(results: Results, loaded: LoadTimes, changes: Sequence[float]) -> list[Finding]:
    what = "time to compile every policy, as the module does at the first request of a site"
    found = [_at_most(what, loaded.compiling, 2)]
    what = f"time of an agent to load {loaded.rows:,} rows into an empty replica and to check every policy"
    found.append(_at_most(what, loaded.full_load, 2))
    what = f"slowest of {len(changes)} changes of a rule, from the call of the service until the cell used the change"
    found.append(_at_most(what, max(changes), 1))
    cores = os.cpu_count() or 1
    for (work, _), result in results.items():
        what = f"{work}/s while PostgreSQL is stopped, for each of {cores} cores, generator and agent included"
        found.append(_at_least(what, result.rate / cores))
        per_answer = sum(result.microseconds(role) for role in result.roles)
        found.append(
            _at_least(
                f"{work}/s of a core that only the cell uses, computed from the cell's CPU time", 1e6 / per_answer
            )
        )
    return found


def _at_most(what: str, seconds: float, limit: float) -> Finding:
    return Finding("P8", what, seconds, " s", limit, at_least=False)


def _at_least(what: str, rate: float) -> Finding:
    return Finding("P8", what, rate, "/s", _PER_SECOND_AND_CORE, at_least=True)

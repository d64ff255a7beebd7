"""Systems under test, workloads, and the result of one round of a workload on a system."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import cycle
from statistics import median
from time import perf_counter

from loadtest.certificates import ClientFiles
from loadtest.eap_tls_client import EapMd5, EapTlsSource, Supplicant, client_context
from loadtest.processes import BenchError, ProcessTree, cpu_seconds, run_in_processes
from loadtest.radius_client import RadiusClient, Target
from loadtest.tally import RunResult
from loadtest.workloads import BENCH_NAS, AccountingSource, BenchDevice, PapRequest, mab_request
from nac.kit.radius_packet import ACCESS_REJECT

MAB_WINDOW = 64
# Requests per second that every system except rlm_sql can answer on a shared machine.
PACED_PER_SECOND = 5_000
ACCOUNTING_WINDOW = 64
# Concurrent handshakes of a generator process. A handshake takes milliseconds, so more concurrent handshakes would only
# wait.
TLS_WINDOW = 8
# One Python process can generate only about 1,000 handshakes/s, which must not limit the result.
TLS_PROCESSES = 2
RECONNECTS = 9

# A supplicant with its target and the expected VLAN.
ExpectedSupplicant = tuple[Target, Supplicant, str | None]


def make_supplicants(
    target: Target, clients: Sequence[ClientFiles], server_certificate: bytes, vlan: str
) -> list[ExpectedSupplicant]:
    """Return supplicants.

    To save time, the supplicants compare the server's certificate (DER) and do not verify the chain.
    """
    return [
        (
            target,
            Supplicant(
                client_context(certificate=str(client.certificate), key=str(client.key)),
                client.identity,
                BENCH_NAS.attributes(),
                server_certificate=server_certificate,
            ),
            vlan,
        )
        for client in clients
    ]


@dataclass(frozen=True, eq=False)
class SystemUnderTest:
    name: str
    devices: Sequence[BenchDevice]
    supplicants: Sequence[ExpectedSupplicant]
    # Process trees of the system, each with its role: "radiusd", "postgres" or "agent".
    processes: Callable[[], Mapping[str, ProcessTree]]
    # Function that waits until the system has stored the results of a run.
    settle: Callable[[RunResult], None] = lambda run: None

    @cached_property
    def mab_exchanges(self) -> Sequence[PapRequest]:
        """Exchanges of all devices. Each exchange is encoded only once, which saves a third of the client's time."""
        nases = {nas: nas.attributes() for nas in {device.nas for device in self.devices}}
        return [mab_request(device.target, device.mac, nases[device.nas], vlan=device.vlan) for device in self.devices]


@dataclass(frozen=True, slots=True)
class RoundSample:
    """Result of one round: one measurement of a workload on a system."""

    run: RunResult
    # Seconds until the last row was in the database. `run.seconds` ends with the last response.
    stored_seconds: float
    # CPU seconds by role, until the last row was in the database.
    cpu: Mapping[str, float]

    @property
    def rate(self) -> float:
        return self.run.rate

    @property
    def stored_rate(self) -> float:
        return self.run.right / self.stored_seconds

    def microseconds(self, role: str) -> float:
        """Return the CPU microseconds for each correct response, of processes with this role (such as "radiusd")."""
        return self.cpu.get(role, 0.0) / max(self.run.right, 1) * 1e6


@dataclass(slots=True)
class WorkResult:
    work: str
    system: str
    samples: list[RoundSample] = field(default_factory=list)

    @property
    def total(self) -> RunResult:
        total = RunResult()
        for sample in self.samples:
            total.merge(sample.run)
        return total

    @property
    def rate(self) -> float:
        return median(sample.rate for sample in self.samples)

    @property
    def stored_rate(self) -> float:
        return median(sample.stored_rate for sample in self.samples)

    @property
    def roles(self) -> Sequence[str]:
        return list(self.samples[0].cpu)

    def microseconds(self, role: str) -> float:
        return median(sample.microseconds(role) for sample in self.samples)


WorkFunction = Callable[[SystemUnderTest, float], RunResult]


def mab_work(system: SystemUnderTest, seconds: float) -> RunResult:
    with RadiusClient() as client:
        return client.run(cycle(system.mab_exchanges).__next__, seconds=seconds, window=MAB_WINDOW)


def paced_mab_work(system: SystemUnderTest, seconds: float) -> RunResult:
    """Run MAB at the same rate on every system.

    The CPU time for a packet depends on the load. A saturated system reads several packets when it wakes up. An idle
    system wakes up for each packet.
    """
    with RadiusClient() as client:
        requests = cycle(system.mab_exchanges).__next__
        return client.run(requests, seconds=seconds, window=MAB_WINDOW, per_second=PACED_PER_SECOND)


def md5_work(system: SystemUnderTest, seconds: float) -> RunResult:
    turns = cycle(system.devices)

    def following() -> EapMd5:
        device = next(turns)
        return EapMd5(device.target, device.mac, device.nas.attributes(), vlan=device.vlan)

    with RadiusClient() as client:
        return client.run(following, seconds=seconds, window=MAB_WINDOW)


def accounting_work(system: SystemUnderTest, seconds: float) -> RunResult:
    source = AccountingSource(system.devices, prefix=os.urandom(4).hex())
    with RadiusClient() as client:
        return client.run(source, seconds=seconds, window=ACCOUNTING_WINDOW)


def tls_full_work(system: SystemUnderTest, seconds: float) -> RunResult:
    return _tls_work(system, seconds, reconnects=0)


def tls_mix_work(system: SystemUnderTest, seconds: float) -> RunResult:
    """Run nine TLS resumptions for each full handshake, as in Radiator's benchmark."""
    return _tls_work(system, seconds, reconnects=RECONNECTS)


def _tls_work(system: SystemUnderTest, seconds: float, *, reconnects: int) -> RunResult:
    def generate(devices: Sequence[ExpectedSupplicant]) -> RunResult:
        with RadiusClient() as client:
            return client.run(EapTlsSource(devices, reconnects=reconnects), seconds=seconds, window=TLS_WINDOW)

    shares = [system.supplicants[share::TLS_PROCESSES] for share in range(TLS_PROCESSES)]
    return run_in_processes([partial(generate, share) for share in shares])


WORKS: Mapping[str, WorkFunction] = {
    "mab": mab_work,
    "mab-paced": paced_mab_work,
    "mab-md5": md5_work,
    "acct": accounting_work,
    "tls-full": tls_full_work,
    "tls-mix": tls_mix_work,
}


def measure_round(system: SystemUnderTest, work: str, seconds: float) -> RoundSample:
    """Measure one round of a workload on a system. Raises BenchError if no response was as expected."""
    before = _cpu(system)
    run = WORKS[work](system, seconds)
    answered = perf_counter()
    system.settle(run)
    settling = perf_counter() - answered
    after = _cpu(system)
    if not run.right:
        raise BenchError(f"{system.name} gave no expected response in {work}: {dict(run.faults())}")
    cpu = {role: after[role] - before.get(role, 0.0) for role in after}
    return RoundSample(run, run.seconds + settling, cpu)


def _cpu(system: SystemUnderTest) -> dict[str, float]:
    return {role: cpu_seconds(tree) for role, tree in system.processes().items()}


def rehearse(system: SystemUnderTest, works: Sequence[str]) -> None:
    """Check a system's responses before the measurement: correct VLANs, and a reject for an unknown device.

    The check also warms up the system. Raises BenchError if a response is not as expected.
    """
    for run in _rehearsals(system, works):
        if run.faults():
            raise BenchError(f"{system.name} responds incorrectly: {dict(run.faults())}")
        system.settle(run)


def _rehearsals(system: SystemUnderTest, works: Sequence[str]) -> Iterator[RunResult]:
    with RadiusClient() as client:
        if "mab" in works:
            yield client.run(cycle(system.mab_exchanges).__next__, count=200, window=8)
            target, attributes = system.devices[0].target, BENCH_NAS.attributes()
            unknown = mab_request(target, "02ffffffffff", attributes, expected=ACCESS_REJECT, kind="unknown MAC")
            yield client.ask(unknown)
        if "acct" in works:
            source = AccountingSource(system.devices, prefix=f"rehearsal-{os.urandom(4).hex()}", open_sessions=20)
            yield client.run(source, count=100, window=8)
        if any(work.startswith("tls") for work in works):
            yield client.run(EapTlsSource(system.supplicants), count=len(system.supplicants), window=4)


# Results by workload and name of the system.
Results = dict[tuple[str, str], WorkResult]


def run_rounds(
    plan: Mapping[str, Sequence[SystemUnderTest]], *, rounds: int, seconds: float, log_line: Callable[[str], None]
) -> Results:
    """Run each workload of `plan` on its systems in turns: A B C A B C.

    So other load on the machine affects all systems alike.
    """
    for system, works in _works_by_system(plan):
        log_line(f"rehearsing {system.name}: {', '.join(works)}")
        rehearse(system, works)
    results: Results = {}
    for work, systems in plan.items():
        for number in range(1, rounds + 1):
            for system in systems:
                sample = measure_round(system, work, seconds)
                result = results.setdefault((work, system.name), WorkResult(work, system.name))
                result.samples.append(sample)
                log_line(f"{work} {number}/{rounds} {system.name}: {sample.rate:,.0f}/s")
    return results


def _works_by_system(plan: Mapping[str, Sequence[SystemUnderTest]]) -> Iterable[tuple[SystemUnderTest, Sequence[str]]]:
    systems = {system.name: system for systems in plan.values() for system in systems}
    for name, system in systems.items():
        yield system, [work for work, chosen in plan.items() if any(one.name == name for one in chosen)]

"""Measures target P11: the time from a change until the cell uses the change, under load."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from loadtest.bench_tenants import ACTOR, BenchTenants, ProvisionedTenant
from loadtest.installation import Installation, StoredRows
from loadtest.processes import BenchError
from loadtest.radius_client import Exchange, RadiusClient, Request, Target
from loadtest.tally import RunResult
from loadtest.tenants import GROUPS, BenchEndpoint, BenchTenant
from loadtest.workloads import BENCH_NAS, PapRequest, mab_request
from nac.inventory.endpoints import service as endpoints
from nac.kit.db import TenantScope, session_scope
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, ACCESS_REQUEST

# Requests per second. Half of the requests test whether the cell uses the change. The other requests belong to another
# tenant, which the change must not affect.
_PER_SECOND = 200
_MAX_SECONDS = 10


class _Probe:
    """A request for which Access-Accept and Access-Reject are valid responses.

    Reports when the request was sent, and the response code.
    """

    kind = "probe"
    code = ACCESS_REQUEST

    def __init__(self, asked: PapRequest, record: Callable[[float, int], None]) -> None:
        self.target = asked.target
        self._request = asked.first()
        self._record = record

    def first(self) -> Request:
        self._sent_at = perf_counter()
        return self._request

    def receive(self, reply: bytes) -> Request | str:
        self._record(self._sent_at, reply[0])
        return "" if reply[0] in (ACCESS_ACCEPT, ACCESS_REJECT) else f"code {reply[0]}"


@dataclass(slots=True)
class ChangeTimes:
    """Seconds from each change until the cell used the change."""

    added: list[float]
    blocked: list[float]
    tenants: list[float]

    @property
    def endpoint_changes(self) -> Sequence[float]:
        return sorted(self.added + self.blocked)


def seconds_until_decided(
    start: float, asked: PapRequest, wanted: int, others: Callable[[], Exchange], settle: Callable[[RunResult], None]
) -> float:
    """Return the seconds from `start` until a request gets the response code `wanted`, under load from `others`.

    Raises BenchError if the change takes too long or another request gets a wrong response.
    """
    decided: list[float] = []

    def record(sent_at: float, code: int) -> None:
        if code == wanted:
            decided.append(sent_at)

    turns = 0

    def source() -> Exchange | None:
        nonlocal turns
        if decided:
            return None
        turns += 1
        return _Probe(asked, record) if turns % 2 else others()

    with RadiusClient() as client:
        run = client.run(source, count=_MAX_SECONDS * _PER_SECOND, window=4096, per_second=_PER_SECOND)
    settle(run)
    if run.faults():
        raise BenchError(f"faults during a change: {dict(run.faults())}")
    if not decided:
        raise BenchError(f"the cell did not use a change within {_MAX_SECONDS} s")
    return min(decided) - start


class ChangeBench:
    def __init__(
        self, installation: Installation, made: BenchTenants, others: ProvisionedTenant, rows: StoredRows
    ) -> None:
        """Create the object. `others` is a tenant whose devices authenticate during the whole measurement."""
        self._installation = installation
        self._made = made
        self._others = others
        self._rows = rows

    def measure(self, *, changes: int, tenants: int) -> ChangeTimes:
        """Add and block `changes` devices one after the other, then create `tenants` tenants."""
        result = ChangeTimes([], [], [])
        tenant = self._others
        for number in range(changes):
            mac = f"02bf{number:08x}"
            scope = TenantScope(tenant.tenant_id)
            start = perf_counter()
            with session_scope(scope, engine=self._installation.engine) as session:
                endpoints.create_endpoint(
                    session,
                    actor=ACTOR,
                    tenant_id=tenant.tenant_id,
                    mac=mac,
                    groups=[GROUPS[number % len(GROUPS)]],
                    allow_random=True,
                )
            result.added.append(self._until(tenant.target, mac, ACCESS_ACCEPT, start))
            start = perf_counter()
            with session_scope(scope, engine=self._installation.engine) as session:
                endpoints.block_endpoint(session, actor=ACTOR, tenant_id=tenant.tenant_id, mac=mac)
            result.blocked.append(self._until(tenant.target, mac, ACCESS_REJECT, start))
        for number in range(tenants):
            device = BenchEndpoint(f"02c0{number:08x}", GROUPS[0])
            start = perf_counter()
            fresh = self._made.provision_when_free(BenchTenant(f"bench-new-{number}", [device]))
            result.tenants.append(self._until(fresh.target, device.mac, ACCESS_ACCEPT, start))
        return result

    def _until(self, target: Target, mac: str, wanted: int, start: float) -> float:
        device = self._others.tenant.endpoints[0]

        def others() -> Exchange:
            return mab_request(self._others.target, device.mac, BENCH_NAS.attributes(), vlan=device.vlan, kind="others")

        return seconds_until_decided(
            start, mab_request(target, mac, BENCH_NAS.attributes()), wanted, others, self._rows.settle
        )

"""Latency (p99) of authentication at full load, alternately without and with a running job of the worker.

Runs in a private installation with the data of `tenants` tenants. `job_loop.py` runs the job repeatedly, with the
worker's database role.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import median
from uuid import UUID, uuid4

import psycopg
from sqlalchemy import Engine, text

from loadtest.bench_tenants import ACTOR, BenchTenants
from loadtest.carrier.preload import preload, split_sessions
from loadtest.carrier.queries import Row
from loadtest.installation import Installation, StoredRows
from loadtest.private_installation import PrivateInstallation
from loadtest.processes import BenchError
from loadtest.radius_client import RadiusClient
from loadtest.systems import MAB_WINDOW
from loadtest.tally import RunResult
from loadtest.tenants import GROUPS, BenchEndpoint, BenchTenant, policy_document
from loadtest.workloads import BenchDevice, PapRequest, mab_request
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.policies import service as policies

# Jobs that the benchmark measures by default.
DEFAULT_JOBS = ("logs.ensure_partitions", "tenants.delete_logs", "retention.enforce", "redecisions.advance")
SERVING_TENANTS, DEVICES = 4, 2_000
LOG_ROWS_PER_TENANT = 20_000
# Number of each tenant's sessions that get a stored decision, so that re-decisions include these sessions.
DECIDED_PER_TENANT = 500
_TENANTS = """
INSERT INTO tenants (id, msp_id, slug, name) SELECT id, (SELECT min(id::text)::uuid FROM msps), 'data-' || n, 'Data'
FROM unnest(%s::uuid[]) WITH ORDINALITY AS t (id, n)
"""
_LOGS = """
INSERT INTO accounting_log (at, tenant_id, cell_id, status_type, identity, terminate_cause, mac)
SELECT now() - n * interval '1 second', %(tenant)s, %(cell)s, 'Start', 'user' || n, '',
    lpad(to_hex(n), 12, '0')::macaddr
FROM generate_series(1, %(rows)s) n
"""
_DECISIONS = """
WITH decided AS (
    UPDATE sessions s SET class = '0x41' || lpad(to_hex((date_part('epoch', s.started_at) * 1e6)::bigint), 16, '0')
    FROM (SELECT id FROM sessions WHERE tenant_id = %(tenant)s LIMIT %(count)s) AS known
    WHERE s.id = known.id RETURNING s.tenant_id, s.started_at AS at, s.mac, split_part(s.nas_key, '|', 1) AS nas
)
INSERT INTO auth_log (
    tenant_id, at, cell_id, nas_identifier, nas_address, nas_port, mac, identity, method, permitted, reason, detail,
    rule_id, rule_name, policy_version, vlan, reply, certificate_serial, tls_version, resumed, request,
    module_microseconds, suppressed, verdict
)
SELECT tenant_id, at, %(cell)s, nas, '192.0.2.1', '', mac, '', 'mab', true, 'rule-permitted', '', 'r', 'r', 1, '',
    '[]', '', '', false, json_build_object(
        'method', ARRAY['mab'], 'mac', ARRAY[replace(mac::text, ':', '')], 'identity', ARRAY[''],
        'nas.identifier', ARRAY[nas], 'nas.address', ARRAY['192.0.2.1']
    ), 20, 0, 'permit'
FROM decided
"""
# SQL statement that copies a published policy to a tenant. The policy comes from a tenant that has a cell.
_POLICIES = """
WITH copied AS (
    INSERT INTO policies (tenant_id, slug, name, published_version)
    SELECT %(tenant)s, slug, name, published_version FROM policies WHERE id = %(policy)s RETURNING id
), version AS (
    INSERT INTO policy_versions (tenant_id, policy_id, number, document, status, published_at)
    SELECT %(tenant)s, copied.id, number, document, status, published_at
    FROM policy_versions, copied WHERE policy_id = %(policy)s
)
UPDATE sites SET policy_id = copied.id FROM copied WHERE tenant_id = %(tenant)s
"""


def measure_background(
    jobs: Sequence[str],
    *,
    tenants: int,
    live: int,
    seconds: float,
    rounds: int,
    pause: float,
    per_second: float | None,
    log_line: Callable[[str], None],
) -> list[Row]:
    """Measure each of `jobs`, with `pause` seconds between two runs.

    `per_second` limits the rate of the authentication requests; None means no limit.
    """
    with ExitStack() as stack:
        log_line("starting a private installation")
        private = stack.enter_context(PrivateInstallation(CELL_TENANT_PACKETS_PER_SECOND="0"))
        installation = private.installation
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-bench-")))
        made = BenchTenants(installation, folder, log_line)
        serving = [made.provision(each) for each in _serving_tenants()]
        for each in serving:
            made.wait_live(each)
        policy = publish_policy(installation.engine, serving[0].tenant_id)
        add_data(installation, tenants, live, log_line, policy=policy)
        devices = [
            BenchDevice(each.target, endpoint.mac, endpoint.vlan)
            for each in serving
            for endpoint in each.tenant.endpoints
        ]
        mixed = [mab_request(each.target, each.mac, each.nas.attributes(), vlan=each.vlan) for each in devices]
        Random(7).shuffle(mixed)
        rows = StoredRows(installation, [each.tenant_id for each in serving])
        _run_load(mixed, rows, min(seconds, 2.0), per_second)
        found = []
        for job in jobs:
            windows, judged = _LoadWindows(job), _count_judged_sessions(installation.owner)
            for number in range(1, rounds + 1):
                windows.without.append(_run_load(mixed, rows, seconds, per_second))
                with RepeatedJob(job, private.environment, pause=pause) as busy:
                    windows.beside.append(_run_load(mixed, rows, seconds, per_second))
                windows.runs += busy.runs
                without, beside = _p99(windows.without[-1]), _p99(windows.beside[-1])
                log_line(f"{job} {number}/{rounds}: p99 {without:.2f} ms without, {beside:.2f} ms beside it")
            found.append(windows.row() | {"sessions judged": _count_judged_sessions(installation.owner) - judged})
        rows.verify()
        return found


def _serving_tenants() -> list[BenchTenant]:
    return [
        BenchTenant(
            f"serving-{number}",
            [BenchEndpoint(f"02b{number:x}{device:08x}", GROUPS[device % len(GROUPS)]) for device in range(DEVICES)],
        )
        for number in range(SERVING_TENANTS)
    ]


def add_data(
    installation: Installation, tenants: int, live: int, log_line: Callable[[str], None], *, policy: UUID
) -> None:
    """Add tenants without traffic. Each tenant gets live sessions, one day of log rows and a copy of `policy`."""
    ids: list[UUID] = [uuid4() for _ in range(tenants)]
    url = installation.owner.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TENANTS, (ids,))
        preload(connection, ids, live)
        for tenant in ids:
            known = {"tenant": tenant, "cell": installation.cell_id}
            connection.execute(_LOGS, known | {"rows": LOG_ROWS_PER_TENANT})
            connection.execute(_DECISIONS, known | {"count": DECIDED_PER_TENANT})
            connection.execute(_POLICIES, known | {"policy": policy})
    log_line(f"{tenants} tenants, {live:,} live sessions (at most {max(split_sessions(tenants, live)):,} of one)")


def _count_judged_sessions(owner: Engine) -> int:
    with owner.connect() as connection:
        return connection.execute(
            text("SELECT coalesce(sum(unchanged + disconnects + reauthentications), 0)::int FROM redecisions")
        ).scalar_one()


def publish_policy(engine: Engine, tenant_id: TenantId) -> UUID:
    """Publish a policy. The SQL statement `_POLICIES` copies this policy to the other tenants.

    The policy has the usual rules, and the rule that the rows of `_DECISIONS` name.
    """
    document = policy_document()
    when = {"attribute": "method", "operator": "equals", "value": "mab"}
    document["rules"].append({"id": "r", "name": "r", "when": when, "then": {"verdict": "permit"}})
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        policy = policies.create_policy(session, actor=ACTOR, tenant_id=tenant_id, slug="data")
        policies.save_draft(session, actor=ACTOR, tenant_id=tenant_id, slug="data", document=document)
        policies.publish_policy(session, actor=ACTOR, tenant_id=tenant_id, slug="data")
        return policy.id


def _run_load(exchanges: Sequence[PapRequest], rows: StoredRows, seconds: float, per_second: float | None) -> RunResult:
    with RadiusClient() as client:
        run = client.run(cycle(exchanges).__next__, seconds=seconds, window=MAB_WINDOW, per_second=per_second)
    if not run.right:
        raise BenchError(f"no request got the expected response: {dict(run.faults())}")
    rows.settle(run)
    return run


def _p99(run: RunResult) -> float:
    return run.tallies["mab"].latency.percentile(0.99) * 1e3


@dataclass(slots=True)
class _LoadWindows:
    """Measurements without the job and with the job. `row` compares the medians."""

    job: str
    without: list[RunResult] = field(default_factory=list)
    beside: list[RunResult] = field(default_factory=list)
    runs: int = 0

    def row(self) -> Row:
        without, beside = (median(map(_p99, runs)) for runs in (self.without, self.beside))
        tallies = [tally for run in (*self.without, *self.beside) for tally in run.tallies.values()]
        return {
            "job": self.job,
            "runs": self.runs,
            "auth/s without": round(median(run.rate for run in self.without)),
            "auth/s beside": round(median(run.rate for run in self.beside)),
            "p99 ms without": round(without, 2),
            "p99 ms beside": round(beside, 2),
            "p99 beside / without": round(beside / without, 3),
            "wrong": sum(tally.wrong.total() for tally in tallies),
            "silent": sum(tally.unanswered for tally in tallies),
        }


class RepeatedJob:
    """Runs a job repeatedly in its own process during a `with` block. After the block, `runs` is the number of runs.

    Raises BenchError at the end if the job failed.
    """

    def __init__(self, job: str, environment: Mapping[str, str], *, pause: float = 0.0) -> None:
        """Create the object. `environment` has the environment variables of the worker process."""
        self.runs = 0
        self._command = [sys.executable, "-P", "-m", "loadtest.carrier.job_loop", job, str(pause)]
        self._environment = environment

    def __enter__(self) -> "RepeatedJob":
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        told, _nothing = self._process.communicate()
        if self._process.returncode:
            raise BenchError("the job failed; see its output above")
        self.runs = int(told)

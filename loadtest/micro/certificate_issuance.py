"""How fast client certificates are issued: python -m loadtest.micro.certificate_issuance [certificates]

Into a private PostgreSQL cluster that syncs nothing to disk: each certificate in a transaction of its own, as enrolment
does it; with keys made here, and with keys from signing requests. Then what lists of so many cost.
"""

import os
import resource
import sys
import time
from collections.abc import Callable
from itertools import count

import psycopg
from sqlalchemy import Engine

from loadtest.micro.journal_shipping import make_cell
from nac.certificates import expiry
from nac.certificates.authorities import create_tenant_authorities
from nac.certificates.service import ORDERS, issue_client, list_certificates
from nac.certificates.signing import SigningContext
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, make_engine, session_scope
from nac.kit.ids import TenantId
from nac.kit.secrets import RawKey, Sealer
from pki.keys import PublicKey, generate_key
from tests.postgres import Cluster, Database

ACTOR = "bench:issue"
_PAGE = 1000


class IssuanceBench:
    def __init__(self, engine: Engine, tenant_id: TenantId) -> None:
        self._engine = engine
        self._tenant_id = tenant_id
        self._scope = TenantScope(tenant_id)
        self._signing = SigningContext(Sealer(RawKey(os.urandom(32))), "http://status.admit.example")
        self._numbers = count()
        with session_scope(self._scope, engine=engine) as session:
            create_tenant_authorities(
                session, actor=ACTOR, tenant_id=tenant_id, signing=self._signing, now=utc_now(), name="Bench"
            )

    def issue(self, public_key: PublicKey | None) -> None:
        with session_scope(self._scope, engine=self._engine) as session:
            issue_client(
                session,
                actor=ACTOR,
                tenant_id=self._tenant_id,
                profile="eap-client-device",
                common_name=f"device {next(self._numbers)}",
                public_key=public_key,
                signing=self._signing,
                now=utc_now(),
            )

    def read_pages(self) -> tuple[int, float]:
        """How many there are, and the seconds of the slowest page."""
        total, slowest, span = 0, 0.0, ORDERS.first(_PAGE)
        while True:
            started = time.perf_counter()
            with session_scope(self._scope, engine=self._engine) as session:
                page = list_certificates(session, tenant_id=self._tenant_id, span=span)
            slowest = max(slowest, time.perf_counter() - started)
            if not page:
                return total, slowest
            total, span = total + len(page), ORDERS.behind(page[-1].serial, limit=_PAGE)

    def count_expiring(self) -> float:
        started = time.perf_counter()
        with session_scope(self._scope, engine=self._engine) as session:
            expiry.count_expiring(session, tenant_id=self._tenant_id, now=utc_now())
        return time.perf_counter() - started


def timed(what: str, number: int, work: Callable[[], None]) -> None:
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(number):
        work()
    seconds, own = time.perf_counter() - started, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{what}: {number} in {seconds:.1f} s: {number / seconds:,.0f}/s, {own / number * 1e3:.2f} ms of our CPU each, "
        f"{peak} MB at most so far"
    )


def table_bytes(database: Database) -> int:
    with psycopg.connect(database.superuser_url) as connection:
        row = connection.execute("SELECT pg_total_relation_size('certificates')").fetchone()
    assert row is not None
    return int(row[0])


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    cluster = Cluster()
    try:
        cluster.start()
        database = cluster.create_database()
        _, tenants = make_cell(database)
        engine = make_engine(database.app_url)
        bench = IssuanceBench(engine, TenantId(tenants[0]))
        # Before the clock starts: connection, imports, the plans of queries.
        bench.issue(None)
        print(f"before: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")
        # Each another, since a key is certified once; made before the clock starts.
        requested = iter([generate_key().public_key() for _ in range(number)])
        timed("keys from requests", number, lambda: bench.issue(next(requested)))
        timed("keys made here", number, lambda: bench.issue(None))
        held, slowest = bench.read_pages()
        print(
            f"{held} certificates: {table_bytes(database) / held:,.0f} bytes each in PostgreSQL, indexes included; "
            f"slowest page of {_PAGE} {slowest * 1e3:.0f} ms; counts of ends {bench.count_expiring() * 1e3:.0f} ms"
        )
        engine.dispose()
    finally:
        cluster.remove()


if __name__ == "__main__":
    os.nice(5)
    main()

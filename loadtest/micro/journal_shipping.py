"""Speed of copying a journal to PostgreSQL.

    python -m loadtest.micro.journal_shipping [records [live sessions [listened tenants [fed tenants]]]]

Writes a journal of each stream, copies it to a private cluster, and prints records per second and CPU times. There are
ten tenants. `listened tenants` is the number of tenants whose live events a client watches (default, or with -: no live
events). `fed tenants` is the number of tenants with a feed of sessions.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID, uuid4

import psycopg

from loadtest.micro.journal_records import accounting_record, auth_record
from nac.cellformat.journal.records import JournalRecord
from nac.cellformat.journal.writer import JournalWriter
from nac.kit.ids import CellId
from nac.logs.events.live_stream import connect_redis, interest_key
from radius.agent.alarms import Alarms
from radius.agent.shipping.live_feed import LiveFeed
from radius.agent.shipping.shipper import Shipper, shipping_engine
from radius.agent.shipping.streams import AccountingStream, AuthStream, Stream
from tests.postgres import Cluster, Database
from tests.redis_server import RedisServer

TENANTS = 10
_LIVE_SESSIONS = """
INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, started_at, mac, updated_at, session_seconds)
SELECT t.id, 'live-' || n %% 500, 'live-' || n, lpad(to_hex(n), 12, '0'), now() - n * interval '1 second',
    lpad(to_hex(n), 12, '0')::macaddr, now(), n
FROM generate_series(1, %s) n JOIN tenants t ON t.slug = 't' || n %% 10
"""
_FEED = """
INSERT INTO feeds (tenant_id, slug, kind, settings, sources) VALUES (%s, 'siem', 'syslog', '{}', '{session}')
"""


def make_cell(database: Database) -> tuple[CellId, list[UUID]]:
    tenants = [uuid4() for _ in range(TENANTS)]
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute("INSERT INTO msps (slug, name) VALUES ('msp', 'MSP')")
        row = connection.execute("INSERT INTO cells (name, host) VALUES ('cell', 'here') RETURNING id").fetchone()
        assert row is not None
        for number, tenant in enumerate(tenants):
            connection.execute(
                "INSERT INTO tenants (id, msp_id, slug, name) SELECT %s, id, %s, 'T' FROM msps", (tenant, f"t{number}")
            )
            connection.execute(
                "INSERT INTO slots (cell_id, number, auth_port, acct_port, secret_sealed, status, tenant_id) "
                "VALUES (%s, %s, 1812, 1813, '', 'assigned', %s)",
                (row[0], number, tenant),
            )
    return CellId(row[0]), tenants


def write_journal(directory: Path, records: list[JournalRecord]) -> None:
    writer = JournalWriter(directory, max_bytes=8 << 30)
    started = time.perf_counter()
    for record in records:
        writer.append(record)
    seconds = time.perf_counter() - started
    writer.close()
    print(f"{directory.name}: append {seconds / len(records) * 1e6:.2f} us a record")


@contextmanager
def live_feed(tenants: list[UUID], listened: int) -> Iterator[LiveFeed]:
    server, stop = RedisServer(), threading.Event()
    server.start()
    feed = LiveFeed(server.url, lambda: {str(tenant): f"t{n}" for n, tenant in enumerate(tenants)}, cell="cell")
    thread = threading.Thread(target=feed.run, args=(stop,))
    try:
        with connect_redis(server.url, timeout_seconds=5) as client:
            for tenant in tenants[:listened]:
                client.set(interest_key(tenant), "1")
        thread.start()
        while len(feed.wanted) < listened:
            time.sleep(0.01)
        yield feed
        print(f"live: {dict(feed.counters)}")
    finally:
        stop.set()
        thread.join()
        server.remove()


def ship(stream: Stream, database: Database, cell_id: CellId, journal: Path) -> None:
    alarms = Alarms()
    shipper = Shipper(
        stream,
        cell_id=cell_id,
        engine=shipping_engine(database.cell_url, stream),
        journal=journal,
        alarms=alarms,
    )
    shipper.step()
    backend = find_backend(database, "admit-ship-")
    started, cpu, theirs = time.perf_counter(), time.process_time(), cpu_seconds(backend)
    first = shipper.counters["shipped"]
    while shipper.step():
        pass
    seconds, own = time.perf_counter() - started, time.process_time() - cpu
    theirs = cpu_seconds(backend) - theirs
    shipped = shipper.counters["shipped"] - first
    print(
        f"{stream.name}: {shipped} records in {seconds:.2f} s: {shipped / seconds:,.0f}/s, "
        f"{own / shipped * 1e6:.1f} us of the agent's CPU a record, {theirs / shipped * 1e6:.1f} us of PostgreSQL's, "
        f"alarms {alarms.standing()}"
    )


def find_backend(database: Database, application: str) -> int:
    """Return the PostgreSQL process of the newest connection whose application name begins with `application`."""
    with psycopg.connect(database.superuser_url) as connection:
        row = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, %s) "
            "ORDER BY backend_start DESC LIMIT 1",
            [application],
        ).fetchone()
    assert row is not None
    return int(row[0])


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    live = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    listened = int(sys.argv[3]) if len(sys.argv) > 3 and sys.argv[3] != "-" else None
    fed = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    cluster = Cluster()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        journal = Path(folder)
        try:
            cluster.start()
            database = cluster.create_database()
            cell_id, tenants = make_cell(database)
            with psycopg.connect(database.superuser_url, autocommit=True) as connection:
                connection.execute(_LIVE_SESSIONS, (live,))
                for tenant in tenants[:fed]:
                    connection.execute(_FEED, (tenant,))
            write_journal(journal / "auth", [auth_record(n, tenants[n % TENANTS]) for n in range(count)])
            write_journal(journal / "acct", [accounting_record(n, tenants[n % TENANTS]) for n in range(count)])
            feed = None if listened is None else stack.enter_context(live_feed(tenants, listened))
            ship(AuthStream(feed), database, cell_id, journal)
            ship(AccountingStream(live=feed), database, cell_id, journal)
        finally:
            cluster.remove()


if __name__ == "__main__":
    os.nice(5)
    main()

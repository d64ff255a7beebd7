"""How fast a cell's replica is loaded, follows, and is read: python -m loadtest.micro.replica [endpoints]"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from loadtest.micro.journal_shipping import make_cell
from nac.cellformat.replica.store import ReplicaReader, ReplicaWriter
from nac.kit.db import make_engine
from radius.agent.alarms import Alarms
from radius.agent.replica.sync import ReplicaSync
from tests.postgres import Cluster

_ENDPOINTS = """
INSERT INTO endpoints (tenant_id, mac, name, attributes)
SELECT t.id, ('02' || lpad(to_hex(n), 10, '0'))::macaddr, 'Endpoint ' || n, '{"owner": "IT"}'
FROM generate_series(1, %s) n JOIN tenants t ON t.slug = 't' || n %% 10
"""
_MEMBERS = """
INSERT INTO endpoint_groups (tenant_id, name) SELECT id, 'printers' FROM tenants;
INSERT INTO endpoint_group_members
SELECT e.tenant_id, e.id, g.id FROM endpoints e JOIN endpoint_groups g ON g.tenant_id = e.tenant_id
"""
READS = 200_000


def read(directory: Path) -> None:
    """In a process of its own: LMDB opens a file once per process."""
    reader = ReplicaReader(directory)
    with reader.begin() as view:
        tenant = next(slot.tenant for number in range(32) if (slot := view.slot(number)) is not None)
    started = time.perf_counter()
    for number in range(READS):
        with reader.begin() as view:
            view.endpoint(tenant, f"02{number:010x}")
    print(f"read: {(time.perf_counter() - started) / READS * 1e6:.2f} us for begin, get and decode")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    cluster = Cluster()
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "replica"
        try:
            cluster.start()
            database = cluster.create_database()
            cell_id, _ = make_cell(database)
            owner = psycopg.connect(database.owner_url, autocommit=True)
            with psycopg.connect(database.superuser_url) as superuser:
                superuser.execute("SET session_replication_role = replica")
                superuser.execute(_ENDPOINTS, (count,))
                superuser.execute(_MEMBERS)
            owner.execute("ANALYZE")
            with ReplicaWriter(directory) as writer:
                sync = ReplicaSync(
                    cell_id,
                    make_engine(database.cell_url),
                    writer,
                    dictionary=None,
                    reseal=lambda sealed, _: sealed,
                    alarms=Alarms(),
                )
                started, cpu = time.perf_counter(), time.process_time()
                sync.catch_up()
                seconds, own = time.perf_counter() - started, time.process_time() - cpu
                megabytes = sum(path.stat().st_size for path in directory.rglob("data.mdb")) >> 20
                print(
                    f"full load: {count} endpoints in {seconds:.1f} s ({own:.1f} s of the agent's CPU), {megabytes} MB"
                )
                subprocess.run([sys.executable, "-m", "loadtest.micro.replica", "--read", str(directory)], check=True)
                follow(owner, sync)
        finally:
            cluster.remove()


def follow(owner: psycopg.Connection, sync: ReplicaSync) -> None:
    spent = []
    for number in range(200):
        owner.execute("UPDATE endpoints SET name = %s WHERE mac = '020000000010'", (f"N{number}",))
        started = time.perf_counter()
        assert sync.catch_up()
        spent.append(time.perf_counter() - started)
    spent.sort()
    print(f"one change: {spent[100] * 1e3:.1f} ms (median), {spent[-3] * 1e3:.1f} ms (99 %) from commit to decision")
    owner.execute("UPDATE endpoints SET name = 'bulk' WHERE mac < '0200000030d4'")
    started = time.perf_counter()
    sync.catch_up()
    print(f"12,500 changes at once: {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read(Path(sys.argv[2]))
    else:
        os.nice(5)
        main()

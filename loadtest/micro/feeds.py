"""Speed of feeds. Usage: python -m loadtest.micro.feeds [events].

The benchmark writes decisions of one tenant to a private PostgreSQL cluster, and delivers the decisions as the worker
does, by syslog and by a webhook. The receivers are separate processes on loopback. Prints events per second, and the
CPU time of the worker and of PostgreSQL per event.
"""

import asyncio
import os
import re
import socket
import ssl
import sys
import tempfile
import time
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

from sqlalchemy import Engine

from loadtest.micro.journal_records import auth_record
from loadtest.micro.journal_shipping import cpu_seconds, find_backend, make_cell, ship, write_journal
from nac.kit.db import TenantScope, make_engine, session_scope
from nac.kit.ids import TenantId
from nac.kit.outbound.reach import OutboundReach
from nac.kit.secrets import RawKey, Sealer
from nac.logs.feeds import service
from nac.logs.feeds.delivery import DeliveryContext, deliver_feed
from nac.logs.feeds.settings import AnyFeedSettings, SyslogSettings, WebhookSettings
from radius.agent.shipping.streams import AuthStream
from tests.feeds.certificates import Pair, self_signed, server_context
from tests.postgres import Cluster, Database

LOOPBACK = OutboundReach.parse("127.0.0.0/8")
SEALER = Sealer(RawKey(os.urandom(32)))
KINDS_OF_FEEDS = ("syslog", "webhook")
_KINDS = ("authentication",)
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def run_receiver(told: Connection, pair: Pair, kind: str) -> None:
    """Receive events in a separate process.

    Sends its port to the parent process. At the end of each connection, sends the number of received octets.
    """
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        context = server_context(Path(folder), pair)
        told.send(listener.getsockname()[1])
        while True:
            with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
                told.send(_read_requests(connection) if kind == "webhook" else _read_all(connection))


def _read_all(connection: ssl.SSLSocket) -> int:
    total = 0
    while octets := connection.recv(1 << 16):
        total += len(octets)
    return total


def _read_requests(connection: ssl.SSLSocket) -> int:
    total, waiting = 0, b""
    while octets := connection.recv(1 << 16):
        waiting += octets
        head, blank, body = waiting.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if blank and length and len(body) >= int(length[1]):
            total += len(body)
            waiting = b""
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    return total


def measure(kind: str, tenant_id: TenantId, database: Database, worker: Engine) -> None:
    scope = TenantScope(tenant_id)
    with session_scope(scope, engine=worker) as session:
        feed = service.require_feed(session, tenant_id=tenant_id, slug=kind)
    backend = find_backend(database, "bench-feeds")
    ways = DeliveryContext(LOOPBACK, lambda: SEALER, engine=worker)
    started, cpu, theirs = time.perf_counter(), time.process_time(), cpu_seconds(backend)
    asyncio.run(deliver_feed(tenant_id, feed.id, ways, seconds=600))
    seconds, own = time.perf_counter() - started, time.process_time() - cpu
    theirs = cpu_seconds(backend) - theirs
    with session_scope(scope, engine=worker) as session:
        feed = service.require_feed(session, tenant_id=tenant_id, slug=kind)
    assert not feed.failure, feed.failure
    print(
        f"{kind}: {feed.delivered} events in {seconds:.2f} s: {feed.delivered / seconds:,.0f}/s, "
        f"{own / feed.delivered * 1e6:.0f} us of the worker's CPU an event, "
        f"{theirs / feed.delivered * 1e6:.0f} us of PostgreSQL's"
    )


def start_receiver(kind: str, pair: Pair) -> tuple[Process, AnyFeedSettings]:
    ours, its = Pipe()
    process = Process(target=run_receiver, args=(its, pair, kind), daemon=True)
    process.start()
    port = ours.recv()
    if kind == "syslog":
        return process, SyslogSettings(host="localhost", port=port, kinds=_KINDS, ca_certificate=pair.certificate)
    url = f"https://localhost:{port}/"
    return process, WebhookSettings(url=url, kinds=_KINDS, ca_certificate=pair.certificate)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    pair = self_signed("localhost")
    cluster = Cluster()
    receivers = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            cluster.start()
            database = cluster.create_database()
            cell_id, tenants = make_cell(database)
            tenant_id = TenantId(tenants[0])
            for kind in KINDS_OF_FEEDS:
                process, settings = start_receiver(kind, pair)
                receivers.append(process)
                with session_scope(TenantScope(tenant_id), engine=make_engine(database.app_url)) as session:
                    service.create_feed(
                        session,
                        actor="bench",
                        tenant_id=tenant_id,
                        slug=kind,
                        settings=settings,
                        sealer=SEALER,
                        reach=LOOPBACK,
                    )
            # From now on, the shipper writes marks for the feed.
            write_journal(Path(folder) / "auth", [auth_record(number, tenant_id) for number in range(count)])
            ship(AuthStream(), database, cell_id, Path(folder))
            worker = make_engine(database.worker_url, pool_size=1, application_name="bench-feeds")
            for kind in KINDS_OF_FEEDS:
                measure(kind, tenant_id, database, worker)
        finally:
            for receiver in receivers:
                receiver.terminate()
            cluster.remove()


if __name__ == "__main__":
    os.nice(5)
    main()

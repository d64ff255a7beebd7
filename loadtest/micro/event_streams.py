"""Measures event streams of the API: processor time of the API process, and delays of events.

Usage: python -m loadtest.micro.event_streams [seconds of each part].

Uses a private PostgreSQL and Redis, and one API process. A writer sends entries as agents do.
"""

import asyncio
import multiprocessing
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import uvicorn

from api import event_stream
from api.connections import HttpWithFiles
from api.main import create_app
from loadtest.processes import ProcessTree, cpu_seconds, resident_bytes
from nac.accounts import api_tokens
from nac.core.access.grants import Owner
from nac.kit.clock import epoch_microseconds, utc_now
from nac.kit.db import MspScope, session_scope
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Permission, permissions_at
from nac.logs.events.live_stream import MAX_ENTRIES, MAX_ENTRY_EVENTS, build_entry, connect_redis, events_key
from nac.models import Tenant
from tests.api.app_server import settings_of_public
from tests.factories.tenancy import ACTOR, make_platform, make_tenant
from tests.postgres import Cluster, Database, Engines
from tests.redis_server import RedisServer

_EXAMPLES = Path(__file__).resolve().parents[2] / "docs/reference/events.examples.jsonl"
_TENANTS = 1_000
_PER_SECOND = 2_000
_STAMP = b'"benchmark":'
_READY_SECONDS = 30


@dataclass(slots=True)
class StreamCounts:
    delays_ms: list[float] = field(default_factory=list)
    sampled: int = 0
    left_out: int = 0


def write_events(url: str, busy: TenantId | None, idle: list[TenantId], seconds: float) -> None:
    """Write _PER_SECOND events of the tenant `busy`, and an empty entry of each other tenant each second."""
    line = _EXAMPLES.read_bytes().split(b"\n")[0]
    ends_at, number, next_at = time.monotonic() + seconds, 0, time.monotonic()
    steps = _PER_SECOND // MAX_ENTRY_EVENTS
    with connect_redis(url, timeout_seconds=5) as client:
        while time.monotonic() < ends_at:
            with client.pipeline(transaction=False) as pipeline:
                if busy is not None:
                    stamp = _STAMP + str(epoch_microseconds()).encode() + b","
                    lines = [b"{" + stamp + line[1:]] * MAX_ENTRY_EVENTS
                    pipeline.xadd(events_key(busy), build_entry("w", number, lines), maxlen=MAX_ENTRIES)
                    number += MAX_ENTRY_EVENTS
                step = int(next_at * steps) % steps
                for each in idle[step::steps]:
                    pipeline.xadd(events_key(each), build_entry("w", 0, ()), maxlen=16)
                pipeline.execute()
            next_at += 1 / steps
            time.sleep(max(0.0, next_at - time.monotonic()))


async def _read_stream(port: int, path: str, token: str, counts: StreamCounts) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    try:
        while line := await reader.readline():
            if line.startswith(b"data: ") and _STAMP in line:
                stamp = int(line.partition(_STAMP)[2].partition(b",")[0])
                counts.delays_ms.append((epoch_microseconds() - stamp) / 1_000)
            elif b'"sampled"' in line:
                counts.sampled += int(line.partition(b'"count": ')[2].rstrip(b"}\n\r"))
            elif b'"left-out"' in line:
                counts.left_out += 1
    finally:
        writer.close()


def read_streams(port: int, path: str, tokens: list[str], seconds: float) -> StreamCounts:
    counts = StreamCounts()

    async def run() -> None:
        tasks = [asyncio.create_task(_read_stream(port, path, token, counts)) for token in tokens]
        await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    return counts


def serve(database: Database, folder: Path, redis_url: str, listener: socket.socket) -> None:
    event_stream.MAX_CALLER_STREAMS = 100
    app = create_app(settings_of_public(database, folder, ADMIT_REDIS_URL=redis_url))
    config = uvicorn.Config(app, fd=listener.fileno(), http=HttpWithFiles, log_level="critical")
    uvicorn.Server(config).run()


@contextmanager
def _process(target: object, *arguments: object) -> Iterator[int]:
    process = multiprocessing.get_context("fork").Process(target=target, args=arguments)  # type: ignore[arg-type]
    process.start()
    assert process.pid is not None
    try:
        yield process.pid
    finally:
        process.terminate()
        process.join()


def _make_token(engines: Engines, msp_id: MspId) -> str:
    with session_scope(MspScope(msp_id), engine=engines.app) as session:
        return api_tokens.create_token(
            session,
            actor=ACTOR,
            held=permissions_at(Owner(msp_id).level),
            owner=Owner(msp_id),
            name="bench",
            permissions=[Permission.LOG_READ],
            expires_at=utc_now() + timedelta(days=1),
        ).text


def _make_tenants(engines: Engines) -> tuple[MspId, list[TenantId]]:
    platform = make_platform(engines.app, engines.cell)
    msp_id = MspId(platform.msp_id)
    first = TenantId(make_tenant(engines.app, platform, "busy").id)
    with session_scope(MspScope(msp_id), engine=engines.app) as session:
        others = [Tenant(msp_id=msp_id, slug=f"idle-{number}", name="") for number in range(_TENANTS - 1)]
        session.add_all(others)
        session.flush()
        return msp_id, [first, *(TenantId(each.id) for each in others)]


def measure(seconds: float) -> None:
    with ExitStack() as stack:
        cluster, server = Cluster(), RedisServer()
        cluster.start()
        stack.callback(cluster.remove)
        server.start()
        stack.callback(server.remove)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-bench-")))
        database = cluster.create_database("bench")
        engines = Engines(database)
        msp_id, tenants = _make_tenants(engines)
        token = _make_token(engines, msp_id)
        engines.dispose()
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listener.getsockname()[1]
        pid = stack.enter_context(_process(serve, database, folder, server.url, listener))
        one, everything = "/v1/tenants/busy/events", "/v1/events"
        for name, path, clients, busy, idle in (
            ("one tenant, 1 client", one, 1, True, False),
            ("one tenant, 20 clients", one, 20, True, False),
            ("one tenant with a filter, 1 client", f"{one}?verdict=permit", 1, True, False),
            ("one tenant with a filter, 20 clients", f"{one}?verdict=permit", 20, True, False),
            ("one tenant, 500 events/s, 1 client", f"{one}?most_per_second=500", 1, True, False),
            ("1,000 idle tenants, 1 client", everything, 1, False, True),
            ("1,000 tenants, one busy, 1 client", everything, 1, True, True),
        ):
            others = tenants[1:] if idle else []
            writer = (server.url, tenants[0] if busy else None, others, seconds + 5)
            with _process(write_events, *writer):
                read_streams(port, path, [token], 2)
                api, redis_process = ProcessTree(pid), ProcessTree(server.pid)
                before, redis_before = cpu_seconds(api), cpu_seconds(redis_process)
                counts = read_streams(port, path, [token] * clients, seconds)
                cpu, redis_cpu = cpu_seconds(api) - before, cpu_seconds(redis_process) - redis_before
            delays = sorted(counts.delays_ms) or [0.0]
            p50, p99 = (delays[int((len(delays) - 1) * share)] for share in (0.5, 0.99))
            print(
                f"{name}: API {cpu / seconds:.1%} of a core, {resident_bytes(pid) >> 20} MB; Redis "
                f"{redis_cpu / seconds:.1%}; {len(counts.delays_ms) / seconds / clients:.0f} events/s for each client, "
                f"{counts.sampled / seconds / clients:.0f} sampled, {counts.left_out} notices of left out events; "
                f"delay {p50:.0f} ms (p50), {p99:.0f} ms (p99)",
                flush=True,
            )


if __name__ == "__main__":
    measure(float(sys.argv[1]) if len(sys.argv) > 1 else 15)

"""Measures the delay from a decision to its live event.

Usage: python -m loadtest.micro.live_events [seconds of each part].

Uses a private installation. Devices authenticate occasionally, then 1,000 times a second, while another process
listens. Then measures the cost in Redis of two ways to transmit entries: a stream, and publish and subscribe.
"""

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path

import redis

from loadtest.bench_tenants import BenchTenants, ProvisionedTenant
from loadtest.private_installation import PrivateInstallation
from loadtest.processes import BenchError, ProcessTree, cpu_seconds
from loadtest.radius_client import RadiusClient
from loadtest.tenants import GROUPS, BenchEndpoint, BenchTenant
from loadtest.workloads import BenchDevice, mab_source
from nac.kit.clock import epoch_microseconds
from nac.kit.ids import TenantId
from nac.logs.events.live_stream import (
    MAX_ENTRIES,
    MAX_ENTRY_EVENTS,
    LiveEvent,
    StreamNotice,
    build_entry,
    connect_redis,
    listen,
)
from nac.sessions.decisions.recorded_requests import to_microseconds
from tests.redis_server import RedisServer

_PACES = {"occasional": 7, "loaded": 1_000}
_DEVICES = 500
_PATIENCE_SECONDS = 20
_ENTRIES = 20_000
_EVENT_BYTES = 900


def listen_for_events(url: str, tenant_id: TenantId, line: Connection) -> None:
    """Listen for live events in a separate process.

    Sends True to the parent process as soon as an agent sends events. Then responds to each message of the parent with
    the latencies of new events in microseconds, and the number of omitted events.
    """
    latencies: list[int] = []
    left_out = 0
    with closing(listen(url, [tenant_id])) as heard:
        for each in heard:
            match each:
                case LiveEvent(event=event):
                    decided = to_microseconds(datetime.fromisoformat(event.timestamp))
                    latencies.append(epoch_microseconds() - decided)
                case StreamNotice(kind="listening"):
                    line.send(True)
                case StreamNotice(kind="left-out"):
                    left_out += each.count or 0
            if line.poll():
                if not line.recv():
                    return
                line.send((latencies, left_out))
                latencies, left_out = [], 0


def measure(seconds: float) -> None:
    with ExitStack() as stack:
        private = stack.enter_context(PrivateInstallation(REJECT_DELAY_SECONDS="0"))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="admit-bench-")))
        tenants = stack.enter_context(BenchTenants(private.installation, folder, print))
        endpoints = [BenchEndpoint(f"02be{number:08x}", GROUPS[0]) for number in range(_DEVICES)]
        made = tenants.provision(BenchTenant("live", endpoints))
        tenants.wait_live(made)
        agent = private.installation.processes()["agent"]
        ours, theirs = multiprocessing.Pipe()
        for name, pace in _PACES.items():
            print(f"{name}, nobody listens: {_load(made, pace, seconds, agent)}")
        listener = multiprocessing.Process(
            target=listen_for_events, args=(private.settings.redis_url, made.tenant_id, theirs)
        )
        listener.start()
        try:
            if not ours.poll(_PATIENCE_SECONDS):
                raise BenchError("no agent sent live events")
            ours.recv()
            for name, pace in _PACES.items():
                told = _load(made, pace, seconds, agent)
                private.installation.wait_until_shipped()
                time.sleep(2)
                ours.send(True)
                latencies, left_out = ours.recv()
                latencies.sort()
                p50, p99, most = (latencies[int((len(latencies) - 1) * share)] / 1000 for share in (0.5, 0.99, 1))
                print(
                    f"{name}, one listens: {told}; {len(latencies)} events, {left_out} omitted, "
                    f"received after {p50:.0f} ms (p50), {p99:.0f} ms (p99), {most:.0f} ms at most"
                )
            ours.send(False)
            listener.join(_PATIENCE_SECONDS)
        finally:
            listener.kill()


def _load(made: ProvisionedTenant, pace: int, seconds: float, agent: ProcessTree) -> str:
    devices = [BenchDevice(made.target, endpoint.mac, endpoint.vlan) for endpoint in made.tenant.endpoints]
    before = cpu_seconds(agent)
    with RadiusClient() as client:
        run = client.run(mab_source(devices), seconds=seconds, window=64, per_second=pace)
    if run.faults():
        raise BenchError(f"{dict(run.faults())}")
    return f"{run.right} MAB at {run.rate:.0f}/s, agent {(cpu_seconds(agent) - before) / seconds:.1%} of a core"


def compare_transports() -> None:
    """Measure the cost in Redis for entries with one event and with many events, without and with a hanging reader."""
    server = RedisServer()
    server.start()
    try:
        client = connect_redis(server.url, timeout_seconds=5)
        for events in (1, MAX_ENTRY_EVENTS):
            fields = build_entry("writer", 0, [b"e" * _EVENT_BYTES] * events)

            def append(fields: dict[str, str | bytes] = fields) -> None:
                with client.pipeline(transaction=False) as pipeline:
                    pipeline.xadd("stream", dict(fields), maxlen=MAX_ENTRIES, approximate=False)
                    pipeline.expire("stream", 60)
                    pipeline.execute()

            def publish(fields: dict[str, str | bytes] = fields) -> None:
                client.publish("channel", fields["events"])

            _print_transport_cost(server, f"XADD MAXLEN {MAX_ENTRIES} and EXPIRE", append, events)
            _print_transport_cost(server, "PUBLISH without a subscriber", publish, events)
            stuck = redis.Redis.from_url(server.url).pubsub(ignore_subscribe_messages=True)
            stuck.subscribe("channel")
            stuck.get_message(timeout=1)
            _print_transport_cost(server, "PUBLISH to a subscriber that does not read", publish, events)
            stuck.close()
    finally:
        server.remove()


def _print_transport_cost(server: RedisServer, name: str, send: Callable[[], None], events: int) -> None:
    with connect_redis(server.url, timeout_seconds=5) as client:
        before, peak, redis_process = int(client.info("memory")["used_memory"]), 0, ProcessTree(server.pid)
        cpu, own = cpu_seconds(redis_process), time.process_time()
        for number in range(_ENTRIES // events):
            send()
            if number % 100 == 0:
                peak = max(peak, int(client.info("memory")["used_memory"]))
        sent = _ENTRIES // events
        print(
            f"{events} events of {_EVENT_BYTES} bytes, {name}: {(time.process_time() - own) / sent * 1e6:.0f} us of "
            f"the agent's CPU an entry, {(cpu_seconds(redis_process) - cpu) / sent * 1e6:.0f} us of Redis's, "
            f"{(peak - before) / 1e6:.1f} MB of memory"
        )


if __name__ == "__main__":
    compare_transports()
    measure(float(sys.argv[1]) if len(sys.argv) > 1 else 15)

"""Measures the effect of a flood at one tenant on another tenant, and the memory that radiusd needs to store responses.

Usage: `python -m loadtest.micro.floods`.

Uses a cell without PostgreSQL and agent. First, another process floods one tenant with Access-Requests of unknown MAC
addresses, at up to --rate. Devices of a second tenant authenticate at 200/s. This is measured with the default packet
limit, with a limit of 4,000/s, and without a limit. Then 10,000 MAC authentications run within cleanup_delay, while
radiusd stores their responses. The result is the growth of radiusd's memory.
"""

import argparse
import multiprocessing
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep

from loadtest.bare_cell import BareCell
from loadtest.processes import resident_bytes
from loadtest.radius_client import RadiusClient, Target
from loadtest.systems import SystemUnderTest
from loadtest.tenants import make_tenants
from loadtest.workloads import mab_source
from nac.kit.radius_packet import CALLING_STATION_ID, USER_NAME, encode_attribute, make_access_request

_DEVICES = 2_000
_SLOTS = 32
_SOCKETS, _PREPARED = 64, 20_000
_OTHERS_PER_SECOND = 200
# cleanup_delay of radius/raddb/radiusd.conf, with a margin.
_KEPT_SECONDS, _KEPT, _IDENTIFIERS = 9, 10_000, 250
_SETTLE_SECONDS = 1.0


def _flood(target: Target, rate: int, seconds: float) -> None:
    """Send requests without reading responses. The kernel drops responses when the socket's buffer is full."""
    macs = [f"02{number:010x}" for number in range(_PREPARED)]
    packets = [
        make_access_request(
            number % 256,
            os.urandom(16),
            encode_attribute(USER_NAME, mac) + encode_attribute(CALLING_STATION_ID, mac),
            target.secret,
            mac.encode(),
        )
        for number, mac in enumerate(macs)
    ]
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(_SOCKETS)]
    for each in sockets:
        each.setblocking(False)
        each.connect((target.host, target.auth_port))
    began, sent = perf_counter(), 0
    while (spent := perf_counter() - began) < seconds:
        if sent >= rate * spent:
            sleep(0.0002)
            continue
        try:
            sockets[sent // 256 % _SOCKETS].send(packets[sent % _PREPARED])
        except OSError:
            continue
        sent += 1
    print(f"flood: {sent / seconds:,.0f} packets/s", flush=True)


@contextmanager
def _cell(packets_per_second: int | None) -> Iterator[tuple[BareCell, SystemUnderTest]]:
    with tempfile.TemporaryDirectory(prefix="admit-bench-") as folder:
        tenants = make_tenants([_DEVICES, _DEVICES])
        with BareCell(Path(folder), tenants, slots=_SLOTS, tenant_packets_per_second=packets_per_second) as cell:
            yield cell, cell.system()


def _p99(system: SystemUnderTest, target: Target, seconds: float) -> float:
    devices = [device for device in system.devices if device.target == target]
    with RadiusClient() as client:
        run = client.run(mab_source(devices), seconds=seconds, per_second=_OTHERS_PER_SECOND)
    if run.faults():
        print(f"faults: {dict(run.faults())}")
    return run.tally("mab").latency.percentile(0.99)


def _show_flood(limit: int | None, rate: int, seconds: float) -> None:
    with _cell(limit) as (_, system):
        flooded, other = dict.fromkeys(device.target for device in system.devices)
        quiet = _p99(system, other, seconds)
        process = multiprocessing.get_context("spawn").Process(
            target=_flood, args=(flooded, rate, seconds + 2 * _SETTLE_SECONDS)
        )
        process.start()
        sleep(_SETTLE_SECONDS)
        during = _p99(system, other, seconds)
        process.join()
    name = "default limit" if limit is None else f"limit of {limit}/s" if limit else "no limit"
    print(f"{name}: p99 of another tenant {quiet * 1000:.1f} ms, during the flood {during * 1000:.1f} ms")


def _show_kept_answers() -> None:
    """Print the memory that radiusd needs for stored responses.

    Each request has a new source port, so radiusd does not treat the request as a repetition.
    """
    with _cell(0) as (cell, system):
        source = mab_source(system.devices)
        before = resident_bytes(cell.pid)
        began, right = perf_counter(), 0
        while right < _KEPT and perf_counter() - began < _KEPT_SECONDS:
            with RadiusClient() as client:
                right += client.run(source, count=_IDENTIFIERS).right
        grown = resident_bytes(cell.pid) - before
    print(f"{right} answers kept: {grown / 1e6:.0f} MB, {grown / right / 1e3:.1f} kB each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=40_000, help="packets per second of the flood (default 40,000)")
    parser.add_argument("--seconds", type=float, default=5, help="length of each part in seconds (default 5)")
    arguments = parser.parse_args()
    for limit in (None, 4_000, 0):
        _show_flood(limit, arguments.rate, arguments.seconds)
    _show_kept_answers()


if __name__ == "__main__":
    main()

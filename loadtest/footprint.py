"""P13: how long a cell's radiusd takes to be ready, and how much memory a tenant costs it."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from loadtest.bare_cell import BareCell
from loadtest.eap_tls_client import EapTlsSource
from loadtest.processes import BenchError, resident_bytes
from loadtest.radius_client import RadiusClient
from loadtest.tenants import make_tenants
from loadtest.workloads import mab_source

_FEW, _MANY = 8, 40
_ENDPOINTS = 200
_REQUESTS, _HANDSHAKES = 800, 80


@dataclass(frozen=True, slots=True)
class Footprint:
    # A cell with its default number of slots, until the last one has answered.
    ready_seconds: float
    # Slot and tenant that serves devices, policy compiled.
    bytes_per_tenant: float


def measure_footprint(default_slots: int) -> Footprint:
    ready, _ = _start(default_slots, tenants=0)
    _, few = _start(_FEW, tenants=_FEW)
    _, many = _start(_MANY, tenants=_MANY)
    return Footprint(ready, (many - few) / (_MANY - _FEW))


def _start(slots: int, *, tenants: int) -> tuple[float, int]:
    """(Seconds until ready, resident bytes after the same work, spread over the tenants.)"""
    with (
        tempfile.TemporaryDirectory(prefix="admit-bench-") as folder,
        BareCell(Path(folder), make_tenants([_ENDPOINTS] * tenants), slots=slots) as cell,
        RadiusClient() as client,
    ):
        if tenants:
            system = cell.system()
            run = client.run(mab_source(system.devices), count=_REQUESTS, window=16)
            run.merge(client.run(EapTlsSource(system.supplicants), count=_HANDSHAKES, window=8))
            if run.faults():
                raise BenchError(f"a cell with {tenants} tenants does not do its job: {dict(run.faults())}")
        return cell.ready_seconds, resident_bytes(cell.pid)

"""The memory of a half-open handshake in radiusd, from which a cell's limit is computed."""

import pytest

from radius.agent.radiusd.memory import HALF_OPEN_BYTES, get_process_memory
from tests.radius.devices import UNTIL_OUR_CERTIFICATE, VERSIONS, Device
from tests.radius.standalone import Plan, running_cell


@pytest.fixture(scope="module", params=[VERSIONS, pytest.param(VERSIONS[::-1], marks=pytest.mark.long)])
def cell_and_versions(request):
    """A cell of the usual size, and the TLS versions to measure at alpha and bravo."""
    with running_cell(Plan()) as cell:
        yield cell, dict(zip(("alpha", "bravo"), request.param, strict=True))


@pytest.mark.parametrize("slug", ["alpha", "bravo"])
def test_half_open_handshake_memory_is_within_its_estimate(cell_and_versions, slug):
    """`radiusd` chooses alpha's certificate for each session. Bravo's certificate is in its configuration."""
    cell, versions = cell_and_versions
    tenant, count = cell.tenants[slug], 150
    device = Device(tenant.clients["laptop"], versions[slug])

    def leave_half_open(conversations):
        for _ in range(conversations):
            device.abandon(tenant, rounds=UNTIL_OUR_CERTIFICATE)
        return get_process_memory(cell.running.pid).anonymous_bytes

    # The first handshakes allocate memory that later handshakes reuse.
    before = leave_half_open(20)
    each = (leave_half_open(count) - before) / count
    assert 0.5 * HALF_OPEN_BYTES < each < 1.5 * HALF_OPEN_BYTES

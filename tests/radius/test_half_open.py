"""The memory of a half-open handshake in radiusd, from which a cell's limit is computed."""

import pytest

from radius.agent.radiusd.memory import HALF_OPEN_BYTES, get_process_memory
from tests.radius.devices import VERSIONS, Device
from tests.radius.standalone import Plan, running_cell
from tests.radius.test_conversations import UNTIL_OUR_CERTIFICATE

CONVERSATIONS = 300


def abandon(tenant, count, version):
    """Leave `count` conversations, each of another device, after radiusd sent the server's certificate."""
    device = Device(tenant.clients["laptop"], version)
    for _ in range(count):
        device.abandon(tenant, rounds=UNTIL_OUR_CERTIFICATE)


_OTHERS = [("alpha", VERSIONS[1]), ("bravo", VERSIONS[0])]


@pytest.mark.parametrize(
    ("slug", "version"),
    [
        ("alpha", VERSIONS[0]),
        ("bravo", VERSIONS[1]),
        *(pytest.param(*each, marks=pytest.mark.long) for each in _OTHERS),
    ],
)
def test_half_open_handshake_memory_is_within_its_estimate(slug, version):
    """`radiusd` chooses alpha's certificate for each session. Bravo's certificate is in its configuration."""
    with running_cell(Plan()) as cell:
        # The first handshakes allocate memory that later handshakes reuse.
        abandon(cell.tenants[slug], 20, version)
        before = get_process_memory(cell.running.pid)
        abandon(cell.tenants[slug], CONVERSATIONS, version)
        after = get_process_memory(cell.running.pid)
    each = (after.anonymous_bytes - before.anonymous_bytes) / CONVERSATIONS
    assert 0.5 * HALF_OPEN_BYTES < each < 1.5 * HALF_OPEN_BYTES

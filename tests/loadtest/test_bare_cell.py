"""A radiusd that the agent configured handles every workload of the benchmarks and separates tenants."""

import pytest

from loadtest.bare_cell import BareCell
from loadtest.radius_client import RadiusClient
from loadtest.systems import rehearse
from loadtest.tenants import make_tenants
from loadtest.workloads import BENCH_NAS, mab_request
from nac.kit.radius_packet import ACCESS_REJECT


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    with BareCell(tmp_path_factory.mktemp("cell"), make_tenants((40, 40)), slots=3) as cell:
        yield cell


def test_cell_handles_every_workload(cell):
    rehearse(cell.system(), ["mab", "acct", "tls-full"])


def test_mac_of_one_tenant_is_unknown_to_the_other(cell):
    devices = cell.system().devices
    ours = devices[0]
    theirs = next(device.target for device in devices if device.target != ours.target)
    with RadiusClient(tries=1) as client:
        client.ask(mab_request(ours.target, ours.mac, BENCH_NAS.attributes(), vlan=ours.vlan))
        client.ask(mab_request(theirs, ours.mac, BENCH_NAS.attributes(), expected=ACCESS_REJECT))

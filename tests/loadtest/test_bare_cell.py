"""The cell's radiusd, configured by the agent, handles every benchmark workload and separates tenants."""

import pytest

from loadtest.bare_cell import BareCell
from loadtest.radius_client import RadiusClient, UnexpectedReply
from loadtest.systems import rehearse
from loadtest.tenants import make_tenants
from loadtest.workloads import BENCH_NAS, StatusServer, mab_request
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


def test_tenant_port_answers_status_server_with_an_accept(cell):
    with RadiusClient(timeout_seconds=0.5, tries=1) as client:
        client.ask(StatusServer(cell.system().devices[0].target))


def test_secret_of_one_tenant_gets_silence_from_the_other(cell):
    first, second = sorted({device.target for device in cell.system().devices}, key=lambda target: target.auth_port)
    stranger = type(first)(first.host, first.auth_port, first.acct_port, second.secret)
    with RadiusClient(timeout_seconds=0.3, tries=1) as client, pytest.raises(UnexpectedReply, match="unanswered"):
        client.ask(StatusServer(stranger))

"""Addresses of a pool while parts of the cell are stopped or killed. Each device keeps its own address."""

import json
from types import SimpleNamespace

import pytest

from tests.polling import until
from tests.radius.nas import radclient
from tests.whole.conftest import make_tenants

pytestmark = pytest.mark.faults

SLUG, POOL = "fault-pools", "guests"
DEVICES = [f"02f5000000{number:02x}" for number in range(30)]
POLICY = {
    "rules": [
        {
            "id": "things",
            "name": "Everything by its MAC address",
            "when": {"attribute": "method", "operator": "equals", "value": "mab"},
            "then": {"verdict": "permit", "ip_pool": POOL},
        }
    ]
}


@pytest.fixture(scope="module")
def made(started_instance):
    instance = started_instance
    tenant = make_tenants(instance)(SLUG, 5)
    of = ("-t", SLUG)
    for arguments, text in (
        (("pool", "add", POOL, *of, "--range", "10.9.0.0/26", "--grace", "1m", "--quarantine", "1m"), ""),
        (("policy", "save", *of, "-s", "pooled", "-"), json.dumps(POLICY)),
        (("policy", "publish", *of, "-s", "pooled"), ""),
        (("policy", "assign", *of, "-s", "pooled", "--site", "main"), ""),
    ):
        done = instance.admit(*arguments, text=text)
        assert done.returncode == 0, done.stderr + done.stdout
    return tenant


@pytest.fixture
def server(instance, made):
    def is_ready():
        return instance.query("SELECT count(*) FROM pool_addresses WHERE state <> 'free'") == [(62,)]

    until(is_ready, "the pool is ready in the cell", seconds=30)
    return SimpleNamespace(
        auth_port=made.target.auth_port, acct_port=made.target.acct_port, secret=made.target.secret.decode()
    )


def address_of(server, mac):
    reply = radclient(server, f'User-Name="{mac}"', f'Calling-Station-Id="{mac}"', "Service-Type=Call-Check")
    return reply.attributes.get("Framed-IP-Address")


def account(server, mac, address, status):
    lines = (
        f"Acct-Status-Type={status}",
        f'Acct-Session-Id="{mac}"',
        f'Calling-Station-Id="{mac}"',
        f"Framed-IP-Address={address}",
        'NAS-Identifier="switch"',
    )
    assert radclient(server, *lines, command="acct").code == "Accounting-Response"


def held_addresses(instance):
    rows = "SELECT replace(mac::text, ':', ''), host(address) FROM pool_addresses WHERE state = 'leased'"
    return dict(instance.query(rows))


@pytest.mark.long
def test_pool_addresses_survive_outages_and_kills(instance, server):
    given = {}
    with instance.stopped("postgres"):
        given |= {mac: address_of(server, mac) for mac in DEVICES[:10]}
        for killed in ("radiusd", "agent"):
            instance.kill(killed)
            until(lambda: instance.status()["state"] == "serving", f"the cell serves after {killed} was killed")
            until(lambda: address_of(server, DEVICES[0]), "an address after a kill")
            more = DEVICES[len(given) : len(given) + 10]
            given |= {mac: address_of(server, mac) for mac in more}
        assert {mac: address_of(server, mac) for mac in DEVICES} == given
    assert None not in given.values()
    assert len(set(given.values())) == len(DEVICES)
    instance.wait_until_well()
    for mac, address in given.items():
        account(server, mac, address, "Start")
    instance.wait_until_shipped()
    until(lambda: held_addresses(instance) == given, "every address is its device's lease")
    assert {mac: address_of(server, mac) for mac in DEVICES} == given
    for mac in DEVICES[:5]:
        account(server, mac, given[mac], "Stop")
    until(lambda: held_addresses(instance) == {mac: given[mac] for mac in DEVICES[5:]}, "leases that ended are no more")
    assert not instance.alarm("addresses-twice")

"""State of sessions: addresses of a pool, while parts of the cell are killed, and limits of sessions per device."""

import json
import os
from types import SimpleNamespace

import pytest

from loadtest.workloads import BENCH_NAS, START, STOP, calling_station
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, encode_attribute
from tests.polling import until
from tests.radius.nas import radclient
from tests.whole.conftest import make_tenants, publish_policy
from tests.whole.faults.test_changes import remove
from tests.whole.nas_packets import NasPackets

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


ACCOUNTING_ON = 7
_ONE_AT_A_TIME = {
    "rules": [
        {
            "id": "many",
            "name": "One session at a time",
            "when": {"attribute": "session.count.endpoint", "operator": "at_least", "value": 1},
            "then": {"verdict": "deny"},
        },
        {"id": "all", "name": "Everybody else", "when": {"all": []}, "then": {"verdict": "permit"}},
    ]
}


@pytest.fixture
def limited(instance):
    """A tenant with one session per device."""
    made = make_tenants(instance)("fault-limited", 4)
    publish_policy(instance, made, _ONE_AT_A_TIME)
    yield made
    remove(instance, made)


def test_second_session_is_rejected_until_the_first_ends(instance, limited):
    with NasPackets(limited) as wire:

        def account(status: int, session_id: str = "") -> None:
            said = encode_attribute(packet.ACCT_STATUS_TYPE, status) + BENCH_NAS.attributes()
            if session_id:
                said += calling_station(wire.device.mac) + encode_attribute(packet.USER_NAME, wire.device.mac)
                said += encode_attribute(packet.ACCT_SESSION_ID, session_id)
            assert wire.exchange(packet.make_accounting_request(os.urandom(1)[0], said, wire.secret), acct=True)

        def is_answered(code: int) -> None:
            until(lambda: wire.verdict() == code, f"the device is answered {code}")

        assert wire.verdict() == ACCESS_ACCEPT
        account(START, "first")
        is_answered(ACCESS_REJECT)
        account(STOP, "first")
        is_answered(ACCESS_ACCEPT)
        account(START, "second")
        is_answered(ACCESS_REJECT)
        account(ACCOUNTING_ON)
        is_answered(ACCESS_ACCEPT)
    instance.wait_until_shipped()
    refused = "SELECT DISTINCT reason, rule_name FROM auth_log WHERE tenant_id = %s AND NOT permitted"
    assert instance.query(refused, limited.tenant_id) == [("rule-denied", "One session at a time")]

"""A real radiusd assigns addresses. It reads the replica and writes its claims, without a query."""

import json
import uuid

import pytest

from nac.cellformat.replica.records import (
    EndpointRecord,
    PolicyRecord,
    PoolLeaseRecord,
    PoolRecord,
    PoolStockRecord,
    SiteRecord,
)
from nac.kit.clock import epoch_microseconds
from nac.pools.claims import allocate_entries, read_claims
from tests.engine.builders import compare, policy_of, rule
from tests.radius.nas import plain_login, radclient
from tests.radius.supplicant import eap_tls
from tests.radius.tenants import PASSWORD

DEVICES = [f"02a0c00001{number:02x}" for number in range(20)]
FIXED, WRONG = DEVICES[10], DEVICES[11]
SITE, POLICY = str(uuid.uuid4()), str(uuid.uuid4())
UNREGISTERED = "NAS-Identifier=unregistered"


def permit_if(attribute, value, **then):
    return rule(value, compare(attribute, "equals", value), {"verdict": "permit", **then})


DOCUMENT = policy_of(
    permit_if("method", "eap-tls", ip_pool="guests"),
    permit_if("method", "pap", ip_pool="guests"),
    permit_if("endpoint.group", "both", ip_pool="guests", delegated_pool="wan", ipv6_pool="lan"),
    permit_if("endpoint.group", "without", ip_pool="open"),
    permit_if("endpoint.group", "missing", ip_pool="nowhere"),
    permit_if("endpoint.group", "trial", ip_pool="nowhere") | {"monitor": True},
    permit_if("method", "mab", ip_pool="guests"),
    fallback={"verdict": "permit", "ip_pool": "small"},
)


class Pools:
    def __init__(self, cell):
        self.cell, self.tenant = cell, cell.alpha
        self.ids = {}

    def put(self, name, addresses, *, kind="ipv4", when_empty="deny", site_id=""):
        """Write a pool as the agent does: first the file, then the ready addresses."""
        pool_id = self.ids.setdefault((site_id, name), str(uuid.uuid4()))
        claims = f"{pool_id}_{epoch_microseconds()}.claims"
        allocate_entries(self.cell.paths.claims / claims, max(1, len(addresses)))
        grant = epoch_microseconds()
        ready = tuple((number, grant, address) for number, address in enumerate(addresses))
        record = PoolRecord(pool_id, kind, when_empty, claims, grant)
        with self.cell.changes() as batch:
            batch.put_pool(self.tenant.number, record, PoolStockRecord(site_id, name, ready))
        return claims

    def claims(self, name):
        return dict(read_claims(self.cell.paths.claims / name))

    def device(self, mac, *groups, **attributes):
        with self.cell.changes() as batch:
            record = EndpointRecord(str(uuid.uuid4()), mac, "active", groups, 0, attributes)
            batch.put_endpoint(self.tenant.number, mac, record)

    def mab(self, mac):
        return plain_login(self.tenant, "pap", mac, mac, UNREGISTERED, station=mac)


@pytest.fixture
def pools(cell):
    decide_by_document(cell, cell.alpha)
    return Pools(cell)


def decide_by_document(cell, tenant):
    """The tenant's default site uses the policy above."""
    cell.set_slot(tenant, default_site_id=SITE)
    with cell.changes() as batch:
        batch.put_site(tenant.number, SiteRecord(SITE, "Pooled", POLICY))
        batch.put_policy(tenant.number, PolicyRecord(POLICY, "pooled", 1, json.dumps(DOCUMENT).encode()))


def address_of(reply):
    return reply.attributes.get("Framed-IP-Address")


def test_each_device_keeps_its_own_address(cell, pools):
    claims = pools.put("guests", [f"10.9.0.{number}" for number in range(1, 10)])
    given = {mac: address_of(pools.mab(mac)) for mac in DEVICES[:8]}
    assert len(set(given.values())) == 8
    assert {mac: address_of(pools.mab(mac)) for mac in DEVICES[:8]} == given
    assert {claim.mac for claim in pools.claims(claims).values()} == set(DEVICES[:8])
    [record] = cell.decisions(mac=DEVICES[0])[:1]
    pool_id = pools.ids["", "guests"]
    assert [entry[0] for entry in record.addresses] == [pool_id]
    assert ("Framed-IP-Address", ":=", given[DEVICES[0]]) in record.reply


def test_previous_address_is_preferred(pools):
    pools.put("guests", ["10.9.0.1", "10.9.0.2", "10.9.0.3"])
    lease = PoolLeaseRecord(2, epoch_microseconds(), "10.9.0.3")
    with pools.cell.changes() as batch:
        batch.put_pool_lease(pools.tenant.number, pools.ids["", "guests"], DEVICES[0], lease)
    assert address_of(pools.mab(DEVICES[0])) == "10.9.0.3"


def test_user_and_certificate_get_an_address_at_the_end(cell, pools):
    pools.put("guests", ["10.9.0.1", "10.9.0.2"])
    assert address_of(plain_login(cell.alpha, "pap", "anna", PASSWORD, UNREGISTERED)) == "10.9.0.1"
    seen = eap_tls(cell.alpha, cell.alpha.clients["laptop"]).run()
    assert seen.accepted
    [record] = cell.decisions(method="eap-tls", permitted=True)
    assert ("Framed-IP-Address", ":=", "10.9.0.2") in record.reply


def test_prefixes_come_in_their_own_attributes(pools):
    pools.put("guests", ["10.9.0.1"])
    pools.put("lan", ["2001:db8::/64"], kind="ipv6")
    pools.put("wan", ["2001:db8:1::/56"], kind="delegated")
    pools.device(DEVICES[0], "both")
    reply = pools.mab(DEVICES[0])
    expected = {"Framed-IP-Address": "10.9.0.1", "Framed-IPv6-Prefix": "2001:db8::/64"}
    assert (expected | {"Delegated-IPv6-Prefix": "2001:db8:1::/56"}).items() <= reply.attributes.items()


def test_exhausted_pool_denies_or_admits_as_configured(cell, pools):
    pools.put("guests", ["10.9.0.1"])
    assert [pools.mab(mac).code for mac in DEVICES[:2]] == ["Access-Accept", "Access-Reject"]
    assert cell.decision(mac=DEVICES[1]).reason == "pool-exhausted"
    pools.put("open", [], when_empty="without")
    pools.device(DEVICES[2], "without")
    reply = pools.mab(DEVICES[2])
    assert (reply.code, address_of(reply)) == ("Access-Accept", None)
    decided = cell.decision(mac=DEVICES[2])
    detail = "no address: pool 'open' has no address left in this cell"
    assert (decided.reason, decided.detail) == ("rule-permitted", detail)
    # A larger pool is in use at once.
    pools.put("guests", ["10.9.0.1", "10.9.0.2"])
    assert pools.mab(DEVICES[1]).code == "Access-Accept"


def test_missing_or_unready_pool_assigns_nothing(cell, pools):
    pools.device(DEVICES[0], "missing")
    assert pools.mab(DEVICES[0]).code == "Access-Reject"
    assert cell.decision(mac=DEVICES[0]).detail == "pool 'nowhere' does not exist"
    claims = pools.put("guests", ["10.9.0.1"])
    (cell.paths.claims / claims).unlink()
    assert pools.mab(DEVICES[1]).code == "Access-Reject"
    decided = cell.decision(mac=DEVICES[1])
    assert (decided.reason, decided.detail) == ("no-address", "pool 'guests' is not ready in this cell")
    # A pool of another kind.
    pools.put("guests", ["2001:db8::/64"], kind="ipv6")
    assert pools.mab(DEVICES[2]).code == "Access-Reject"
    assert cell.decision(mac=DEVICES[2]).reason == "no-address"


def test_device_without_reported_addresses_gets_none(cell, pools):
    pools.put("guests", ["10.9.0.1"])
    reply = radclient(cell.alpha, 'User-Name="anna"', f'User-Password="{PASSWORD}"', UNREGISTERED)
    assert reply.code == "Access-Reject"
    assert cell.decision(identity="anna").detail == "the NAS sent no MAC address"


def test_stored_address_overrides_the_pool(cell, pools):
    claims = pools.put("guests", ["10.9.0.1"])
    pools.device(FIXED, **{"framed-ip-address": "10.1.2.3"})
    assert address_of(pools.mab(FIXED)) == "10.1.2.3"
    assert pools.claims(claims) == {}
    pools.device(WRONG, **{"framed-ip-address": "printer"})
    assert pools.mab(WRONG).code == "Access-Reject"
    assert cell.decision(mac=WRONG).detail.startswith("attribute framed-ip-address of the endpoint:")


def test_pool_of_the_site_overrides_that_of_the_tenant(pools):
    for site_id, address in (("", "10.9.0.1"), (SITE, "10.8.0.1")):
        pools.put("guests", [address], site_id=site_id)
        assert address_of(pools.mab(DEVICES[0])) == address


def test_rule_in_monitor_mode_uses_the_fallbacks_pool(cell, pools):
    pools.put("small", ["10.7.0.1"])
    for mac in DEVICES[:2]:
        pools.device(mac, "trial")
    replies = [pools.mab(mac) for mac in DEVICES[:2]]
    assert [reply.code for reply in replies] == ["Access-Accept"] * 2
    assert [address_of(reply) for reply in replies] == ["10.7.0.1", None]
    assert [cell.decision(mac=mac).reason for mac in DEVICES[:2]] == ["rule-permitted", "pool-exhausted"]


def test_pools_of_one_tenant_are_unused_at_another(cell, pools):
    pools.put("guests", ["10.9.0.1"])
    decide_by_document(cell, cell.bravo)
    pools.tenant = cell.bravo
    assert pools.mab(DEVICES[0]).code == "Access-Reject"
    assert cell.decision(mac=DEVICES[0]).detail == "pool 'guests' does not exist"

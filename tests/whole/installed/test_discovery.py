"""From the first packet to a decision by device profile, through radiusd, agent, PostgreSQL and worker."""

import json
import secrets

import pytest

from loadtest.bench_tenants import BenchTenants, ProvisionedTenant
from loadtest.tenants import GROUPS, BenchEndpoint, BenchTenant
from loadtest.workloads import BENCH_NAS, calling_station
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, encode_attribute
from tests.polling import until
from tests.whole.conftest import publish_policy
from tests.whole.instance import Instance
from tests.whole.nas_packets import NasPackets

pytestmark = pytest.mark.early

# Interim-Update (RFC 2866 5.1).
_INTERIM = 3


@pytest.fixture(scope="module")
def two(instance: Instance) -> tuple[ProvisionedTenant, ProvisionedTenant]:
    maker = BenchTenants(instance.installation, instance.home, print)
    alpha, bravo = (
        maker.provision(BenchTenant(slug, [BenchEndpoint(f"02f0{number:08x}", GROUPS[0])]))
        for number, slug in enumerate(("live-alpha", "live-bravo"))
    )
    for made in (alpha, bravo):
        maker.wait_live(made)
    return alpha, bravo


def when(attribute, value, operator="equals"):
    return {"attribute": attribute, "operator": operator, "value": value}


def new_printer() -> str:
    """The MAC address of a new printer, which no earlier test has used."""
    return "001ba9" + secrets.token_hex(3)


class Tenant:
    def __init__(self, instance: Instance, made: ProvisionedTenant) -> None:
        self._instance = instance
        self.made = made
        self._of = ("--tenant", made.tenant.slug)

    def admit(self, *arguments: str) -> object:
        done = self._instance.admit(*arguments, *self._of, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def decide_by(self, condition: object) -> None:
        """Publish a policy with this condition. Returns when the cell has applied it."""
        rule = {"id": "r", "name": "r", "when": condition, "then": {"verdict": "permit", "vlan": "20"}}
        publish_policy(self._instance, self.made, {"rules": [rule]})

    def shown(self, mac: str) -> dict:
        return self.admit("endpoint", "show", mac)

    def found_confidence(self, mac: str) -> int | None:
        """The confidence of the detected profile, None before the discovery. It is read without a command."""
        found = "SELECT found_confidence FROM endpoints WHERE tenant_id = %s AND mac = %s::macaddr"
        rows = self._instance.query(found, self.made.tenant_id, mac)
        return rows[0][0] if rows else None


@pytest.fixture
def alpha(instance, two) -> Tenant:
    return Tenant(instance, two[0])


@pytest.fixture
def bravo(instance, two) -> Tenant:
    return Tenant(instance, two[1])


def send_sensor_data(made: ProvisionedTenant, wire: NasPackets, mac: str, *options: bytes) -> None:
    """Send an Interim-Update with data of Cisco's device sensor."""
    body = encode_attribute(packet.ACCT_STATUS_TYPE, _INTERIM)
    body += encode_attribute(packet.ACCT_SESSION_ID, secrets.token_hex(4))
    body += encode_attribute(packet.USER_NAME, mac) + calling_station(mac) + BENCH_NAS.attributes()
    for value in options:
        vendor = (9).to_bytes(4, "big") + bytes((1, len(value) + 2)) + value
        body += encode_attribute(26, vendor)
    assert wire.exchange(packet.make_accounting_request(7, body, made.target.secret), acct=True)


@pytest.mark.long
def test_device_is_admitted_by_vendor_soon_after_first_seen(alpha, bravo):
    for tenant in (alpha, bravo):
        tenant.decide_by(when("endpoint.vendor", "Brother", "starts_with"))
    mac = new_printer()
    with NasPackets(alpha.made) as wire, NasPackets(bravo.made) as other:
        assert wire.verdict(mac) == ACCESS_REJECT
        until(lambda: wire.is_admitted(mac), "the vendor is live")
        # The other tenant has not seen the device.
        assert other.verdict(mac) == ACCESS_REJECT
        until(lambda: other.is_admitted(mac), "the vendor is live there, too")
    (listed,) = [row for row in alpha.admit("endpoint", "inbox") if row["mac"].replace(":", "") == mac]
    assert (listed["vendor"], listed["site"], listed["method"]) == ("Brother industries, LTD.", "main", "mab")
    assert alpha.admit("endpoint", "classify", mac, "--block")["items"][0]["mac"] == listed["mac"]
    with NasPackets(alpha.made) as wire, NasPackets(bravo.made) as other:
        assert wire.verdict(mac) == ACCESS_REJECT
        assert other.verdict(mac) == ACCESS_ACCEPT


def test_switch_data_sets_the_profile_and_the_group(alpha, tmp_path):
    group = f"sure-printers-{secrets.token_hex(3)}"
    rule = tmp_path / "rule.json"
    condition = {"all": [when("endpoint.profile", "printer"), when("endpoint.profile.confidence", 80, "greater_than")]}
    rule.write_text(json.dumps(condition))
    rule.chmod(0o644)
    alpha.admit("endpoint-group", "add", group)
    alpha.admit("endpoint-group", "set", group, "--rule", str(rule))
    alpha.decide_by(when("endpoint.group", group))
    mac = new_printer()
    with NasPackets(alpha.made) as wire:
        assert wire.verdict(mac) == ACCESS_REJECT
        until(lambda: alpha.found_confidence(mac) == 50, "the vendor alone is half sure")
        assert alpha.shown(mac)["profile_confidence"] == 50
        assert wire.verdict(mac) == ACCESS_REJECT
        options = (b"dhcp-option=\0\x0c\0\x09BRW001BA9", b"dhcp-option=\0\x3c\0\x07Brother")
        send_sensor_data(alpha.made, wire, mac, *options)
        until(lambda: wire.is_admitted(mac), "the group by rule is live")
    shown = alpha.shown(mac)
    assert (shown["profile"], shown["status"]) == ("printer", "discovered")
    found = alpha.admit("endpoint", "findings", mac)
    assert {(each["source"], each["key"], each["value"]) for each in found["evidence"]} == {
        ("dhcp", "hostname", "BRW001BA9"),
        ("dhcp", "class", "Brother"),
    }
    assert list(found["groups_by_rule"]) == [group]

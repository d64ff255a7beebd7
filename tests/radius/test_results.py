"""Responses of a real radiusd: vendor-specific results, quarantine, monitor mode, passphrases."""

import json
import uuid

import msgspec
import pytest

from nac.cellformat.replica import keys
from nac.cellformat.replica.records import EndpointRecord, NasRecord, PolicyRecord, SiteRecord
from nac.kit import radius_packet as packet
from tests.radius.nas import Nas, joined, radclient
from tests.radius.supplicant import eap_tls
from tests.radius.tenants import BLOCKED, PASSWORD, PRINTER
from tests.vendors.samples import PMK

VENDORS = (
    "aruba",
    "Cisco Systems",
    "cisco-wlc",
    "juniper",
    "mikrotik",
    "meraki",
    "ruckus",
    "unifi",
    "fortinet",
    "acme",
)
PASSPHRASE, SSID = "correct horse battery", "IoT"
WITH_PASSPHRASE, WITHOUT = "02a0c00000f1", "02a0c00000f2"
STAFF_PC, SICK, ENTRIES, TRIAL, NOBODY = (f"02a0c00000e{number}" for number in range(5))
DEVICES = {"staff": STAFF_PC, "sick": SICK, "entries": ENTRIES, "trial": TRIAL, "nobody": NOBODY}


def group(name):
    return {"attribute": "endpoint.group", "operator": "equals", "value": name}


def rule(name, then, **more):
    return {"id": name, "name": f"Rule {name}", "when": group(name), "then": then, **more}


DOCUMENT = {
    "profiles": {
        "staff": {"vlan": "40", "role": "staff", "session_timeout": 3600, "reauthenticate": True},
        "quarantine": {"vlan": "666", "session_timeout": 600},
    },
    "rules": [
        rule("staff", {"verdict": "permit", "profile": "staff"}),
        rule("sick", {"verdict": "quarantine"}),
        rule("entries", {"verdict": "permit", "downloadable_acl": {"entries": {
            "cisco": ["permit udp any any eq 53", "deny ip any any"],
            "juniper": ["match destination-ip 192.0.2.0/24 action allow"],
            "fortinet": ["permit in ip from any to 192.0.2.0/24", "deny in ip from any to any"],
        }}}),
        rule("things", {"verdict": "permit", "psk": "endpoint"}),
        rule("printers", {"verdict": "deny"}),
        rule("trial", {"verdict": "deny"}, monitor=True),
        {
            "id": "password",
            "name": "By password",
            "when": {"attribute": "method", "operator": "one_of", "value": ["pap", "eap-tls"]},
            "then": {"verdict": "permit", "vlan": "30"},
        },
    ],
    "fallback": {"verdict": "deny"},
}  # fmt: skip


class World:
    """Alpha with a NAS of each vendor, and a device in each group."""

    def __init__(self, cell, replica):
        self.cell, self.replica, self.tenant = cell, replica, cell.alpha

    def fill(self, **site):
        alpha = self.tenant
        with self.replica.begin() as batch:
            batch.put_policy(alpha.number, PolicyRecord(alpha.policy_id, "Office", 8, json.dumps(DOCUMENT).encode()))
            batch.put_site(alpha.number, SiteRecord(alpha.site_id, "Head office", alpha.policy_id, **site))
            for vendor in VENDORS:
                record = NasRecord(str(uuid.uuid4()), vendor, alpha.site_id, vendor.casefold())
                batch.put_nas(keys.by_identifier(alpha.number, vendor), record)
            for name, mac in DEVICES.items():
                self._device(batch, mac, name)
            self._device(batch, WITH_PASSPHRASE, "things", PASSPHRASE)
            self._device(batch, WITHOUT, "things")
        return self

    def _device(self, batch, mac, group_name, passphrase=""):
        name = str(uuid.uuid4())
        context = f"endpoint-psk:{name}"
        sealed = self.cell.sealer.seal(passphrase.encode(), context) if passphrase else b""
        record = EndpointRecord(
            name, group_name, "active", (group_name,), 0, {}, sealed_psk=sealed, psk_context=context
        )
        batch.put_endpoint(self.tenant.number, mac, record)

    def mab(self, vendor, device, *more):
        mac = DEVICES.get(device, device)
        lines = (f'User-Name="{mac}"', f'User-Password="{mac}"', f'Calling-Station-Id="{mac}"')
        called = f'Called-Station-Id="00-10-A4-23-19-C0:{SSID}"'
        return radclient(self.tenant, *lines, f'NAS-Identifier="{vendor}"', called, *more)


@pytest.fixture
def world(cell, replica):
    return World(cell, replica).fill()


@pytest.fixture
def monitored(cell, replica):
    return World(cell, replica).fill(monitor=True)


VLAN_40 = {"Tunnel-Type:1": "VLAN", "Tunnel-Medium-Type:1": "IEEE-802", "Tunnel-Private-Group-Id:1": "40"}
STAFF = {"Session-Timeout": "3600", "Termination-Action": "RADIUS-Request"}


@pytest.mark.parametrize(
    ("vendor", "own"),
    [
        ("aruba", {"Aruba-User-Role": "staff"}),
        ("Cisco Systems", {"Cisco-AVPair": "subscriber:service-name=staff"}),
        (
            "mikrotik",
            {"Mikrotik-Group": "staff", "Mikrotik-Wireless-VLANID": "40", "Mikrotik-Wireless-VLANID-Type": "802.1q"},
        ),
        ("nobody registered this one", {"Filter-Id": "staff"}),
    ],
)
def test_results_have_the_format_of_the_nas_vendor(world, vendor, own):
    reply = world.mab(vendor, "staff")
    assert reply.code == "Access-Accept", reply.output
    got = {name: value for name, value in reply.attributes.items() if name != "Message-Authenticator"}
    assert got == VLAN_40 | STAFF | own
    record = world.cell.decision()
    assert (record.permitted, record.verdict, record.monitored, record.vlan) == (True, "permit", "", "40")


def test_unsupported_result_is_a_reject_with_its_reason(world):
    assert world.mab("unifi", "staff").code == "Access-Reject"
    record = world.cell.decision()
    assert (record.permitted, record.verdict, record.reason) == (False, "deny", "result-not-supported")
    assert (record.rule_id, record.detail) == ("staff", "role: UniFi: roles by RADIUS are not supported; use vlan")


def lines_of(reply, attribute):
    return [line.partition(" = ")[2].strip('"') for line in reply.output.splitlines() if f"\t{attribute} = " in line]


def test_downloadable_acl_reaches_each_vendor_in_its_order(world):
    cisco = world.mab("Cisco Systems", "entries")
    assert lines_of(cisco, "Cisco-AVPair") == ["ip:inacl#10=permit udp any any eq 53", "ip:inacl#20=deny ip any any"]
    juniper = world.mab("juniper", "entries")
    assert lines_of(juniper, "Juniper-Switching-Filter") == ["match destination-ip 192.0.2.0/24 action allow"]
    assert world.mab("aruba", "entries").code == "Access-Reject"


def test_filter_rules_are_separate_in_the_packet(world):
    """`radiusd` separates the rules with a NUL octet (RFC 4849 2), and radclient removes it."""
    asked = [(packet.USER_NAME, ENTRIES), (packet.CALLING_STATION_ID, ENTRIES), (packet.NAS_IDENTIFIER, "fortinet")]
    reply = Nas(world.tenant).ask(joined(asked), password=ENTRIES.encode())
    rules = [value for number, value in packet.parse_attributes(reply) if number == 92]
    assert rules == [b"permit in ip from any to 192.0.2.0/24\0deny in ip from any to any"]


def test_quarantine_is_an_accept_with_its_profile_and_a_flag(world):
    reply = world.mab("aruba", "sick")
    assert (reply.code, reply.attributes["Tunnel-Private-Group-Id:1"]) == ("Access-Accept", "666")
    assert reply.attributes["Session-Timeout"] == "600"
    record = world.cell.decision()
    assert (record.permitted, record.verdict, record.reason) == (True, "quarantine", "rule-quarantined")


@pytest.mark.parametrize(
    ("vendor", "attribute", "value"),
    [
        ("meraki", "Tunnel-Password:0", PASSPHRASE),
        ("aruba", "Aruba-MPSK-Passphrase", "0x" + PASSPHRASE.encode().hex()),
        ("ruckus", "Ruckus-DPSK", "0x00" + PMK),
        ("cisco-wlc", "Cisco-AVPair", f"psk={PASSPHRASE}"),
    ],
)
def test_passphrase_reaches_the_access_point_and_no_log(world, vendor, attribute, value):
    reply = world.mab(vendor, WITH_PASSPHRASE)
    assert reply.code == "Access-Accept", reply.output
    assert value in lines_of(reply, attribute)
    record = world.cell.decision()
    name = attribute.removesuffix(":0") if attribute != "Tunnel-Password:0" else attribute
    assert (name, "(hidden)") in [(pair[0], pair[2]) for pair in record.reply]
    assert PASSPHRASE not in str(record)
    assert PMK not in str(record)


def test_monitored_rule_admits_and_logs_its_result(world):
    reply = world.mab("aruba", "trial")
    assert (reply.code, set(reply.attributes)) == ("Access-Accept", {"Message-Authenticator"})
    record = world.cell.decision()
    assert (record.permitted, record.verdict, record.monitored) == (True, "deny", "rule")
    assert (record.reason, record.rule_id, record.reply) == ("rule-denied", "trial", ())


@pytest.mark.parametrize(
    ("device", "verdict", "reason"),
    [
        (PRINTER, "deny", "rule-denied"),
        ("staff", "permit", "rule-permitted"),
        ("sick", "quarantine", "rule-quarantined"),
        ("nobody", "deny", "fallback-denied"),
        ("02a0c0abcdef", "deny", "unknown-mac"),
        (WITHOUT, "deny", "no-passphrase"),
    ],
)
def test_monitored_site_admits_and_logs_the_policy_result(monitored, device, verdict, reason):
    reply = monitored.mab("aruba", device)
    assert (reply.code, set(reply.attributes)) == ("Access-Accept", {"Message-Authenticator"})
    record = monitored.cell.decision()
    assert (record.permitted, record.verdict, record.monitored, record.reason) == (True, verdict, "site", reason)
    assert (record.vlan, record.reply) == ("", ())


def test_monitored_site_admits_with_its_fallback(cell, replica):
    fallback = json.dumps({"verdict": "permit", "vlan": "77", "role": "all"}).encode()
    world = World(cell, replica).fill(monitor=True, fallback=fallback)
    reply = world.mab("aruba", PRINTER)
    assert (reply.attributes["Tunnel-Private-Group-Id:1"], reply.attributes["Aruba-User-Role"]) == ("77", "all")
    record = cell.decision()
    assert (record.verdict, record.reason, record.vlan, record.monitored) == ("deny", "rule-denied", "77", "site")


@pytest.mark.parametrize(
    ("vendor", "fallback", "device", "reason", "detail"),
    [
        ("unifi", {"acl": "GUEST"}, PRINTER, "result-not-supported", "fallback: acl: "),
        ("unifi", {"acl": "GUEST"}, "nobody", "result-not-supported", "fallback: acl: "),
        ("cisco-wlc", {"psk": "endpoint"}, PRINTER, "no-passphrase", "no passphrase is stored"),
    ],
)
def test_monitored_site_admits_with_all_fallback_results(cell, replica, vendor, fallback, device, reason, detail):
    document = json.dumps({"verdict": "permit", **fallback}).encode()
    world = World(cell, replica).fill(monitor=True, fallback=document)
    assert world.mab(vendor, device).code == "Access-Reject"
    record = cell.decision()
    assert (record.permitted, record.verdict, record.monitored, record.reason) == (False, "deny", "", reason)
    assert record.detail.startswith(detail)


def test_monitored_site_without_a_policy_admits_and_logs_it(monitored):
    alpha = monitored.tenant
    with monitored.replica.begin() as batch:
        batch.put_site(alpha.number, SiteRecord(alpha.site_id, "Head office", "", monitor=True))
    assert monitored.mab("aruba", PRINTER).code == "Access-Accept"
    record = monitored.cell.decision()
    assert (record.permitted, record.verdict, record.reason) == (True, "deny", "no-policy")


def test_site_taken_out_of_monitor_mode_enforces_at_once(monitored):
    assert monitored.mab("aruba", PRINTER).code == "Access-Accept"
    alpha = monitored.tenant
    with monitored.replica.begin() as batch:
        batch.put_site(alpha.number, SiteRecord(alpha.site_id, "Head office", alpha.policy_id))
    assert monitored.mab("aruba", PRINTER).code == "Access-Reject"


def test_monitor_mode_admits_no_blocked_device(monitored):
    assert monitored.mab("aruba", BLOCKED).code == "Access-Reject"
    record = monitored.cell.decision()
    assert (record.permitted, record.verdict, record.monitored, record.reason) == (
        False,
        "deny",
        "",
        "endpoint-blocked",
    )


def test_monitor_mode_admits_no_wrong_password(monitored):
    wrong = radclient(monitored.tenant, 'User-Name="anna"', 'User-Password="x"', 'NAS-Identifier="aruba"')
    assert wrong.code == "Access-Reject"
    assert monitored.cell.decision(reason="wrong-password").verdict == "deny"
    right = radclient(monitored.tenant, 'User-Name="anna"', f'User-Password="{PASSWORD}"', 'NAS-Identifier="aruba"')
    assert right.code == "Access-Accept"


@pytest.mark.parametrize("name", ["revoked", "expired", "unknown"])
def test_monitor_mode_admits_no_bad_certificate(monitored, name):
    assert not eap_tls(monitored.tenant, monitored.tenant.clients[name]).run().accepted
    (record,) = monitored.cell.decisions()
    assert (record.permitted, record.monitored, record.verdict) == (False, "", "deny")
    assert record.reason.startswith("certificate-")


def test_monitor_mode_rejects_suspended_tenants(monitored):
    with monitored.replica.begin() as batch:
        batch.put_slot(monitored.tenant.slot, monitored.tenant.slot_record(status="suspended"))
    assert monitored.mab("aruba", PRINTER).code == "Access-Reject"
    assert monitored.cell.decision().reason == "tenant-suspended"


def test_monitor_mode_rejects_rate_limited_devices(monitored):
    with monitored.replica.begin() as batch:
        batch.put_slot(monitored.tenant.slot, monitored.tenant.slot_record(failure_limit=1))
    assert monitored.mab("flooded switch", BLOCKED).code == "Access-Reject"
    assert monitored.mab("flooded switch", BLOCKED).code == "Access-Reject"
    assert [record.reason for record in monitored.cell.decisions()] == ["endpoint-blocked", "rate-limited"]
    assert {record.verdict for record in monitored.cell.decisions()} == {"deny"}


def put_branch(world, *, seconds, behind_nat):
    """Write a NAS "branch" that may be behind NAT. The tenant limits sessions behind NAT to `seconds`."""
    alpha = world.tenant
    with world.replica.begin() as batch:
        batch.put_slot(alpha.slot, msgspec.structs.replace(alpha.slot_record(), nat_session_seconds=seconds))
        record = NasRecord(str(uuid.uuid4()), "Branch", alpha.site_id, "cisco", behind_nat)
        batch.put_nas(keys.by_identifier(alpha.number, "branch"), record)


@pytest.mark.parametrize(("seconds", "expected"), [(600, "600"), (7200, "3600")])
def test_shorter_of_policy_and_nat_timeouts_applies(world, seconds, expected):
    put_branch(world, seconds=seconds, behind_nat=True)
    reply = world.mab("branch", "staff")
    assert reply.attributes["Session-Timeout"] == expected
    assert reply.attributes["Termination-Action"] == "RADIUS-Request"
    assert reply.output.count("Session-Timeout") == 1


@pytest.mark.parametrize(("seconds", "behind_nat"), [(300, True), (0, True), (300, False)])
def test_only_sessions_behind_nat_get_its_timeout(world, seconds, behind_nat):
    """NASes behind NAT receive no Disconnect-Request. A tenant can therefore limit their sessions to a short time."""
    put_branch(world, seconds=seconds, behind_nat=behind_nat)
    reply = radclient(world.tenant, 'User-Name="anna"', f'User-Password="{PASSWORD}"', 'NAS-Identifier="branch"')
    assert reply.code == "Access-Accept"
    timeouts = {name: reply.attributes.get(name) for name in ("Session-Timeout", "Termination-Action")}
    short = {"Session-Timeout": "300", "Termination-Action": "RADIUS-Request"}
    assert timeouts == (short if seconds and behind_nat else dict.fromkeys(short))

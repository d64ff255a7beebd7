"""Responses of a real radiusd: vendor-specific results, quarantine, monitor mode, passphrases."""

import json
import uuid

import pytest

from nac.cellformat.replica import keys
from nac.cellformat.replica.records import EndpointRecord, NasRecord, SiteRecord
from nac.kit import radius_packet as packet
from tests.engine.builders import compare, policy_of, rule
from tests.radius.nas import Nas, named, plain_login
from tests.radius.supplicant import eap_tls
from tests.radius.tenants import BLOCKED, PASSWORD, PRINTER
from tests.vendors.samples import PMK

VENDORS = ["aruba", "Cisco", "cisco-wlc", "juniper", "mikrotik", "meraki", "ruckus", "unifi", "fortinet", "acme"]
PASSPHRASE, SSID = "correct horse battery", "IoT"
WITH_PASSPHRASE, WITHOUT = "02a0c00000f1", "02a0c00000f2"
STAFF_PC, SICK, ENTRIES, TRIAL, NOBODY = (f"02a0c00000e{number}" for number in range(5))
DEVICES = {"staff": STAFF_PC, "sick": SICK, "entries": ENTRIES, "trial": TRIAL, "nobody": NOBODY}


def group_rule(name, then, **more):
    return rule(name, compare("endpoint.group", "equals", name), then) | more


DOCUMENT = policy_of(
    group_rule("staff", {"verdict": "permit", "profile": "staff"}),
    group_rule("sick", {"verdict": "quarantine"}),
    group_rule("entries", {"verdict": "permit", "downloadable_acl": {"entries": {
        "cisco": ["permit udp any any eq 53", "deny ip any any"],
        "juniper": ["match destination-ip 192.0.2.0/24 action allow"],
        "fortinet": ["permit in ip from any to 192.0.2.0/24", "deny in ip from any to any"],
    }}}),
    group_rule("things", {"verdict": "permit", "psk": "endpoint"}),
    group_rule("printers", {"verdict": "deny"}),
    group_rule("trial", {"verdict": "deny"}, monitor=True),
    rule("password", compare("method", "one_of", ["pap", "eap-tls"]), {"verdict": "permit", "vlan": "30"}),
    profiles={
        "staff": {"vlan": "40", "role": "staff", "session_timeout": 3600, "reauthenticate": True},
        "quarantine": {"vlan": "666", "session_timeout": 600},
    },
    fallback={"verdict": "deny"},
)  # fmt: skip


class World:
    """Alpha with a NAS of each vendor, and a device in each group."""

    def __init__(self, cell, **site):
        self.cell, self.tenant = cell, cell.alpha
        cell.set_policy(DOCUMENT)
        self.put_site(**site)
        with cell.changes() as batch:
            for vendor in VENDORS:
                record = NasRecord(str(uuid.uuid4()), vendor, cell.alpha.site_id, vendor.casefold())
                batch.put_nas(keys.by_identifier(cell.alpha.number, vendor), record)
            for name, mac in (*DEVICES.items(), ("things", WITH_PASSPHRASE), ("things", WITHOUT)):
                endpoint_id = str(uuid.uuid4())
                context = f"endpoint-psk:{endpoint_id}"
                sealed = cell.sealer.seal(PASSPHRASE.encode(), context) if mac == WITH_PASSPHRASE else b""
                secret = {"sealed_psk": sealed, "psk_context": context}
                record = EndpointRecord(endpoint_id, name, "active", (name,), 0, {}, **secret)
                batch.put_endpoint(cell.alpha.number, mac, record)

    def put_site(self, **settings):
        alpha = self.tenant
        record = SiteRecord(alpha.site_id, "Head office", **{"policy_id": alpha.policy_id} | settings)
        with self.cell.changes() as batch:
            batch.put_site(alpha.number, record)

    def mab(self, vendor, device):
        mac = DEVICES.get(device, device)
        called = f'Called-Station-Id="00-10-A4-23-19-C0:{SSID}"'
        return plain_login(self.tenant, "pap", mac, mac, f'NAS-Identifier="{vendor}"', called, station=mac)


@pytest.fixture
def world(cell):
    return World(cell)


@pytest.fixture
def monitored(cell):
    return World(cell, monitor=True)


VLAN_40 = {"Tunnel-Type:1": "VLAN", "Tunnel-Medium-Type:1": "IEEE-802", "Tunnel-Private-Group-Id:1": "40"}
STAFF = {"Session-Timeout": "3600", "Termination-Action": "RADIUS-Request"}


@pytest.mark.parametrize(
    ("vendor", "own"),
    [
        ("aruba", {"Aruba-User-Role": "staff"}),
        ("Cisco", {"Cisco-AVPair": "subscriber:service-name=staff"}),
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
    assert {**reply.attributes, "Message-Authenticator": ""} == {**VLAN_40, **STAFF, **own, "Message-Authenticator": ""}
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
    cisco = world.mab("Cisco", "entries")
    assert lines_of(cisco, "Cisco-AVPair") == ["ip:inacl#10=permit udp any any eq 53", "ip:inacl#20=deny ip any any"]
    juniper = world.mab("juniper", "entries")
    assert lines_of(juniper, "Juniper-Switching-Filter") == ["match destination-ip 192.0.2.0/24 action allow"]
    assert world.mab("aruba", "entries").code == "Access-Reject"


def test_filter_rules_are_separate_in_the_packet(world):
    """`radiusd` separates the rules with a NUL octet (RFC 4849 2), and radclient removes it."""
    asked = named(ENTRIES, ENTRIES, (packet.NAS_IDENTIFIER, "fortinet"))
    reply = Nas(world.tenant).ask(asked, password=ENTRIES.encode())
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


def test_monitored_site_admits_with_its_fallback(cell):
    fallback = json.dumps({"verdict": "permit", "vlan": "77", "role": "all"}).encode()
    reply = World(cell, monitor=True, fallback=fallback).mab("aruba", PRINTER)
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
def test_monitored_site_admits_with_all_fallback_results(cell, vendor, fallback, device, reason, detail):
    document = json.dumps({"verdict": "permit", **fallback}).encode()
    assert World(cell, monitor=True, fallback=document).mab(vendor, device).code == "Access-Reject"
    record = cell.decision()
    assert (record.permitted, record.verdict, record.monitored, record.reason) == (False, "deny", "", reason)
    assert record.detail.startswith(detail)


def test_monitored_site_without_a_policy_admits_and_logs_it(monitored):
    monitored.put_site(policy_id="", monitor=True)
    assert monitored.mab("aruba", PRINTER).code == "Access-Accept"
    record = monitored.cell.decision()
    assert (record.permitted, record.verdict, record.reason) == (True, "deny", "no-policy")


def test_site_taken_out_of_monitor_mode_enforces_at_once(monitored):
    assert monitored.mab("aruba", PRINTER).code == "Access-Accept"
    monitored.put_site()
    assert monitored.mab("aruba", PRINTER).code == "Access-Reject"


def present_certificate(world, name):
    return "Access-Accept" if eap_tls(world.tenant, world.tenant.clients[name]).run().accepted else "Access-Reject"


@pytest.mark.parametrize(
    ("settings", "log_in", "reason"),
    [
        ({}, lambda world: world.mab("aruba", BLOCKED).code, "endpoint-blocked"),
        ({}, lambda world: plain_login(world.tenant, "pap", "anna", "x").code, "wrong-password"),
        ({}, lambda world: present_certificate(world, "revoked"), "certificate-revoked"),
        ({}, lambda world: present_certificate(world, "expired"), "certificate-expired"),
        ({}, lambda world: present_certificate(world, "unknown"), "certificate-unknown"),
        ({"status": "suspended"}, lambda world: world.mab("aruba", PRINTER).code, "tenant-suspended"),
    ],
    ids=["blocked", "password", "revoked", "expired", "unknown", "suspended"],
)
def test_monitor_mode_admits_no_invalid_login(monitored, settings, log_in, reason):
    monitored.cell.set_slot(**settings)
    assert log_in(monitored) == "Access-Reject"
    record = monitored.cell.decision()
    assert (record.permitted, record.monitored, record.verdict, record.reason) == (False, "", "deny", reason)


def test_monitor_mode_admits_a_right_password(monitored):
    assert plain_login(monitored.tenant, "pap", "anna", PASSWORD).code == "Access-Accept"


def test_monitor_mode_rejects_rate_limited_devices(monitored):
    monitored.cell.set_slot(failure_limit=1)
    for _ in range(2):
        assert monitored.mab("flooded switch", BLOCKED).code == "Access-Reject"
    found = [(record.reason, record.verdict) for record in monitored.cell.decisions()]
    assert found == [("endpoint-blocked", "deny"), ("rate-limited", "deny")]


@pytest.mark.parametrize(
    ("seconds", "behind_nat", "device", "expected"),
    [
        # The shorter of the timeouts of the policy and of NAT applies.
        (600, True, "staff", "600"),
        (7200, True, "staff", "3600"),
        (300, True, "", "300"),
        (0, True, "", None),
        (300, False, "", None),
    ],
)
def test_only_sessions_behind_nat_get_its_timeout(world, seconds, behind_nat, device, expected):
    """NASes behind NAT receive no Disconnect-Request. A tenant can therefore limit their sessions to a short time."""
    alpha = world.tenant
    world.cell.set_slot(nat_session_seconds=seconds)
    with world.cell.changes() as batch:
        record = NasRecord(str(uuid.uuid4()), "Branch", alpha.site_id, "cisco", behind_nat)
        batch.put_nas(keys.by_identifier(alpha.number, "branch"), record)
    if device:
        reply = world.mab("branch", device)
    else:
        reply = plain_login(alpha, "pap", "anna", PASSWORD, "NAS-Identifier=branch")
    assert reply.code == "Access-Accept"
    assert reply.attributes.get("Session-Timeout") == expected
    assert reply.attributes.get("Termination-Action") == (expected and "RADIUS-Request")
    assert reply.output.count("Session-Timeout") == bool(expected)

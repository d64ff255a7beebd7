"""Conditions of every kind in a real radiusd, which loads RE2 and time zones from its environment."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from nac.cellformat.replica.records import SiteRecord
from nac.kit.clock import utc_now
from nac.kit.radius_packet import ACCESS_REJECT, ACCT_SESSION_ID, ACCT_STATUS_TYPE, NAS_IDENTIFIER, encode_attribute
from tests.engine.builders import compare, policy_of, rule
from tests.radius.devices import VERSIONS, Device, is_resumed
from tests.radius.nas import Nas, joined

HOLD = (
    compare("certificate.common_name", "matches", "^lap(top)?$"),
    compare("certificate.san.dns", "in_domain", "Example."),
    compare("nas.address", "in_network", ["127.0.0.0/8", "::1"]),
    compare("time", "within", {"from": "00:00"}),
    compare("certificate.issuer.O", "equals", "ALPHA") | {"ignore_case": True},
    compare("tls.version", "one_of", ["1.2", "1.3"]),
    {"not": compare("identity.realm", "exists")},
    {"condition": "young"},
)
FAIL = (
    compare("certificate.common_name", "matches", "^lap$"),
    compare("certificate.san.dns", "in_domain", "op.example"),
    compare("nas.address", "in_network", "128.0.0.0/8"),
    compare("certificate.issuer.O", "equals", "ALPHA"),
    compare("certificate.age_days", "greater_than", 300),
    compare("mdm.compliant", "equals", True),
    {"not": {"condition": "young"}},
)
BERLIN, AUCKLAND = "Europe/Berlin", "Pacific/Auckland"
both_versions = pytest.mark.parametrize("version", VERSIONS)


def permit_if(cell, condition, version):
    named = {"young": compare("certificate.age_days", "at_most", 300)}
    document = policy_of(rule("r", condition, {"verdict": "permit", "vlan": "70"}), conditions=named)
    cell.set_policy(document, version=version)


@both_versions
def test_true_conditions_permit_and_false_ones_do_not(cell, version):
    device = Device(cell.alpha.clients["laptop"], version)
    permit_if(cell, {"all": list(HOLD)}, 40)
    device.visit(cell.alpha, vlan="70")
    permit_if(cell, {"any": list(FAIL)}, 41)
    device.visit(cell.alpha, expected=ACCESS_REJECT)
    assert [record.reason for record in cell.decisions()] == ["rule-permitted", "fallback-denied"]


def test_patterns_work_in_threads_that_have_served_accounting(cell):
    """The module runs as two instances, and RE2 has state in each thread. Mixed state would make radiusd hang."""
    permit_if(cell, compare("radius.NAS-Identifier", "matches", f"^{'x' * 20}$"), 42)
    attributes = encode_attribute(NAS_IDENTIFIER, "x" * 20)
    for number in range(16):
        session = joined([(ACCT_STATUS_TYPE, 1), (ACCT_SESSION_ID, f"session-{number}")])
        assert Nas(cell.alpha).account(session) is not None
        Device(cell.alpha.clients["laptop"], VERSIONS[0], attributes=attributes).visit(cell.alpha, vlan="70")


def window_around(moment, zone):
    """A window of four hours. Auckland is ten or more hours ahead of Berlin."""
    local = moment.astimezone(ZoneInfo(zone))
    begin, end = local - timedelta(hours=2), local + timedelta(hours=2)
    return {"from": f"{begin:%H:%M}", "to": f"{end:%H:%M}"}


def permit_within(cell, window, zone, version):
    permit_if(cell, compare("time", "within", window), version)
    alpha = cell.alpha
    with cell.changes() as batch:
        batch.put_site(alpha.number, SiteRecord(alpha.site_id, "Head office", alpha.policy_id, time_zone=zone))


@both_versions
def test_time_windows_use_the_sites_zone_on_each_visit(cell, version):
    device, now = Device(cell.alpha.clients["laptop"], version), utc_now()
    permit_within(cell, window_around(now, BERLIN), BERLIN, 50)
    device.visit(cell.alpha, vlan="70")
    # Only the site changes. The policy has the same version.
    permit_within(cell, window_around(now, BERLIN), AUCKLAND, 50)
    assert is_resumed(device.visit(cell.alpha, expected=ACCESS_REJECT))
    assert cell.decisions()[-1].reason == "fallback-denied"
    permit_within(cell, window_around(now, AUCKLAND), AUCKLAND, 51)
    device.visit(cell.alpha, vlan="70")
    # The window is over.
    permit_within(cell, window_around(now - timedelta(hours=3), AUCKLAND), AUCKLAND, 52)
    assert is_resumed(device.visit(cell.alpha, expected=ACCESS_REJECT))

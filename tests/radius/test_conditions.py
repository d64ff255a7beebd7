"""Conditions of every kind in a real radiusd, which loads RE2 and time zones from its environment."""

import pytest

from nac.kit.radius_packet import ACCESS_REJECT, ACCT_SESSION_ID, ACCT_STATUS_TYPE, NAS_IDENTIFIER, encode_attribute
from tests.engine.builders import compare, policy_of, rule
from tests.radius.devices import VERSIONS, Device
from tests.radius.nas import Nas

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


def put(cell, replica, condition, version):
    named = {"young": compare("certificate.age_days", "at_most", 300)}
    document = policy_of(rule("r", condition, {"verdict": "permit", "vlan": "70"}), conditions=named)
    with replica.begin() as batch:
        batch.put_policy(cell.alpha.number, cell.alpha.policy_record(document, version=version))


@pytest.mark.parametrize("version", VERSIONS)
def test_true_conditions_permit_and_false_ones_do_not(cell, replica, version):
    device = Device(cell.alpha.clients["laptop"], version)
    put(cell, replica, {"all": list(HOLD)}, 40)
    device.visit(cell.alpha, vlan="70")
    put(cell, replica, {"any": list(FAIL)}, 41)
    device.visit(cell.alpha, expected=ACCESS_REJECT)
    assert [record.reason for record in cell.decisions()] == ["rule-permitted", "fallback-denied"]


def test_patterns_work_in_threads_that_have_served_accounting(cell, replica):
    """The module runs as two instances, and RE2 has state in each thread. Mixed state would make radiusd hang."""
    put(cell, replica, compare("radius.NAS-Identifier", "matches", f"^{'x' * 20}$"), 42)
    for number in range(16):
        session = encode_attribute(ACCT_STATUS_TYPE, 1) + encode_attribute(ACCT_SESSION_ID, f"session-{number}")
        assert Nas(cell.alpha).account(session) is not None
        device = Device(
            cell.alpha.clients["laptop"], VERSIONS[0], attributes=encode_attribute(NAS_IDENTIFIER, "x" * 20)
        )
        device.visit(cell.alpha, vlan="70")

"""Discovered facts about a device apply with or without approval. Only approval makes the device known."""

import itertools
import json

import pytest

from nac.cellformat.replica.records import EndpointRecord, PolicyRecord
from nac.kit.radius_packet import CALLING_STATION_ID, USER_NAME, encode_attribute
from tests.radius.nas import Nas
from tests.radius.tenants import PASSWORD
from tests.radius.users import put_user

_numbers = itertools.count(1)
BROTHER = "Brother industries, LTD."
FOUND = {"vendor": BROTHER, "profile": "printer", "confidence": 72, "os": "linux", "first_seen": 99}


def rule(attribute, value, operator="equals"):
    return {"attribute": attribute, "operator": operator, "value": value}


@pytest.fixture
def ask(cell, replica):
    """Function that returns the decision about a device with this record. The policy has one condition."""

    def ask(when, *, status="discovered", groups=(), valid_until=0, at=None, **known):
        mac = f"001ba9{next(_numbers):06x}"
        document = {"rules": [{"id": "r", "name": "r", "when": when, "then": {"verdict": "permit"}}]}
        record = EndpointRecord("e", "Name", status, groups, valid_until, {}, **{**FOUND, **known})
        with replica.begin() as batch:
            for tenant in cell.tenants.values():
                policy = PolicyRecord(tenant.policy_id, "p", 1000 + next(_numbers), json.dumps(document).encode())
                batch.put_policy(tenant.number, policy)
            batch.put_endpoint(cell.alpha.number, mac, record)
        attributes = encode_attribute(USER_NAME, mac) + encode_attribute(CALLING_STATION_ID, mac)
        Nas(at or cell.alpha).ask(attributes, password=mac.encode())
        return cell.decision(mac=mac)

    return ask


@pytest.mark.parametrize("status", ["discovered", "ignored", "active"])
@pytest.mark.parametrize(
    ("when", "permitted"),
    [
        (rule("endpoint.vendor", "Brother", "starts_with"), True),
        (rule("endpoint.vendor", "Axis", "starts_with"), False),
        (rule("endpoint.profile", "printer"), True),
        (rule("endpoint.profile", "camera"), False),
        (rule("endpoint.profile.confidence", 71, "greater_than"), True),
        (rule("endpoint.profile.confidence", 72, "greater_than"), False),
        (rule("endpoint.os", "linux"), True),
        (rule("endpoint.first_seen_age", 365, "greater_than"), True),
    ],
)
def test_vendor_profile_and_system_apply_without_approval(ask, status, when, permitted):
    assert ask(when, status=status).permitted == permitted


@pytest.mark.parametrize(
    ("status", "valid_until", "known", "reason"),
    [
        ("active", 0, True, "rule-permitted"),
        ("discovered", 0, False, "unknown-mac"),
        ("ignored", 0, False, "unknown-mac"),
        ("active", 1, False, "endpoint-expired"),
    ],
)
def test_only_approval_makes_a_device_known(ask, status, valid_until, known, reason):
    decision = ask(rule("endpoint.known", True), status=status, valid_until=valid_until, groups=("printers",))
    assert (decision.permitted, decision.reason) == (known, reason)
    assert decision.facts["endpoint.known"] == (known,)
    assert ("endpoint.name" in decision.facts) == known


@pytest.mark.parametrize(
    ("status", "valid_until", "groups"),
    [("active", 0, ["chosen", "ruled"]), ("discovered", 0, ["ruled"]), ("active", 1, ["ruled"])],
)
def test_only_rule_groups_apply_without_approval(ask, status, valid_until, groups):
    members = {"groups": ("chosen",), "rule_groups": ("ruled",)}
    decision = ask(rule("endpoint.group", "ruled"), status=status, valid_until=valid_until, **members)
    assert decision.permitted
    assert sorted(decision.facts["endpoint.group"]) == groups


@pytest.mark.parametrize(("until", "permitted"), [(0, True), (4_000_000_000, True), (1, False)])
def test_posture_applies_until_it_is_stale(ask, until, permitted):
    decision = ask(rule("mdm.owner", "Anna"), status="active", posture={"mdm.owner": ("Anna", until)})
    assert decision.permitted == permitted


def test_facts_are_loaded_only_if_the_policy_uses_them(ask):
    facts = ask(rule("endpoint.vendor", BROTHER), posture={"mdm.owner": ("Anna", 0)}).facts
    assert {name for name in facts if name.startswith(("endpoint.", "mdm."))} == {"endpoint.known", "endpoint.vendor"}


def test_device_of_one_tenant_is_unknown_at_another(ask, cell):
    decision = ask(rule("endpoint.vendor", BROTHER), at=cell.bravo)
    assert (decision.tenant_id, decision.permitted) == (cell.bravo.tenant_id, False)


@pytest.mark.parametrize(
    ("live", "permitted"),
    # Without live sessions the count exists and is 0.
    [(0, True), (2, True), (3, False)],
)
def test_live_sessions_of_the_device_apply(ask, cell, replica, live, permitted):
    mac = f"001ba9{next(_numbers) + 1:06x}"
    if live:
        with replica.begin() as batch:
            batch.put_session_count(cell.alpha.number, f"m{mac}", live)
    decision = ask(rule("session.count.endpoint", 3, "less_than"))
    assert (decision.mac, decision.permitted) == (mac, permitted)
    assert decision.facts["session.count.endpoint"] == (live,)


def test_mac_address_name_has_no_user_sessions(ask, cell, replica):
    mac = f"001ba9{next(_numbers) + 1:06x}"
    with replica.begin() as batch:
        batch.put_session_count(cell.alpha.number, f"u{mac}", 5)
    decision = ask({"not": rule("session.count.user", 3, "at_least")})
    assert (decision.mac, decision.permitted) == (mac, True)
    assert "session.count.user" not in decision.facts


@pytest.mark.parametrize(("live", "permitted"), [(2, True), (3, False)])
def test_live_sessions_of_the_user_apply(cell, replica, live, permitted):
    name = f"user-{next(_numbers)}"
    document = {
        "rules": [
            {
                "id": "r",
                "name": "r",
                "when": rule("session.count.user", 3, "less_than"),
                "then": {"verdict": "permit"},
            }
        ]
    }
    with replica.begin() as batch:
        put_user(batch, cell, name, PASSWORD)
        batch.put_session_count(cell.alpha.number, f"u{name}", live)
        policy = PolicyRecord(cell.alpha.policy_id, "p", 1000 + next(_numbers), json.dumps(document).encode())
        batch.put_policy(cell.alpha.number, policy)
    # User names that differ only in case are one user.
    Nas(cell.alpha).ask(encode_attribute(USER_NAME, name.upper()), password=PASSWORD.encode())
    decision = cell.decision(identity=name.upper())
    assert (decision.permitted, decision.facts["session.count.user"]) == (permitted, (live,))

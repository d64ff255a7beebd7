"""Discovered facts about a device apply with or without approval. Only approval makes the device known."""

import itertools

import pytest

from nac.cellformat.replica.records import EndpointRecord
from tests.engine.builders import compare, policy_of, rule
from tests.radius.nas import Nas, log_in, named
from tests.radius.tenants import PASSWORD

_numbers = itertools.count(1)
BROTHER = "Brother industries, LTD."
FOUND = {"vendor": BROTHER, "profile": "printer", "confidence": 72, "os": "linux", "first_seen": 99}


def permit_if(cell, when):
    """Admit by this condition at both tenants."""
    with cell.changes() as batch:
        for tenant in cell.tenants.values():
            policy = tenant.policy_record(policy_of(rule("r", when)), version=1000 + next(_numbers))
            batch.put_policy(tenant.number, policy)


@pytest.fixture
def ask(cell):
    """Function that returns the decision about a device with this record. The policy has one condition."""

    def ask(when, *, status="discovered", groups=(), valid_until=0, at=None, sessions=None, **known):
        mac = f"001ba9{next(_numbers):06x}"
        permit_if(cell, when)
        record = EndpointRecord("e", "Name", status, groups, valid_until, {}, **{**FOUND, **known})
        with cell.changes() as batch:
            batch.put_endpoint(cell.alpha.number, mac, record)
            for key, count in (sessions or {}).items():
                batch.put_session_count(cell.alpha.number, f"{key}{mac}", count)
        Nas(at or cell.alpha).ask(named(mac, mac), password=mac.encode())
        return cell.decision(mac=mac)

    return ask


@pytest.mark.parametrize("status", ["discovered", "ignored", "active"])
@pytest.mark.parametrize(
    ("when", "permitted"),
    [
        (compare("endpoint.vendor", "starts_with", "Brother"), True),
        (compare("endpoint.vendor", "starts_with", "Axis"), False),
        (compare("endpoint.profile", "equals", "printer"), True),
        (compare("endpoint.profile", "equals", "camera"), False),
        (compare("endpoint.profile.confidence", "greater_than", 71), True),
        (compare("endpoint.profile.confidence", "greater_than", 72), False),
        (compare("endpoint.os", "equals", "linux"), True),
        (compare("endpoint.first_seen_age", "greater_than", 365), True),
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
    decision = ask(
        compare("endpoint.known", "equals", True), status=status, valid_until=valid_until, groups=("printers",)
    )
    assert (decision.permitted, decision.reason) == (known, reason)
    assert decision.facts["endpoint.known"] == (known,)
    assert ("endpoint.name" in decision.facts) == known


@pytest.mark.parametrize(
    ("status", "valid_until", "groups"),
    [("active", 0, ["chosen", "ruled"]), ("discovered", 0, ["ruled"]), ("active", 1, ["ruled"])],
)
def test_only_rule_groups_apply_without_approval(ask, status, valid_until, groups):
    members = {"groups": ("chosen",), "rule_groups": ("ruled",)}
    decision = ask(compare("endpoint.group", "equals", "ruled"), status=status, valid_until=valid_until, **members)
    assert decision.permitted
    assert sorted(decision.facts["endpoint.group"]) == groups


@pytest.mark.parametrize(("until", "permitted"), [(0, True), (4_000_000_000, True), (1, False)])
def test_posture_applies_until_it_is_stale(ask, until, permitted):
    decision = ask(compare("mdm.owner", "equals", "Anna"), status="active", posture={"mdm.owner": ("Anna", until)})
    assert decision.permitted == permitted


def test_facts_are_loaded_only_if_the_policy_uses_them(ask):
    facts = ask(compare("endpoint.vendor", "equals", BROTHER), posture={"mdm.owner": ("Anna", 0)}).facts
    assert {name for name in facts if name.startswith(("endpoint.", "mdm."))} == {"endpoint.known", "endpoint.vendor"}


def test_device_of_one_tenant_is_unknown_at_another(ask, cell):
    decision = ask(compare("endpoint.vendor", "equals", BROTHER), at=cell.bravo)
    assert (decision.tenant_id, decision.permitted) == (cell.bravo.tenant_id, False)


@pytest.mark.parametrize(
    ("live", "permitted"),
    # Without live sessions the count exists and is 0.
    [(0, True), (2, True), (3, False)],
)
def test_live_sessions_of_the_device_apply(ask, live, permitted):
    decision = ask(compare("session.count.endpoint", "less_than", 3), sessions={"m": live} if live else {})
    assert decision.permitted == permitted
    assert decision.facts["session.count.endpoint"] == (live,)


def test_mac_address_name_has_no_user_sessions(ask):
    decision = ask({"not": compare("session.count.user", "at_least", 3)}, sessions={"u": 5})
    assert decision.permitted
    assert "session.count.user" not in decision.facts


@pytest.mark.parametrize(("live", "permitted"), [(2, True), (3, False)])
def test_live_sessions_of_the_user_apply(cell, live, permitted):
    name = f"user-{next(_numbers)}"
    cell.put_user(name)
    permit_if(cell, compare("session.count.user", "less_than", 3))
    with cell.changes() as batch:
        batch.put_session_count(cell.alpha.number, f"u{name}", live)
    # User names that differ only in case are one user.
    log_in(cell.alpha, name.upper(), PASSWORD)
    decision = cell.decision(identity=name.upper())
    assert (decision.permitted, decision.facts["session.count.user"]) == (permitted, (live,))

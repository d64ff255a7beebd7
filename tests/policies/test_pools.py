"""Policies that assign addresses from pools: valid names, simulation and replay."""

import pytest

from nac.kit.errors import InUse
from nac.policies import service as policies
from nac.policies import site_settings
from nac.policies.document_checks import InvalidPolicy
from nac.policies.replays import replay_policy
from nac.policies.simulation import simulate, simulation_row
from nac.pools.service import create_pool, delete_pool
from nac.tenancy import sites
from tests.policies.documents import good, group_rule


def rule_with_pool(**pools):
    rule = group_rule()
    return {"rules": [{**rule, "then": rule["then"] | pools}], "fallback": {"verdict": "deny"}}


@pytest.fixture
def pool(do):
    def pool(name="guests", ranges=("10.9.0.0/24",), **more):
        return do(create_pool, name=name, ranges=ranges, **more)

    return pool


def mistakes(call, *arguments, **named):
    with pytest.raises(InvalidPolicy) as refused:
        call(*arguments, **named)
    return [(mistake.place, mistake.message) for mistake in refused.value.mistakes]


def test_unknown_or_invalid_pool_is_rejected(as_tenant):
    for key in ("ip_pool", "ipv6_pool", "delegated_pool"):
        document = rule_with_pool(**{key: "guests"})
        document["profiles"] = {"p": {key: "others"}}
        found = mistakes(as_tenant, policies.check_document, document=document)
        assert sorted(place for place, _ in found) == [f"profiles.p.{key}", f"rules[0].then.{key}"]
        assert all("unknown pool" in message and "createPool" in message for _, message in found)
    for name in ("Guests", 5):
        [(place, message)] = mistakes(as_tenant, policies.check_document, document=rule_with_pool(ip_pool=name))[:1]
        assert (place, "name of a pool" in message or "unknown pool" in message) == ("rules[0].then.ip_pool", True)


def test_pool_of_another_kind_is_rejected(as_tenant, pool):
    pool()
    pool("wan", ["2001:db8::/48"], kind="delegated")
    as_tenant(policies.check_document, document=rule_with_pool(ip_pool="guests", delegated_pool="wan"))
    [(place, message)] = mistakes(as_tenant, policies.check_document, document=rule_with_pool(ipv6_pool="wan"))
    assert place == "rules[0].then.ipv6_pool"
    assert "is of kind delegated, which does not support Framed-IPv6-Prefix" in message


def test_pool_of_another_site_is_rejected_on_publish(do, pool, publish):
    do(sites.create_site, slug="branch")
    pool(site="branch")
    found = mistakes(publish, rule_with_pool(ip_pool="guests"))
    assert found == [
        ("rules[0].then.ip_pool", "unknown pool 'guests' for site 'main'; create this object first: createPool")
    ]
    pool("guests", ["10.8.0.0/24"])
    assert publish(rule_with_pool(ip_pool="guests")).published_version


def test_fallback_of_a_site_may_name_only_existing_pools(do, pool):
    fallback = {"verdict": "permit", "ip_pool": "guests"}
    assert mistakes(do, site_settings.update_site, slug="main", fallback=fallback)[0][0] == "ip_pool"
    pool()
    do(site_settings.update_site, slug="main", fallback=fallback)
    with pytest.raises(InUse, match="fallback of site 'main'"):
        do(delete_pool, name="guests")


def test_pool_in_use_is_deleted_only_with_a_substitute(do, pool, publish):
    pool(site="main")
    publish(rule_with_pool(ip_pool="guests"))
    with pytest.raises(InUse, match="Policies use 'guests'"):
        do(delete_pool, name="guests", site="main")
    pool("guests", ["10.8.0.0/24"])
    assert do(delete_pool, name="guests", site="main") is True


def test_simulation_shows_the_pool_without_an_address(as_tenant, pool, publish):
    pool()
    publish(rule_with_pool(ip_pool="guests"))
    row = simulation_row(as_tenant(simulate, request={"method": "mab", "endpoint.group": ["printers"]}))
    assert row["pools"] == [{"attribute": "Framed-IP-Address", "pool": "guests"}]
    assert "Framed-IP-Address" not in [each["attribute"] for each in row["reply"]]


def test_address_of_the_rule_overrides_the_profiles_pool(as_tenant, pool):
    pool()
    document = rule_with_pool(profile="p", reply=[{"attribute": "Framed-IP-Address", "value": "10.1.1.1"}])
    document["profiles"] = {"p": {"ip_pool": "guests"}}
    row = simulation_row(
        as_tenant(simulate, document=document, request={"method": "mab", "endpoint.group": ["printers"]})
    )
    assert row["pools"] == []
    assert {"attribute": "Framed-IP-Address", "operator": ":=", "value": "10.1.1.1"} in row["reply"]


def test_another_pool_is_a_difference_in_replay(as_tenant, pool, publish, record):
    pool()
    pool("others", ["10.8.0.0/24"])
    policy = publish(rule_with_pool(ip_pool="guests"))
    record()
    options = {"days": 7, "policy_id": policy.id, "against": "published"}
    found = as_tenant(replay_policy, document=rule_with_pool(ip_pool="others"), **options)
    [difference] = found.differences
    assert (difference.before.pools, difference.after.pools) == (("guests",), ("others",))
    assert str(difference.after) == "permit by r, VLAN 20, pool others"
    # The log contains addresses. A different address is no difference.
    recorded = options | {"against": "recorded"}
    assert as_tenant(replay_policy, document=rule_with_pool(ip_pool="others"), **recorded).changed == 0
    assert as_tenant(replay_policy, document=good(), **options).changed == 1

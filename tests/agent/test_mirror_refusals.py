"""A row that the cell cannot parse: its device is denied, an alarm is raised, and other changes are applied."""

import json

import pytest

from nac.cellformat.replica import record_builder as compiling
from radius.agent.replica import pools
from tests.agent.mirrored_rows import (
    add_authority,
    add_certificate,
    add_endpoint,
    add_nas,
    add_policy,
    add_site,
    add_user,
)

MAC, NEXT = "001ba9010203", "001ba9010204"
# Values that the table accepts and that a record of the replica cannot hold.
POSTURE = json.dumps({"posture.disk": {"value": [1], "until": 0}})


def make_unreadable(owner, mac=MAC):
    owner.execute("UPDATE endpoints SET posture = %s WHERE mac = %s", (POSTURE, mac))


def test_unreadable_endpoint_is_denied_and_others_go_live(owner, alpha, make, replica, fresh_replica):
    bravo = make("bravo")
    add_endpoint(owner, alpha, MAC)
    replica.catch_up()
    make_unreadable(owner)
    add_endpoint(owner, alpha, NEXT)
    add_endpoint(owner, bravo, MAC)
    for each in (replica.catch_up(), fresh_replica()):
        with each.view as view:
            assert view.endpoint(alpha.number, MAC).status == "blocked"
            assert view.endpoint(alpha.number, NEXT).status == "active"
            assert view.endpoint(bravo.number, MAC).status == "active"
        (alarm,) = each.alarms.standing()
        assert alarm.tenant == alpha.number
        assert all(word in alarm.detail for word in ("endpoint", "00:1b:a9:01:02:03", str(alpha.id), "denied"))
    owner.execute("UPDATE endpoints SET posture = '{}'")
    with replica.catch_up().view as view:
        assert view.endpoint(alpha.number, MAC).status == "active"
    assert replica.alarms.standing() == []
    make_unreadable(owner)
    assert len(replica.catch_up().alarms.standing()) == 2
    owner.execute("DELETE FROM endpoints")
    assert replica.catch_up().alarms.standing() == []


def test_number_of_row_alarms_is_limited(owner, alpha, replica):
    for number in range(300):
        add_endpoint(owner, alpha, f"0200000{number:05x}")
    owner.execute("UPDATE endpoints SET posture = %s", (POSTURE,))
    standing = replica.catch_up().alarms.standing()
    assert len(standing) == 201
    assert standing[-1].code == "more-alarms"


def broken(*_args, **_given):
    raise KeyError("value")


@pytest.mark.parametrize("at_once", [True, False])
def test_feed_continues_after_any_unreadable_row(owner, alpha, replica, monkeypatch, at_once):
    """The code that mirrors each noun fails at its row, on full load and on changes."""
    if not at_once:
        replica.catch_up()
    policy_id = add_policy(owner, alpha)
    site_id = add_site(owner, alpha, policy_id=policy_id)
    nas_id = add_nas(owner, alpha, site_id, identifier="switch-1")
    add_user(owner, alpha, "anna")
    add_certificate(owner, alpha, add_authority(owner, alpha), b"\x0f")
    owner.execute(
        "INSERT INTO identity_sources (tenant_id, name, kind, settings) VALUES (%s, 'corp', 'ldap', '{}')", (alpha.id,)
    )
    owner.execute(
        "INSERT INTO pools (tenant_id, name, kind, ranges, prefix_length) "
        "VALUES (%s, 'p', 'ipv4', '{10.0.0.0/29}', 32)",
        (alpha.id,),
    )
    for name in ("policy", "site", "nas", "user", "certificate", "identity_source"):
        monkeypatch.setattr(compiling, f"{name}_record", broken)
    monkeypatch.setattr(pools, "put_pool", broken)
    add_endpoint(owner, alpha, MAC)
    replica.catch_up()
    with replica.view as view:
        assert view.endpoint(alpha.number, MAC).status == "active"
        assert view.policy(alpha.number, str(policy_id)) is None
        assert view.site(alpha.number, str(site_id)) is None
        assert view.nas_by_identifier(alpha.number, "switch-1") is None
        assert view.user(alpha.number, "anna").disabled
        assert view.certificate(alpha.number, "0f") is None
        (source,) = view.identity_sources(alpha.number)
        assert (source.name, source.document) == ("corp", b"")
    told = " ".join(alarm.detail for alarm in replica.alarms.standing())
    nouns = ("policy", "site", "nas", "user", "certificate", "identity-source", "pool")
    assert all(f"of {noun} of tenant {alpha.id}" in told for noun in nouns)
    monkeypatch.undo()
    owner.execute("UPDATE nases SET name = 'Other'")
    with replica.catch_up().view as view:
        assert view.nas_by_identifier(alpha.number, "switch-1").nas_id == str(nas_id)

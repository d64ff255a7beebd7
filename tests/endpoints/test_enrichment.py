"""The worker turns sightings into endpoints, vendors, profiles, and members of rule-based groups."""

from threading import Thread

import pytest
from sqlalchemy import select

from nac.core.audit import service as audit
from nac.inventory.endpoints import enrichment, group_rules
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.rule_conditions import InvalidRule
from nac.inventory.endpoints.service import expire_discovered
from nac.inventory.groups import ENDPOINT_GROUPS, GroupByRule
from nac.kit.db import PlatformScope, TenantScope, session_scope, set_process_engine
from nac.kit.errors import Conflict
from nac.models import Endpoint
from worker.jobs import endpoints as jobs

BROTHER, AXIS, PHONE = "001ba9010203", "00408c010203", "02aabbccddee"
HOSTNAME = ("dhcp", "hostname", "BRW001BA9")
TAKEN_AWAY = {"name": "all", "rule": None}


def rule(attribute, value, operator="equals"):
    return {"attribute": attribute, "operator": operator, "value": value}


def get_endpoint(session, mac=BROTHER):
    session.expire_all()
    return session.scalars(select(Endpoint).where(Endpoint.mac == mac)).one()


def members(session, tenant_id, name):
    session.expire_all()
    listed = endpoints.list_endpoints(session, tenant_id=tenant_id, wanted=endpoints.EndpointCriteria(group=name))
    return [endpoint.mac for endpoint, _ in listed]


def changes(owner):
    """Changes in the feed for cells."""
    return [key for (key,) in owner.execute("DELETE FROM replica_changes WHERE noun = 'endpoint' RETURNING key")]


def test_seen_address_is_discovered_with_vendor_and_profile(session, see, work):
    see(BROTHER, HOSTNAME)
    assert work() == 1
    endpoint = get_endpoint(session)
    assert (endpoint.status, endpoint.vendor) == ("discovered", "Brother industries, LTD.")
    assert (endpoint.found_profile, endpoint.found_confidence) == ("printer", 72)
    assert [reason["field"] for reason in endpoint.found_why] == ["vendor", "dhcp.hostname"]
    assert endpoint.first_seen_at is not None
    assert work() == 0


def test_discovery_affects_only_its_tenant(session, app_engine, two_tenants, see, work):
    see(BROTHER, of=two_tenants.bravo)
    assert work() == 0
    assert work(two_tenants.bravo) == 1
    assert session.scalars(select(Endpoint)).all() == []
    with session_scope(TenantScope(two_tenants.bravo), engine=app_engine) as other:
        assert get_endpoint(other).vendor == "Brother industries, LTD."


def test_only_tenants_with_work_are_processed(worker_engine, two_tenants, see, work):
    def tenants():
        with session_scope(PlatformScope(), engine=worker_engine) as session:
            return set(enrichment.list_tenants(session))

    assert tenants() == set()
    see(BROTHER, of=two_tenants.bravo)
    assert tenants() == {two_tenants.bravo}
    work(two_tenants.bravo)
    assert tenants() == set()


def test_new_evidence_updates_the_profile_once(session, owner, see, work):
    see(BROTHER)
    work()
    changes(owner)
    see(BROTHER, HOSTNAME)
    work()
    assert get_endpoint(session).found_confidence == 72
    assert changes(owner) == [BROTHER]
    see(BROTHER)
    work()
    assert changes(owner) == []


def test_approved_endpoint_is_profiled_and_keeps_user_values(session, change, see, work):
    change(endpoints.create_endpoint, mac=BROTHER, name="Printer")
    change(endpoints.update_endpoint, mac=BROTHER, profile="camera")
    see(BROTHER, HOSTNAME)
    work()
    endpoint = get_endpoint(session)
    assert (endpoint.status, endpoint.name, endpoint.profile, endpoint.found_profile) == (
        "active",
        "Printer",
        "camera",
        "printer",
    )


def test_full_inbox_drops_new_devices(session, owner, see, work, monkeypatch):
    monkeypatch.setattr(enrichment, "MAX_DISCOVERED", 4)
    monkeypatch.setattr(enrichment, "MAX_DISCOVERED_RANDOM", 2)
    for number in range(4):
        see(f"02aa0000000{number}", HOSTNAME)
    work()
    for number in range(4):
        see(f"001ba900000{number}", HOSTNAME)
    work()
    macs = sorted(session.scalars(select(Endpoint.mac)))
    # Devices with random addresses leave space for other devices.
    assert macs == ["001ba9000000", "001ba9000001", "02aa00000000", "02aa00000001"]
    for table in ("endpoint_sightings", "endpoint_evidence"):
        left = owner.execute(f"SELECT replace(mac::text, ':', '') FROM {table} ORDER BY 1").fetchall()
        assert [mac for (mac,) in left] == macs


def test_unseen_devices_expire_but_approved_ones_never(session, owner, change, see, work, tenant_id):
    ages = {BROTHER: 29, AXIS: 31, PHONE: 2, "02aabbccddff": 0.5}
    for mac, days in ages.items():
        see(mac, HOSTNAME, days_ago=days)
    change(endpoints.create_endpoint, mac="0004f2000001")
    see("0004f2000001", days_ago=400)
    work()
    assert expire_discovered(session, tenant_id=tenant_id) == 2
    assert sorted(session.scalars(select(Endpoint.mac))) == ["0004f2000001", BROTHER, "02aabbccddff"]
    session.commit()
    assert owner.execute("SELECT count(*) FROM endpoint_evidence").fetchone() == (2,)
    # A device that is seen again after its deletion is new.
    see(AXIS)
    work()
    assert get_endpoint(session, AXIS).status == "discovered"


def test_rule_based_group_has_matching_members_with_reasons(session, change, see, work, tenant_id):
    see(BROTHER, HOSTNAME)
    see(AXIS)
    work()
    change(ENDPOINT_GROUPS.create, name="brothers")
    change(group_rules.update_group_rule, name="brothers", rule=rule("endpoint.vendor", "Brother", "starts_with"))
    assert members(session, tenant_id, "brothers") == []
    work()
    assert members(session, tenant_id, "brothers") == [BROTHER]
    why = endpoints.explain_rule_memberships(session, tenant_id=tenant_id, endpoint=get_endpoint(session))
    assert [(each.attribute, each.seen) for each in why["brothers"]] == [
        ("endpoint.vendor", ("Brother industries, LTD.",))
    ]
    change(group_rules.update_group_rule, name="brothers", rule=rule("endpoint.profile", "camera"))
    work()
    assert members(session, tenant_id, "brothers") == [AXIS]


@pytest.mark.parametrize(
    ("condition", "joins"),
    [
        (rule("endpoint.attribute.floor", "2"), True),
        (rule("endpoint.attribute.floor", "3"), False),
        (rule("mac.random", False), True),
        (rule("mac", "00:1b:a9", "starts_with"), True),
        (rule("endpoint.profile.confidence", 40, "greater_than"), True),
        (rule("endpoint.profile.confidence", 60, "greater_than"), False),
        ({"not": rule("endpoint.profile", "printer")}, False),
        (rule("endpoint.name", "Printer"), True),
        ({"all": [rule("endpoint.vendor", "Brother", "starts_with"), rule("endpoint.name", "x")]}, False),
    ],
)
def test_rule_reads_known_endpoint_values(session, change, see, work, tenant_id, condition, joins):
    change(ENDPOINT_GROUPS.create, name="g")
    change(group_rules.update_group_rule, name="g", rule=condition)
    see(BROTHER)
    change(endpoints.create_endpoint, mac=BROTHER, name="Printer", attributes={"floor": "2"})
    work()
    assert members(session, tenant_id, "g") == ([BROTHER] if joins else [])


def test_member_leaves_when_it_no_longer_matches(session, change, see, work, tenant_id):
    change(ENDPOINT_GROUPS.create, name="second")
    change(group_rules.update_group_rule, name="second", rule=rule("endpoint.attribute.floor", "2"))
    change(endpoints.create_endpoint, mac=BROTHER, attributes={"floor": "2"})
    work()
    assert members(session, tenant_id, "second") == [BROTHER]
    change(endpoints.update_endpoint, mac=BROTHER, attributes={"floor": "3"})
    work()
    assert members(session, tenant_id, "second") == []


def test_new_rule_is_applied_in_batches(session, change, work, tenant_id, monkeypatch):
    monkeypatch.setattr(enrichment, "BATCH_SIZE", 3)
    macs = [f"001ba90000{number:02x}" for number in range(10)]
    for mac in macs:
        change(endpoints.create_endpoint, mac=mac)
    work()
    change(ENDPOINT_GROUPS.create, name="all")
    change(group_rules.update_group_rule, name="all", rule={"all": []})
    work()
    assert members(session, tenant_id, "all") == macs


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        (rule("endpoint.group", "other"), "cannot read groups"),
        (rule("posture.av", "on"), "can read only"),
        (rule("site.name", "Main"), "can read only"),
        (rule("endpoint.colour", "red"), "unknown attribute"),
        ({"all": [rule("endpoint.vendor", ""), rule("mac", "x", "like")]}, "must not be empty.*unknown operator"),
        ({"any": []}, "never match"),
        ("brother", "must be an object"),
    ],
)  # fmt: skip
def test_invalid_rule_is_rejected_with_all_errors(session, who, condition, complaint):
    ENDPOINT_GROUPS.create(session, **who, name="g")
    with pytest.raises(InvalidRule, match=f"(?s){complaint}"):
        group_rules.update_group_rule(session, **who, name="g", rule=condition)
    assert ENDPOINT_GROUPS.require(session, tenant_id=who["tenant_id"], name="g").rule is None


def test_rule_and_manual_members_exclude_each_other(session, who):
    for name in ("ruled", "chosen"):
        ENDPOINT_GROUPS.create(session, **who, name=name)
    group_rules.update_group_rule(session, **who, name="ruled", rule={"all": []})
    with pytest.raises(GroupByRule, match="'ruled'"):
        endpoints.create_endpoint(session, **who, mac=BROTHER, groups=["ruled"])
    endpoints.update_groups(session, **who, mac=BROTHER, groups=["chosen"])
    with pytest.raises(Conflict, match="1 members"):
        group_rules.update_group_rule(session, **who, name="chosen", rule={"all": []})


def test_removing_a_rule_empties_the_group_and_is_audited(session, change, work, tenant_id):
    change(endpoints.create_endpoint, mac=BROTHER)
    change(ENDPOINT_GROUPS.create, name="all")
    change(group_rules.update_group_rule, name="all", rule={"all": []})
    work()
    assert members(session, tenant_id, "all") == [BROTHER]
    change(group_rules.update_group_rule, name="all", rule=None)
    assert members(session, tenant_id, "all") == []
    entry = audit.list_entries(session)[0]
    assert (entry.action, entry.before) == ("endpoint-group.set-rule", {"rule": {"all": []}})


def test_two_workers_share_no_work_of_a_tenant(worker_engine, two_tenants, see, work):
    see(BROTHER)
    with session_scope(TenantScope(two_tenants.alpha), engine=worker_engine) as session:
        assert enrichment.enrich_batch(session, tenant_id=two_tenants.alpha) == 1
        assert work() == 0
    assert work() == 0


def test_rule_removed_during_a_run_leaves_no_member(session, change, work, tenant_id, monkeypatch):
    change(endpoints.create_endpoint, mac=BROTHER)
    change(ENDPOINT_GROUPS.create, name="all")
    change(group_rules.update_group_rule, name="all", rule={"all": []})
    assign, person = (
        enrichment._assign_groups,
        Thread(target=change, args=(group_rules.update_group_rule,), kwargs=TAKEN_AWAY),
    )

    def assign_late(*given):
        if person.ident is None:
            person.start()
            person.join(1)
        assign(*given)

    monkeypatch.setattr(enrichment, "_assign_groups", assign_late)
    work()
    person.join()
    work()
    assert members(session, tenant_id, "all") == []


def test_endpoint_deleted_during_a_run_blocks_nothing(session, change, see, work, monkeypatch):
    see(BROTHER)
    see(AXIS)
    work()
    classifier, person = (
        enrichment.load_packaged_profiles,
        Thread(target=change, args=(endpoints.delete_endpoint,), kwargs={"mac": BROTHER}),
    )

    def look_late():
        person.start()
        person.join(1)
        return classifier()

    monkeypatch.setattr(enrichment, "load_packaged_profiles", look_late)
    see(BROTHER, HOSTNAME)
    assert work() == 1
    person.join()
    assert [endpoint.mac for endpoint in session.scalars(select(Endpoint))] == [AXIS]


def test_failing_tenant_does_not_block_others(session, worker_engine, two_tenants, see, monkeypatch):
    see(BROTHER)
    see(AXIS, of=two_tenants.bravo)
    looked_at = []

    def enrich(session, *, tenant_id):
        looked_at.append(tenant_id)
        raise LookupError("a row that nobody expected")

    monkeypatch.setattr(jobs, "enrich_batch", enrich)
    set_process_engine(worker_engine)
    jobs.enrich()
    assert set(looked_at) == {two_tenants.alpha, two_tenants.bravo}

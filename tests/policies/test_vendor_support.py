"""Policies with results that a site's NASes do not support are rejected. Fallback and mode of a site."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import Conflict
from nac.models import AuditEntry, Site
from nac.policies import publish_gate, site_settings
from nac.policies import service as policies
from nac.policies.nas_support import list_vendor_limits, list_vendor_names, unknown_vendor_note
from nac.policies.service import InvalidPolicy
from nac.tenancy import sites
from nac.tenancy.nases import service as nases
from tests.engine.builders import compare, rule
from tests.factories.tenancy import ACTOR, seal
from tests.policies.documents import good


def acl_rule(identifier="r", **conditions):
    when = [compare(name.replace("__", "."), "equals", value) for name, value in conditions.items()]
    return rule(identifier, {"all": when}, {"verdict": "permit", "acl": "GUEST"})


@pytest.fixture
def main(do):
    """The policy "main", assigned to the site main. Tests add NASes by vendor."""
    policy = do(policies.create_policy, slug="main")
    do(site_settings.assign_policy, slug="main", policy_id=policy.id)
    return policy


def add_nas(do, name, vendor, site="main"):
    found = do(sites.require_by_slug, acting=False, slug=site)
    return do(nases.create_nas, site_id=found.id, name=name, vendor=vendor, identifier=name, seal=seal)


def publish(do, *rules, **more):
    do(policies.save_draft, slug="main", document={"rules": list(rules), **more})
    do(policies.publish_policy, slug="main")


def current_version(do):
    return do(policies.require_by_slug, acting=False, slug="main").published_version


def test_publish_is_rejected_if_a_nas_does_not_support_it(do, main):
    add_nas(do, "core", "Cisco Systems")
    publish(do, acl_rule())
    assert current_version(do) == 1
    for number in range(5):
        add_nas(do, f"ap-{number}", "UniFi")

    with pytest.raises(InvalidPolicy) as caught:
        publish(do, acl_rule(), fallback={"verdict": "permit", "role": "x"})

    remedy = "use the result in a rule with a condition on nas.vendor"
    nases_named = f"(ap-0, ap-1, ap-2 and 2 more NASes at site main); or {remedy}"
    assert {mistake.place: mistake.message for mistake in caught.value.mistakes} == {
        "rules[0].then.acl": f"UniFi: ACLs by RADIUS are not supported; use a VLAN with its own rules {nases_named}",
        "fallback.role": f"UniFi: roles by RADIUS are not supported; use vlan {nases_named}",
    }
    assert current_version(do) == 1


def test_rollback_is_rejected_if_a_nas_does_not_support_it(do, main):
    publish(do, acl_rule())
    publish(do)
    add_nas(do, "ap", "unifi")
    with pytest.raises(InvalidPolicy, match="ACLs by RADIUS"):
        do(policies.roll_back_policy, slug="main", number=1)
    assert current_version(do) == 2


def test_rule_that_cannot_match_at_the_nas_is_not_checked(do, main):
    add_nas(do, "ap", "unifi")
    do(sites.create_site, slug="branch")
    add_nas(do, "core", "Cisco Systems", "branch")
    publish(do, acl_rule(nas__vendor="cisco"), acl_rule("s", nas__name="core"))
    with pytest.raises(InvalidPolicy):
        publish(do, acl_rule(nas__vendor="unifi"))


def test_nas_at_a_site_of_another_policy_is_not_checked(do, main):
    do(sites.create_site, slug="branch")
    add_nas(do, "ap", "unifi", "branch")
    publish(do, acl_rule())
    with pytest.raises(InvalidPolicy, match="ap at site branch"):
        do(site_settings.assign_policy, slug="branch", policy_id=main.id)
    assert do(sites.require_by_slug, acting=False, slug="branch").policy_id is None


def test_draft_is_saved_whatever_the_nases_support(do, main):
    add_nas(do, "ap", "unifi")
    do(policies.save_draft, slug="main", document={"rules": [acl_rule()]})


def test_vendor_limits_are_listed_for_the_author(do, main):
    document = {"rules": [acl_rule()], "fallback": {"verdict": "permit", "vlan": "20"}}
    compiled = do(policies.check_document, acting=False, document=document)
    found = list_vendor_limits(compiled)
    assert {note.place for note in found} == {"rules[0].then.acl"}
    assert {note.message.partition(":")[0] for note in found} >= {"UniFi", "Aruba", "MikroTik", "Extreme Networks"}
    assert not any("Cisco switches" in note.message for note in found)
    assert list_vendor_limits(do(policies.check_document, acting=False, document=good())) == []


def test_vendor_notes_cover_only_the_tenants_vendors(do, main, policy_command):
    add_nas(do, "ap", "Ubiquiti")
    notes = policy_command("check", "-", document={"rules": [acl_rule()]}).stderr
    assert "UniFi" in notes
    assert "MikroTik" not in notes
    compiled = do(policies.check_document, acting=False, document={"rules": [acl_rule()]})
    assert list_vendor_limits(compiled, list_vendor_names([])) == []


@pytest.mark.parametrize(
    ("vendor", "entry", "told"),
    [("mikrotik", "permit ip any any", "expects rules such as"), ("Meraki", "permit ip any any", "use role")],
)
def test_vendor_specific_entries_unsupported_are_rejected(do, main, vendor, entry, told):
    then = {"verdict": "permit", "downloadable_acl": {"entries": {"default": ["permit ip any any"], vendor: [entry]}}}
    with pytest.raises(InvalidPolicy, match=told) as caught:
        do(policies.check_document, acting=False, document={"rules": [acl_rule() | {"then": then}]})
    assert [mistake.place for mistake in caught.value.mistakes] == [f"rules[0].then.downloadable_acl.entries.{vendor}"]


def test_new_nas_is_warned_about_unsupported_results(do, main, app_engine, tenant):
    publish(do, acl_rule())
    nas = add_nas(do, "ap", "unifi")
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        site = sites.require_by_slug(session, tenant_id=tenant.id, slug="main")
        (mistake,) = policies.find_unsupported_at_site(session, site=site, nas=nas)
    assert mistake.place == "rules[0].then.acl"


@pytest.mark.parametrize(("vendor", "noted"), [("", False), ("Cisco Systems", False), ("acme", True)])
def test_unknown_vendor_is_noted(vendor, noted):
    assert bool(unknown_vendor_note(vendor)) is noted


FALLBACK = {"verdict": "permit", "vlan": "99"}


def test_site_update_is_audited(do, tenant, app_engine):
    site = do(site_settings.update_site, slug="main", monitor=True, fallback=FALLBACK, time_zone="Europe/Berlin")
    assert (site.monitor, site.fallback, site.time_zone) == (True, FALLBACK, "Europe/Berlin")
    site = do(site_settings.update_site, slug="main", monitor=False)
    assert (site.monitor, site.fallback, site.time_zone) == (False, FALLBACK, "Europe/Berlin")
    do(site_settings.update_site, slug="main", fallback=None)
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        # SQL NULL, not the jsonb value null, because the cell tests for presence.
        assert session.scalars(select(Site.slug).where(Site.fallback.is_(None))).all() == ["main"]
        changes = session.scalars(
            select(AuditEntry).where(AuditEntry.action == "site.set").order_by(AuditEntry.id)
        ).all()
    assert [(entry.before, entry.after) for entry in changes] == [
        (
            {"monitor": False, "time_zone": "UTC", "fallback": None},
            {"monitor": True, "time_zone": "Europe/Berlin", "fallback": FALLBACK},
        ),
        ({"monitor": True}, {"monitor": False}),
        ({"fallback": FALLBACK}, {"fallback": None}),
    ]


def test_invalid_fallback_is_rejected_and_nothing_is_stored(do):
    for fallback, places in (
        ({"verdict": "maybe"}, {"fallback.verdict"}),
        ({"verdict": "permit", "profile": "staff"}, {"fallback.profile"}),
        ({"verdict": "permit", "vlan": "0", "colour": 1}, {"fallback.vlan", "fallback.colour"}),
        ({"verdict": "permit", "reply": [{"attribute": "Sesion-Timeout", "value": "1"}]}, {"fallback.reply[0]"}),
        ([], {"fallback"}),
    ):
        with pytest.raises(InvalidPolicy) as caught:
            do(site_settings.update_site, slug="main", monitor=True, fallback=fallback)
        assert {mistake.place for mistake in caught.value.mistakes} == places
    site = do(sites.require_by_slug, acting=False, slug="main")
    assert (site.monitor, site.fallback) == (False, None)


def test_fallback_update_does_not_check_the_policy(do, main):
    publish(do, acl_rule())
    add_nas(do, "ap", "unifi")
    assert do(site_settings.update_site, slug="main", fallback=FALLBACK).fallback == FALLBACK
    with pytest.raises(InvalidPolicy) as caught:
        do(site_settings.update_site, slug="main", fallback=FALLBACK | {"role": "x"})
    assert [mistake.place for mistake in caught.value.mistakes] == ["site.fallback.role"]


def test_site_assigned_during_publish_is_checked(do, main, monkeypatch):
    do(sites.create_site, slug="branch")
    add_nas(do, "ap-branch", "UniFi", site="branch")
    do(policies.save_draft, slug="main", document={"rules": [acl_rule()]})
    ask = publish_gate.require_acknowledged

    def while_another_assigns(*given, **more):
        do(site_settings.assign_policy, slug="branch", policy_id=main.id)
        return ask(*given, **more)

    monkeypatch.setattr(publish_gate, "require_acknowledged", while_another_assigns)
    with pytest.raises(InvalidPolicy):
        do(policies.publish_policy, slug="main")
    assert current_version(do) is None


def test_assignment_waits_for_a_running_publish(do, main, app_engine, tenant):
    """Without the wait, the site would get a version that was not checked for it."""
    do(sites.create_site, slug="branch")
    add_nas(do, "ap-branch", "UniFi", site="branch")
    do(policies.save_draft, slug="main", document={"rules": [acl_rule()]})
    with ThreadPoolExecutor(1) as other:
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            policies.publish_policy(session, actor=ACTOR, tenant_id=tenant.id, slug="main")
            assigning = other.submit(do, site_settings.assign_policy, slug="branch", policy_id=main.id)
            with pytest.raises(TimeoutError):
                assigning.result(0.5)
        with pytest.raises(InvalidPolicy):
            assigning.result()


def test_unpublished_policy_cannot_replace_the_current_one(do, main):
    publish(do, acl_rule())
    other = do(policies.create_policy, slug="other")
    with pytest.raises(Conflict, match=r"would deny all requests\. The current policy of the site is 'main'"):
        do(site_settings.assign_policy, slug="main", policy_id=other.id)
    assert do(sites.require_by_slug, acting=False, slug="main").policy_id == main.id
    do(policies.save_draft, slug="other", document=good())
    do(policies.publish_policy, slug="other")
    assert do(site_settings.assign_policy, slug="main", policy_id=other.id).policy_id == other.id

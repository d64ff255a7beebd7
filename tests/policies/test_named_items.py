"""Objects that a policy names: they must exist, and cannot be deleted. Otherwise a rule would never match."""

import threading

import pytest

from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS, USER_GROUPS
from nac.inventory.identity_sources import service as identities
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import InUse
from nac.kit.outbound.reach import DEFAULT_REACH
from nac.onboarding.templates.parts import apply_parts
from nac.policies import service as policies
from nac.policies.service import InvalidPolicy
from nac.tenancy import sites
from nac.tenancy.nases import service as nases
from tests.engine.builders import compare, pinned, policy_of, rule
from tests.factories.tenancy import ACTOR, make_tenant, seal
from tests.policies.documents import good, group_rule
from tests.polling import PATIENCE_SECONDS

EMPTY = {"rules": []}


def naming(attribute: str, operator: str, value: object) -> object:
    return {"pinned_denies": [pinned("p", {"not": compare(attribute, operator, value)})]}


@pytest.fixture
def save(do):
    def save(slug: str, document: object, *, publish: bool = False) -> None:
        do(policies.save_draft, slug=slug, document=document)
        if publish:
            do(policies.publish_policy, slug=slug)

    for slug in ("guests", "office", "main"):
        do(policies.create_policy, slug=slug)
    return save


def test_group_in_use_cannot_be_deleted_and_policies_are_listed(do, save):
    do(endpoints.create_endpoint, mac="001122334455", groups=["printers"])
    save("office", good(), publish=True)
    save("guests", EMPTY, publish=True)
    save("guests", good())
    with pytest.raises(InUse) as refused:
        do(ENDPOINT_GROUPS.remove, name="printers")
    assert str(refused.value) == (
        "group: Policies use 'printers': guests version 2 (draft), office version 1 (published). The group has"
        " 1 member. Remove the name from these policies first. Then publish each policy that was published before:"
        " getPolicyVersion, updatePolicyDraft, publishPolicy."
    )


def test_group_is_deletable_once_no_policy_names_it(do, save):
    save("office", good(), publish=True)
    save("office", EMPTY)
    with pytest.raises(InUse, match="office version 1"):
        do(ENDPOINT_GROUPS.remove, name="printers")
    do(policies.publish_policy, slug="office")
    do(ENDPOINT_GROUPS.remove, name="printers")


@pytest.mark.parametrize(
    "document",
    [
        # Near misses: a user group with this name, and a longer name that contains it.
        naming("user.group", "equals", "printers"),
        naming("endpoint.group", "starts_with", "printers"),
    ],
)
def test_other_objects_of_that_name_do_not_block_deletion(do, save, document):
    do(USER_GROUPS.create, name="printers")
    save("office", document)
    do(ENDPOINT_GROUPS.remove, name="printers")


def test_user_group_and_site_in_use_cannot_be_deleted(do, save):
    do(sites.create_site, slug="berlin", name="Berlin")
    save("office", naming("user.group", "one_of", ["staff"]))
    save("guests", naming("site.name", "equals", "Berlin"))
    with pytest.raises(InUse, match=r"'staff': office version 1 \(draft\)"):
        do(USER_GROUPS.remove, name="staff")
    with pytest.raises(InUse, match=r"'Berlin': guests version 1 \(draft\)"):
        do(sites.delete_site, slug="berlin")
    do(sites.create_site, slug="berlin-2", name="Berlin")
    do(sites.delete_site, slug="berlin")


def test_policy_of_another_tenant_does_not_block_deletion(do, app_engine, platform, tenant):
    other = make_tenant(app_engine, platform, "bravo")
    with session_scope(TenantScope(other.id), engine=app_engine) as session:
        who = {"actor": ACTOR, "tenant_id": other.id}
        ENDPOINT_GROUPS.create(session, **who, name="printers")
        policies.create_policy(session, **who, slug="main")
        policies.save_draft(session, **who, slug="main", document=good())
    do(ENDPOINT_GROUPS.remove, name="printers")


def test_deletion_waits_for_a_concurrent_save(do, save, app_engine, tenant):
    refused: list[InUse] = []

    def remove() -> None:
        try:
            do(ENDPOINT_GROUPS.remove, name="printers")
        except InUse as exc:
            refused.append(exc)

    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        document = {"rules": [group_rule()]}
        policies.save_draft(session, actor=ACTOR, tenant_id=tenant.id, slug="office", document=document)
        other = threading.Thread(target=remove)
        other.start()
        other.join(0.3)
        assert other.is_alive()
    other.join(PATIENCE_SECONDS)
    assert len(refused) == 1


_LDAP = {"urls": ["ldaps://ldap.example.net"], "base_dn": "dc=x"}
_KINDS = [("nas.name", "NAS", "createNas"), ("user.source", "identity source", "createIdentitySource")]
_kinds = pytest.mark.parametrize(("attribute", "what", "operation"), _KINDS)


def rule_that_names(attribute: str, *names: str, **more: object) -> dict[str, object]:
    return policy_of(rule("r", compare(attribute, "one_of", list(names)) | more))


def add(do, attribute: str, name: str) -> None:
    if attribute == "nas.name":
        site = do(sites.require_by_slug, acting=False, slug="main")
        do(nases.create_nas, site_id=site.id, name=name, identifier=name, seal=seal)
    else:
        given = {"kind": "ldap", "settings": _LDAP, "secret": None, "seal": seal, "reach": DEFAULT_REACH}
        do(identities.create_source, name=name, **given)


@_kinds
def test_draft_with_unknown_references_is_rejected(do, save, attribute, what, operation):
    add(do, attribute, "core")
    with pytest.raises(InvalidPolicy) as caught:
        save("main", rule_that_names(attribute, "core", "edge"))
    assert {each.place: each.message for each in caught.value.mistakes} == {
        "rules[0].when.value[1]": f"unknown {what} 'edge'; create this object first: {operation}"
    }
    save("main", rule_that_names(attribute, "core"))
    # The site named here always exists.
    save("main", rule_that_names(attribute, "CORE", ignore_case=True))
    with pytest.raises(InvalidPolicy, match="'EDGE'"):
        save("main", rule_that_names(attribute, "CORE", "EDGE", ignore_case=True))


@_kinds
def test_deleted_reference_blocks_publish_and_rollback(do, save, attribute, what, operation):
    add(do, attribute, "core")
    save("main", rule_that_names(attribute, "core"), publish=True)
    save("main", policy_of(), publish=True)
    save("main", rule_that_names(attribute, "core"))
    if attribute == "nas.name":
        do(nases.delete_nas, reference="core")
    else:
        do(identities.delete_source, name="core")
    for ask in (policies.publish_policy, lambda *a, **given: policies.roll_back_policy(*a, **given, number=1)):
        with pytest.raises(InvalidPolicy, match=f"unknown {what} 'core'"):
            do(ask, slug="main")
    assert do(policies.require_by_slug, acting=False, slug="main").published_version == 2
    # A policy with such a rule can still be simulated.
    assert not do(policies.run_document_tests, acting=False, document=rule_that_names(attribute, "core"))
    add(do, attribute, "core")
    do(policies.roll_back_policy, slug="main", number=1)


@_kinds
def test_template_policy_may_name_missing_items(do, attribute, what, operation):
    """All tenants of a template share its policy."""
    for number, document in enumerate(
        (rule_that_names(attribute, "core"), policy_of(), rule_that_names(attribute, "core")), 1
    ):
        do(apply_parts, wanted={"policy:office": document}, names={})
        assert do(policies.require_by_slug, acting=False, slug="office").published_version == number

"""Policies that name a NAS or identity source that does not exist. Such a rule would never match."""

from collections.abc import Callable

import pytest

from nac.inventory.identity_sources import service as identities
from nac.kit.outbound.reach import DEFAULT_REACH
from nac.onboarding.templates.parts import apply_parts
from nac.policies import service as policies
from nac.policies.service import InvalidPolicy
from nac.tenancy import sites
from nac.tenancy.nases import service as nases
from tests.engine.builders import compare, policy_of, rule
from tests.factories.tenancy import seal

_LDAP = {"urls": ["ldaps://ldap.example.net"], "base_dn": "dc=x"}
_KINDS = [("nas.name", "NAS", "createNas"), ("user.source", "identity source", "createIdentitySource")]
_kinds = pytest.mark.parametrize(("attribute", "what", "operation"), _KINDS)


def rule_that_names(attribute: str, *names: str, **more: object) -> dict[str, object]:
    return policy_of(rule("r", compare(attribute, "one_of", list(names)) | more))


@pytest.fixture
def add(do) -> Callable[[str, str], None]:
    def add(attribute: str, name: str) -> None:
        if attribute == "nas.name":
            site = do(sites.require_by_slug, acting=False, slug="main")
            do(nases.create_nas, site_id=site.id, name=name, identifier=name, seal=seal)
        else:
            given = {"kind": "ldap", "settings": _LDAP, "secret": None, "seal": seal, "reach": DEFAULT_REACH}
            do(identities.create_source, name=name, **given)

    return add


@pytest.fixture
def remove(do) -> Callable[[str, str], None]:
    def remove(attribute: str, name: str) -> None:
        if attribute == "nas.name":
            do(nases.delete_nas, reference=name)
        else:
            do(identities.delete_source, name=name)

    return remove


@pytest.fixture
def main(do) -> None:
    do(policies.create_policy, slug="main")


def save(do, document: object) -> None:
    do(policies.save_draft, slug="main", document=document)


@_kinds
def test_draft_with_unknown_references_is_rejected(do, main, add, attribute, what, operation):
    add(attribute, "core")
    with pytest.raises(InvalidPolicy) as caught:
        save(do, rule_that_names(attribute, "core", "edge"))
    assert {each.place: each.message for each in caught.value.mistakes} == {
        "rules[0].when.value[1]": f"unknown {what} 'edge'; create this object first: {operation}"
    }
    save(do, rule_that_names(attribute, "core"))
    # The site named here always exists.
    save(do, rule_that_names(attribute, "CORE", ignore_case=True))
    with pytest.raises(InvalidPolicy, match="'EDGE'"):
        save(do, rule_that_names(attribute, "CORE", "EDGE", ignore_case=True))


@_kinds
def test_deleted_reference_blocks_publish_and_rollback(do, main, add, remove, attribute, what, operation):
    add(attribute, "core")
    save(do, rule_that_names(attribute, "core"))
    do(policies.publish_policy, slug="main")
    save(do, policy_of())
    do(policies.publish_policy, slug="main")
    save(do, rule_that_names(attribute, "core"))
    remove(attribute, "core")
    for ask in (policies.publish_policy, lambda *a, **given: policies.roll_back_policy(*a, **given, number=1)):
        with pytest.raises(InvalidPolicy, match=f"unknown {what} 'core'"):
            do(ask, slug="main")
    assert do(policies.require_by_slug, acting=False, slug="main").published_version == 2
    # A policy with such a rule can still be simulated.
    assert not do(policies.run_document_tests, acting=False, document=rule_that_names(attribute, "core"))
    add(attribute, "core")
    do(policies.roll_back_policy, slug="main", number=1)


@_kinds
def test_template_policy_may_name_missing_items(do, attribute, what, operation):
    """All tenants of a template share its policy."""
    for number, document in enumerate(
        (rule_that_names(attribute, "core"), policy_of(), rule_that_names(attribute, "core")), 1
    ):
        do(apply_parts, wanted={"policy:office": document}, names={})
        assert do(policies.require_by_slug, acting=False, slug="office").published_version == number

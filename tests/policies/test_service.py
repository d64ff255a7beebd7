import threading

import pytest
from sqlalchemy import func, select, update

from nac.inventory.groups import ENDPOINT_GROUPS
from nac.inventory.identity_sources import service as sources
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import Conflict
from nac.kit.outbound.reach import DEFAULT_REACH
from nac.models import AuditEntry, Policy, PolicyVersion, ReplicaChange
from nac.policies import service as policies
from nac.policies.service import DictionaryMissing, InvalidPolicy
from tests.factories.tenancy import ACTOR, make_platform, make_tenant, seal
from tests.policies.documents import good
from tests.polling import PATIENCE_SECONDS


@pytest.fixture
def policy(do) -> Policy:
    return do(policies.create_policy, slug="main", name="Main policy")


def statuses(do):
    return {each.number: each.status for each in do(policies.list_versions, acting=False, slug="main")}


def published(do):
    return do(policies.require_by_slug, acting=False, slug="main").published_version


def test_unstorable_document_is_rejected(do, policy):
    for document in ({"rules": "\0"}, {"\ud800": 1}, None, [], {"rules": [{"when": {"value": float("nan")}}]}):
        with pytest.raises(InvalidPolicy):
            do(policies.save_draft, slug="main", document=document)


def test_group_of_another_tenant_is_unknown(do, policy, app_engine, platform):
    other = make_tenant(app_engine, platform, "bravo")
    with session_scope(TenantScope(other.id), engine=app_engine) as session:
        ENDPOINT_GROUPS.create(session, actor=ACTOR, tenant_id=other.id, name="plotters")
    document = good()
    document["rules"][0]["when"]["value"] = "plotters"
    with pytest.raises(InvalidPolicy, match="unknown endpoint group 'plotters'"):
        do(policies.save_draft, slug="main", document=document)


def test_user_groups_may_come_from_a_directory(do, policy):
    """This applies only to user groups, and only if the tenant has a directory."""
    document = good()
    document["rules"][0]["when"] = {"attribute": "user.group", "operator": "equals", "value": "WLAN-Staff"}
    with pytest.raises(
        InvalidPolicy, match=r"unknown user group 'WLAN-Staff'; create this object first: createUserGroup"
    ):
        do(policies.save_draft, slug="main", document=document)

    settings = {"urls": ["ldaps://ldap.example.net"], "base_dn": "dc=example,dc=net"}
    do(sources.create_source, name="corp", kind="ldap", settings=settings, secret=None, seal=seal, reach=DEFAULT_REACH)

    do(policies.save_draft, slug="main", document=document)
    do(policies.publish_policy, slug="main")
    assert published(do) == 1
    document["rules"][0]["when"] = {"attribute": "endpoint.group", "operator": "equals", "value": "WLAN-Staff"}
    with pytest.raises(InvalidPolicy, match="unknown endpoint group 'WLAN-Staff'"):
        do(policies.save_draft, slug="main", document=document)


def test_group_deleted_since_blocks_a_rollback(do, policy):
    for document in (good(), {"rules": []}):
        do(policies.save_draft, slug="main", document=document)
        do(policies.publish_policy, slug="main")
    do(ENDPOINT_GROUPS.remove, name="printers")
    with pytest.raises(InvalidPolicy, match="printers"):
        do(policies.roll_back_policy, slug="main", number=1)
    assert published(do) == 2


def test_cell_without_dictionary_gives_a_clear_error(app_engine, cell_engine):
    platform = make_platform(app_engine, cell_engine)
    tenant = make_tenant(app_engine, platform, "alpha")
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        policies.create_policy(session, actor=ACTOR, tenant_id=tenant.id, slug="main")
        with pytest.raises(DictionaryMissing, match="which uploads the dictionaries"):
            policies.save_draft(session, actor=ACTOR, tenant_id=tenant.id, slug="main", document=good())


def test_rollback_publishes_the_old_document_as_a_new_version(do, policy):
    for vlan in ("20", "30"):
        do(policies.save_draft, slug="main", document=good(vlan))
        do(policies.publish_policy, slug="main")
    do(policies.save_draft, slug="main", document=good("40"))

    version = do(policies.roll_back_policy, slug="main", number=1)

    assert (version.number, version.document, version.comment) == (4, good("20"), "Back to version 1")
    assert (published(do), statuses(do)) == (4, {1: "superseded", 2: "superseded", 3: "draft", 4: "published"})


def test_rollback_to_an_unpublished_version_is_rejected(do, policy):
    do(policies.save_draft, slug="main", document=good())
    with pytest.raises(Conflict, match="never published"):
        do(policies.roll_back_policy, slug="main", number=1)
    do(policies.publish_policy, slug="main")
    with pytest.raises(Conflict, match="already published"):
        do(policies.roll_back_policy, slug="main", number=1)
    with pytest.raises(policies.PolicyVersionNotFound):
        do(policies.roll_back_policy, slug="main", number=9)


def test_changes_are_audited_and_publish_is_in_the_feed(do, policy, app_engine, owner_engine, tenant):
    do(policies.save_draft, slug="main", document=good(), comment="first")
    do(policies.publish_policy, slug="main")
    do(policies.save_draft, slug="main", document=good("30"))
    do(policies.publish_policy, slug="main")
    do(policies.roll_back_policy, slug="main", number=1)
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        entries = session.scalars(
            select(AuditEntry).where(AuditEntry.action.startswith("policy.")).order_by(AuditEntry.id)
        ).all()
    assert [(entry.action, entry.target, entry.before, entry.after) for entry in entries] == [
        ("policy.create", "main", None, {"name": "Main policy"}),
        ("policy.save-draft", "main", None, {"version": 1, "comment": "first"}),
        ("policy.publish", "main", {"version": None}, {"version": 1}),
        ("policy.save-draft", "main", None, {"version": 2, "comment": ""}),
        ("policy.publish", "main", {"version": 1}, {"version": 2}),
        ("policy.roll-back", "main", {"version": 2}, {"version": 3}),
    ]
    with owner_engine.connect() as connection:
        query = select(func.count()).where(ReplicaChange.noun == "policy", ReplicaChange.key == str(policy.id))
        assert connection.scalar(query) >= 3


def test_concurrent_saves_get_consecutive_numbers(do, policy, app_engine, tenant):
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        policies.save_draft(session, actor=ACTOR, tenant_id=tenant.id, slug="main", document=good())
        other = threading.Thread(
            target=do, args=(policies.save_draft,), kwargs={"slug": "main", "document": good("30")}
        )
        other.start()
        other.join(0.3)
        assert other.is_alive()
    other.join(PATIENCE_SECONDS)
    assert statuses(do) == {1: "superseded", 2: "draft"}


def test_rollback_allows_an_old_version_with_a_dead_rule(do, policy, owner_engine):
    """Another release may have published the version without that check. A new save of it is rejected."""
    shadowed = good()
    shadowed["rules"] = [
        {**shadowed["rules"][0], "id": "wide", "when": {"attribute": "ssid", "operator": "starts_with", "value": "c"}},
        {**shadowed["rules"][0], "id": "narrow", "when": {"attribute": "ssid", "operator": "equals", "value": "corp"}},
    ]
    do(policies.save_draft, slug="main", document=good())
    do(policies.publish_policy, slug="main")
    with owner_engine.begin() as connection:
        connection.execute(update(PolicyVersion).where(PolicyVersion.number == 1).values(document=shadowed))
    do(policies.save_draft, slug="main", document=good("30"))
    do(policies.publish_policy, slug="main")

    assert do(policies.roll_back_policy, slug="main", number=1).document == shadowed

    with pytest.raises(InvalidPolicy, match="wide"):
        do(policies.save_draft, slug="main", document=shadowed)

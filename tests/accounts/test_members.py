"""Members, their roles, and the effect on a user."""

from contextlib import nullcontext
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from nac.accounts import custom_roles
from nac.accounts.members import service as members
from nac.accounts.people import service as people
from nac.accounts.roles import BUILT_IN_ROLES
from nac.core.access.grants import MspRef, PermissionMissing, Principal, TenantRef
from nac.kit.db import PersonScope, session_scope
from nac.kit.errors import AlreadyExists, InUse, InvalidInput
from nac.kit.permissions import Permission, PermissionLevel, permissions_at
from nac.models import SignOn
from tests.accounts.conftest import PLATFORM, sign_in_as, whole
from tests.factories.tenancy import ACTOR

ANN = "Ann@Example.com"


def principal(app_engine: Engine, person_id) -> Principal:
    with session_scope(PersonScope(person_id), engine=app_engine) as session:
        return Principal("person", members.list_grants(session, person_id=person_id))


def test_user_can_have_roles_in_many_scopes(app_engine, field, add_member):
    member = add_member(field.acme, ANN, "msp-technician", tenants=["alpha"])
    assert (member.person.email, member.role) == ("ann@example.com", "msp-technician")
    assert member.chosen == {field.alpha.tenant_id}
    assert add_member(field.foreign, "ann@example.com").person.id == member.person.id
    ann = principal(app_engine, member.person.id)
    alpha, bravo = (TenantRef(owner.tenant_id, field.acme.msp_id) for owner in (field.alpha, field.bravo))
    assert ann.on_tenant(alpha) == BUILT_IN_ROLES["msp-technician"].permissions
    assert ann.on_tenant(bravo) == frozenset()
    assert ann.on_msp(MspRef(field.acme.msp_id)) == {Permission.MSP_READ, Permission.TEMPLATE_READ}
    foreign = TenantRef(field.foreign.tenant_id, field.bolt.msp_id)
    assert ann.on_tenant(foreign) == BUILT_IN_ROLES["auditor"].at(PermissionLevel.TENANT)
    assert not ann.on_msp(MspRef(field.bolt.msp_id))
    assert not ann.on_platform()


@pytest.mark.parametrize(
    ("owner", "given"),
    [
        ("acme", {"role": "tenant-admin"}),
        ("acme", {"role": "platform-operator"}),
        ("acme", {"role": "unheard-of"}),
        ("acme", {"tenants": []}),
        ("acme", {"tenants": ["foreign"]}),
        ("acme", {"email": "ann"}),
        ("acme", {"email": "a nn@example.com"}),
        ("acme", {"email": "ann@" + "x" * 200 + ".com"}),
        # Only a membership in an MSP has chosen tenants.
        ("alpha", {"tenants": ["alpha"]}),
    ],
)
def test_invalid_fields_are_rejected_with_their_path(within, field, owner, given):
    owner = getattr(field, owner)
    with within(owner) as session:
        with pytest.raises(InvalidInput) as caught:
            members.create_member(session, **whole(owner), **{"email": ANN, "role": "auditor"} | given)
        assert caught.value.place
        assert not members.list_members(session, owner=owner)


def test_adding_a_member_twice_is_rejected(within, field, add_member):
    assert add_member(field.acme, "ann@example.com\n").person.email == "ann@example.com"
    with pytest.raises(AlreadyExists):
        add_member(field.acme, ANN.upper(), "msp-admin")
    with within(field.acme) as session:
        assert [each.role for each in members.list_members(session, owner=field.acme)] == ["auditor"]


def test_user_cannot_change_roles_above_their_own(within, field, add_member):
    less = whole(field.acme) | {"held": BUILT_IN_ROLES["msp-technician"].permissions}
    admin = {"membership_id": add_member(field.acme, ANN, "msp-admin").membership.id}
    with within(field.acme) as session:
        with pytest.raises(PermissionMissing):
            members.create_member(session, **less, email="eve@example.com", role="msp-admin")
        with pytest.raises(PermissionMissing):
            members.update_member(session, **less, **admin, role="msp-technician")
        with pytest.raises(PermissionMissing):
            members.delete_member(session, **less, **admin)
        roles = {each.person.email: each.role for each in members.list_members(session, owner=field.acme)}
    assert roles == {"ann@example.com": "msp-admin"}


def test_last_member_manager_cannot_be_removed(app_engine, within, field, add_member):
    added, other = add_member(field.acme, ANN, "msp-admin"), add_member(field.acme, "bob@example.com")
    add_member(field.acme, "nobody@example.com", "msp-admin")
    ann, bob = added.membership.id, other.membership.id
    sign_in_as(app_engine, added)
    with within(field.acme) as session:
        with pytest.raises(members.LastManager):
            members.delete_member(session, **whole(field.acme), membership_id=ann)
        for change in ({"role": "auditor"}, {"role": "msp-admin", "tenants": ["alpha"]}):
            with pytest.raises(members.LastManager):
                members.update_member(session, **whole(field.acme), membership_id=ann, **change)
        members.update_member(session, **whole(field.acme), membership_id=bob, role="msp-admin")
        # The member is only added, and may never have signed in.
        with pytest.raises(members.LastManager):
            members.delete_member(session, **whole(field.acme), membership_id=ann)
    sign_in_as(app_engine, other)
    for disabled, outcome in ((True, pytest.raises(members.LastManager)), (False, nullcontext())):
        with within(PLATFORM) as session:
            people.set_disabled(session, actor=ACTOR, person_id=other.person.id, disabled=disabled)
        with outcome, within(field.acme) as session:
            members.delete_member(session, **whole(field.acme), membership_id=ann)
    with within(field.acme) as session:
        left = {each.person.email for each in members.list_members(session, owner=field.acme)}
    assert left == {"bob@example.com", "nobody@example.com"}


def test_last_manager_role_keeps_its_permission(app_engine, within, field, add_member):
    acme, own = whole(field.acme), {"slug": "boss"}
    with within(field.acme) as session:
        custom_roles.create_role(session, **acme, **own, name="Boss", permissions=["member.manage"])
    sign_in_as(app_engine, add_member(field.acme, ANN, "boss"))
    with within(field.acme) as session:
        with pytest.raises(members.LastManager):
            custom_roles.update_role(session, **acme, **own, permissions=["member.read"])
        custom_roles.update_role(session, **acme, **own, permissions=["member.manage", "member.read"])
    sign_in_as(app_engine, add_member(field.acme, "bob@example.com", "msp-admin"))
    with within(field.acme) as session:
        custom_roles.update_role(session, **acme, **own, permissions=["member.read"])


def test_new_member_status_is_hidden_until_acceptance(app_engine, within, field, add_member):
    with within(PLATFORM) as session:
        known = people.get_or_create_person(session, email=ANN, name="Ann")
        people.set_disabled(session, actor=ACTOR, person_id=known, disabled=True)
    added = [add_member(field.alpha, email) for email in (ANN, "nobody@example.com")]

    def listed() -> list[members.Member]:
        with within(field.alpha) as session:
            return members.list_members(session, owner=field.alpha)

    assert {(each.visible_name, each.visible_status) for each in (*added, *listed())} == {("", "invited")}
    sign_in_as(app_engine, added[0])
    assert {(each.visible_name, each.visible_status) for each in listed()} == {("Ann", "disabled"), ("", "invited")}


def test_custom_role_applies_to_its_members_while_it_is_used(app_engine, within, field, add_member):
    acme, own = whole(field.acme), {"slug": "kicker"}
    less = acme | {"held": frozenset({Permission.SITE_READ})}
    wanted = ["session.read", "session.disconnect"]
    with within(field.acme) as session:
        custom_roles.create_role(session, **acme, **own, name="Kicker", permissions=[*wanted, "msp.read"])
    member = add_member(field.acme, ANN, "kicker")
    assert member.role == "kicker"
    with pytest.raises(InvalidInput, match="Unknown role"):
        add_member(field.alpha, ANN, "kicker")
    alpha = TenantRef(field.alpha.tenant_id, field.acme.msp_id)
    assert principal(app_engine, member.person.id).on_tenant(alpha) >= set(wanted)
    with within(field.acme) as session:
        custom_roles.update_role(session, **acme, **own, permissions=["session.read"])
    assert principal(app_engine, member.person.id).on_tenant(alpha) == {Permission.SESSION_READ}
    with within(field.acme) as session:
        with pytest.raises(InUse):
            custom_roles.delete_role(session, **acme, **own)
        members.delete_member(session, **acme, membership_id=member.membership.id)
        row = SignOn(settings={"joins": [{"role": "kicker", "domain": "x.example"}]}, secret_sealed=b"")
        row.msp_id = field.acme.msp_id
        session.add(row)
        session.flush()
        with pytest.raises(InUse, match="single sign-on"):
            custom_roles.delete_role(session, **acme, **own)
        session.delete(row)
        session.flush()
        with pytest.raises(PermissionMissing):
            custom_roles.delete_role(session, **less, **own)
        custom_roles.delete_role(session, **acme, **own)
        assert not custom_roles.list_roles(session, owner=field.acme)
    assert principal(app_engine, member.person.id).grants == ()


def test_role_rejects_permissions_that_do_not_apply(within, field):
    for owner, permissions in (
        (field.alpha, ["tenant.create"]),
        (field.acme, ["cell.manage"]),
        (field.acme, ["tenant.fly"]),
        (field.acme, []),
    ):
        with within(owner) as session, pytest.raises(InvalidInput):
            custom_roles.create_role(session, **whole(owner), slug="own", name="Own", permissions=permissions)


def test_role_is_limited_to_the_creator_permissions(within, field):
    acme = whole(field.acme)
    less = acme | {"held": frozenset({Permission.SITE_READ})}
    role = {"slug": "own", "name": "Own", "permissions": ["site.manage"]}
    with within(field.acme) as session:
        with pytest.raises(PermissionMissing):
            custom_roles.create_role(session, **less, **role)
        custom_roles.create_role(session, **acme, **role)
        for change in ({"permissions": ["site.read"]}, {"name": "Mine"}):
            with pytest.raises(PermissionMissing):
                custom_roles.update_role(session, **less, slug="own", **change)
        with pytest.raises(AlreadyExists):
            custom_roles.create_role(session, **acme, **role | {"slug": "auditor"})


def test_account_is_managed_only_by_its_user(app_engine, within, field, add_member):
    person = add_member(field.acme, ANN).person
    with within(field.acme) as session, pytest.raises(people.PersonNotFound):
        people.require_person(session, person_id=uuid4())
    with session_scope(PersonScope(person.id), engine=app_engine) as session:
        people.set_password(session, actor="person:ann", person_id=person.id, password="correct horse battery")
        people.rename_person(session, actor="person:ann", person_id=person.id, name="Ann")
        for mistake in ("short", "ann@example.com", "aaaaaaaaaaaaaa", "x" * 201):
            with pytest.raises(InvalidInput):
                people.set_password(session, actor="person:ann", person_id=person.id, password=mistake)
    with within(PLATFORM) as session:
        assert people.set_disabled(session, actor=ACTOR, person_id=person.id, disabled=True).name == "Ann"
    assert permissions_at(PermissionLevel.PLATFORM) == set(Permission)

"""Permission checks by scope, each allowed case next to a denied one. A denial reveals nothing by its work."""

import sys
from collections import Counter
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest

from api.access import ReadsMsp, ReadsTenant
from api.caller import Caller
from nac.accounts.roles import BUILT_IN_ROLES
from nac.core.access.grants import (
    Grant,
    MspRef,
    PermissionMissing,
    Principal,
    TenantRef,
    require_may_grant,
    require_permissions,
)
from nac.core.audit.service import RequestOrigin
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Permission, PermissionLevel, permissions_at
from nac.tenancy.msps import MspNotFound
from nac.tenancy.tenants.service import TenantNotFound

ACME, BOLT = MspId(UUID(int=1)), MspId(UUID(int=2))
A1, A2 = (TenantRef(TenantId(UUID(int=number)), ACME) for number in (11, 12))
B1 = TenantRef(TenantId(UUID(int=21)), BOLT)
NOTHING: frozenset[Permission] = frozenset()
MSP_READ = frozenset({Permission.MSP_READ})
CHOSEN = frozenset({A1.tenant_id, B1.tenant_id})
SOME = frozenset({Permission.ENDPOINT_READ, Permission.MSP_READ, Permission.TENANT_CREATE})


def principal_with(*grants: Grant) -> Principal:
    return Principal("person:ann@example.com", grants)


@pytest.mark.parametrize(
    ("grant", "a1", "a2", "b1", "acme", "bolt", "platform"),
    [
        (Grant(SOME), SOME, SOME, SOME, SOME, SOME, SOME),
        (Grant(SOME, msp_id=ACME), SOME, SOME, NOTHING, SOME, NOTHING, NOTHING),
        # The second chosen tenant belongs to another MSP, for example after a move.
        (Grant(SOME, msp_id=ACME, chosen=CHOSEN), SOME, NOTHING, NOTHING, MSP_READ, NOTHING, NOTHING),
        (Grant(SOME, msp_id=ACME, chosen=frozenset()), NOTHING, NOTHING, NOTHING, MSP_READ, NOTHING, NOTHING),
        (Grant(SOME, tenant_id=A1.tenant_id), SOME, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING),
        (Grant(NOTHING), NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING),
    ],
)
def test_grant_applies_only_in_its_scope(grant, a1, a2, b1, acme, bolt, platform):
    principal = principal_with(grant)
    assert (principal.on_tenant(A1), principal.on_tenant(A2), principal.on_tenant(B1)) == (a1, a2, b1)
    on_msps = tuple(principal.on_msp(MspRef(each)) for each in (ACME, BOLT))
    assert (*on_msps, principal.on_platform()) == (acme, bolt, platform)


def test_no_grants_means_no_permissions():
    nobody = principal_with()
    assert not nobody.on_tenant(A1)
    assert not nobody.on_msp(MspRef(ACME))
    assert not nobody.on_platform()
    assert nobody.tenants_of(ACME) == frozenset()


def test_grants_in_a_scope_add_up():
    read, block = frozenset({Permission.ENDPOINT_READ}), frozenset({Permission.ENDPOINT_UNBLOCK})
    both = principal_with(Grant(read, msp_id=ACME), Grant(block, tenant_id=A1.tenant_id))
    assert both.on_tenant(A1) == read | block
    assert both.on_tenant(A2) == read
    assert both.on_msp(MspRef(ACME)) == read


def test_missing_permission_is_named():
    require_permissions({Permission.SITE_READ}, Permission.SITE_READ)
    with pytest.raises(PermissionMissing, match=r"site\.manage"):
        require_permissions({Permission.SITE_READ}, Permission.SITE_MANAGE)


def test_user_cannot_grant_more_than_they_have():
    require_may_grant({Permission.SITE_READ, Permission.NAS_READ}, {Permission.NAS_READ})
    with pytest.raises(PermissionMissing, match=r"nas\.manage, site\.manage"):
        require_may_grant({Permission.SITE_READ}, {Permission.SITE_MANAGE, Permission.NAS_MANAGE})


@pytest.mark.parametrize("role", BUILT_IN_ROLES.values(), ids=list(BUILT_IN_ROLES))
def test_role_excludes_permissions_above_its_level(role):
    assert role.permissions <= permissions_at(max(role.levels))
    assert all(role.at(level) for level in role.levels)


def test_builtin_roles_match_their_names():
    operator, admin, technician, tenant, help_desk, auditor = BUILT_IN_ROLES.values()
    assert operator.permissions == set(Permission)
    assert admin.permissions == permissions_at(PermissionLevel.MSP)
    assert tenant.permissions == permissions_at(PermissionLevel.TENANT)
    assert auditor.permissions == {each for each in Permission if each.is_read}
    assert {each for each in help_desk.permissions if not each.is_read} == {
        Permission.ENDPOINT_UNBLOCK,
        Permission.CERTIFICATE_REVOKE,
    }
    assert not technician.permissions & {Permission.MEMBER_MANAGE, Permission.TOKEN_MANAGE, Permission.TENANT_CREATE}
    assert technician.permissions >= {Permission.SECRET_REVEAL, Permission.POLICY_PUBLISH, Permission.NAS_MANAGE}


def _count_calls(refuse: Any, asked: Caller, refusal: type[Exception]) -> Counter[str]:
    """The number of calls of each function."""
    called = Counter[str]()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            called[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            called[argument.__qualname__] += 1

    sys.setprofile(note)
    try:
        refuse(asked)
    except refusal:
        sys.setprofile(None)
        return called
    finally:
        sys.setprofile(None)
    raise AssertionError("it is not refused")


@pytest.mark.parametrize(
    "grant",
    [
        Grant(permissions_at(PermissionLevel.MSP), msp_id=MspId(uuid4())),
        Grant(permissions_at(PermissionLevel.TENANT), tenant_id=TenantId(uuid4())),
    ],
    ids=["MSP", "tenant"],
)
def test_unknown_and_foreign_ids_take_the_same_calls(grant):
    def make_caller(tenant: TenantRef | None = None, msp: MspRef | None = None) -> Caller:
        return Caller(Principal("token:x", (grant,)), RequestOrigin(None, "r"), tenant, msp, Mock(), Mock())

    on_tenant, on_msp = ReadsTenant(Permission.SESSION_READ).on_tenant, ReadsMsp(Permission.MEMBER_READ).on_msp
    for place in ({"tenant": B1}, {"msp": MspRef(BOLT)}):
        refuse, refusal = (on_tenant, TenantNotFound) if "tenant" in place else (on_msp, MspNotFound)
        unknown, foreign = (_count_calls(refuse, make_caller(**each), refusal) for each in ({}, place))
        assert unknown == foreign != Counter()

"""Admit rejects unknown and foreign ids with the same work, so response times reveal nothing."""

import sys
from collections import Counter
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest

from api.access import ReadsMsp, ReadsTenant
from api.caller import Caller
from nac.core.access.grants import Grant, MspRef, Principal, TenantRef
from nac.core.audit.service import RequestOrigin
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Permission, PermissionLevel, permissions_at
from nac.tenancy.msps import MspNotFound
from nac.tenancy.tenants.service import TenantNotFound

_OWN = MspId(uuid4())
_GRANTS = {
    "MSP's": Grant(permissions_at(PermissionLevel.MSP), msp_id=_OWN),
    "tenant's": Grant(permissions_at(PermissionLevel.TENANT), tenant_id=TenantId(uuid4())),
}


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


@pytest.mark.parametrize("grant", _GRANTS.values(), ids=_GRANTS)
def test_unknown_and_foreign_ids_take_the_same_calls(grant: Grant) -> None:
    def make_caller(tenant: TenantRef | None = None, msp: MspRef | None = None) -> Caller:
        return Caller(Principal("token:x", (grant,)), RequestOrigin(None, "r"), tenant, msp, Mock(), Mock())

    anothers = MspId(uuid4())
    refuse: Any = ReadsTenant(Permission.SESSION_READ).on_tenant
    found = [
        _count_calls(refuse, make_caller(place), TenantNotFound)
        for place in (None, TenantRef(TenantId(uuid4()), anothers))
    ]
    assert found[0] == found[1] != Counter()
    refuse = ReadsMsp(Permission.MEMBER_READ).on_msp
    found = [_count_calls(refuse, make_caller(msp=place), MspNotFound) for place in (None, MspRef(anothers))]
    assert found[0] == found[1] != Counter()

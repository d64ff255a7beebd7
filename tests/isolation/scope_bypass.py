"""Runs without the service layer's scope: the caller has all permissions everywhere, and services use the requested
scope. The database must still show only the caller's rows."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from api.access import Access, OperatesMsp, RequiresPermission
from api.caller import Caller
from nac.core.access.grants import Grant, Owner, Principal
from nac.kit.db import Scope
from nac.kit.permissions import Permission
from tests.isolation.asgi_caller import AsgiResponse

_EVERYTHING = frozenset(Permission)


@contextmanager
def forced(scope: Scope) -> Iterator[None]:
    """Run each route in this scope, as if it were that of the tenant, MSP or platform of the request."""

    def access(asks: RequiresPermission, asked: Caller, owner: Owner) -> Access:
        principal = Principal(asked.principal.actor, (Grant(_EVERYTHING),))
        return Access(replace(asked, principal=principal), _EVERYTHING, scope, owner, asks)

    def on_tenant(self: RequiresPermission, asked: Caller) -> Access:
        assert asked.tenant is not None
        return access(self, asked, Owner(tenant_id=asked.tenant.tenant_id))

    def on_msp(self: RequiresPermission, asked: Caller) -> Access:
        assert asked.msp_id is not None
        return access(self, asked, Owner(asked.msp_id))

    def on_platform(self: RequiresPermission, asked: Caller) -> Access:
        return access(self, asked, Owner())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RequiresPermission, "on_tenant", on_tenant)
        patch.setattr(RequiresPermission, "on_msp", on_msp)
        patch.setattr(RequiresPermission, "on_platform", on_platform)
        # Its own job, which would continue as the platform.
        patch.setattr(OperatesMsp, "on_msp", on_platform)
        yield


def seen_of(mark: str, answer: AsgiResponse, asked: Any) -> set[str]:
    """Names of the place with this mark (a pattern) in the response that are not in the request."""
    said = str(asked)
    found = re.findall(rf"[\w.@-]*\b{mark}\b[\w.@-]*", answer.text)
    return {each for each in found if each not in said}

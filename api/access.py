"""Dependencies that authenticate the caller and check permissions.

Every route of the API uses one of these dependencies.

A caller without any permission at a tenant or MSP gets the error for an unknown tenant or MSP.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from fastapi import Depends, Path, Query, Request
from sqlalchemy.orm import Session

from api.application_state import get_signing
from api.caller import Caller, require_caller
from api.change import (
    Body,
    Change,
    compute_etag,
    compute_request_digest,
    open_change,
    require_modified,
    require_no_if_match,
)
from api.query_parameters import require_known_query
from nac.accounts.sign_in import rules
from nac.accounts.sign_in_errors import SignOnNeeded
from nac.certificates.signing import SigningContext
from nac.core.access.grants import UNKNOWN_MSP, UNKNOWN_TENANT, MspRef, Owner, Principal, TenantRef, require_permissions
from nac.core.access.tenant_lookup import find_msp
from nac.core.audit import service as audit
from nac.kit.db import CredentialScope, MspScope, PlatformScope, Scope, TenantScope, session_scope
from nac.kit.errors import InvalidInput
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Effect, Permission, PermissionLevel
from nac.kit.secrets import Sealer
from nac.tenancy.msps import MspNotFound, MspSuspended
from nac.tenancy.tenants.service import TenantNotFound

_SIGN_ON_REMEDY = "Sign in with single sign-on. Exempt members can also sign in with two factors of their own."
_SUSPENDED_REMEDY = "Contact the platform's operator."
_CallerDependency = Annotated[Caller, Depends(require_caller)]
_RequestDigest = Annotated[bytes, Depends(compute_request_digest)]
_TenantKey = Annotated[str, Path(max_length=63, examples=["hill-school"], description="Slug or id of the tenant.")]
_MspKey = Annotated[str, Path(max_length=63, examples=["acme"], description="Slug or id of the MSP.")]
_WaitQuery = Annotated[
    Literal["live"] | None,
    Query(description="`live` to wait until the change is in force in the tenant's cell, 5 seconds at most."),
]


class RouteDeclaration:
    """Permissions and effects of a route.

    `leads_to` are the possible effects of the route (nac.kit.permissions.Effect). Every request needs `permission` and
    all permissions in `always`. Some requests also need permissions in `also` (`Access.require`).
    docs/reference/permissions.md and the escalation tests derive from these declarations.
    """

    def __init__(
        self,
        permission: Permission,
        *leads_to: Effect,
        always: Collection[Permission] = (),
        also: Collection[Permission] = (),
    ) -> None:
        self.permission = permission
        self.leads_to = frozenset(leads_to)
        self.always = frozenset(always) | {permission}
        self.also = frozenset(also)

    def require_declared(self, held: Collection[Permission], level: PermissionLevel | None = None) -> None:
        """Check the permissions that every request needs. Raises PermissionMissing."""
        require_permissions(held, *self.always, level=level)


@dataclass(frozen=True, slots=True)
class Access:
    """Access of a request to the data of a tenant, an MSP or the platform.

    Transactions of this object can read only this data.
    """

    asked: Caller
    held: frozenset[Permission]
    scope: Scope
    owner: Owner
    requires: "RequiresPermission"
    # Digest of the request, if a change has an Idempotency-Key; otherwise b"".
    digest: bytes = b""
    wait: bool = False

    @property
    def principal(self) -> Principal:
        return self.asked.principal

    @property
    def actor(self) -> str:
        return self.principal.actor

    @property
    def tenant_id(self) -> TenantId:
        assert self.owner.tenant_id is not None
        return self.owner.tenant_id

    @property
    def msp_id(self) -> MspId:
        assert self.owner.msp_id is not None
        return self.owner.msp_id

    @property
    def operated_msp_id(self) -> MspId:
        """Id of the MSP in the path of an OperatesMsp route, where `owner` is the platform."""
        assert self.asked.msp is not None
        return self.asked.msp.msp_id

    @property
    def sealer(self) -> Sealer:
        return get_signing(self.asked.request).sealer

    @property
    def signing(self) -> SigningContext:
        return get_signing(self.asked.request)

    @contextmanager
    def read(self, *, by_key: bool = False) -> Iterator[Session]:
        """Open a read-only transaction. See `session_scope` for `by_key`."""
        if self.asked.request.method != "GET":
            require_no_if_match(self.asked.request, "This operation only reads.")
        with session_scope(self.scope, by_key=by_key) as session:
            yield session

    @contextmanager
    def noted(self) -> Iterator[Session]:
        """Open a transaction like `read`. Audit entries in this transaction contain the origin of the request."""
        with self.read() as session:
            audit.set_origin(session, self.asked.origin)
            yield session

    def require(self, *permissions: Permission) -> None:
        """Check further permissions that the route declares. Raises PermissionMissing."""
        assert self.requires.always | self.requires.also >= set(permissions), f"{permissions} are not declared"
        require_permissions(self.held, *permissions)

    def permissions_at_tenant(self, tenant_id: TenantId) -> frozenset[Permission]:
        """Return the caller's permissions at a tenant of the MSP in the path."""
        assert self.asked.msp is not None
        return self.principal.on_tenant(TenantRef(tenant_id, self.asked.msp.msp_id, self.asked.msp.is_suspended))

    @contextmanager
    def change(self) -> Iterator[Change]:
        """Open a transaction for changes, which commits at the end of the block (api.change)."""
        assert self.requires.leads_to, "this route declares no effect"
        with open_change(
            self.asked.request,
            self.asked.response,
            scope=self.scope,
            owner=self.owner,
            asker=self.actor,
            origin=self.asked.origin,
            digest=self.digest,
            wait=self.wait,
        ) as change:
            yield change

    def shown(self, model: Body) -> Body:
        """Set the ETag of the response, for `If-Match` and `If-None-Match` in later requests. Raises NotModified."""
        tag = compute_etag(model)
        require_modified(self.asked.request, tag)
        self.asked.response.headers["ETag"] = tag
        return model


def _raise_if_withheld(unsuspended: frozenset[Permission], otherwise: frozenset[Permission], *, is_there: bool) -> None:
    """Raise MspSuspended if the caller has no permissions only because the MSP is suspended.

    Raise SignOnNeeded if the caller has no permissions only because of the kind of sign-in.
    """
    if is_there and unsuspended:
        raise MspSuspended(remedy=_SUSPENDED_REMEDY)
    if is_there and otherwise:
        raise SignOnNeeded(remedy=_SIGN_ON_REMEDY)


class RequiresPermission(RouteDeclaration):
    """Dependency that requires a permission at a level (tenant, MSP or platform).

    `__call__` does no I/O and is `async`, because FastAPI runs functions without `async` in the thread pool.
    """

    level: ClassVar[PermissionLevel]
    # Whether the body contains the MSP. Otherwise the path contains the MSP.
    in_body: ClassVar[bool] = False

    __call__: "Callable[..., Awaitable[Access | UnresolvedMspAccess]]"

    def on_tenant(self, asked: Caller) -> Access:
        place = asked.tenant or UNKNOWN_TENANT
        held = asked.principal.on_tenant(place)
        if place is UNKNOWN_TENANT or not held:
            unsuspended = asked.principal.on_tenant(replace(place, is_msp_suspended=False))
            _raise_if_withheld(
                unsuspended, asked.with_withheld_grants().on_tenant(place), is_there=place is not UNKNOWN_TENANT
            )
            raise TenantNotFound("This tenant does not exist.", place="tenant")
        asked.require_second_factor()
        self.require_declared(held)
        return Access(asked, held, TenantScope(place.tenant_id), Owner(tenant_id=place.tenant_id), self)

    def on_msp(self, asked: Caller) -> Access:
        place = asked.msp or UNKNOWN_MSP
        held = asked.principal.on_msp(place)
        if place is UNKNOWN_MSP or not held:
            unsuspended = asked.principal.on_msp(replace(place, is_suspended=False))
            _raise_if_withheld(
                unsuspended, asked.with_withheld_grants().on_msp(place), is_there=place is not UNKNOWN_MSP
            )
            raise MspNotFound("This MSP does not exist.", place="msp")
        asked.require_second_factor()
        self.require_declared(held)
        return Access(asked, held, MspScope(place.msp_id), Owner(place.msp_id), self)

    def on_platform(self, asked: Caller) -> Access:
        held = asked.principal.on_platform()
        self.require_declared(held, PermissionLevel.PLATFORM)
        asked.require_second_factor()
        return Access(asked, held, PlatformScope(), Owner(), self)


class RequiresChangePermission(RequiresPermission):
    """Dependency that requires a permission for a route that changes data. The route must declare an effect."""

    def __init__(self, permission: Permission, effect: Effect, *more: Effect, **takes: Collection[Permission]) -> None:
        super().__init__(permission, effect, *more, **takes)


class ReadsTenant(RequiresPermission):
    level = PermissionLevel.TENANT

    async def __call__(self, asked: _CallerDependency, tenant: _TenantKey) -> Access:
        return self.on_tenant(asked)


class ChangesTenant(RequiresChangePermission):
    level = PermissionLevel.TENANT

    async def __call__(
        self, asked: _CallerDependency, tenant: _TenantKey, digest: _RequestDigest, wait: _WaitQuery = None
    ) -> Access:
        return replace(self.on_tenant(asked), digest=digest, wait=wait is not None)


class ReadsMsp(RequiresPermission):
    level = PermissionLevel.MSP

    async def __call__(self, asked: _CallerDependency, msp: _MspKey) -> Access:
        return self.on_msp(asked)


class ChangesMsp(RequiresChangePermission):
    level = PermissionLevel.MSP

    async def __call__(
        self, asked: _CallerDependency, msp: _MspKey, digest: _RequestDigest, wait: _WaitQuery = None
    ) -> Access:
        return replace(self.on_msp(asked), digest=digest, wait=wait is not None)


class OperatesMsp(ChangesMsp):
    """Dependency of routes with which platform operators change an MSP.

    Only a grant on the platform has this permission.
    """

    def on_msp(self, asked: Caller) -> Access:
        return replace(super().on_msp(asked), scope=PlatformScope(), owner=Owner())


@dataclass(frozen=True, slots=True)
class UnresolvedMspAccess:
    """Access whose MSP is in the body of the request."""

    asked: Caller
    requires: "ChangesNamedMsp"
    digest: bytes
    wait: bool

    def on_msp(self, key: str | None) -> Access:
        """Return the access to the MSP with the slug or id `key`.

        If `key` is None, use the only MSP of the caller's grants.

        Raises MspNotFound, InvalidInput and PermissionMissing.
        """
        only = self.asked.principal.get_only_msp() if key is None else None
        if key is None and only is None:
            raise InvalidInput("`msp` is required.", place="msp", remedy="Send the slug or id of the MSP.")
        with session_scope(CredentialScope("")) as session:
            msp = find_msp(session, str(only) if key is None else key)
            needs = self._needs_second_factor(session, msp)
        asked = replace(self.asked, msp=msp, needs_second_factor=needs)
        return replace(self.requires.on_msp(asked), digest=self.digest, wait=self.wait)

    def _needs_second_factor(self, session: Session, msp: MspRef | None) -> bool:
        """Whether the MSP in the body requires a second factor that the caller has not used.

        The earlier check covers only the tenant or MSP in the path.
        """
        signed_in = self.asked.signed_in
        if signed_in is None or signed_in.has_two_factors:
            return False
        return rules.wants_two_factors(session, msp_id=None if msp is None else msp.msp_id, tenant_id=None)


class ChangesNamedMsp(RequiresChangePermission):
    """Dependency of routes that change the MSP in the field `msp` of the body."""

    level = PermissionLevel.MSP
    in_body = True

    async def __call__(
        self, asked: _CallerDependency, digest: _RequestDigest, wait: _WaitQuery = None
    ) -> UnresolvedMspAccess:
        return UnresolvedMspAccess(asked, self, digest, wait is not None)


class ReadsPlatform(RequiresPermission):
    level = PermissionLevel.PLATFORM

    async def __call__(self, asked: _CallerDependency) -> Access:
        return self.on_platform(asked)


class ChangesPlatform(RequiresChangePermission):
    level = PermissionLevel.PLATFORM

    async def __call__(self, asked: _CallerDependency, digest: _RequestDigest, wait: _WaitQuery = None) -> Access:
        return replace(self.on_platform(asked), digest=digest, wait=wait is not None)


class RequiresSelf:
    """Dependency of routes about the caller's own account, which need no permission."""

    async def __call__(self, asked: _CallerDependency) -> Caller:
        if asked.request.method != "GET":
            require_no_if_match(asked.request, "Only you can change your account.")
        return asked


class AllowsAnyone:
    """Dependency of routes without authentication. `reason` explains why the route needs no authentication."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def __call__(self, request: Request) -> None:
        if request.method != "GET":
            require_no_if_match(request, "This operation needs no authentication and has no ETag.")
        require_known_query(request)

"""Who asks, and what he may do where. Every route of the API names its permission through one of these dependencies.

A tenant or MSP that the asker may do nothing in is answered as one that there is not.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from fastapi import Depends, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session
from starlette.requests import HTTPConnection

from api import cookies
from api.application_state import get_signing
from api.change import (
    Body,
    Change,
    compute_etag,
    compute_request_digest,
    open_change,
    require_modified,
    require_no_if_match,
)
from api.credential_rate_limit import hash_credential, record_credential
from api.instant_dependencies import instant
from api.query_parameters import require_known_query
from api.request_ids import request_id_of
from api.route_declaration import RouteDeclaration
from api.session_reuse import offer_session, take_session
from nac.accounts.effects import Effect
from nac.accounts.grants import NO_MSP, NO_TENANT, MspPlace, Principal, Reach, TenantPlace, require
from nac.accounts.owners import Owner
from nac.accounts.permissions import Level, Permission
from nac.accounts.places import find_msp, find_tenant
from nac.api_tokens import service as tokens
from nac.api_tokens.text import TokenText
from nac.audit import service as audit
from nac.audit.service import Origin
from nac.certificates.signing import Signing
from nac.clock import utc_now
from nac.db import CredentialScope, MspScope, PersonScope, PlatformScope, Scope, TenantScope, session_scope
from nac.errors import AdmitError, InvalidInput
from nac.ids import MspId, TenantId
from nac.members import service as members
from nac.msps.service import MspNotFound, MspSuspended
from nac.secrets import Sealer
from nac.sign_in import rules, sign_ins
from nac.sign_in.errors import SecondFactorNeeded, SignOnNeeded
from nac.sign_in.secret_texts import SignInText
from nac.sign_in.sign_ins import SignedInPerson
from nac.tenants.service import TenantNotFound

_SLUG_OR_ID = Path(description="Slug or id.", max_length=63)
_SIGN_ON_REMEDY = "Sign in by it. One who was named for that may come in with two factors of his own."
_SUSPENDED_REMEDY = "Ask who runs the platform."


class _BearerScheme(HTTPBearer):
    @instant
    async def __call__(self, request: HTTPConnection) -> HTTPAuthorizationCredentials | None:
        return await super().__call__(request)


bearer = _BearerScheme(auto_error=False, scheme_name="HTTPBearer", description="An API token: admit_<id>_<secret>.")


class NotSignedIn(AdmitError):
    """This takes an API token or a sign-in."""

    status = 401


def require_credential(scope: Mapping[str, Any]) -> None:
    """Raises NotSignedIn where nothing is shown that anybody would have to be asked about."""
    if hash_credential(scope["headers"]) is None:
        raise _build_not_signed_in()


@contextmanager
def open_read_session(request: Request, scope: Scope, *, by_key: bool = False) -> Iterator[Session]:
    """A transaction in this scope: the request's own, where one is kept that has looked who asks. A second beside it
    would be a second connection of a thread, and as many threads as connections would wait for each other.

    `by_key`: it looks up what few rows have in common, by an index.
    """
    with take_session(request.scope, scope, by_key=by_key) as session:
        if session is not None:
            yield session
            return
    with session_scope(scope, by_key=by_key) as session:
        yield session


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and which tenant or MSP the path names; read in one transaction, which sees the token and no more, or
    the sign-in and whose it is."""

    principal: Principal
    origin: Origin
    tenant: TenantPlace | None
    msp: MspPlace | None
    request: Request
    response: Response
    # None for a program.
    signed_in: SignedInPerson | None = None
    # The place asks for two factors, and not as many were shown.
    needs_second_factor: bool = False

    @property
    def msp_id(self) -> MspId | None:
        return None if self.msp is None else self.msp.msp_id

    @property
    def grants_scope(self) -> Scope:
        """That sees what the asker's grants are on. A token is of one owner."""
        if self.signed_in is not None:
            return PersonScope(self.signed_in.person_id)
        owner = self.principal.grants[0].owner
        if owner.tenant_id is not None:
            return TenantScope(owner.tenant_id)
        return PlatformScope() if owner.msp_id is None else MspScope(owner.msp_id)

    def with_withheld_grants(self) -> Principal:
        """Who asks, had that one signed in in another way."""
        return replace(self.principal, grants=self.principal.withheld)

    @contextmanager
    def read_tenants(self, permission: Permission) -> Iterator[tuple[Session, Reach]]:
        """A transaction that sees the tenants that the asker has the permission on, whatever MSPs they are of."""
        reach = self.principal.reach(permission)
        scope: Scope = PlatformScope() if reach.everything else CredentialScope("")
        if self.signed_in is not None and not reach.everything:
            scope = PersonScope(self.signed_in.person_id)
        elif self.signed_in is None:
            # A token is of one owner.
            for tenant_id in reach.tenants:
                scope = TenantScope(tenant_id)
            for msp_id in reach.msps:
                scope = MspScope(msp_id)
        with open_read_session(self.request, scope) as session:
            yield session, reach

    @contextmanager
    def read_msps(self, permission: Permission) -> Iterator[tuple[Session, frozenset[MspId] | None]]:
        """A transaction that sees the MSPs that the asker has the permission on, and which these are; None for all.
        Raises SecondFactorNeeded where the platform wants one."""
        only = self.principal.msps(permission)
        if only is None:
            self.require_second_factor()
        with open_read_session(self.request, self.grants_scope if only is not None else PlatformScope()) as session:
            yield session, only

    def require_second_factor(self) -> None:
        if self.needs_second_factor:
            raise SecondFactorNeeded(remedy="Sign in with two factors; GET /v1/me tells which you have.")


def authenticate_caller(request: Request, response: Response, shown: HTTPAuthorizationCredentials | None) -> Caller:
    """By a token or else by a browser's cookie. Raises NotSignedIn, TokenRefused, SignInOver, CrossSite and
    CsrfTokenMissing."""
    if shown is None:
        return _authenticate_by_cookie(request, response)
    text = TokenText.parse(shown.credentials)
    if text is None:
        raise tokens.TokenRefused("unknown")
    origin = _build_origin(request)
    with ExitStack() as stack:
        session = stack.enter_context(session_scope(CredentialScope(text.public_id)))
        found = tokens.authenticate(
            session,
            text=text,
            address=origin.address,
            now=utc_now(),
            tenant=request.path_params.get("tenant", ""),
        )
        record_credential(request.scope, text.public_id, found.principal.grants[0].owner)
        msp = request.path_params.get("msp")
        asked = Caller(
            found.principal, origin, found.tenant, find_msp(session, msp) if msp else None, request, response
        )
        if not found.is_noted:
            offer_session(request.scope, session, stack)
        return asked


def _authenticate_by_cookie(request: Request, response: Response) -> Caller:
    text = SignInText.parse(cookies.read_cookie(request, cookies.SESSION_COOKIE))
    if text is None:
        raise _build_not_signed_in()
    with session_scope(CredentialScope(text.public_id)) as session:
        signed_in, principal = sign_ins.authenticate(session, text=text, now=utc_now())
        record_credential(request.scope, text.public_id, signed_in.person_id)
        cookies.require_csrf_token(request, signed_in.csrf_token)
        tenant, msp = _find_named_places(session, request)
        msp_id = None if msp is None else msp.msp_id
        members.accept_invitations(session, grants=principal.grants, tenant=tenant, msp_id=msp_id)
        needs = not signed_in.has_two_factors and rules.wants_two_factors(
            session, msp_id=tenant.msp_id if tenant else msp_id, tenant_id=tenant.tenant_id if tenant else None
        )
        return Caller(principal, _build_origin(request), tenant, msp, request, response, signed_in, needs)


def _build_not_signed_in() -> NotSignedIn:
    return NotSignedIn(remedy="Send it as: Authorization: Bearer admit_...")


def _build_origin(request: Request) -> Origin:
    return Origin(request.client.host if request.client else None, request_id_of(request))


def _find_named_places(session: Session, request: Request) -> tuple[TenantPlace | None, MspPlace | None]:
    tenant, msp = (request.path_params.get(name) for name in ("tenant", "msp"))
    return find_tenant(session, tenant) if tenant else None, find_msp(session, msp) if msp else None


def require_caller(
    request: Request, response: Response, shown: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Caller:
    asked = authenticate_caller(request, response, shown)
    require_known_query(request)
    return asked


_CallerDependency = Annotated[Caller, Depends(require_caller)]
_RequestDigest = Annotated[bytes, Depends(compute_request_digest)]
_TenantKey = Annotated[str, _SLUG_OR_ID]
_MspKey = Annotated[str, _SLUG_OR_ID]
_WaitQuery = Annotated[
    Literal["live"] | None, Query(description="live: answer once the tenant's cell decides by the change.")
]


@dataclass(frozen=True, slots=True)
class Access:
    """What a route may do: open transactions in one scope, as somebody."""

    asked: Caller
    held: frozenset[Permission]
    scope: Scope
    owner: Owner
    # The declaration of the route.
    requires: "RequiresPermission"
    # Of a change that its asker has named; else b"".
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
        """Of OperatesMsp: the MSP, which is not the owner there."""
        assert self.asked.msp is not None
        return self.asked.msp.msp_id

    @property
    def sealer(self) -> Sealer:
        return get_signing(self.asked.request).sealer

    @property
    def signing(self) -> Signing:
        return get_signing(self.asked.request)

    @contextmanager
    def read(self, *, by_key: bool = False) -> Iterator[Session]:
        """`by_key` as of `reading`."""
        if self.asked.request.method not in ("GET", "HEAD"):
            require_no_if_match(self.asked.request, "This only asks, and changes nothing.")
        with open_read_session(self.asked.request, self.scope, by_key=by_key) as session:
            yield session

    @contextmanager
    def noted(self) -> Iterator[Session]:
        """As `read`, where something is written all the same: its audit entries tell from where it was asked."""
        with self.read() as session:
            audit.note_origin(session, self.asked.origin)
            yield session

    def require(self, *permissions: Permission) -> None:
        """Beside the permission of the route, of those that it declares. Raises PermissionMissing."""
        assert self.requires.always | self.requires.also >= set(permissions), f"{permissions} are not declared"
        require(self.held, *permissions)

    def permissions_at_tenant(self, tenant_id: TenantId) -> frozenset[Permission]:
        """At a tenant of the MSP that the path names."""
        assert self.asked.msp is not None
        return self.principal.on_tenant(TenantPlace(tenant_id, self.asked.msp.msp_id, self.asked.msp.is_suspended))

    @contextmanager
    def change(self) -> Iterator[Change]:
        """Commits at exit (api.change)."""
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
        """With its ETag, for `If-Match` of a change and `If-None-Match` of who asks again. Raises NotModified."""
        tag = compute_etag(model)
        require_modified(self.asked.request, tag)
        self.asked.response.headers["ETag"] = tag
        return model


def _raise_if_withheld(unsuspended: frozenset[Permission], otherwise: frozenset[Permission], *, is_there: bool) -> None:
    """What would be held, were the MSP not suspended, or had the asker signed in in another way. Raises MspSuspended
    and SignOnNeeded."""
    if is_there and unsuspended:
        raise MspSuspended(remedy=_SUSPENDED_REMEDY)
    if is_there and otherwise:
        raise SignOnNeeded(remedy=_SIGN_ON_REMEDY)


class RequiresPermission(RouteDeclaration):
    """A route's permission and the level that it is asked for at.

    Calls are `async` since they do no I/O: each that is not takes a turn of the thread pool.
    """

    level: ClassVar[Level]
    # Whether the body names the place, not the path.
    in_body: ClassVar[bool] = False

    __call__: "Callable[..., Awaitable[Access | UnresolvedMspAccess]]"

    def on_tenant(self, asked: Caller) -> Access:
        place = asked.tenant or NO_TENANT
        held = asked.principal.on_tenant(place)
        if place is NO_TENANT or not held:
            unsuspended = asked.principal.on_tenant(replace(place, is_msp_suspended=False))
            _raise_if_withheld(
                unsuspended, asked.with_withheld_grants().on_tenant(place), is_there=place is not NO_TENANT
            )
            raise TenantNotFound("There is no such tenant.", place="tenant")
        asked.require_second_factor()
        self.require_declared(held)
        return Access(asked, held, TenantScope(place.tenant_id), Owner(tenant_id=place.tenant_id), self)

    def on_msp(self, asked: Caller) -> Access:
        place = asked.msp or NO_MSP
        held = asked.principal.on_msp(place)
        if place is NO_MSP or not held:
            unsuspended = asked.principal.on_msp(replace(place, is_suspended=False))
            _raise_if_withheld(unsuspended, asked.with_withheld_grants().on_msp(place), is_there=place is not NO_MSP)
            raise MspNotFound("There is no such MSP.", place="msp")
        asked.require_second_factor()
        self.require_declared(held)
        return Access(asked, held, MspScope(place.msp_id), Owner(place.msp_id), self)

    def on_platform(self, asked: Caller) -> Access:
        held = asked.principal.on_platform()
        self.require_declared(held, Level.PLATFORM)
        asked.require_second_factor()
        return Access(asked, held, PlatformScope(), Owner(), self)


class RequiresChangePermission(RequiresPermission):
    """Of a route that changes something: it cannot be declared without an effect."""

    def __init__(self, permission: Permission, effect: Effect, *more: Effect, **takes: Collection[Permission]) -> None:
        super().__init__(permission, effect, *more, **takes)


class ReadsTenant(RequiresPermission):
    level = Level.TENANT

    @instant
    async def __call__(self, asked: _CallerDependency, tenant: _TenantKey) -> Access:
        return self.on_tenant(asked)


class ChangesTenant(RequiresChangePermission):
    level = Level.TENANT

    async def __call__(
        self, asked: _CallerDependency, tenant: _TenantKey, digest: _RequestDigest, wait: _WaitQuery = None
    ) -> Access:
        return replace(self.on_tenant(asked), digest=digest, wait=wait is not None)


class ReadsMsp(RequiresPermission):
    level = Level.MSP

    @instant
    async def __call__(self, asked: _CallerDependency, msp: _MspKey) -> Access:
        return self.on_msp(asked)


class ChangesMsp(RequiresChangePermission):
    level = Level.MSP

    async def __call__(
        self, asked: _CallerDependency, msp: _MspKey, digest: _RequestDigest, wait: _WaitQuery = None
    ) -> Access:
        return replace(self.on_msp(asked), digest=digest, wait=wait is not None)


class OperatesMsp(ChangesMsp):
    """Of an MSP, as the platform: by a permission that only the platform gives."""

    def on_msp(self, asked: Caller) -> Access:
        return replace(super().on_msp(asked), scope=PlatformScope(), owner=Owner())


@dataclass(frozen=True, slots=True)
class UnresolvedMspAccess:
    """An MSP is yet to be named, by the body of the request."""

    asked: Caller
    requires: "ChangesNamedMsp"
    digest: bytes
    wait: bool

    def on_msp(self, key: str | None) -> Access:
        """None: the one that the asker has grants on. Raises MspNotFound, InvalidInput and PermissionMissing."""
        only = self.asked.principal.only_msp() if key is None else None
        if key is None and only is None:
            raise InvalidInput("It is not said of which MSP.", place="msp", remedy="Name its slug or id.")
        with session_scope(CredentialScope("")) as session:
            msp = find_msp(session, str(only) if key is None else key)
            needs = self._needs_second_factor(session, msp)
        asked = replace(self.asked, msp=msp, needs_second_factor=needs)
        return replace(self.requires.on_msp(asked), digest=self.digest, wait=self.wait)

    def _needs_second_factor(self, session: Session, msp: MspPlace | None) -> bool:
        """The path that was looked at named no MSP."""
        signed_in = self.asked.signed_in
        if signed_in is None or signed_in.has_two_factors:
            return False
        return rules.wants_two_factors(session, msp_id=None if msp is None else msp.msp_id, tenant_id=None)


class ChangesNamedMsp(RequiresChangePermission):
    """Of an MSP that the body names as `msp`."""

    level = Level.MSP
    in_body = True

    async def __call__(
        self, asked: _CallerDependency, digest: _RequestDigest, wait: _WaitQuery = None
    ) -> UnresolvedMspAccess:
        return UnresolvedMspAccess(asked, self, digest, wait is not None)


class ReadsPlatform(RequiresPermission):
    level = Level.PLATFORM

    @instant
    async def __call__(self, asked: _CallerDependency) -> Access:
        return self.on_platform(asked)


class ChangesPlatform(RequiresChangePermission):
    level = Level.PLATFORM

    async def __call__(self, asked: _CallerDependency, digest: _RequestDigest, wait: _WaitQuery = None) -> Access:
        return replace(self.on_platform(asked), digest=digest, wait=wait is not None)


class RequiresSelf:
    """Of a route about the asker himself, who needs no permission for it."""

    @instant
    async def __call__(self, asked: _CallerDependency) -> Caller:
        if asked.request.method != "GET":
            require_no_if_match(asked.request, "This is of your own account, which nobody else changes.")
        return asked


class AllowsAnyone:
    """Of a route that asks nobody who he is. `reason` says why that is right."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    async def __call__(self, request: Request) -> None:
        if request.method != "GET":
            require_no_if_match(request, "Whoever asks this is nobody yet, and has nothing to compare.")
        require_known_query(request)

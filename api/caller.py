"""Authentication of the caller by API token or sign-in cookie, with the caller's permissions."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session
from starlette.routing import BaseRoute
from starlette.types import Receive, Send
from starlette.types import Scope as Asgi

from api import cookies
from api.application_state import get_settings
from api.credential_rate_limit import has_known_credential, hash_credential, record_credential
from api.query_parameters import require_known_query
from api.response_headers import request_id_of
from api.thread_limits import LimitedRoute, run_in_thread
from nac.accounts import api_tokens, operator_tokens
from nac.accounts.api_tokens import TokenText
from nac.accounts.members import service as members
from nac.accounts.operator_tokens import OperatorToken
from nac.accounts.sign_in import rules, sign_ins
from nac.accounts.sign_in.secret_texts import SignInText
from nac.accounts.sign_in.sign_ins import SignedInPerson
from nac.accounts.sign_in_errors import SecondFactorNeeded
from nac.core.access.grants import Grant, MspRef, Owner, Principal, TenantReach, TenantRef
from nac.core.access.tenant_lookup import find_msp, find_tenant
from nac.core.audit.service import RequestOrigin
from nac.kit.clock import utc_now
from nac.kit.db import (
    CredentialScope,
    MspScope,
    PersonScope,
    PlatformScope,
    Scope,
    TenantScope,
    session_scope,
)
from nac.kit.errors import AdmitError
from nac.kit.ids import MspId
from nac.kit.permissions import Permission, PermissionLevel, permissions_at

bearer = HTTPBearer(auto_error=False, scheme_name="HTTPBearer", description="API token: admit_<id>_<secret>.")


class NotSignedIn(AdmitError):
    """Authentication is required: an API token or a sign-in."""

    status = 401


def require_credential(scope: Mapping[str, Any]) -> None:
    """Raises NotSignedIn if the headers contain no credential."""
    if hash_credential(scope["headers"]) is None:
        raise _build_not_signed_in()


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, and the tenant or MSP in the path of the request.

    One transaction reads the caller, tenant and MSP. Row-level security limits this transaction to the credential and
    the credential's owner.
    """

    principal: Principal
    origin: RequestOrigin
    tenant: TenantRef | None
    msp: MspRef | None
    request: Request
    response: Response
    # The person of a sign-in; None for a token.
    signed_in: SignedInPerson | None = None
    # Whether a rule requires two factors, but the person signed in with only one factor.
    needs_second_factor: bool = False

    @property
    def msp_id(self) -> MspId | None:
        return None if self.msp is None else self.msp.msp_id

    @property
    def grants_scope(self) -> Scope:
        """Scope of a transaction that can read the tenants and MSPs of the caller's grants.

        For a token, the scope of its only owner.
        """
        if self.signed_in is not None:
            return PersonScope(self.signed_in.person_id)
        owner = self.principal.grants[0].owner
        if owner.tenant_id is not None:
            return TenantScope(owner.tenant_id)
        return PlatformScope() if owner.msp_id is None else MspScope(owner.msp_id)

    def with_withheld_grants(self) -> Principal:
        """Return the caller's principal with only the withheld grants, which this kind of sign-in cannot use."""
        return replace(self.principal, grants=self.principal.withheld)

    @contextmanager
    def read_tenants(self, permission: Permission) -> Iterator[tuple[Session, TenantReach]]:
        """Open a transaction that can read the tenants at which the caller has the permission."""
        reach = self.principal.reach(permission)
        scope: Scope = PlatformScope() if reach.everything else CredentialScope("")
        if self.signed_in is not None and not reach.everything:
            scope = PersonScope(self.signed_in.person_id)
        elif self.signed_in is None:
            # A token has one owner.
            for tenant_id in reach.tenants:
                scope = TenantScope(tenant_id)
            for msp_id in reach.msps:
                scope = MspScope(msp_id)
        with session_scope(scope) as session:
            yield session, reach

    @contextmanager
    def read_msps(self, permission: Permission) -> Iterator[tuple[Session, frozenset[MspId] | None]]:
        """Open a transaction that can read the MSPs at which the caller has the permission.

        Yields the transaction and the ids of the MSPs, or None instead of the ids for all MSPs.

        Raises SecondFactorNeeded if the platform requires a second factor.
        """
        only = self.principal.msps(permission)
        if only is None:
            self.require_second_factor()
        with session_scope(self.grants_scope if only is not None else PlatformScope()) as session:
            yield session, only

    def require_second_factor(self) -> None:
        if self.needs_second_factor:
            raise SecondFactorNeeded(remedy="Sign in with two factors. GET /v1/me lists your second factors.")


def authenticate_caller(request: Request, response: Response, shown: HTTPAuthorizationCredentials | None) -> Caller:
    """Authenticate the caller by token, or by cookie if the request has no token.

    Raises NotSignedIn, TokenRefused, SignInOver, CrossSite and CsrfTokenMissing.
    """
    if shown is None:
        return _authenticate_by_cookie(request, response)
    if shown.credentials.startswith(operator_tokens.PREFIX):
        return _authenticate_operator(request, response, shown.credentials)
    text = TokenText.parse(shown.credentials)
    if text is None:
        raise api_tokens.TokenRefused("unknown")
    origin = _build_origin(request)
    with session_scope(CredentialScope(text.public_id)) as session:
        found = api_tokens.authenticate(
            session,
            text=text,
            address=origin.address,
            now=utc_now(),
            tenant=request.path_params.get("tenant", ""),
        )
        record_credential(request.scope, text.public_id, found.principal.grants[0].owner)
        msp = request.path_params.get("msp")
        return Caller(found.principal, origin, found.tenant, find_msp(session, msp) if msp else None, request, response)


def _authenticate_operator(request: Request, response: Response, text: str) -> Caller:
    """Authenticate the operator of this installation, who can read the operator key.

    The operator has all permissions.
    """
    token = OperatorToken.parse(text)
    try:
        key = operator_tokens.read_key(operator_tokens.get_key_file(get_settings(request).var_dir))
    except (OSError, ValueError):
        # An installation without ./admit has no operator key.
        raise api_tokens.TokenRefused("unknown") from None
    if token is None or not token.is_valid(key):
        raise api_tokens.TokenRefused("wrong-secret")
    record_credential(request.scope, f"operator:{token.user}", Owner())
    principal = Principal(f"cli:{token.user}", (Grant(permissions_at(PermissionLevel.PLATFORM)),))
    with session_scope(CredentialScope("")) as session:
        tenant, msp = _find_named_places(session, request)
    return Caller(principal, _build_origin(request), tenant, msp, request, response)


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
    return NotSignedIn(remedy="Send a token as: Authorization: Bearer admit_...")


def _build_origin(request: Request) -> RequestOrigin:
    return RequestOrigin(request.client.host if request.client else None, request_id_of(request))


def _find_named_places(session: Session, request: Request) -> tuple[TenantRef | None, MspRef | None]:
    tenant, msp = (request.path_params.get(name) for name in ("tenant", "msp"))
    return find_tenant(session, tenant) if tenant else None, find_msp(session, msp) if msp else None


def require_caller(
    request: Request, response: Response, shown: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Caller:
    asked = authenticate_caller(request, response, shown)
    require_known_query(request)
    return asked


async def authenticate_before_body(scope: Asgi) -> None:
    """Check the credential before the body is read, unless the credential was valid recently.

    The route checks the credential again. Without this first check, Admit would read large bodies of unknown callers.
    Raises ConnectionsInUse, and the errors of `authenticate_caller`.
    """
    require_credential(scope)
    if has_known_credential(scope):
        return
    request = Request(scope)
    shown = await bearer(request)
    await run_in_thread(lambda: authenticate_caller(request, Response(), shown), request)


class _AuthenticatedRoute(LimitedRoute):
    """Rejects requests without a credential before the requests count toward limits."""

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        """Raises NotSignedIn, and the errors of LimitedRoute."""
        require_credential(scope)
        await super().__call__(scope, receive, send)


def limit_api_routes(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """Yield the routes, each with a limit on running requests.

    A route that authenticates the caller first rejects requests without a credential.
    """
    for route in routes:
        if isinstance(route, APIRoute):
            bounded = copy(route)
            bounded.app = (_AuthenticatedRoute if needs_caller(route) else LimitedRoute)(route.app)
            yield bounded
        else:
            yield route


def needs_caller(route: APIRoute) -> bool:
    return _depends_on_caller(route.dependant)


def _depends_on_caller(dependant: Dependant) -> bool:
    return dependant.call is require_caller or any(map(_depends_on_caller, dependant.dependencies))

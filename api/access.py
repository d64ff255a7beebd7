"""Who asks, and what he may do where. Every route of the API names its permission through one of these dependencies.

A tenant or MSP that the asker may do nothing in is answered as one that there is not.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

from fastapi import Depends, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session

from api.request_ids import request_id_of
from nac.accounts.grants import Principal, TenantPlace, require
from nac.accounts.owners import Owner
from nac.accounts.permissions import Level, Permission
from nac.accounts.places import find_msp, find_tenant
from nac.api_tokens import service as tokens
from nac.api_tokens.text import TokenText
from nac.audit import service as audit
from nac.audit.service import Origin
from nac.cells import service as cells
from nac.clock import utc_now
from nac.db import CredentialScope, MspScope, PlatformScope, Scope, TenantScope, session_scope
from nac.errors import AdmitError, NotLiveYet
from nac.ids import MspId, TenantId
from nac.msps.service import MspNotFound
from nac.tenants.service import TenantNotFound

# Promise 5 of ARCHITECTURE.md is one second: longer means that the cell is down, and the change is live when it is up.
_LIVE_SECONDS = 5.0
_KEY = Path(description="Slug or id.", max_length=63)
_bearer = HTTPBearer(auto_error=False, description="An API token: admit_<id>_<secret>.")


class NotSignedIn(AdmitError):
    """This takes an API token."""

    status = 401


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks, and which tenant or MSP the path names; read in one transaction, which sees the token and no more."""

    principal: Principal
    origin: Origin
    tenant: TenantPlace | None
    msp_id: MspId | None


def asked_of(request: Request, shown: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> Asked:
    """Raises NotSignedIn and TokenRefused."""
    if shown is None:
        raise NotSignedIn(remedy="Send it as: Authorization: Bearer admit_...")
    text = TokenText.parse(shown.credentials)
    if text is None:
        raise tokens.TokenRefused("unknown")
    address = request.client.host if request.client else None
    tenant, msp = (request.path_params.get(name) for name in ("tenant", "msp"))
    with session_scope(CredentialScope(text.public_id)) as session:
        return Asked(
            tokens.authenticate(session, text=text, address=address, now=utc_now()),
            Origin(address, request_id_of(request)),
            find_tenant(session, tenant) if tenant else None,
            find_msp(session, msp) if msp else None,
        )


Asks = Annotated[Asked, Depends(asked_of)]


@dataclass(frozen=True, slots=True)
class Access:
    """What a route may do: open transactions in one scope, as somebody."""

    principal: Principal
    held: frozenset[Permission]
    scope: Scope
    owner: Owner
    response: Response
    origin: Origin
    wait: bool = False
    # Whose cell tells when a change is live.
    place: TenantPlace | None = field(default=None)

    @property
    def actor(self) -> str:
        return self.principal.actor

    @property
    def tenant_id(self) -> TenantId:
        assert self.place is not None
        return self.place.tenant_id

    @property
    def msp_id(self) -> MspId:
        assert self.owner.msp_id is not None
        return self.owner.msp_id

    @contextmanager
    def read(self) -> Iterator[Session]:
        with session_scope(self.scope) as session:
            yield session

    def as_platform(self) -> "Access":
        """For what reaches beyond the asker's own rows, such as a slot of a cell; its permission has been checked."""
        return replace(self, scope=PlatformScope())

    @contextmanager
    def change(self) -> Iterator[Session]:
        """Commits at exit. Of a tenant's change the answer tells when its cell decides by it: `Admit-Position`, and
        `Admit-Live`, which `?wait=live` waits for."""
        xact = None
        with session_scope(self.scope) as session:
            audit.note_origin(session, self.origin)
            yield session
            if self.place is not None:
                session.flush()
                xact = cells.current_xact(session)
        if xact is not None:
            self.response.headers["Admit-Position"] = xact
            self.response.headers["Admit-Live"] = "true" if self._is_live(xact) else "false"

    def _is_live(self, xact: str) -> bool:
        seconds = _LIVE_SECONDS if self.wait else 0.0
        try:
            cells.wait_until_live(self.scope, tenant_id=self.tenant_id, xact=xact, timeout_seconds=seconds)
        except NotLiveYet:
            return False
        return True


class Requires:
    """A route's permission and the level that it is asked for at."""

    level: ClassVar[Level]

    def __init__(self, permission: Permission) -> None:
        self.permission = permission

    __call__: Callable[..., Access]


class OnTenant(Requires):
    level = Level.TENANT

    def __call__(self, asked: Asks, response: Response, tenant: Annotated[str, _KEY]) -> Access:
        return self._access(asked, response, wait=False)

    def _access(self, asked: Asked, response: Response, *, wait: bool) -> Access:
        place = asked.tenant
        held = frozenset[Permission]() if place is None else asked.principal.on_tenant(place)
        if place is None or not held:
            raise TenantNotFound("There is no such tenant.", place="tenant")
        require(held, self.permission)
        scope, owner = TenantScope(place.tenant_id), Owner(tenant_id=place.tenant_id)
        return Access(asked.principal, held, scope, owner, response, asked.origin, wait, place)


class ChangesTenant(OnTenant):
    def __call__(
        self,
        asked: Asks,
        response: Response,
        tenant: Annotated[str, _KEY],
        wait: Annotated[
            Literal["live"] | None, Query(description="Answer once the tenant's cell decides by the change.")
        ] = None,
    ) -> Access:
        return self._access(asked, response, wait=wait is not None)


class OnMsp(Requires):
    level = Level.MSP

    def __call__(self, asked: Asks, response: Response, msp: Annotated[str, _KEY]) -> Access:
        msp_id = asked.msp_id
        held = frozenset[Permission]() if msp_id is None else asked.principal.on_msp(msp_id)
        if msp_id is None or not held:
            raise MspNotFound("There is no such MSP.", place="msp")
        require(held, self.permission)
        return Access(asked.principal, held, MspScope(msp_id), Owner(msp_id), response, asked.origin)


class OnPlatform(Requires):
    level = Level.PLATFORM

    def __call__(self, asked: Asks, response: Response) -> Access:
        held = asked.principal.on_platform()
        require(held, self.permission)
        return Access(asked.principal, held, PlatformScope(), Owner(), response, asked.origin)

"""Who asks, and what he may do where. Every route of the API names its permission through one of these dependencies.

A tenant or MSP that the asker may do nothing in is answered as one that there is not.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from fastapi import Depends, Path, Query, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session

from api.change import Body, Change, changing, etag, request_sha256
from api.request_ids import request_id_of
from nac.accounts.grants import Principal, TenantPlace, require
from nac.accounts.owners import Owner
from nac.accounts.permissions import Level, Permission
from nac.accounts.places import find_msp, find_tenant
from nac.api_tokens import service as tokens
from nac.api_tokens.text import TokenText
from nac.audit.service import Origin
from nac.clock import utc_now
from nac.db import CredentialScope, MspScope, PlatformScope, Scope, TenantScope, session_scope
from nac.errors import AdmitError
from nac.ids import MspId, TenantId
from nac.msps.service import MspNotFound
from nac.tenants.service import TenantNotFound

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
    request: Request
    response: Response


def asked_of(
    request: Request, response: Response, shown: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Asked:
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
            request,
            response,
        )


_Asks = Annotated[Asked, Depends(asked_of)]
_Digest = Annotated[bytes, Depends(request_sha256)]
_Tenant = Annotated[str, _KEY]
_Msp = Annotated[str, _KEY]
_Wait = Annotated[
    Literal["live"] | None, Query(description="live: answer once the tenant's cell decides by the change.")
]


@dataclass(frozen=True, slots=True)
class Access:
    """What a route may do: open transactions in one scope, as somebody."""

    asked: Asked
    held: frozenset[Permission]
    scope: Scope
    owner: Owner
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

    def as_platform(self) -> "Access":
        """For what reaches beyond the asker's own rows, such as a slot of a cell; its permission has been checked."""
        return replace(self, scope=PlatformScope())

    @contextmanager
    def read(self) -> Iterator[Session]:
        with session_scope(self.scope) as session:
            yield session

    @contextmanager
    def change(self) -> Iterator[Change]:
        """Commits at exit (api.change)."""
        with changing(
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
        """With its ETag, for `If-Match`."""
        self.asked.response.headers["ETag"] = etag(model)
        return model


class Requires:
    """A route's permission and the level that it is asked for at."""

    level: ClassVar[Level]

    def __init__(self, permission: Permission) -> None:
        self.permission = permission

    __call__: Callable[..., Access]

    def _on_tenant(self, asked: Asked) -> Access:
        place = asked.tenant
        held = frozenset[Permission]() if place is None else asked.principal.on_tenant(place)
        if place is None or not held:
            raise TenantNotFound("There is no such tenant.", place="tenant")
        require(held, self.permission)
        return Access(asked, held, TenantScope(place.tenant_id), Owner(tenant_id=place.tenant_id))

    def _on_msp(self, asked: Asked) -> Access:
        msp_id = asked.msp_id
        held = frozenset[Permission]() if msp_id is None else asked.principal.on_msp(msp_id)
        if msp_id is None or not held:
            raise MspNotFound("There is no such MSP.", place="msp")
        require(held, self.permission)
        return Access(asked, held, MspScope(msp_id), Owner(msp_id))

    def _on_platform(self, asked: Asked) -> Access:
        held = asked.principal.on_platform()
        require(held, self.permission)
        return Access(asked, held, PlatformScope(), Owner())


class ReadsTenant(Requires):
    level = Level.TENANT

    def __call__(self, asked: _Asks, tenant: _Tenant) -> Access:
        return self._on_tenant(asked)


class ChangesTenant(Requires):
    level = Level.TENANT

    def __call__(self, asked: _Asks, tenant: _Tenant, digest: _Digest, wait: _Wait = None) -> Access:
        return replace(self._on_tenant(asked), digest=digest, wait=wait is not None)


class ReadsMsp(Requires):
    level = Level.MSP

    def __call__(self, asked: _Asks, msp: _Msp) -> Access:
        return self._on_msp(asked)


class ChangesMsp(Requires):
    level = Level.MSP

    def __call__(self, asked: _Asks, msp: _Msp, digest: _Digest) -> Access:
        return replace(self._on_msp(asked), digest=digest)


class ReadsPlatform(Requires):
    level = Level.PLATFORM

    def __call__(self, asked: _Asks) -> Access:
        return self._on_platform(asked)


class ChangesPlatform(Requires):
    level = Level.PLATFORM

    def __call__(self, asked: _Asks, digest: _Digest) -> Access:
        return replace(self._on_platform(asked), digest=digest)


class Mine:
    """Of a route about the asker himself, who needs no permission for it."""

    def __call__(self, asked: _Asks) -> Asked:
        return asked


class Anyone:
    """Of a route that asks nobody who he is. `reason` says why that is right."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __call__(self) -> None:
        return None

"""API tokens. The owner of a token is a tenant, an MSP or the platform.

Admit shows the text of a token only once, when a caller creates the token.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar, Literal
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Row,
    Text,
    Uuid,
    bindparam,
    case,
    func,
    literal,
    literal_column,
    select,
    true,
    type_coerce,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from nac.accounts.members import service as members
from nac.core.access.grants import (
    UNKNOWN_MSP,
    Grant,
    Owner,
    Principal,
    TenantRef,
    TokenMaker,
    require_covers,
    require_may_grant,
)
from nac.core.audit import service as audit
from nac.kit.bearer_secret import BearerSecret
from nac.kit.clock import utc_now
from nac.kit.db import lock_quota
from nac.kit.db.queries import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.errors import AdmitError, Conflict, InvalidInput, NotFound
from nac.kit.permissions import Permission, permissions_at
from nac.kit.validation import require_future, require_name
from nac.models import ApiToken

TokenStatus = Literal["good", "expired", "revoked"]
ORDERS = SortOrders(
    {
        "id": (ApiToken.id,),
        "name": (ApiToken.name, ApiToken.id),
        "created_at": (ApiToken.created_at, ApiToken.id),
        "expires_at": (ApiToken.expires_at, ApiToken.id),
        "last_used_at": (ApiToken.last_used_at, ApiToken.id),
    }
)
# JSON list of the memberships of the token's maker (the person responsible for the token). NULL if the token has no
# maker. The list is empty if a token of a suspended MSP created this token, directly or through other tokens.
_MAKER_MEMBERSHIPS = literal_column(
    "CASE WHEN api_tokens.maker_id IS NOT NULL THEN memberships_behind(api_tokens)"
    " WHEN api_tokens.parent_id IS NOT NULL AND is_of_suspended_msp(api_tokens) THEN '[]' END",
    JSONB,
)
_REQUESTED_TENANT = (
    func.find_tenant(bindparam("tenant", type_=Text())).table_valued("tenant_id", "msp_id").alias("place")
)
_AUTHENTICATION_QUERY = (
    select(
        ApiToken.id,
        ApiToken.name,
        ApiToken.secret_sha256,
        ApiToken.permissions,
        ApiToken.expires_at,
        ApiToken.revoked_at,
        ApiToken.last_used_at,
        ApiToken.msp_id,
        ApiToken.tenant_id,
        ApiToken.maker_id,
        ApiToken.maker,
        ApiToken.via_msp_id,
        ApiToken.via_tenant_id,
        _MAKER_MEMBERSHIPS.label("behind"),
        type_coerce(_REQUESTED_TENANT.c.tenant_id, Uuid()).label("place_tenant"),
        type_coerce(_REQUESTED_TENANT.c.msp_id, Uuid()).label("place_msp"),
        func.is_suspended_msp(func.coalesce(_REQUESTED_TENANT.c.msp_id, literal(UNKNOWN_MSP.msp_id, Uuid()))).label(
            "is_suspended"
        ),
    )
    .select_from(ApiToken)
    .outerjoin(_REQUESTED_TENANT, true())
    .where(ApiToken.public_id == bindparam("public_id"))
)


def get_by_public_id(session: Session, public_id: str) -> tuple[ApiToken, list[dict[str, Any]] | None] | None:
    """Return the token with this public id, and the memberships of its maker (None if the token has no maker)."""
    query = select(ApiToken, _MAKER_MEMBERSHIPS).where(ApiToken.public_id == public_id)
    row = session.execute(query.execution_options(populate_existing=True)).one_or_none()
    return None if row is None else (row[0], row[1])


def find_for_authentication(session: Session, public_id: str, *, tenant: str) -> Row[*tuple[Any, ...]] | None:
    """Return one row with the token and the requested tenant.

    The column `behind` has the memberships of the token's maker. The columns `place_tenant`, `place_msp` and
    `is_suspended` describe the requested tenant. Every API request runs this query. Therefore the query is one
    statement and creates no model object.
    """
    return session.connection().execute(_AUTHENTICATION_QUERY, {"public_id": public_id, "tenant": tenant}).one_or_none()


def update_last_use(session: Session, token_id: UUID, now: datetime, address: str | None) -> None:
    used = update(ApiToken).where(ApiToken.id == token_id).values(last_used_at=now, last_used_from=address)
    session.execute(used, execution_options={"synchronize_session": False})


def get(session: Session, owner: Owner, token_id: UUID, *, lock: bool = False) -> ApiToken | None:
    query = select(ApiToken).where(owner.owns(ApiToken), ApiToken.id == token_id)
    query = query.execution_options(populate_existing=True)
    return session.scalar(query.with_for_update() if lock else query)


def lock_token(session: Session, token_id: UUID) -> datetime | None:
    """Lock a token until the transaction ends.

    Returns the expiry of the token, or None if the token is revoked. Works in any database scope.
    """
    return session.scalar(select(func.hold_token(token_id)))


def revoke_children(session: Session, token_id: UUID, now: datetime) -> int:
    """Revoke all tokens that this token created. Returns the number of revoked tokens. Works in any database scope."""
    number: int = session.scalars(select(func.revoke_tokens_of(token_id, now))).one()
    return number


def count_valid(session: Session, owner: Owner, now: datetime) -> int:
    query = select(func.count()).select_from(ApiToken)
    query = query.where(owner.owns(ApiToken), ApiToken.revoked_at.is_(None), ApiToken.expires_at > now)
    return session.scalars(query).one()


def _status(now: datetime) -> ColumnElement[str]:
    return case((ApiToken.revoked_at.is_not(None), "revoked"), (ApiToken.expires_at <= now, "expired"), else_="good")


def list_page(
    session: Session, owner: Owner, *, span: PageSpan, text: str, statuses: Collection[TokenStatus], now: datetime
) -> Sequence[ApiToken]:
    query = span.of(select(ApiToken).where(owner.owns(ApiToken)))
    if text:
        query = query.where(contains_text(text, ApiToken.name))
    if statuses:
        query = query.where(_status(now).in_(statuses))
    return session.scalars(query.execution_options(populate_existing=True)).all()


MAX_LIFETIME = timedelta(days=366)
# Maximum number of valid tokens of a tenant, an MSP or the platform. A higher number suggests a program that creates
# tokens and never revokes them.
MAX_TOKENS_PER_OWNER = 200
# Minimum time between two updates of a token's last use. This minimum avoids a database write for each request.
_LAST_USE_INTERVAL = timedelta(minutes=1)
RefusalReason = Literal["unknown", "wrong-secret", "revoked", "expired", "maker-gone"]
_PERMISSIONS_BY_NAME = {permission.value: permission for permission in Permission}


class TokenText(BearerSecret):
    """Text of an API token: `admit_<public id>_<secret>`. Secret scanners can recognise this form."""

    __slots__ = ()
    prefix: ClassVar[str] = "admit_"
    separator: ClassVar[str] = "_"
    purpose: ClassVar[bytes] = b"admit api token 1\0"


class TokenNotFound(NotFound):
    """The token does not exist."""


class TokenRefused(AdmitError):
    """The token is invalid."""

    status = 401

    def __init__(self, why: RefusalReason) -> None:
        """Set the reason `why`, which appears only in the log, not in the response."""
        super().__init__(remedy="Create a new token, or ask an administrator for a token.")
        self.why = why


@dataclass(frozen=True, slots=True)
class CreatedToken:
    row: ApiToken
    # Full text of the token. The database stores only a digest of the secret.
    text: str = field(repr=False)


def create_token(
    session: Session,
    *,
    actor: str,
    held: Collection[Permission],
    owner: Owner,
    name: str,
    permissions: Iterable[str],
    expires_at: datetime,
    maker: TokenMaker | None = None,
    parent_id: UUID | None = None,
) -> CreatedToken:
    """Create a token. Needs the database scope of the owner.

    `held` are the caller's permissions. `maker` is the person responsible for the token. `parent_id` is the id of
    the calling token, if the caller is a token. The new token expires when the parent token expires, or earlier.
    """
    name, wanted = require_name(name), parse_permissions(permissions)
    above = sorted(wanted - permissions_at(owner.level))
    if above:
        raise InvalidInput(
            f"A token at this level cannot have these permissions: {', '.join(above)}.",
            place="permissions",
            remedy="Remove these permissions.",
        )
    require_may_grant(held, wanted)
    now = utc_now()
    if expires_at > now + MAX_LIFETIME:
        raise InvalidInput(
            f"The expiry {expires_at:%Y-%m-%d} is more than {MAX_LIFETIME.days} days in the future.",
            place="expires_at",
            remedy=f"Set an expiry of {now + MAX_LIFETIME:%Y-%m-%d} or earlier.",
        )
    require_future(expires_at, place="expires_at")
    if parent_id is not None:
        expires_at = min(expires_at, _require_parent_end(lock_token(session, parent_id)))
    lock_quota(session, "tokens", owner)
    if count_valid(session, owner, now) >= MAX_TOKENS_PER_OWNER:
        raise Conflict(f"The limit of {MAX_TOKENS_PER_OWNER} tokens is reached.", remedy="Revoke unused tokens.")
    text = TokenText.make()
    row = ApiToken(
        public_id=text.public_id,
        secret_sha256=text.digest(),
        name=name,
        permissions=sorted(wanted),
        expires_at=expires_at,
        created_by=actor,
        maker_id=maker and maker.person_id,
        maker=maker and maker.actor,
        via_msp_id=maker and maker.via.msp_id,
        via_tenant_id=maker and maker.via.tenant_id,
        parent_id=parent_id,
        **owner.columns(),
    )
    session.add(row)
    session.flush()
    after = {"permissions": row.permissions, "expires_at": expires_at.isoformat()}
    audit.append(session, actor=actor, action="token.make", target=f"{name} ({text})", after=after, **owner.columns())
    return CreatedToken(row, text.reveal())


def _require_parent_end(parent_ends_at: datetime | None) -> datetime:
    if parent_ends_at is None:
        raise TokenRefused("revoked")
    return parent_ends_at


def parse_permissions(names: Iterable[str]) -> frozenset[Permission]:
    """Return the permissions with these names. Raises InvalidInput if a name is unknown, or if `names` is empty."""
    names = set(names)
    unknown = sorted(names.difference(Permission))
    if unknown or not names:
        message = f"Unknown permission {', '.join(unknown)}." if unknown else "At least one permission is required."
        raise InvalidInput(message, place="permissions", remedy="Use permissions such as endpoint.read.")
    return frozenset(map(Permission, names))


@dataclass(frozen=True, slots=True)
class AuthenticatedToken:
    # Caller with the token's permissions.
    principal: Principal
    # Requested tenant; None if the tenant does not exist.
    tenant: TenantRef | None


def authenticate(
    session: Session, *, text: TokenText, address: str | None, now: datetime, tenant: str = ""
) -> AuthenticatedToken:
    """Check a token. `tenant` is the slug or id of the tenant in the request. Raises TokenRefused.

    Needs CredentialScope with the token's public id.
    """
    row = find_for_authentication(session, text.public_id, tenant=tenant)
    if row is None:
        raise TokenRefused("unknown")
    if not text.is_of(row.secret_sha256):
        raise TokenRefused("wrong-secret")
    if row.revoked_at is not None:
        raise TokenRefused("revoked")
    if row.expires_at <= now:
        raise TokenRefused("expired")
    permissions = _effective_permissions(row, row.behind)
    if not permissions:
        raise TokenRefused("maker-gone")
    if row.last_used_at is None or row.last_used_at <= now - _LAST_USE_INTERVAL:
        update_last_use(session, row.id, now, address)
    grant = Grant(permissions, msp_id=row.msp_id, tenant_id=row.tenant_id)
    place = None if row.place_tenant is None else TenantRef(row.place_tenant, row.place_msp, row.is_suspended)
    principal = Principal(f"token:{row.name} ({text})", (grant,), maker=_build_maker(row), token_id=row.id)
    return AuthenticatedToken(principal, place)


# A token as a model object, or as a row of the table's columns.
_TokenRow = ApiToken | Row[*tuple[Any, ...]]


def _effective_permissions(row: _TokenRow, behind: Sequence[Mapping[str, Any]] | None) -> frozenset[Permission]:
    """Return those permissions of the token that the token's maker still has.

    Ignores permissions that do not exist in this version of Admit.
    """
    given = _known_permissions(tuple(row.permissions))
    if behind is None:
        return given
    held = (members.membership_permissions_at(Owner(row.msp_id, row.tenant_id), **each) for each in behind)
    return given & frozenset[Permission]().union(*held)


@lru_cache
def _known_permissions(names: tuple[str, ...]) -> frozenset[Permission]:
    """Return the permissions with these names. The results are cached, because every request needs them."""
    return frozenset(_PERMISSIONS_BY_NAME[name] for name in names if name in _PERMISSIONS_BY_NAME)


def _build_maker(row: _TokenRow) -> TokenMaker | None:
    if row.maker_id is None or row.maker is None:
        return None
    return TokenMaker(row.maker_id, row.maker, Owner(row.via_msp_id, row.via_tenant_id))


def get_valid(session: Session, *, owner: Owner, text: TokenText, now: datetime) -> ApiToken | None:
    """Return the token with this text if the token belongs to the owner and is valid, otherwise None."""
    found = get_by_public_id(session, text.public_id)
    if found is None:
        return None
    row, behind = found
    if (row.msp_id, row.tenant_id) != (owner.msp_id, owner.tenant_id) or not text.is_of(row.secret_sha256):
        return None
    return row if row.revoked_at is None and row.expires_at > now and _effective_permissions(row, behind) else None


def require_token(session: Session, *, owner: Owner, token_id: UUID, lock: bool = False) -> ApiToken:
    row = get(session, owner, token_id, lock=lock)
    if row is None:
        raise TokenNotFound("This token does not exist.", place="token")
    return row


def revoke_token(
    session: Session, *, actor: str, held: Collection[Permission], owner: Owner, token_id: UUID
) -> ApiToken:
    """Revoke a token and all tokens that it created. A repeated call has no effect.

    Raises PermissionMissing if the token has a permission that is not in `held`.
    """
    row = require_token(session, owner=owner, token_id=token_id, lock=True)
    require_covers(held, _known_permissions(tuple(row.permissions)), what="The token")
    if row.revoked_at is None:
        row.revoked_at = utc_now()
        session.flush()
        after = {"with_it": revoke_children(session, row.id, row.revoked_at)}
        target = f"{row.name} ({TokenText.prefix}{row.public_id})"
        audit.append(session, actor=actor, action="token.revoke", target=target, after=after, **owner.columns())
    return row


def list_tokens(
    session: Session,
    *,
    owner: Owner,
    span: PageSpan | None = None,
    text: str = "",
    statuses: Collection[TokenStatus] = (),
) -> Sequence[ApiToken]:
    """List tokens of the owner. `text` is a part of the token's name."""
    span = span or ORDERS.first()
    return list_page(session, owner, span=span, text=text, statuses=statuses, now=utc_now())

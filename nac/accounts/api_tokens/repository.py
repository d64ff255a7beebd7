from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal
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

from nac.core.access.grants import UNKNOWN_MSP
from nac.core.access.owners import Owner
from nac.kit.db.queries import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
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
# JSON list of the memberships of the token's maker, the person who created it. NULL if no person created it. Empty for
# a token that another token of a suspended MSP created.
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
    """Token with this public id, and the memberships of the token's maker (None if no person is the maker)."""
    query = select(ApiToken, _MAKER_MEMBERSHIPS).where(ApiToken.public_id == public_id)
    row = session.execute(query.execution_options(populate_existing=True)).one_or_none()
    return None if row is None else (row[0], row[1])


def find_for_authentication(session: Session, public_id: str, *, tenant: str) -> Row[*tuple[Any, ...]] | None:
    """Token and requested tenant, as one row.

    `behind` has the maker's memberships. `place_tenant`, `place_msp` and `is_suspended` describe the requested tenant.
    Every API request runs this query. Therefore the query is one statement and creates no model object.
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
    """Revoke all tokens that this token created. Returns the number of revoked tokens. Works in any database
    scope."""
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

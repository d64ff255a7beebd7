"""Tokens of programs: of an owner, with permissions of their own, for a time. The text is shown once."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from sqlalchemy.orm import Session

from nac.accounts.grants import Grant, Principal, require_not_more
from nac.accounts.owners import Owner
from nac.accounts.permissions import Permission, permissions_at
from nac.api_tokens import repository
from nac.api_tokens.text import TokenText
from nac.audit import service as audit
from nac.clock import utc_now
from nac.errors import AdmitError, Conflict, InvalidInput, NotFound
from nac.models import ApiToken
from nac.validation import require_name

LONGEST = timedelta(days=366)
# Good ones of an owner: more are a program that makes tokens and forgets them.
MOST_OF_AN_OWNER = 200
# The last use is written down when it is so much newer, so that a busy program does not write with each question.
_USE_STEP = timedelta(minutes=1)

Why = Literal["unknown", "wrong-secret", "revoked", "expired"]


class TokenNotFound(NotFound):
    """There is no such token."""


class TokenRefused(AdmitError):
    """This token is not valid."""

    status = 401

    def __init__(self, why: Why) -> None:
        """`why` is for the log: who shows a token learns only that it is not valid."""
        super().__init__(remedy="Make a new one, or ask an administrator for it.")
        self.why = why


@dataclass(frozen=True, slots=True)
class Made:
    row: ApiToken
    # As the program shows it; it is kept nowhere.
    text: str = field(repr=False)


def make_token(
    session: Session,
    *,
    actor: str,
    held: Collection[Permission],
    owner: Owner,
    name: str,
    permissions: Iterable[str],
    expires_at: datetime,
) -> Made:
    """`held` is what who makes it may do there himself. In the scope of the owner."""
    name, wanted = require_name(name), parse_permissions(permissions)
    above = sorted(wanted - permissions_at(owner.level))
    if above:
        raise InvalidInput(f"These mean nothing there: {', '.join(above)}.", place="permissions")
    require_not_more(held, wanted)
    now = utc_now()
    if not now < expires_at <= now + LONGEST:
        raise InvalidInput(
            "A token ends within a year.",
            place="expires_at",
            remedy=f"Give a time to come, {LONGEST.days} days at most.",
        )
    if repository.count_good(session, owner, now) >= MOST_OF_AN_OWNER:
        raise Conflict(f"There are {MOST_OF_AN_OWNER} tokens already.", remedy="Revoke those that nobody uses.")
    text = TokenText.make()
    row = ApiToken(
        public_id=text.public_id,
        secret_sha256=text.digest(),
        name=name,
        permissions=sorted(wanted),
        expires_at=expires_at,
        created_by=actor,
        **owner.columns(),
    )
    session.add(row)
    session.flush()
    after = {"permissions": row.permissions, "expires_at": expires_at.isoformat()}
    audit.append(session, actor=actor, action="token.make", target=f"{name} ({text})", after=after, **owner.columns())
    return Made(row, text.reveal())


def parse_permissions(names: Iterable[str]) -> frozenset[Permission]:
    """Raises InvalidInput that names what there is none of."""
    names = set(names)
    unknown = sorted(names.difference(Permission))
    if unknown or not names:
        told = f"There is no permission {', '.join(unknown)}." if unknown else "Without permissions it can do nothing."
        raise InvalidInput(told, place="permissions")
    return frozenset(map(Permission, names))


def authenticate(session: Session, *, text: TokenText, address: str | None, now: datetime) -> Principal:
    """Whom the program acts for. In CredentialScope of the token's public id. Raises TokenRefused."""
    row = repository.get_by_public_id(session, text.public_id)
    if row is None:
        raise TokenRefused("unknown")
    if not text.is_of(row.secret_sha256):
        raise TokenRefused("wrong-secret")
    if row.revoked_at is not None:
        raise TokenRefused("revoked")
    if row.expires_at <= now:
        raise TokenRefused("expired")
    if row.last_used_at is None or row.last_used_at <= now - _USE_STEP:
        row.last_used_at, row.last_used_from = now, address
        session.flush()
    # What a later version has no name for any more gives nothing.
    permissions = frozenset(Permission(name) for name in row.permissions if name in set(Permission))
    grant = Grant(permissions, msp_id=row.msp_id, tenant_id=row.tenant_id)
    return Principal(f"token:{row.name} ({text})", (grant,))


def get_good(session: Session, *, owner: Owner, text: TokenText, now: datetime) -> ApiToken | None:
    """The token of this text, where it is the owner's and is good."""
    row = repository.get_by_public_id(session, text.public_id)
    if (
        row is None
        or (row.msp_id, row.tenant_id) != (owner.msp_id, owner.tenant_id)
        or not text.is_of(row.secret_sha256)
    ):
        return None
    return row if row.revoked_at is None and row.expires_at > now else None


def require(session: Session, *, owner: Owner, token_id: UUID) -> ApiToken:
    row = repository.get(session, owner, token_id)
    if row is None:
        raise TokenNotFound("There is no such token.", place="token")
    return row


def revoke_token(session: Session, *, actor: str, owner: Owner, token_id: UUID) -> ApiToken:
    """Good for nothing from the commit on. Once more changes nothing."""
    row = require(session, owner=owner, token_id=token_id)
    if row.revoked_at is None:
        row.revoked_at = utc_now()
        session.flush()
        target = f"{row.name} ({TokenText.prefix}{row.public_id})"
        audit.append(session, actor=actor, action="token.revoke", target=target, **owner.columns())
    return row


def list_tokens(
    session: Session, *, owner: Owner, after_id: UUID | None = None, limit: int = 100
) -> Sequence[ApiToken]:
    return repository.list_page(session, owner, after_id=after_id, limit=limit)

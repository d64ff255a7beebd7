"""API tokens of the platform, of an MSP and of a tenant: the same routes for each."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from api.access import Access, Requires
from api.change import Observed
from api.v1.inputs import Input, Name, PermissionNames
from api.v1.moments import Moment
from api.v1.owners import of_every_owner
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.api_tokens import service as tokens
from nac.api_tokens.repository import ORDERS, TokenStatus
from nac.api_tokens.text import TokenText
from nac.models import ApiToken as TokenRow

router = APIRouter(tags=["tokens"])


class Token(Observed):
    id: UUID = Field(description="Id; it stays.")
    name: str = Field(description="Name, for people.")
    prefix: str = Field(description="What the token's text begins with.")
    permissions: list[str] = Field(
        description="Names of permissions, such as endpoint.read (docs/reference/permissions.md)."
    )
    expires_at: datetime = Field(description="When it ends.")
    revoked_at: datetime | None = Field(description="When it was revoked.")
    last_used_at: datetime | None = Field(description="When it was used last; null: never.")
    last_used_from: str | None = Field(description="IP address that it was used from last.")
    created_by: str = Field(description="Who made it.")
    maker: str | None = Field(
        description="E-mail address of the person who made it; null for a token of the command line or the platform."
    )
    parent_id: UUID | None = Field(description="The token that made it, with which it ends.")
    created_at: datetime = Field(description="When it was made.")

    def observed(self) -> set[str]:
        return {"last_used_at", "last_used_from"}


class CreatedToken(Token):
    token: str = Field(description="The text of the token. Shown this once.")


class TokenInput(Input):
    name: Name = Field(examples=["monitoring"], description="What it is for.")
    permissions: PermissionNames = Field(
        examples=[["session.read"]],
        description="Names of permissions, such as endpoint.read (docs/reference/permissions.md).",
    )
    expires_at: Moment = Field(description="When it ends.")


def _routes(prefix: str, noun: str, reads: Requires, manages: Requires) -> None:
    read, manage = Depends(reads), Depends(manages)

    @router.get(f"{prefix}/tokens", operation_id=f"list{noun}Tokens")
    def list_tokens(
        access: Annotated[Access, read],
        paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
        text: Annotated[str, Query(max_length=200, description="A part of the name.")] = "",
        status: Annotated[list[TokenStatus] | None, Query()] = None,
    ) -> Page[Token]:
        with access.read() as session:
            rows = tokens.list_tokens(session, owner=access.owner, span=paging.span, text=text, statuses=status or ())
            return paging.ordered(rows, _token)

    @router.post(f"{prefix}/tokens", status_code=201, operation_id=f"create{noun}Token")
    def make_token(access: Annotated[Access, manage], body: TokenInput) -> CreatedToken:
        """With permissions that the asker has himself, and while he has them. The token's text is in this answer alone.

        Made with a token, it ends with that one at the latest.
        """
        with access.change() as change:
            made = tokens.make_token(
                change.session,
                actor=access.actor,
                held=access.held,
                owner=access.owner,
                maker=access.principal.maker,
                parent_id=access.principal.token_id,
                **body.model_dump(),
            )
            change.session.refresh(made.row)
            change.located(made.row.id)
            shown = _token(made.row)
            return change.answer(CreatedToken(**shown.model_dump(), token=made.text), state=shown)

    @router.get(f"{prefix}/tokens/{{token_id}}", operation_id=f"get{noun}Token")
    def get_token(access: Annotated[Access, read], token_id: UUID) -> Token:
        """Without its text, which was shown once."""
        with access.read() as session:
            return access.shown(_token(tokens.require(session, owner=access.owner, token_id=token_id)))

    @router.delete(f"{prefix}/tokens/{{token_id}}", status_code=204, operation_id=f"revoke{noun}Token")
    def revoke_token(access: Annotated[Access, manage], token_id: UUID) -> None:
        """Good for nothing from now on; nor are those that were made with it. You cannot revoke a token that holds
        permissions which you do not have."""
        with access.change() as change:
            row = tokens.require(change.session, owner=access.owner, token_id=token_id, lock=True)
            change.require_match(_token(row))
            tokens.revoke_token(
                change.session, actor=access.actor, held=access.held, owner=access.owner, token_id=token_id
            )
            change.answer_nothing()


for each in of_every_owner(Permission.TOKEN_READ, Permission.TOKEN_MANAGE, Effect.RIGHTS):
    _routes(*each)


def _token(row: TokenRow) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        prefix=f"{TokenText.prefix}{row.public_id}",
        permissions=row.permissions,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
        last_used_from=row.last_used_from,
        created_by=row.created_by,
        maker=row.maker,
        parent_id=row.parent_id,
        created_at=row.created_at,
    )

"""API tokens of the platform, an MSP or a tenant."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import Field

from api.access import Access, RequiresPermission
from api.change import ObservedModel
from api.described.described_routes import describe_level
from api.routes import NounRouter
from api.v1.inputs import Input, Name, PermissionNames
from api.v1.owner_routes import list_owner_routes
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.timestamps import Moment
from nac.accounts import api_tokens
from nac.accounts.api_tokens import ORDERS, TokenStatus, TokenText
from nac.kit.permissions import Effect, Permission
from nac.models import ApiToken as TokenRow

router = NounRouter(tag="tokens", description="API tokens for programs.")
_TokenId = Annotated[UUID, Path(description="Id of the token.")]


class Token(ObservedModel):
    id: UUID = Field(description="Permanent id of the token.")
    name: str = Field(description="Name of the token.")
    prefix: str = Field(examples=["admit_k3m9pq7r2xw4"], description="Beginning of the text of the token.")
    permissions: list[str] = Field(
        description="Permissions of the token, such as endpoint.read (docs/reference/permissions.md)."
    )
    expires_at: datetime = Field(description="Time when the token expires.")
    revoked_at: datetime | None = Field(description="Time when the token was revoked; null if not revoked.")
    last_used_at: datetime | None = Field(description="Time when the token was last used; null if never used.")
    last_used_from: str | None = Field(
        examples=["192.0.2.77"], description="IP address from which the token was last used."
    )
    created_by: str = Field(description="Actor who created the token.")
    maker: str | None = Field(
        description="E-mail address of the person who created the token; null for a token of the command line or the "
        "platform."
    )
    parent_id: UUID | None = Field(
        description="Id of the token that created this token. If the creating token ends, this token ends too."
    )
    created_at: datetime = Field(description="Time when the token was created.")

    def observed_fields(self) -> set[str]:
        return {"last_used_at", "last_used_from"}


class CreatedToken(Token):
    token: str = Field(description="Text of the new token, only in this response.")


class TokenInput(Input):
    name: Name = Field(examples=["monitoring"], description="Name of the token, which describes the purpose.")
    permissions: PermissionNames = Field(
        examples=[["session.read"]],
        description="Permissions of the token, such as endpoint.read (docs/reference/permissions.md).",
    )
    expires_at: Moment = Field(description="Time when the token expires.")


def _add_routes(prefix: str, noun: str, reads: RequiresPermission, manages: RequiresPermission) -> None:
    read, manage = Depends(reads), Depends(manages)

    @router.get(
        f"{prefix}/tokens",
        operation_id=f"list{noun}Tokens",
        description=f"List API tokens of {describe_level(reads)}, without the texts of the tokens.",
    )
    def list_tokens(
        access: Annotated[Access, read],
        paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
        text: Annotated[str, Query(max_length=200, description="Part of the name of the tokens to list.")] = "",
        status: Annotated[list[TokenStatus] | None, Query(description="Status of the tokens to list.")] = None,
    ) -> Page[Token]:
        with access.read() as session:
            rows = api_tokens.list_tokens(
                session, owner=access.owner, span=paging.span, text=text, statuses=status or ()
            )
            return paging.ordered(rows, _build_token)

    @router.post(f"{prefix}/tokens", status_code=201, operation_id=f"create{noun}Token")
    def create_token(access: Annotated[Access, manage], body: TokenInput) -> CreatedToken:
        """Create an API token.

        You must have every permission of the new token. The token loses permissions that you lose. Only this response
        contains the text of the token.

        If another token creates the new token, the new token ends no later than the creating token.
        """
        with access.change() as change:
            made = api_tokens.create_token(
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
            token = _build_token(made.row)
            return change.answer(CreatedToken(**token.model_dump(), token=made.text), state=token)

    @router.get(f"{prefix}/tokens/{{token_id}}", operation_id=f"get{noun}Token")
    def get_token(access: Annotated[Access, read], token_id: _TokenId) -> Token:
        """Get a token, without the text of the token."""
        with access.read() as session:
            return access.shown(_build_token(api_tokens.require_token(session, owner=access.owner, token_id=token_id)))

    @router.delete(f"{prefix}/tokens/{{token_id}}", status_code=204, operation_id=f"revoke{noun}Token")
    def revoke_token(access: Annotated[Access, manage], token_id: _TokenId) -> None:
        """Revoke a token, and all tokens that the token created.

        You must have every permission of the token.
        """
        with access.change() as change:
            row = api_tokens.require_token(change.session, owner=access.owner, token_id=token_id, lock=True)
            change.require_match(_build_token(row))
            api_tokens.revoke_token(
                change.session, actor=access.actor, held=access.held, owner=access.owner, token_id=token_id
            )
            change.set_empty_response()


for each in list_owner_routes(Permission.TOKEN_READ, Permission.TOKEN_MANAGE, Effect.RIGHTS):
    _add_routes(*each)


def _build_token(row: TokenRow) -> Token:
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

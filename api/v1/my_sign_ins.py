"""Your sign-ins and failed attempts."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import Depends
from pydantic import BaseModel, Field

from api.own_account import OwnAccount
from api.routes import NounRouter
from api.v1.paging import Page, SortedPaging, format_moment_key, parse_moment_key, require_time_paging
from nac.accounts.sign_in import history
from nac.accounts.sign_in.history import HistoryEntry

router = NounRouter(tag="my-sign-ins", description="Your sign-ins and failed attempts.")


class SignInAttempt(BaseModel):
    at: datetime = Field(description="Time of the sign-in, or of the last failed attempt in the group.")
    outcome: Literal["signed-in", "failed"] = Field(description="Outcome of the attempt: signed-in or failed.")
    attempts: int = Field(
        description=(
            "Number of attempts in the group. Admit groups failed attempts by hour, reason and source; a sign-in "
            "is a group of one."
        ),
        examples=[3],
    )
    since: datetime = Field(description="Time of the sign-in, or of the first failed attempt in the group.")
    reason: str | None = Field(
        examples=["wrong-password"], description="Reason code of the failure; null for a successful sign-in."
    )
    factors: list[str] = Field(
        examples=[["password", "totp"]],
        description="Factors of the sign-in: password, totp, passkey, recovery-code, sign-on.",
    )
    from_address: str | None = Field(description="IP address of the browser that sent the attempt.")
    user_agent: str = Field(description="User-Agent of the browser that sent the attempt.")


@router.get("/me/sign-ins", operation_id="listMySignIns")
def list_my_sign_ins(
    me: Annotated[OwnAccount, Depends()], paging: Annotated[SortedPaging, Depends(require_time_paging("at"))]
) -> Page[SignInAttempt]:
    """List your sign-ins and failed attempts of the last 90 days, newest first."""
    after = parse_moment_key(paging.after())
    with me.session() as session:
        rows = history.list_history(
            session,
            signed_in=me.signed_in,
            after=after,
            limit=paging.limit + 1,
            oldest_first=not paging.goes_down,
        )
    return paging.page(rows, lambda row: format_moment_key(row.at, row.id), _build_attempt)


def _build_attempt(row: HistoryEntry) -> SignInAttempt:
    return SignInAttempt(
        at=row.at,
        outcome=row.outcome,
        attempts=row.attempts,
        since=row.since,
        reason=row.reason,
        factors=row.factors,
        from_address=row.from_address,
        user_agent=row.user_agent,
    )

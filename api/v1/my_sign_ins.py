"""Where you have signed in, and who has tried."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from api.me import Me
from api.v1.paging import Page, SortedPaging, moment_key, moment_of, sorted_by_time
from nac.sign_in import history
from nac.sign_in.history import HistoryEntry

router = APIRouter(tags=["my-sign-ins"])


class SignInAttempt(BaseModel):
    at: datetime = Field(description="Of failed ones the last.")
    outcome: Literal["signed-in", "failed"] = Field(description="Whether it was a sign-in, or failed.")
    attempts: int = Field(description="Failed ones of an hour are counted by reason and source.", examples=[3])
    since: datetime = Field(description="The first of them.")
    reason: str | None = Field(examples=["wrong-password"], description="Why: a code.")
    factors: list[str] = Field(
        examples=[["password", "totp"]],
        description="What was shown to sign in: password, totp, passkey, recovery-code, sign-on.",
    )
    from_address: str | None = Field(description="IP address that it came from.")
    user_agent: str = Field(description="What the browser says that it is.")


@router.get("/me/sign-ins", operation_id="listMySignIns")
def list_my_sign_ins(
    me: Annotated[Me, Depends()], paging: Annotated[SortedPaging, Depends(sorted_by_time("at"))]
) -> Page[SignInAttempt]:
    """Of the last 90 days, newest first: sign-ins, and attempts that failed."""
    after = moment_of(paging.after())
    with me.session() as session:
        rows = history.list_history(
            session,
            signed_in=me.signed_in,
            after=after,
            limit=paging.limit + 1,
            oldest_first=not paging.goes_down,
        )
    return paging.page(rows, lambda row: moment_key(row.at, row.id), _attempt)


def _attempt(row: HistoryEntry) -> SignInAttempt:
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

"""What the platform, an MSP and a tenant ask of people who come in: the same routes for each."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from api.access import Access, Requires
from api.v1.inputs import Input
from api.v1.owners import of_every_owner
from nac.accounts.permissions import Permission
from nac.sign_in import rules

router = APIRouter(tags=["sign-in rules"])


class Rules(BaseModel):
    # Of an MSP: in its tenants as well. Of the platform: everywhere.
    two_factors: bool


class RulesChange(Input):
    two_factors: bool


def _routes(prefix: str, noun: str, reads: Requires, manages: Requires) -> None:
    read, manage = Depends(reads), Depends(manages)

    @router.get(f"{prefix}/sign-in-rules", operation_id=f"get{noun}SignInRules")
    def get_rules(access: Annotated[Access, read]) -> Rules:
        with access.read() as session:
            return access.shown(Rules(two_factors=rules.get(session, owner=access.owner).two_factors))

    @router.put(f"{prefix}/sign-in-rules", operation_id=f"change{noun}SignInRules")
    def change_rules(access: Annotated[Access, manage], body: RulesChange) -> Rules:
        """Whoever has not signed in with two factors is refused there from now on. Tokens of programs are not asked."""
        with access.change() as change:
            row = rules.change(
                change.session,
                actor=access.actor,
                owner=access.owner,
                two_factors=body.two_factors,
                by=access.asked.signed_in,
            )
            return change.answer(Rules(two_factors=row.two_factors))


for each in of_every_owner(Permission.MEMBER_READ, Permission.MEMBER_MANAGE):
    _routes(*each)

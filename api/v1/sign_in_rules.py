"""Sign-in rules of the platform, an MSP or a tenant."""

from typing import Annotated

from fastapi import Depends
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, RequiresPermission
from api.described.described_routes import describe_level
from api.routes import NounRouter
from api.v1.inputs import Input, body_example
from api.v1.owner_routes import list_owner_routes
from nac.accounts.sign_in import rules
from nac.kit.permissions import Effect, Permission
from nac.models import SignInRule

router = NounRouter(tag="sign-in rules", description="Sign-in rules, which define the required strength of sign-ins.")


class SignInRules(BaseModel):
    two_factors: bool = Field(
        description="Whether members need two factors. The rule of an MSP applies to the MSP's tenants too. The rule "
        "of the platform applies to all MSPs and tenants."
    )
    sign_on_only: bool = Field(description="Whether members can sign in only by single sign-on.")
    local_account: str | None = Field(
        description=(
            "E-mail address of the only member who can sign in with two factors instead of the provider; null if "
            "no member can."
        )
    )


class SignInRulesUpdate(Input):
    model_config = body_example({"two_factors": True})

    two_factors: bool = Field(
        description="Whether members need two factors. The rule of an MSP applies to the MSP's tenants too. The rule "
        "of the platform applies to all MSPs and tenants."
    )
    sign_on_only: bool | None = Field(
        None, description="Whether members can sign in only by single sign-on; null to leave the rule unchanged."
    )
    local_account: str | None = Field(
        None,
        max_length=254,
        examples=["break-glass@acme.example"],
        description=(
            'E-mail address of the only member who can sign in without the provider (with two factors). "" if no '
            "member can, null to leave the address unchanged."
        ),
    )


def _add_routes(prefix: str, noun: str, reads: RequiresPermission, manages: RequiresPermission) -> None:
    read, manage = Depends(reads), Depends(manages)

    @router.get(
        f"{prefix}/sign-in-rules",
        operation_id=f"get{noun}SignInRules",
        description=f"Get the sign-in rules for members of {describe_level(reads)}.",
    )
    def get_rules(access: Annotated[Access, read]) -> SignInRules:
        with access.read() as session:
            return access.shown(_build_rules(session, rules.get_rule(session, owner=access.owner)))

    @router.put(f"{prefix}/sign-in-rules", operation_id=f"update{noun}SignInRules")
    def change_rules(access: Annotated[Access, manage], body: SignInRulesUpdate) -> SignInRules:
        """Update the sign-in rules.

        After the change, Admit rejects sign-ins that do not meet the rules. API tokens are not affected.

        The rules apply to all members, so you need every permission that a member can have. To set `sign_on_only`, you
        need `member.manage`. Also, at least one member with `member.manage` must have signed in by the provider since
        the last change of the provider's settings.
        """
        with access.change() as change:
            now = rules.get_rule(change.session, owner=access.owner, lock=True)
            change.require_match(_build_rules(change.session, now))
            row = rules.update_rule(
                change.session,
                actor=access.actor,
                owner=access.owner,
                two_factors=body.two_factors,
                by=access.asked.signed_in,
                sign_on_only=body.sign_on_only,
                local_account=body.local_account,
            )
            return change.answer(_build_rules(change.session, row))


def _build_rules(session: Session, row: SignInRule) -> SignInRules:
    local = rules.get_local_email(session, row)
    return SignInRules(two_factors=row.two_factors, sign_on_only=row.sign_on_only, local_account=local)


for each in list_owner_routes(Permission.MEMBER_READ, Permission.MEMBER_MANAGE, Effect.SIGN_IN, takes_everything=True):
    _add_routes(*each)

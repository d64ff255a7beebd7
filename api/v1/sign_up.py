"""Signing up for a trial."""

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from api.access import Anyone
from api.description import refuses
from api.sign_up import desk
from api.v1.inputs import Input

router = APIRouter(prefix="/sign-up", tags=["sign-up"], dependencies=[Depends(Anyone("who signs up is nobody yet"))])

ASKED = "If this address can sign up, a mail with a link is on its way to it. The link works for a day."


class SignUpInput(Input):
    email: str = Field(max_length=254, examples=["ann@hill-school.example"], description="E-mail address.")
    organisation: str = Field(
        min_length=1, max_length=200, examples=["Hill School"], description="Name of the organisation."
    )


class SignUpResponse(BaseModel):
    message: str = Field(description="What happens next.")


class SignUpConfirmation(Input):
    token: str = Field(max_length=100, description="Of the link in the mail.")
    password: str = Field(max_length=200, examples=["four words of mine"], description="Of the account that is made.")
    name: str = Field("", max_length=200, examples=["Ann Hill"], description="Of the person.")


class ConfirmedSignUp(BaseModel):
    tenant: str = Field(
        examples=["hill-school-k3m9pq"],
        description='Slug of the tenant; "" while it cannot be made: it will be, and a mail tells.',
    )


@router.post("", status_code=202, operation_id="signUp")
def sign_up(request: Request, body: SignUpInput) -> SignUpResponse:
    """Has a link mailed. The answer is the same whether the address is known or not."""
    desk.ask(request, email=body.email, organisation=body.organisation)
    return SignUpResponse(message=ASKED)


@router.post("/confirm", status_code=201, operation_id="confirmSignUp", responses=refuses(410))
def confirm_sign_up(request: Request, response: Response, body: SignUpConfirmation) -> ConfirmedSignUp:
    """With the token of the link, once: makes the account with this password, and a tenant that admits known devices
    and those with a certificate of its own. Its self-test is under way when this is answered."""
    tenant = desk.confirm(request, token=body.token, password=body.password, name=body.name).tenant
    # Both can be read once the new account has signed in.
    response.headers["Location"] = f"/v1/tenants/{tenant}" if tenant else "/v1/me/places"
    return ConfirmedSignUp(tenant=tenant)

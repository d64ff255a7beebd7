"""Sign-up for a trial."""

from fastapi import Depends, Request, Response
from pydantic import BaseModel, Field

from api import sign_up_flow
from api.access import AllowsAnyone
from api.openapi_document import error_responses
from api.routes import NounRouter
from api.v1.inputs import Input

router = NounRouter(
    prefix="/sign-up",
    tag="sign-up",
    description="Sign-up for trials by mail.",
    dependencies=[Depends(AllowsAnyone("the caller has no account yet"))],
)

LINK_SENT_SENTENCE = "If this address can sign up, a mail with a link is on its way. The link works for a day."


class SignUpInput(Input):
    email: str = Field(
        max_length=254, examples=["ann@hill-school.example"], description="E-mail address of the person who signs up."
    )
    organisation: str = Field(
        min_length=1,
        max_length=200,
        examples=["Hill School"],
        description="Name of the organisation of the new tenant.",
    )


class SignUpResponse(BaseModel):
    message: str = Field(description="Text with the next step of the sign-up.")


class SignUpConfirmation(Input):
    token: str = Field(max_length=100, description="Token of the mailed sign-up link.")
    password: str = Field(max_length=200, examples=["four words of mine"], description="Password of the new account.")
    name: str = Field("", max_length=200, examples=["Ann Hill"], description="Name of the person who signs up.")


class ConfirmedSignUp(BaseModel):
    tenant: str = Field(
        examples=["hill-school-k3m9pq"],
        description=(
            'Slug of the new tenant; "" if Admit cannot create the tenant yet. In this case, Admit creates the '
            "tenant later and sends a mail."
        ),
    )


@router.post("", status_code=202, operation_id="signUp")
def sign_up(request: Request, body: SignUpInput) -> SignUpResponse:
    """Mail a link to sign up for a trial.

    The response is the same for known and unknown addresses.
    """
    sign_up_flow.request_sign_up(request, email=body.email, organisation=body.organisation)
    return SignUpResponse(message=LINK_SENT_SENTENCE)


@router.post("/confirm", status_code=201, operation_id="confirmSignUp", responses=error_responses(410))
def confirm_sign_up(request: Request, response: Response, body: SignUpConfirmation) -> ConfirmedSignUp:
    """Confirm a sign-up with the token of the mailed link.

    The token works once. The operation creates an account with this password, and a tenant. The tenant admits known
    devices and devices with certificates of the tenant. Admit then starts a self-test of the tenant.
    """
    tenant = sign_up_flow.confirm_sign_up(request, token=body.token, password=body.password, name=body.name).tenant
    # Readable after the new account signs in.
    response.headers["Location"] = f"/v1/tenants/{tenant}" if tenant else "/v1/me/places"
    return ConfirmedSignUp(tenant=tenant)

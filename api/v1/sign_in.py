"""Signing in and out, in a browser: what succeeds is answered with a cookie."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from api import cookies
from api.access import Anyone
from api.description import refuses
from api.me import Me
from api.signing_in import Desk, Done, MoreNeeded
from api.v1.inputs import Input
from nac.sign_in import sign_ins
from nac.sign_in.challenges import MAX_TEXT_LENGTH

router = APIRouter(tags=["sign-in"])

_ANYONE = Depends(Anyone("Whoever signs in is nobody yet."))
Email = Annotated[str, Field(max_length=255, pattern=r"^[^\s@\x00]+@[^\s@\x00]+$", examples=["ann@example.com"])]
Password = Annotated[str, Field(max_length=1_000)]
Challenge = Annotated[str, Field(max_length=MAX_TEXT_LENGTH, pattern=r"^[A-Za-z0-9_-]+$")]
Code = Annotated[str, Field(max_length=40, examples=["123456"])]
# As navigator.credentials answers it, by toJSON().
Credential = Annotated[dict[str, Any], Field(max_length=20)]


def desk_of(request: Request, response: Response) -> Desk:
    cookies.require_same_origin(request)
    response.headers["Cache-Control"] = "no-store"
    return Desk(request, response)


_Desk = Annotated[Desk, Depends(desk_of)]


class SignInByPassword(Input):
    email: Email = Field(description="E-mail address.")
    password: Password = Field(description="The person's password.")


class SignInByCode(Input):
    challenge: Challenge = Field(description="From the answer before; good for five minutes.")
    code: Code = Field(description="The one-time code, or the recovery code.")


class PasskeyChallengeInput(Input):
    challenge: Challenge | None = Field(
        None, description="Of a sign-in by password that needs a second factor; null: any passkey signs in."
    )


class SignInByPasskey(Input):
    challenge: Challenge = Field(description="From the answer before; good for five minutes.")
    credential: Credential = Field(description="What navigator.credentials answered, as toJSON() gives it.")


class PasswordReset(Input):
    token: str = Field(max_length=100, description="Of the link in the mail.")
    password: Password = Field(description="The new password.")


class PasswordLinkRequest(Input):
    email: Email = Field(description="E-mail address.")


class PasswordLinkResponse(BaseModel):
    message: str = Field(description="What is wrong, in a sentence.")


class SignedIn(BaseModel):
    state: Literal["signed-in"] = Field(default="signed-in", description="How far it is.")
    csrf_token: str = Field(description="What changes by the cookie send as the header Admit-CSRF.")


class SecondFactorRequired(BaseModel):
    state: Literal["factors-needed"] = Field(default="factors-needed", description="How far it is.")
    methods: list[str] = Field(description="totp, passkey, recovery-code: one of them is enough.")
    challenge: str = Field(description="For the next step; good for five minutes.")


class PasskeyOptions(BaseModel):
    options: dict[str, Any] = Field(
        description="For navigator.credentials, by parseRequestOptionsFromJSON() or parseCreationOptionsFromJSON()."
    )
    challenge: str = Field(description="To be sent with the authenticator's answer, within five minutes.")


@router.post("/sign-in", operation_id="signIn", dependencies=[_ANYONE])
def sign_in(desk: _Desk, body: SignInByPassword) -> SignedIn | SecondFactorRequired:
    """By password. Nothing tells whether there is such a person."""
    found = desk.by_password(body.email, body.password)
    if isinstance(found, MoreNeeded):
        return SecondFactorRequired(methods=list(found.methods), challenge=found.challenge)
    return _signed_in(found)


@router.post("/sign-in/totp", operation_id="signInByTotp", dependencies=[_ANYONE])
def sign_in_by_totp(desk: _Desk, body: SignInByCode) -> SignedIn:
    """The second step: a code of the authenticator app, each good once."""
    return _signed_in(desk.by_totp(body.challenge, body.code))


@router.post("/sign-in/recovery-code", operation_id="signInByRecoveryCode", dependencies=[_ANYONE])
def sign_in_by_recovery_code(desk: _Desk, body: SignInByCode) -> SignedIn:
    """The second step, of whoever has lost the other means."""
    return _signed_in(desk.by_recovery_code(body.challenge, body.code))


@router.post("/sign-in/passkey/options", operation_id="startPasskeySignIn", dependencies=[_ANYONE])
def ask_for_passkey(desk: _Desk, body: PasskeyChallengeInput) -> PasskeyOptions:
    """The second step, or, without a challenge, the only one."""
    options, challenge = desk.ask_passkey(body.challenge)
    return PasskeyOptions(options=options, challenge=challenge)


@router.post("/sign-in/passkey", operation_id="signInByPasskey", dependencies=[_ANYONE])
def sign_in_by_passkey(desk: _Desk, body: SignInByPasskey) -> SignedIn:
    return _signed_in(desk.by_passkey(body.challenge, body.credential))


ASKED = "If there is an account with a password by this address, a mail with a link is on its way to it."


@router.post("/sign-in/forgotten-password", status_code=202, operation_id="requestPasswordLink", dependencies=[_ANYONE])
def ask_for_password_link(desk: _Desk, body: PasswordLinkRequest) -> PasswordLinkResponse:
    """Has a link mailed, with which a new password is set; good once, for an hour. The answer is the same whether there
    is such an account or not, and takes as long."""
    desk.ask_for_link(body.email)
    return PasswordLinkResponse(message=ASKED)


@router.post(
    "/sign-in/new-password",
    status_code=204,
    operation_id="resetPassword",
    dependencies=[_ANYONE],
    responses=refuses(410),
)
def update_password_by_link(desk: _Desk, body: PasswordReset) -> None:
    """By the token of a link, which is good once. Ends all that the person is signed in to."""
    desk.set_password(body.token, body.password)


@router.post("/sign-out", status_code=204, operation_id="signOut")
def sign_out(request: Request, response: Response, me: Annotated[Me, Depends()]) -> None:
    """Of this browser."""
    with me.session() as session:
        sign_ins.end_own(session, signed_in=me.signed_in, sign_in_id=me.signed_in.sign_in_id)
    cookies.clear_cookie(request, response, cookies.SESSION)


def _signed_in(done: Done) -> SignedIn:
    return SignedIn(csrf_token=done.csrf_token)

"""Sign-in and sign-out of a browser. Success sets a cookie."""

from typing import Annotated, Any, Literal

from fastapi import Depends, Request, Response
from pydantic import BaseModel, Field

from api import cookies
from api.access import AllowsAnyone
from api.openapi_document import error_responses
from api.own_account import OwnAccount
from api.routes import NounRouter
from api.sign_in_flow import CompletedSignIn, PendingSignIn, SignInFlow
from api.v1.inputs import Input
from api.validation_messages import EMAIL_PATTERN
from nac.accounts.sign_in import sign_ins
from nac.accounts.sign_in.challenges import MAX_TEXT_LENGTH

router = NounRouter(tag="sign-in", description="Sign-in of people by password, passkey or code.")

_ANYONE = Depends(AllowsAnyone("The caller is not signed in yet."))
Email = Annotated[str, Field(max_length=255, pattern=EMAIL_PATTERN, examples=["ann@example.com"])]
Password = Annotated[str, Field(max_length=1_000)]
Challenge = Annotated[str, Field(max_length=MAX_TEXT_LENGTH, pattern=r"^[A-Za-z0-9_-]+$")]
Code = Annotated[str, Field(max_length=40, examples=["123456"])]
# Response of a passkey: toJSON() of the result of navigator.credentials.get() in the browser (WebAuthn).
Credential = Annotated[dict[str, Any], Field(max_length=20)]


def open_sign_in_flow(request: Request, response: Response) -> SignInFlow:
    cookies.require_same_origin(request)
    response.headers["Cache-Control"] = "no-store"
    return SignInFlow(request, response)


_SignInFlow = Annotated[SignInFlow, Depends(open_sign_in_flow)]


class SignInByPassword(Input):
    email: Email = Field(description="E-mail address of the person.")
    password: Password = Field(description="Password of the person.")


class SignInByCode(Input):
    challenge: Challenge = Field(description="Challenge of the previous response; valid for five minutes.")
    code: Code = Field(description="One-time code or recovery code of the person.")


class PasskeyChallengeInput(Input):
    challenge: Challenge | None = Field(
        None,
        description=(
            "Challenge of a password sign-in that needs a second factor; null to sign in with a passkey and no "
            "password."
        ),
    )


class SignInByPasskey(Input):
    challenge: Challenge = Field(description="Challenge of the previous response; valid for five minutes.")
    credential: Credential = Field(
        description=(
            "Response of the passkey (WebAuthn). In the browser, call navigator.credentials.get(), and send "
            "toJSON() of the result."
        )
    )


class PasswordReset(Input):
    token: str = Field(max_length=100, description="Token of the mailed password link.")
    password: Password = Field(description="New password of the person.")


class PasswordLinkRequest(Input):
    email: Email = Field(description="E-mail address of the person.")


class PasswordLinkResponse(BaseModel):
    message: str = Field(description="Text to show to the person.")


class SignedIn(BaseModel):
    state: Literal["signed-in"] = Field(default="signed-in", description="State of the sign-in: signed-in.")
    csrf_token: str = Field(
        examples=["q83vEjRWeJASNFZ4kBI0Vg"],
        description="CSRF token. Changes that use the sign-in cookie must send the token in the header Admit-CSRF.",
    )


class SecondFactorRequired(BaseModel):
    state: Literal["factors-needed"] = Field(
        default="factors-needed", description="State of the sign-in: factors-needed."
    )
    methods: list[str] = Field(
        description="Possible second factors, of which one is enough: totp, passkey, recovery-code."
    )
    challenge: str = Field(description="Challenge for the next step; valid for five minutes.")


class PasskeyOptions(BaseModel):
    options: dict[str, Any] = Field(
        description=(
            "Options for the passkey (WebAuthn). Convert the options with "
            "PublicKeyCredential.parseRequestOptionsFromJSON() for navigator.credentials.get(), or with "
            "parseCreationOptionsFromJSON() for create()."
        )
    )
    challenge: str = Field(
        description=(
            "Challenge for the next request. Send that request within five minutes, with this challenge and "
            "the response of the passkey."
        )
    )


@router.post("/sign-in", operation_id="signIn", dependencies=[_ANYONE])
def sign_in(desk: _SignInFlow, body: SignInByPassword) -> SignedIn | SecondFactorRequired:
    """Sign in with a password.

    The response does not reveal whether the account exists.
    """
    found = desk.by_password(body.email, body.password)
    if isinstance(found, PendingSignIn):
        return SecondFactorRequired(methods=list(found.methods), challenge=found.challenge)
    return _build_signed_in(found)


@router.post("/sign-in/totp", operation_id="signInByTotp", dependencies=[_ANYONE])
def sign_in_by_totp(desk: _SignInFlow, body: SignInByCode) -> SignedIn:
    """Complete a sign-in with a code of the authenticator app.

    Each code works once.
    """
    return _build_signed_in(desk.by_totp(body.challenge, body.code))


@router.post("/sign-in/recovery-code", operation_id="signInByRecoveryCode", dependencies=[_ANYONE])
def sign_in_by_recovery_code(desk: _SignInFlow, body: SignInByCode) -> SignedIn:
    """Complete a sign-in with a recovery code."""
    return _build_signed_in(desk.by_recovery_code(body.challenge, body.code))


@router.post("/sign-in/passkey/options", operation_id="startPasskeySignIn", dependencies=[_ANYONE])
def ask_for_passkey(desk: _SignInFlow, body: PasskeyChallengeInput) -> PasskeyOptions:
    """Start a sign-in with a passkey, as the second step or without a password."""
    options, challenge = desk.create_passkey_challenge(body.challenge)
    return PasskeyOptions(options=options, challenge=challenge)


@router.post("/sign-in/passkey", operation_id="signInByPasskey", dependencies=[_ANYONE])
def sign_in_by_passkey(desk: _SignInFlow, body: SignInByPasskey) -> SignedIn:
    """Sign in with a passkey, directly or after a password."""
    return _build_signed_in(desk.by_passkey(body.challenge, body.credential))


LINK_SENT_SENTENCE = "If this address has an account with a password, a mail with a link is on its way."


@router.post("/sign-in/forgotten-password", status_code=202, operation_id="requestPasswordLink", dependencies=[_ANYONE])
def ask_for_password_link(desk: _SignInFlow, body: PasswordLinkRequest) -> PasswordLinkResponse:
    """Mail a link to set a new password.

    The link works once, for an hour. Known and unknown addresses get the same response, in the same time.
    """
    desk.ask_for_link(body.email)
    return PasswordLinkResponse(message=LINK_SENT_SENTENCE)


@router.post(
    "/sign-in/new-password",
    status_code=204,
    operation_id="resetPassword",
    dependencies=[_ANYONE],
    responses=error_responses(410),
)
def update_password_by_link(desk: _SignInFlow, body: PasswordReset) -> None:
    """Set a new password with the token of a mailed link.

    The token works once. The person is signed out everywhere.
    """
    desk.set_password(body.token, body.password)


@router.post("/sign-out", status_code=204, operation_id="signOut")
def sign_out(request: Request, response: Response, me: Annotated[OwnAccount, Depends()]) -> None:
    """Sign out of this browser."""
    with me.session() as session:
        sign_ins.end_own(session, signed_in=me.signed_in, sign_in_id=me.signed_in.sign_in_id)
    cookies.clear_cookie(request, response, cookies.SESSION_COOKIE)


def _build_signed_in(done: CompletedSignIn) -> SignedIn:
    return SignedIn(csrf_token=done.csrf_token)

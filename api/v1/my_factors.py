"""Your sign-in factors. Changes require a confirmation within the last ten minutes."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path
from pydantic import BaseModel, Field

from api.application_state import get_signing
from api.own_account import OwnAccount
from api.routes import NounRouter
from api.sign_in_flow import SignInFlow
from api.v1.inputs import Input, Name
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.sign_in import Challenge, Code, Credential, PasskeyOptions, Password, SignInByPasskey, open_sign_in_flow
from nac.accounts.sign_in import passkeys, second_factors, sign_ins
from nac.accounts.sign_in.repository import PASSKEY_ORDERS
from nac.accounts.sign_in.second_factors import Factor
from nac.kit.clock import utc_now
from nac.models import Passkey as PasskeyRow

router = NounRouter(tag="factors", description="Your passkeys, one-time codes and recovery codes.")

_OwnAccount = Annotated[OwnAccount, Depends()]
_SignInFlow = Annotated[SignInFlow, Depends(open_sign_in_flow)]


class PasswordConfirmation(Input):
    password: Password = Field(description="Your password, which no response contains.")


class TotpSecret(BaseModel):
    secret: str = Field(
        description="Secret of the authenticator app in base32 for manual entry, only in this response."
    )
    uri: str = Field(description="otpauth:// URI of the authenticator app for a QR code, only in this response.")


class TotpCode(Input):
    code: Code = Field(description="Current six-digit code of the authenticator app.")


class Passkey(BaseModel):
    id: UUID = Field(description="Permanent id of the passkey.")
    name: str = Field(description="Name of the passkey.")
    backed_up: bool = Field(
        description="Whether the passkey has a backup. With a backup, the passkey survives the loss of the device."
    )
    created_at: datetime = Field(description="Time when the passkey was created.")
    last_used_at: datetime | None = Field(description="Time of the last sign-in with the passkey; null if never used.")


class PasskeyInput(Input):
    challenge: Challenge = Field(description="Challenge from the previous response, valid for five minutes.")
    credential: Credential = Field(
        description=(
            "Response of the passkey (WebAuthn). In the browser, call navigator.credentials.create(), and send "
            "toJSON() of the result."
        )
    )
    name: Name = Field(description="Name of the passkey.")


class RecoveryCodes(BaseModel):
    codes: list[str] = Field(
        examples=[["k3m9-pq7r-2xw4"]], description="Recovery codes, only in this response. Each code works once."
    )


@router.post("/me/confirmation", status_code=204, operation_id="confirmByPassword")
def confirm_by_password(me: _OwnAccount, desk: _SignInFlow, body: PasswordConfirmation) -> None:
    """Confirm your identity with your password. The confirmation is valid for ten minutes."""
    desk.confirm_by_password(me.signed_in, body.password)


@router.post("/me/confirmation/passkey/options", operation_id="startPasskeyConfirmation")
def ask_for_confirmation_by_passkey(me: _OwnAccount, desk: _SignInFlow) -> PasskeyOptions:
    """Get the options and the challenge for confirming your identity with a passkey."""
    options, challenge = desk.create_confirmation_challenge(me.signed_in)
    return PasskeyOptions(options=options, challenge=challenge)


@router.post("/me/confirmation/passkey", status_code=204, operation_id="confirmByPasskey")
def confirm_by_passkey(me: _OwnAccount, desk: _SignInFlow, body: SignInByPasskey) -> None:
    """Confirm your identity with a passkey."""
    desk.confirm_by_passkey(me.signed_in, body.challenge, body.credential)


@router.post("/me/totp", status_code=201, operation_id="startMyTotp")
def start_my_totp(me: _OwnAccount, desk: _SignInFlow) -> TotpSecret:
    """Start the set-up of an authenticator app.

    The app takes effect with the first confirmed code.
    """
    with me.account() as (session, person):
        made = second_factors.create_totp(session, person=person, seal=get_signing(me.asked.request).sealer.seal)
        me.located()
        return TotpSecret(secret=made.secret, uri=made.provisioning_uri())


@router.post("/me/totp/confirmation", status_code=204, operation_id="confirmMyTotp")
def confirm_my_totp(me: _OwnAccount, desk: _SignInFlow, body: TotpCode) -> None:
    """Confirm the first code of an authenticator app.

    From now on, a sign-in with a password also needs a second factor. Admit signs out your other browsers.
    """
    desk.count_confirmation(me.signed_in)
    with me.account() as (session, person):
        unseal = get_signing(me.asked.request).sealer.open
        second_factors.confirm_totp(
            session, actor=me.signed_in.actor, person=person, code=body.code, unseal=unseal, now=utc_now()
        )
        sign_ins.add_factor(session, signed_in=me.signed_in, person=person, factor=Factor.TOTP)


@router.delete("/me/totp", status_code=204, operation_id="deleteMyTotp")
def delete_my_totp(me: _OwnAccount) -> None:
    """Delete your authenticator app."""
    with me.account() as (session, person):
        second_factors.delete_totp(session, actor=me.signed_in.actor, person=person)


@router.get("/me/passkeys", operation_id="listMyPasskeys")
def list_my_passkeys(
    me: _OwnAccount, paging: Annotated[OrderedPaging, Depends(require_paging(PASSKEY_ORDERS))]
) -> Page[Passkey]:
    """List your passkeys, 20 at most.

    The list is empty if a single sign-on provider identified you.
    """
    with me.account(confirmed=False) as (session, person):
        rows = paging.span.cut(passkeys.list_passkeys(session, person_id=person.id))
        return paging.ordered(rows, _build_passkey)


@router.post("/me/passkeys/options", operation_id="startMyPasskey")
def offer_my_passkey(me: _OwnAccount, desk: _SignInFlow) -> PasskeyOptions:
    """Get the options for creating a passkey in the browser."""
    with me.account() as (session, person):
        options, challenge = desk.create_passkey_registration(session, me.signed_in, person)
        return PasskeyOptions(options=options, challenge=challenge)


@router.post("/me/passkeys", status_code=201, operation_id="createMyPasskey")
def create_my_passkey(me: _OwnAccount, desk: _SignInFlow, body: PasskeyInput) -> Passkey:
    """Add a passkey to your account.

    If the passkey is your only second factor, Admit signs out your other browsers.
    """
    with me.account() as (session, person):
        row, factor = desk.add_passkey(session, me.signed_in, person, body.challenge, body.credential, body.name)
        sign_ins.add_factor(session, signed_in=me.signed_in, person=person, factor=factor)
        session.refresh(row)
        me.located("/passkeys")
        return _build_passkey(row)


@router.delete("/me/passkeys/{passkey_id}", status_code=204, operation_id="deleteMyPasskey")
def delete_my_passkey(me: _OwnAccount, passkey_id: Annotated[UUID, Path(description="Id of the passkey.")]) -> None:
    """Delete one of your passkeys."""
    with me.account() as (session, person):
        passkeys.delete_passkey(session, actor=me.signed_in.actor, person=person, passkey_id=passkey_id)


@router.post("/me/recovery-codes", status_code=201, operation_id="createMyRecoveryCodes")
def create_my_recovery_codes(me: _OwnAccount, desk: _SignInFlow) -> RecoveryCodes:
    """Create ten recovery codes.

    The new codes replace existing codes.
    """
    with me.account() as (session, person):
        me.located()
        return RecoveryCodes(
            codes=second_factors.create_recovery_codes(session, actor=me.signed_in.actor, person=person)
        )


def _build_passkey(row: PasskeyRow) -> Passkey:
    return Passkey(
        id=row.id,
        name=row.name,
        backed_up=row.backed_up,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
    )

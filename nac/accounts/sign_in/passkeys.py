"""Passkeys and security keys (WebAuthn level 3)."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import webauthn
from psycopg.errors import UniqueViolation
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from webauthn.helpers import bytes_to_base64url
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from nac.accounts.sign_in import repository
from nac.accounts.sign_in.second_factors import Factor
from nac.accounts.sign_in_errors import PasskeyNotFound, PasskeyRefused, SignInRefused
from nac.core.audit import service as audit
from nac.kit.db import lock_quota
from nac.kit.errors import AlreadyExists, Conflict
from nac.kit.validation import require_name
from nac.models import Passkey, Person

MAX_PASSKEYS = 20
_RELYING_PARTY_NAME = "Admit"
_NONCE_BYTES = 32
_MAX_ID_LENGTH = 1_400
# Errors that the library `webauthn` and its parsers raise for invalid input.
_INVALID_CREDENTIAL_ERRORS = (
    WebAuthnException,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """This installation as a WebAuthn relying party. Its passkeys do not work at other installations."""

    # Origin: scheme://host[:port].
    origin: str

    @property
    def id(self) -> str:
        return urlsplit(self.origin).hostname or ""


def make_nonce() -> bytes:
    return secrets.token_bytes(_NONCE_BYTES)


def build_registration_options(
    party: RelyingParty, *, person: Person, present: Sequence[Passkey], nonce: bytes
) -> dict[str, Any]:
    """Return the options for navigator.credentials.create(), with which the browser creates a passkey."""
    options = webauthn.generate_registration_options(
        rp_id=party.id,
        rp_name=_RELYING_PARTY_NAME,
        user_id=person.id.bytes,
        user_name=person.email,
        user_display_name=person.name or person.email,
        challenge=nonce,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.PREFERRED, user_verification=UserVerificationRequirement.PREFERRED
        ),
        exclude_credentials=_describe_credentials(present),
    )
    return _options_to_json(options)


def create_passkey(
    session: Session,
    *,
    actor: str,
    person: Person,
    party: RelyingParty,
    nonce: bytes,
    credential: dict[str, Any],
    name: str,
) -> tuple[Passkey, Factor]:
    """Add a passkey. Returns the passkey and the kind of factor that the passkey proves. Needs PersonScope.

    Raises PasskeyRefused, AlreadyExists and Conflict.
    """
    name = require_name(name)
    try:
        made = webauthn.verify_registration_response(
            credential=credential, expected_challenge=nonce, expected_rp_id=party.id, expected_origin=party.origin
        )
    except _INVALID_CREDENTIAL_ERRORS as exc:
        raise PasskeyRefused(f"The passkey's response is invalid: {_error_text(exc)}") from exc
    lock_quota(session, "passkeys", person.id)
    if len(repository.list_passkeys(session, person.id)) >= MAX_PASSKEYS:
        raise Conflict(f"The limit of {MAX_PASSKEYS} passkeys is reached.", remedy="Remove unused passkeys.")
    credential_id = bytes_to_base64url(made.credential_id)
    if len(credential_id) > _MAX_ID_LENGTH:
        raise PasskeyRefused("The credential id is too long.")
    row = Passkey(
        person_id=person.id,
        credential_id=credential_id,
        public_key=made.credential_public_key,
        sign_count=made.sign_count,
        name=name,
        backed_up=made.credential_backed_up,
    )
    if repository.lock_passkey(session, person.id, credential_id) is not None:
        raise AlreadyExists("You already have this passkey.", place="credential", remedy="Sign in with this passkey.")
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError as exc:
        if not isinstance(exc.orig, UniqueViolation):
            raise
        # Ids of passkeys are random. Two passkeys with the same id are therefore the same passkey.
        raise AlreadyExists(
            "This passkey belongs to another account.", place="credential", remedy="Create a new passkey."
        ) from exc
    audit.append(session, actor=actor, action="passkey.add", target=person.email, after={"name": row.name})
    return row, Factor.PASSKEY if made.user_verified else Factor.SECURITY_KEY


def build_authentication_options(
    party: RelyingParty, *, nonce: bytes, passkeys: Sequence[Passkey] = ()
) -> dict[str, Any]:
    """Return the options for navigator.credentials.get(), with which the browser uses a passkey.

    If `passkeys` is empty, the person selects a passkey on the device, and the device must check a PIN or biometrics.
    """
    wanted = UserVerificationRequirement.PREFERRED if passkeys else UserVerificationRequirement.REQUIRED
    options = webauthn.generate_authentication_options(
        rp_id=party.id, challenge=nonce, allow_credentials=_describe_credentials(passkeys), user_verification=wanted
    )
    return _options_to_json(options)


def require_credential_id(credential: dict[str, Any]) -> str:
    """Return the id of the passkey in the browser's response. Raises SignInRefused if the id is missing or invalid."""
    found = credential.get("id")
    if not isinstance(found, str) or not 1 <= len(found) <= _MAX_ID_LENGTH or not found.isascii() or "\0" in found:
        raise SignInRefused(remedy="Start again from the first step.")
    return found


def use_passkey(
    session: Session,
    *,
    person: Person,
    party: RelyingParty,
    nonce: bytes,
    credential: dict[str, Any],
    alone: bool,
    now: datetime,
) -> Factor:
    """Check the passkey's response and return the kind of factor that the response proves.

    Needs PersonScope. Raises SignInRefused. Set `alone` if the passkey is the only factor of the sign-in. The device
    must then have checked a PIN or biometrics.
    """
    row = repository.lock_passkey(session, person.id, require_credential_id(credential))
    response = credential.get("response")
    handle = response.get("userHandle") if isinstance(response, dict) else None
    if row is None or (handle and handle != bytes_to_base64url(person.id.bytes)):
        raise SignInRefused(remedy="Start again from the first step.")
    try:
        shown = webauthn.verify_authentication_response(
            credential=credential,
            expected_challenge=nonce,
            expected_rp_id=party.id,
            expected_origin=party.origin,
            credential_public_key=row.public_key,
            credential_current_sign_count=row.sign_count,
            require_user_verification=alone,
        )
    except _INVALID_CREDENTIAL_ERRORS as exc:
        raise SignInRefused(remedy="Start again from the first step.") from exc
    row.sign_count = shown.new_sign_count
    row.last_used_at = now
    session.flush()
    return Factor.PASSKEY if shown.user_verified else Factor.SECURITY_KEY


def delete_passkey(session: Session, *, actor: str, person: Person, passkey_id: UUID) -> None:
    row = session.get(Passkey, passkey_id, populate_existing=True)
    if row is None or row.person_id != person.id:
        raise PasskeyNotFound("This passkey does not exist.", place="passkey")
    session.delete(row)
    session.flush()
    audit.append(session, actor=actor, action="passkey.remove", target=person.email, before={"name": row.name})


def list_passkeys(session: Session, *, person_id: UUID) -> Sequence[Passkey]:
    return repository.list_passkeys(session, person_id)


def get_person_id(session: Session, *, credential_id: str) -> UUID | None:
    """Return the id of the person with this passkey. Needs CredentialScope with the passkey's credential id."""
    return repository.get_passkey_person_id(session, credential_id)


def _describe_credentials(passkeys: Sequence[Passkey]) -> list[PublicKeyCredentialDescriptor]:
    return [PublicKeyCredentialDescriptor(id=webauthn.base64url_to_bytes(each.credential_id)) for each in passkeys]


def _options_to_json(options: Any) -> dict[str, Any]:  # noqa: ANN401 -- one of two kinds of the library's
    found: dict[str, Any] = json.loads(webauthn.options_to_json(options))
    return found


def _error_text(exc: BaseException) -> str:
    return str(exc)[:200] or type(exc).__name__

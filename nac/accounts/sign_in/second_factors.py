"""Kinds of sign-in factors, and two kinds of second factors: recovery codes and authenticator apps (TOTP, RFC 6238).

Each code works once. Codes of an app have six digits, change every 30 s and use SHA-1, because all authenticator apps
support these parameters.
"""

import hmac
from collections.abc import Collection
from datetime import datetime
from enum import StrEnum, unique
from uuid import UUID

import pyotp
from sqlalchemy.orm import Session

from nac.accounts.people import repository as people
from nac.accounts.sign_in import repository
from nac.accounts.sign_in.secret_texts import generate_recovery_code, hash_recovery_code
from nac.accounts.sign_in_errors import SignInRefused, TotpIsThere
from nac.core.audit import service as audit
from nac.kit.errors import NotFound
from nac.kit.sealing import Seal, Unseal
from nac.models import Person, RecoveryCode, Totp

RECOVERY_CODE_COUNT = 10


@unique
class Factor(StrEnum):
    PASSWORD = "password"  # noqa: S105 -- a name
    TOTP = "totp"
    RECOVERY_CODE = "recovery-code"
    # Passkey that the person unlocked by PIN or biometrics; counts as two factors (NIST SP 800-63B 5.1.9).
    PASSKEY = "passkey"
    # Passkey or security key that the person only touched; counts as one factor.
    SECURITY_KEY = "security-key"
    # Any single sign-on.
    SIGN_ON = "sign-on"
    # Single sign-on that counts as two factors, because of the provider's response or the setting `counts_as_two`.
    SIGN_ON_TWO = "sign-on-two"


# Factors that count as the second factor after a password.
SECOND_FACTORS = frozenset({Factor.TOTP, Factor.RECOVERY_CODE, Factor.SECURITY_KEY})


def list_second_factors(session: Session, *, person_id: UUID) -> tuple[str, ...]:
    """Second factors that the person can use. Needs PersonScope."""
    row = repository.get_totp(session, person_id)
    found = [Factor.TOTP] if row is not None and row.confirmed_at is not None else []
    if repository.list_passkeys(session, person_id):
        found.append(Factor.PASSKEY)
    if found and repository.count_recovery_codes(session, person_id):
        found.append(Factor.RECOVERY_CODE)
    return tuple(found)


def has_two_factors(shown: Collection[str]) -> bool:
    if Factor.PASSKEY in shown or Factor.SIGN_ON_TWO in shown:
        return True
    return Factor.PASSWORD in shown and not SECOND_FACTORS.isdisjoint(shown)


def create_recovery_codes(session: Session, *, actor: str, person: Person) -> list[str]:
    """Create recovery codes and delete the previous codes. Needs PersonScope."""
    # Lock the person. Concurrent calls then run one after the other, and the codes of the last call stay.
    people.lock_person(session, person.id)
    repository.delete_recovery_codes(session, person.id)
    codes = [generate_recovery_code() for _ in range(RECOVERY_CODE_COUNT)]
    session.add_all(
        RecoveryCode(person_id=person.id, code_sha256=hash_recovery_code(person.id, code)) for code in codes
    )
    session.flush()
    audit.append(session, actor=actor, action="recovery-code.make", target=person.email)
    return codes


def use_recovery_code(session: Session, *, person: Person, code: str, now: datetime) -> bool:
    if not repository.use_recovery_code(session, person.id, hash_recovery_code(person.id, code), now):
        return False
    audit.append(session, actor=f"person:{person.email}", action="recovery-code.use", target=person.email)
    return True


def count_recovery_codes(session: Session, *, person_id: UUID) -> int:
    return repository.count_recovery_codes(session, person_id)


_ISSUER = "Admit"
_STEP_SECONDS = 30
# Accepted time steps before and after now, for inaccurate clocks and the time to type (RFC 6238 5.2).
_WINDOW = 1


def create_totp(session: Session, *, person: Person, seal: Seal) -> pyotp.TOTP:
    """Create the secret of an authenticator app. Needs PersonScope. Raises TotpIsThere if the person has an app.

    The app becomes a second factor when `confirm_totp` succeeds.
    """
    row = repository.get_totp(session, person.id)
    if row is not None and row.confirmed_at is not None:
        raise TotpIsThere(remedy="Remove the existing authenticator app first.")
    totp = pyotp.TOTP(pyotp.random_base32(), name=person.email, issuer=_ISSUER)
    sealed = seal(totp.secret.encode(), _context(person.id))
    if row is None:
        session.add(Totp(person_id=person.id, secret_sealed=sealed))
    else:
        row.secret_sealed, row.last_step = sealed, 0
    session.flush()
    return totp


def confirm_totp(session: Session, *, actor: str, person: Person, code: str, unseal: Unseal, now: datetime) -> None:
    row = repository.get_totp(session, person.id)
    if row is None:
        raise NotFound("You have not started to add an authenticator app.", remedy="Start to add an authenticator app.")
    if row.confirmed_at is not None:
        raise TotpIsThere(remedy="Remove the existing authenticator app first.")
    if not _use_matching_step(session, row, code, unseal, now):
        raise SignInRefused(
            "Wrong code.", place="code", remedy="Check the clock of the device with the authenticator app."
        )
    session.refresh(row)
    row.confirmed_at = now
    session.flush()
    audit.append(session, actor=actor, action="totp.add", target=person.email)


def use_totp_code(session: Session, *, person_id: UUID, code: str, unseal: Unseal, now: datetime) -> bool:
    """Check a code, and mark a correct code as used.

    Returns whether the code was correct and unused. Needs PersonScope.
    """
    row = repository.get_totp(session, person_id)
    return row is not None and row.confirmed_at is not None and _use_matching_step(session, row, code, unseal, now)


def delete_totp(session: Session, *, actor: str, person: Person) -> None:
    row = repository.get_totp(session, person.id)
    if row is None:
        return
    session.delete(row)
    session.flush()
    if row.confirmed_at is not None:
        audit.append(session, actor=actor, action="totp.remove", target=person.email)


def _use_matching_step(session: Session, row: Totp, code: str, unseal: Unseal, now: datetime) -> bool:
    totp = pyotp.TOTP(unseal(row.secret_sealed, _context(row.person_id)).decode())
    typed = "".join(code.split()).encode(errors="replace")
    this = int(now.timestamp()) // _STEP_SECONDS
    steps = [
        step
        for step in range(this - _WINDOW, this + _WINDOW + 1)
        if hmac.compare_digest(totp.at(step * _STEP_SECONDS).encode(), typed)
    ]
    return bool(steps) and repository.use_totp_step(session, row.person_id, max(steps))


def _context(person_id: UUID) -> str:
    return f"totp:{person_id}"

"""Second factors: the kinds, the methods that a person can use, and recovery codes."""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum, unique
from uuid import UUID

from sqlalchemy.orm import Session

from nac.accounts.people import repository as people
from nac.accounts.sign_in import repository
from nac.accounts.sign_in.secret_texts import generate_recovery_code, hash_recovery_code
from nac.core.audit import service as audit
from nac.models import Person, RecoveryCode

RECOVERY_CODE_COUNT = 10


@unique
class Factor(StrEnum):
    PASSWORD = "password"  # noqa: S105 -- a name
    TOTP = "totp"
    RECOVERY_CODE = "recovery-code"
    # Authenticator that verified PIN or biometrics. This authenticator counts as two factors (NIST SP 800-63B 5.1.9).
    PASSKEY = "passkey"
    # Authenticator that the person only touched. This authenticator counts as one factor.
    SECURITY_KEY = "security-key"
    # Single sign-on without a report of two factors.
    SIGN_ON = "sign-on"
    # Single sign-on with two factors, as the provider reports.
    SIGN_ON_TWO = "sign-on-two"


# Factors that count as the second factor.
SECOND_FACTORS = frozenset({Factor.TOTP, Factor.RECOVERY_CODE, Factor.SECURITY_KEY})


def list_second_factors(session: Session, *, person_id: UUID) -> tuple[str, ...]:
    """Second factors of the person; empty if there are none. Use in PersonScope."""
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
    """Create recovery codes and delete the previous codes. Use in PersonScope."""
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

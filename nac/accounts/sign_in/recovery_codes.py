"""Recovery codes for a lost second factor: ten codes, each works once."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from nac.accounts.people import repository as people
from nac.accounts.sign_in import repository
from nac.accounts.sign_in.secret_texts import generate_recovery_code, hash_recovery_code
from nac.core.audit import service as audit
from nac.models import Person, RecoveryCode

CODE_COUNT = 10


def create_recovery_codes(session: Session, *, actor: str, person: Person) -> list[str]:
    """Create new codes, which replace the old ones. Use in PersonScope."""
    # Lock, so that a concurrent call replaces these codes.
    people.lock_person(session, person.id)
    repository.delete_recovery_codes(session, person.id)
    codes = [generate_recovery_code() for _ in range(CODE_COUNT)]
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


def count_left(session: Session, *, person_id: UUID) -> int:
    return repository.count_recovery_codes(session, person_id)

"""Resets the second factors of a person, as the platform."""

from sqlalchemy.orm import Session

from nac.accounts.sign_in import repository, sign_ins
from nac.core.audit import service as audit
from nac.models import Person


def reset_factors(session: Session, *, actor: str, person: Person) -> None:
    """Delete all second factors and end all sign-ins. The password stays. Use in PersonScope."""
    repository.delete_factors(session, person.id)
    audit.append(session, actor=actor, action="person.reset-factors", target=person.email)
    sign_ins.end_all(session, actor=actor, person=person)

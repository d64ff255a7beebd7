"""A person's methods for the second factor."""

from uuid import UUID

from sqlalchemy.orm import Session

from nac.accounts.sign_in import repository
from nac.accounts.sign_in.factors import Factor


def list_second_factors(session: Session, *, person_id: UUID) -> tuple[str, ...]:
    """Methods for the second factor; empty without one. Use in PersonScope."""
    row = repository.get_totp(session, person_id)
    found = [Factor.TOTP] if row is not None and row.confirmed_at is not None else []
    if repository.list_passkeys(session, person_id):
        found.append(Factor.PASSKEY)
    if found and repository.count_recovery_codes(session, person_id):
        found.append(Factor.RECOVERY_CODE)
    return tuple(found)

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import CursorResult, Uuid, bindparam, delete, func, select, text, update
from sqlalchemy.orm import Session

from nac.models import Passkey, PasswordLink, Person, RecoveryCode, SignIn, Totp

_WANTS_TWO = text("SELECT wants_two_factors(:msp, :tenant)").bindparams(
    bindparam("msp", type_=Uuid()), bindparam("tenant", type_=Uuid())
)


def get_by_public_id(session: Session, public_id: str) -> SignIn | None:
    query = select(SignIn).where(SignIn.public_id == public_id)
    return session.scalar(query.execution_options(populate_existing=True))


def list_of_person(session: Session, person_id: UUID, *, now: datetime, seen_since: datetime) -> Sequence[SignIn]:
    query = select(SignIn).where(
        SignIn.person_id == person_id,
        SignIn.ended_at.is_(None),
        SignIn.expires_at > now,
        SignIn.last_seen_at > seen_since,
    )
    return session.scalars(query.order_by(SignIn.created_at.desc()).limit(200)).all()


def list_via(
    session: Session, msp_id: UUID | None, tenant_id: UUID | None, *, now: datetime, seen_since: datetime
) -> Sequence[tuple[SignIn, Person | None]]:
    query = select(SignIn, Person).outerjoin(Person, Person.id == SignIn.person_id)
    query = query.where(
        SignIn.via_msp_id.is_not_distinct_from(msp_id),
        SignIn.via_tenant_id.is_not_distinct_from(tenant_id),
        SignIn.ended_at.is_(None),
        SignIn.expires_at > now,
        SignIn.last_seen_at > seen_since,
    )
    return [(row[0], row[1]) for row in session.execute(query.order_by(SignIn.created_at.desc()).limit(500))]


def end(session: Session, *conditions: object, now: datetime) -> int:
    statement = update(SignIn).where(SignIn.ended_at.is_(None), *conditions)  # type: ignore[arg-type]
    result = session.execute(statement.values(ended_at=now), execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount


def wants_two_factors(session: Session, msp_id: UUID | None, tenant_id: UUID | None) -> bool:
    return bool(session.scalar(_WANTS_TWO, {"msp": msp_id, "tenant": tenant_id}))


def get_totp(session: Session, person_id: UUID) -> Totp | None:
    return session.get(Totp, person_id, populate_existing=True)


def use_step(session: Session, person_id: UUID, step: int) -> bool:
    """Whether no code of this step or a later one was used; who asks at the same time waits for the answer."""
    statement = update(Totp).where(Totp.person_id == person_id, Totp.last_step < step).values(last_step=step)
    result = session.execute(statement, execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount == 1


def use_recovery_code(session: Session, person_id: UUID, digest: bytes, now: datetime) -> bool:
    code = RecoveryCode
    statement = update(code).where(code.person_id == person_id, code.code_sha256 == digest, code.used_at.is_(None))
    result = session.execute(statement.values(used_at=now), execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount == 1


def count_recovery_codes(session: Session, person_id: UUID) -> int:
    query = select(func.count()).select_from(RecoveryCode)
    return session.scalars(query.where(RecoveryCode.person_id == person_id, RecoveryCode.used_at.is_(None))).one()


def delete_factors(session: Session, person_id: UUID) -> None:
    for table in (Totp, Passkey, RecoveryCode):
        session.execute(delete(table).where(table.person_id == person_id))


def delete_recovery_codes(session: Session, person_id: UUID) -> None:
    session.execute(delete(RecoveryCode).where(RecoveryCode.person_id == person_id))


def list_passkeys(session: Session, person_id: UUID) -> Sequence[Passkey]:
    query = select(Passkey).where(Passkey.person_id == person_id).order_by(Passkey.created_at, Passkey.id)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def person_of_passkey(session: Session, credential_id: str) -> UUID | None:
    """In CredentialScope of its id."""
    return session.scalar(select(Passkey.person_id).where(Passkey.credential_id == credential_id))


def lock_passkey(session: Session, person_id: UUID, credential_id: str) -> Passkey | None:
    query = select(Passkey).where(Passkey.person_id == person_id, Passkey.credential_id == credential_id)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True))


def get_link(session: Session, public_id: str, *, lock: bool = False) -> PasswordLink | None:
    query = select(PasswordLink).where(PasswordLink.public_id == public_id)
    if lock:
        query = query.with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def spend_links(session: Session, person_id: UUID, now: datetime) -> None:
    statement = update(PasswordLink).where(PasswordLink.person_id == person_id, PasswordLink.used_at.is_(None))
    session.execute(statement.values(used_at=now), execution_options={"synchronize_session": False})

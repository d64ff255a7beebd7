from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    CursorResult,
    Select,
    Text,
    Uuid,
    and_,
    bindparam,
    delete,
    func,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.kit.db import force_ctid_scan
from nac.kit.db.queries import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.models import (
    Membership,
    Passkey,
    PasswordLink,
    Person,
    RecoveryCode,
    SignIn,
    SignInFailure,
    SignOn,
    Totp,
)

# The table has two indexes in this order: by person, and by the MSP or tenant of the single sign-on.
ORDERS = SortOrders({"created_at": (SignIn.created_at, SignIn.id)}, default="-created_at")
PASSKEY_ORDERS = SortOrders({"created_at": (Passkey.created_at, Passkey.id), "name": (Passkey.name, Passkey.id)})
_WANTS_TWO = text("SELECT wants_two_factors(:msp, :tenant)").bindparams(
    bindparam("msp", type_=Uuid()), bindparam("tenant", type_=Uuid())
)

_ROW_ADDRESS = literal_column("ctid::text", Text())
_AT_ROW_ADDRESSES = text("ctid = ANY (CAST(:places AS tid[]))").bindparams(bindparam("places", type_=ARRAY(Text)))


def get_by_public_id(session: Session, public_id: str) -> SignIn | None:
    query = select(SignIn).where(SignIn.public_id == public_id)
    return session.scalar(query.execution_options(populate_existing=True))


def list_for_person(
    session: Session, person_id: UUID, good: ColumnElement[bool], *, sign_on_id: UUID | None, span: PageSpan
) -> Sequence[SignIn]:
    """List sign-ins of a person. `sign_on_id` selects only sign-ins by this single sign-on."""
    query = select(SignIn).where(SignIn.person_id == person_id, good)
    if sign_on_id is not None:
        query = query.where(SignIn.sign_on_id == sign_on_id)
    return session.scalars(span.of(query)).all()


def list_via(
    session: Session, owner: Owner, good: ColumnElement[bool], *, span: PageSpan, text: str
) -> Sequence[tuple[SignIn, Person | None]]:
    query = span.of(_via(owner, good))
    rows = session.execute(query.where(contains_text(text, Person.email)) if text else query)
    return [(row[0], row[1]) for row in rows]


def get_via(
    session: Session, owner: Owner, good: ColumnElement[bool], sign_in_id: UUID
) -> tuple[SignIn, Person | None] | None:
    row = session.execute(_via(owner, good).where(SignIn.id == sign_in_id)).one_or_none()
    return None if row is None else (row[0], row[1])


def _via(owner: Owner, good: ColumnElement[bool]) -> Select[SignIn, Person]:
    whose = and_(SignIn.via_msp_id == owner.msp_id, SignIn.via_tenant_id == owner.tenant_id)
    return select(SignIn, Person).outerjoin(Person, Person.id == SignIn.person_id).where(whose, good)


def valid_clause(now: datetime, *, seen_since: datetime) -> ColumnElement[bool]:
    return and_(SignIn.ended_at.is_(None), SignIn.expires_at > now, SignIn.last_seen_at > seen_since)


def end_sign_ins(session: Session, *conditions: object, now: datetime) -> int:
    statement = update(SignIn).where(SignIn.ended_at.is_(None), *conditions)  # type: ignore[arg-type]
    result = session.execute(statement.values(ended_at=now), execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount


def wants_two_factors(session: Session, msp_id: UUID | None, tenant_id: UUID | None) -> bool:
    return bool(session.scalar(_WANTS_TWO, {"msp": msp_id, "tenant": tenant_id}))


def get_totp(session: Session, person_id: UUID) -> Totp | None:
    return session.get(Totp, person_id, populate_existing=True)


def use_totp_step(session: Session, person_id: UUID, step: int) -> bool:
    """Mark a time step of an authenticator app as used. Concurrent calls wait for each other.

    Returns False if this step or a later step is already used.
    """
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


def get_passkey_person_id(session: Session, credential_id: str) -> UUID | None:
    """Return the id of the person with this passkey. Needs CredentialScope with the passkey's credential id."""
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


def count_recent(session: Session, person_id: UUID, since: datetime) -> int:
    query = select(func.count()).select_from(SignIn)
    return session.scalars(query.where(SignIn.person_id == person_id, SignIn.created_at > since)).one()


def list_member_owners(session: Session, person_id: UUID, *, most: int) -> Sequence[Owner]:
    """Return the tenants and MSPs of which the person is a member, and the platform if the person is its member.

    Returns only the platform if the person has no membership, or more than `most` memberships.
    """
    query = select(Membership.msp_id, Membership.tenant_id).where(Membership.person_id == person_id)
    rows = session.execute(query.order_by(Membership.id).limit(most + 1)).all()
    return [Owner(*row) for row in rows] if 0 < len(rows) <= most else [Owner()]


def get_person_email(session: Session, person_id: UUID) -> str | None:
    return session.scalar(select(Person.email).where(Person.id == person_id))


def get_sign_on_issuer(session: Session, sign_on_id: UUID) -> tuple[str, Sequence[Owner]] | None:
    """Return the issuer URL of a single sign-on, and a list that contains only the MSP or tenant that configured it.

    Returns None if the single sign-on does not exist.
    """
    query = select(SignOn.settings, SignOn.msp_id, SignOn.tenant_id).where(SignOn.id == sign_on_id)
    row = session.execute(query).one_or_none()
    return None if row is None else (str(row.settings["issuer"]), [Owner(row.msp_id, row.tenant_id)])


def list_due_failures(session: Session, *, now: datetime, most: int) -> Sequence[tuple[UUID, datetime]]:
    table = SignInFailure
    due = select(table.subject_id, table.hour).where(table.audit_due_at <= now).order_by(table.audit_due_at).limit(most)
    return [(row[0], row[1]) for row in dict.fromkeys(session.execute(due).all())]


def lock_failures(session: Session, subject_id: UUID, hour: datetime) -> Sequence[SignInFailure]:
    query = select(SignInFailure).where(SignInFailure.subject_id == subject_id, SignInFailure.hour == hour)
    return session.scalars(query.order_by(SignInFailure.id).with_for_update()).all()


def delete_batch(session: Session, table: Any, which: ColumnElement[bool], *, most: int) -> int:  # noqa: ANN401 -- any model
    places = session.scalars(select(_ROW_ADDRESS).select_from(table).where(which).limit(most)).all()
    if not places:
        return 0
    with force_ctid_scan(session):
        statement = delete(table).where(which, _AT_ROW_ADDRESSES.bindparams(places=list(places)))
        result = session.execute(statement, execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount


def list_membership_ids(session: Session, owner: Owner, person_id: UUID) -> Sequence[UUID]:
    """Ids of the person's memberships at this tenant, MSP or platform."""
    query = select(Membership.id).where(owner.owns(Membership), Membership.person_id == person_id)
    return session.scalars(query).all()

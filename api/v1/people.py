"""Accounts, for who runs the platform. What is a person's own is in /v1/me; where somebody may do what, members say."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesPlatform, ReadsPlatform
from api.change import Change, Observed
from api.state import settings_of
from api.v1.inputs import Input
from api.v1.paging import OrderedPaging, Page, sorted_by
from api.v1.sign_in import Email
from nac.account_mails.letters import Letters
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.clock import utc_now
from nac.models import Membership, SignIn
from nac.models import Person as PersonRow
from nac.people import service as people
from nac.people.repository import ORDERS
from nac.sign_in import account_admin
from nac.sign_in.account_admin import AccountOverview

router = APIRouter(prefix="/platform/people", tags=["people"])

Status = Literal["active", "disabled"]


def _confirmed(
    access: Annotated[Access, Depends(ChangesPlatform(Permission.PERSON_MANAGE, Effect.RIGHTS, Effect.SIGN_IN))],
) -> Access:
    """Whoever changes the accounts of others has just shown who it is. Raises ConfirmationNeeded."""
    if access.asked.signed_in is not None:
        access.asked.signed_in.require_confirmed(now=utc_now())
    return access


Reads = Annotated[Access, Depends(ReadsPlatform(Permission.PERSON_READ))]
Manages = Annotated[Access, Depends(_confirmed)]


class Person(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    email: str = Field(examples=["ann@example.com"], description="E-mail address.")
    name: str = Field(description="Name, for people.")
    status: Status = Field(description="What state it is in.")
    has_password: bool = Field(description="Whether there is a password to sign in with.")
    created_at: datetime = Field(description="When it was made.")


class PersonSession(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    factors: list[str] = Field(
        examples=[["password", "totp"]],
        description="What was shown to sign in: password, totp, passkey, recovery-code, sign-on.",
    )
    by_provider: bool = Field(description="Of an MSP or a tenant.")
    from_address: str | None = Field(description="IP address that it came from.")
    user_agent: str = Field(description="What the browser says that it is.")
    created_at: datetime = Field(description="When it was made.")
    last_seen_at: datetime = Field(description="When it was seen last; null: never.")


class PersonMembership(BaseModel):
    """With neither MSP nor tenant, of the platform."""

    id: UUID = Field(description="Id; it stays.")
    msp_id: UUID | None = Field(description="Id of the MSP.")
    tenant_id: UUID | None = Field(description="Id of the tenant; null where it is of none.")
    role: str | None = Field(description="null for one that the MSP or the tenant has made itself.")


class PersonDetail(Person, Observed):
    methods: list[str] = Field(description="Second factors that are set up.", examples=[["totp", "recovery-code"]])
    sessions: list[PersonSession] = Field(description="Where the person is signed in, newest first, 200 at most.")
    memberships: list[PersonMembership] = Field(description="Where the person is a member, and as what.")

    def observed(self) -> set[str]:
        """Where somebody is signed in, nobody else has said."""
        return {"sessions"}


class PersonInput(Input):
    email: Email = Field(description="E-mail address.")
    name: str = Field("", max_length=200, examples=["Ann"], description="Name, for people.")


class PersonUpdate(Input):
    status: Status = Field(description="What state it is in.")


class PasswordLinkInput(Input):
    mail: bool = Field(True, description="Sent to the person; false: shown here, this once.")


class PasswordLink(BaseModel):
    expires_at: datetime = Field(description="When it ends.")
    url: str | None = Field(description="null where it was mailed.")
    token: str | None = Field(description="For POST /v1/sign-in/new-password.")


@router.get("", operation_id="listPeople")
def list_people(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
    text: Annotated[str, Query(max_length=200, description="A part of the address or the name.")] = "",
    status: Status | None = None,
) -> Page[Person]:
    """Accounts, of who administers."""
    with access.read() as session:
        rows = people.list_people(session, span=paging.span, text=text, status=status or "")
        return paging.ordered(rows, _person)


@router.post("", status_code=201, operation_id="createPerson")
def create_person(access: Manages, body: PersonInput) -> Person:
    """The account of this address; as it is where there is one. A link gives it a password, a membership something to
    do."""
    with access.change() as change:
        row = people.create_person(change.session, actor=access.actor, email=body.email, name=body.name)
        shown = _person(row)
        change.located(shown.id)
        return change.answer(shown, state=_details(account_admin.get_account(change.session, person_id=shown.id)))


@router.get("/{person_id}", operation_id="getPerson")
def get_person(access: Reads, person_id: UUID) -> PersonDetail:
    with access.read() as session:
        return access.shown(_details(account_admin.get_account(session, person_id=person_id)))


@router.patch("/{person_id}", operation_id="updatePerson")
def update_person(access: Manages, person_id: UUID, body: PersonUpdate) -> PersonDetail:
    """Whoever is disabled is signed out, and signs in nowhere. The last operator stays."""
    with access.change() as change:
        _require_match(change, person_id)
        account_admin.update_status(
            change.session, actor=access.actor, held=access.held, person_id=person_id, status=body.status
        )
        return change.answer(_details(account_admin.get_account(change.session, person_id=person_id)))


@router.delete("/{person_id}/sessions", status_code=204, operation_id="deletePersonSessions")
def end_person_sessions(access: Manages, person_id: UUID) -> None:
    """Signs the person out everywhere."""
    with access.change() as change:
        account_admin.end_sign_ins(change.session, actor=access.actor, held=access.held, person_id=person_id)
        change.answer_nothing()


@router.delete("/{person_id}/factors", status_code=204, operation_id="resetPersonFactors")
def reset_person_factors(access: Manages, person_id: UUID) -> None:
    """Of who has lost them: app, passkeys and recovery codes go, the password stays. Signs the person out."""
    with access.change() as change:
        account_admin.reset_factors(change.session, actor=access.actor, held=access.held, person_id=person_id)
        change.answer_nothing()


@router.post("/{person_id}/password-link", status_code=201, operation_id="createPasswordLink")
def create_password_link(access: Manages, person_id: UUID, body: PasswordLinkInput) -> PasswordLink:
    """With which the person sets a password, once; those of before are good no more. It takes all permissions that the
    person has, wherever that is."""
    with access.change() as change:
        _require_match(change, person_id)
        made = account_admin.create_link(change.session, actor=access.actor, held=access.held, person_id=person_id)
        letters = Letters(settings_of(access.asked.request).portal_url, access.sealer.seal)
        if body.mail:
            letters.send_link(change.session, made)
            link = PasswordLink(expires_at=made.expires_at, url=None, token=None)
        else:
            link = PasswordLink(expires_at=made.expires_at, url=letters.link_of(made), token=made.text)
        change.located(person_id, at="/v1/platform/people")
        return change.answer(link, state=_details(account_admin.get_account(change.session, person_id=person_id)))


def _require_match(change: Change, person_id: UUID) -> None:
    account_admin.lock_account(change.session, person_id=person_id)
    change.require_match(_details(account_admin.get_account(change.session, person_id=person_id)))


def _person(row: PersonRow) -> Person:
    return Person(**_columns(row))


def _columns(row: PersonRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "email": row.email,
        "name": row.name,
        "status": row.status,
        "has_password": bool(row.password_hash),
        "created_at": row.created_at,
    }


def _details(account: AccountOverview) -> PersonDetail:
    return PersonDetail(
        **_columns(account.person),
        methods=list(account.methods),
        sessions=[_session(row) for row in account.sign_ins],
        memberships=[_membership(row) for row in account.memberships],
    )


def _session(row: SignIn) -> PersonSession:
    return PersonSession(
        id=row.id,
        factors=row.factors,
        by_provider=row.sign_on_id is not None,
        from_address=row.from_address,
        user_agent=row.user_agent,
        created_at=row.created_at,
        last_seen_at=row.last_seen_at,
    )


def _membership(row: Membership) -> PersonMembership:
    return PersonMembership(id=row.id, msp_id=row.msp_id, tenant_id=row.tenant_id, role=row.role)

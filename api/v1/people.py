"""Accounts of the platform's people.

People manage their own account at /v1/me. Memberships determine which permissions a person has.
"""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesPlatform, ReadsPlatform
from api.application_state import get_settings
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.v1.inputs import Input
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.sign_in import Email
from nac.accounts.account_mails import AccountMailer
from nac.accounts.people import service as people
from nac.accounts.people.repository import ORDERS
from nac.accounts.sign_in import account_admin
from nac.accounts.sign_in.account_admin import AccountOverview
from nac.kit.clock import utc_now
from nac.kit.permissions import Effect, Permission
from nac.models import Membership, SignIn
from nac.models import Person as PersonRow

router = NounRouter(prefix="/platform/people", tag="people", description="All people of the platform, for operators.")

Status = Literal["active", "disabled"]
_PersonId = Annotated[UUID, Path(description="Id of the person.")]


def _require_confirmed(
    access: Annotated[Access, Depends(ChangesPlatform(Permission.PERSON_MANAGE, Effect.RIGHTS, Effect.SIGN_IN))],
) -> Access:
    """Require a recent confirmation to change accounts of other people. Raises ConfirmationNeeded."""
    if access.asked.signed_in is not None:
        access.asked.signed_in.require_confirmed(now=utc_now())
    return access


Reads = Annotated[Access, Depends(ReadsPlatform(Permission.PERSON_READ))]
Manages = Annotated[Access, Depends(_require_confirmed)]


class Person(BaseModel):
    id: UUID = Field(description="Permanent id of the person.")
    email: str = Field(examples=["ann@example.com"], description="E-mail address of the person.")
    name: str = Field(description="Name of the person.")
    status: Status = Field(description="Status of the person.")
    has_password: bool = Field(description="Whether the person has a password.")
    created_at: datetime = Field(description="Time when the person was created.")


class PersonSession(BaseModel):
    id: UUID = Field(description="Permanent id of the sign-in.")
    factors: list[str] = Field(
        examples=[["password", "totp"]],
        description="Factors of the sign-in: password, totp, passkey, recovery-code, sign-on.",
    )
    by_provider: bool = Field(
        description="Whether the person signed in with the single sign-on provider of an MSP or tenant."
    )
    from_address: str | None = Field(description="IP address of the browser that signed in.")
    user_agent: str = Field(description="User-Agent of the browser that signed in.")
    created_at: datetime = Field(description="Time when the person signed in.")
    last_seen_at: datetime = Field(description="Time of the last request of the sign-in.")


class PersonMembership(BaseModel):
    """A membership of a person in a tenant or MSP. Without tenant and MSP, the membership belongs to the platform."""

    id: UUID = Field(description="Permanent id of the membership.")
    msp_id: UUID | None = Field(description="Id of the MSP of the membership.")
    tenant_id: UUID | None = Field(description="Id of the tenant of the membership; null if none.")
    role: str | None = Field(
        examples=["tenant-admin"], description="Role of the person; null for a custom role of the MSP or tenant."
    )


class PersonDetail(Person, ObservedModel):
    methods: list[str] = Field(description="Second factors of the person.", examples=[["totp", "recovery-code"]])
    sessions: list[PersonSession] = Field(description="Sign-ins of the person, newest first, 200 at most.")
    memberships: list[PersonMembership] = Field(description="Memberships of the person, with roles.")

    def observed_fields(self) -> set[str]:
        """Return `sessions`, because sign-ins change without an action by an operator."""
        return {"sessions"}


class PersonInput(Input):
    email: Email = Field(description="E-mail address of the person.")
    name: str = Field("", max_length=200, examples=["Ann"], description="Name of the person.")


class PersonUpdate(Input):
    status: Status = Field(description="Status of the person.")


class PasswordLinkInput(Input):
    mail: bool = Field(
        True, description="Whether to mail the link to the person; false to return the link in this response."
    )


class PasswordLink(BaseModel):
    expires_at: datetime = Field(description="Time when the link expires.")
    url: str | None = Field(description="Link to set the password; null if Admit mailed the link.")
    token: str | None = Field(description="Token of the link, for POST /v1/sign-in/new-password.")


@router.get("", operation_id="listPeople")
def list_people(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    text: Annotated[
        str, Query(max_length=200, description="Part of the e-mail address or name of the people to list.")
    ] = "",
    status: Annotated[Status | None, Query(description="Status of the people to list.")] = None,
) -> Page[Person]:
    """List the accounts of all people."""
    with access.read() as session:
        rows = people.list_people(session, span=paging.span, text=text, status=status or "")
        return paging.ordered(rows, _build_person)


@router.post("", status_code=201, operation_id="createPerson")
def create_person(access: Manages, body: PersonInput) -> Person:
    """Create a person's account, or return the account that already has this e-mail address.

    Then create a password link, which sets the password, and a membership, which gives permissions.
    """
    with access.change() as change:
        row = people.create_person(change.session, actor=access.actor, email=body.email, name=body.name)
        person = _build_person(row)
        change.located(person.id)
        return change.answer(
            person, state=_build_detail(account_admin.get_account(change.session, person_id=person.id))
        )


@router.get("/{person_id}", operation_id="getPerson")
def get_person(access: Reads, person_id: _PersonId) -> PersonDetail:
    """Get a person of the platform, with sign-in methods and memberships."""
    with access.read() as session:
        return access.shown(_build_detail(account_admin.get_account(session, person_id=person_id)))


@router.patch("/{person_id}", operation_id="updatePerson")
def update_person(access: Manages, person_id: _PersonId, body: PersonUpdate) -> PersonDetail:
    """Disable or enable a person's account.

    Admit signs the person of a disabled account out, and rejects new sign-ins. You cannot disable the last operator.
    """
    with access.change() as change:
        _require_match(change, person_id)
        account_admin.update_status(
            change.session, actor=access.actor, held=access.held, person_id=person_id, status=body.status
        )
        return change.answer(_build_detail(account_admin.get_account(change.session, person_id=person_id)))


@router.delete("/{person_id}/sessions", status_code=204, operation_id="deletePersonSessions")
def end_person_sessions(access: Manages, person_id: _PersonId) -> None:
    """Sign a person out everywhere."""
    with access.change() as change:
        account_admin.end_sign_ins(change.session, actor=access.actor, held=access.held, person_id=person_id)
        change.set_empty_response()


@router.delete("/{person_id}/factors", status_code=204, operation_id="resetPersonFactors")
def reset_person_factors(access: Manages, person_id: _PersonId) -> None:
    """Delete the second factors of a person who lost a factor.

    Admit deletes the authenticator app, passkeys and recovery codes, but not the password. The person is signed out.
    """
    with access.change() as change:
        account_admin.reset_factors(change.session, actor=access.actor, held=access.held, person_id=person_id)
        change.set_empty_response()


@router.post("/{person_id}/password-link", status_code=201, operation_id="createPasswordLink")
def create_password_link(access: Manages, person_id: _PersonId, body: PasswordLinkInput) -> PasswordLink:
    """Create a link that sets a person's password. The link works once.

    Earlier links stop working. You need every permission that the person has at any tenant, MSP or the platform.
    """
    with access.change() as change:
        _require_match(change, person_id)
        made = account_admin.create_link(change.session, actor=access.actor, held=access.held, person_id=person_id)
        letters = AccountMailer(get_settings(access.asked.request).portal_url, access.sealer.seal)
        if body.mail:
            letters.send_link(change.session, made)
            link = PasswordLink(expires_at=made.expires_at, url=None, token=None)
        else:
            link = PasswordLink(expires_at=made.expires_at, url=letters.link_url(made), token=made.text)
        change.located(person_id, at="/v1/platform/people")
        return change.answer(link, state=_build_detail(account_admin.get_account(change.session, person_id=person_id)))


def _require_match(change: Change, person_id: UUID) -> None:
    account_admin.lock_account(change.session, person_id=person_id)
    change.require_match(_build_detail(account_admin.get_account(change.session, person_id=person_id)))


def _build_person(row: PersonRow) -> Person:
    return Person(**_describe_person(row))


def _describe_person(row: PersonRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "email": row.email,
        "name": row.name,
        "status": row.status,
        "has_password": bool(row.password_hash),
        "created_at": row.created_at,
    }


def _build_detail(account: AccountOverview) -> PersonDetail:
    return PersonDetail(
        **_describe_person(account.person),
        methods=list(account.methods),
        sessions=[_build_session(row) for row in account.sign_ins],
        memberships=[_build_membership(row) for row in account.memberships],
    )


def _build_session(row: SignIn) -> PersonSession:
    return PersonSession(
        id=row.id,
        factors=row.factors,
        by_provider=row.sign_on_id is not None,
        from_address=row.from_address,
        user_agent=row.user_agent,
        created_at=row.created_at,
        last_seen_at=row.last_seen_at,
    )


def _build_membership(row: Membership) -> PersonMembership:
    return PersonMembership(id=row.id, msp_id=row.msp_id, tenant_id=row.tenant_id, role=row.role)

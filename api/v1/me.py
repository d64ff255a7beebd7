"""Routes about the signed-in person's account, permissions and browsers."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Path
from pydantic import BaseModel, Field

from api.own_account import OwnAccount
from api.routes import NounRouter
from api.v1.inputs import Input, Name
from api.v1.paging import OrderedPaging, Page, Paging, require_paging
from api.v1.sign_in import Password
from nac.accounts.people import service as people
from nac.accounts.sign_in import accessible_places, sign_ins
from nac.accounts.sign_in.repository import ORDERS
from nac.accounts.sign_in.second_factors import list_second_factors
from nac.models import SignIn

router = NounRouter(tag="me", description="Your account, your sign-ins, and the MSPs and tenants that you can access.")

_OwnAccount = Annotated[OwnAccount, Depends()]


class MyAccount(BaseModel):
    email: str = Field(description="E-mail address of your account.")
    name: str = Field(description="Your name, which other people see.")
    factors: list[str] = Field(description="Factors of this browser's sign-in, such as password, totp or passkey.")
    has_two_factors: bool = Field(description="Whether you have registered two factors.")
    methods: list[str] | None = Field(
        description="Second factors that you can use after a password; null if a single sign-on provider signed you in."
    )
    is_own: bool = Field(description="Whether your account has its own password or passkey.")
    expires_at: datetime = Field(description="Time when this sign-in expires.")
    csrf_token: str = Field(
        examples=["q83vEjRWeJASNFZ4kBI0Vg"],
        description="CSRF token. Changes that use the sign-in cookie must send the token in the header Admit-CSRF.",
    )


class MyAccountUpdate(Input):
    name: Name = Field(description="Your name, which other people see.")


class MySession(BaseModel):
    id: UUID = Field(description="Permanent id of the sign-in.")
    here: bool = Field(description="Whether this entry is the sign-in that sent the request.")
    factors: list[str] = Field(description="Factors of the sign-in: password, totp, passkey, recovery-code, sign-on.")
    from_address: str | None = Field(description="IP address of the browser that signed in.")
    user_agent: str = Field(description="User-Agent of the browser that signed in.")
    created_at: datetime = Field(description="Time when you signed in.")
    last_seen_at: datetime = Field(description="Time of the last request of the sign-in.")


class MyPlace(BaseModel):
    kind: Literal["msp", "tenant"] = Field(description="Kind of the entry: MSP or tenant.")
    id: UUID = Field(description="Permanent id of the MSP or tenant.")
    msp_id: UUID = Field(description="Id of the MSP, or of the MSP that the tenant belongs to.")
    slug: str = Field(description="Slug of the MSP or tenant, which is a DNS label.")
    name: str = Field(description="Name of the MSP or tenant.")
    status: str = Field(description="Status of the tenant; `active` for an MSP.")
    permissions: list[str] = Field(description="Your permissions at the MSP or tenant.")


class PasswordUpdate(Input):
    password: Password = Field(description="New password of your account.")


@router.get("/me", operation_id="getMe")
def get_me(me: _OwnAccount) -> MyAccount:
    """Get your account, and how you signed in."""
    with me.session() as session:
        return _build_account(me, list_second_factors(session, person_id=me.signed_in.person_id), me.signed_in.name)


@router.patch("/me", operation_id="updateMe")
def update_me(me: _OwnAccount, body: MyAccountUpdate) -> MyAccount:
    """Change your name, which other people see."""
    with me.account(confirmed=False) as (session, person):
        people.rename_person(session, actor=me.signed_in.actor, person_id=person.id, name=body.name)
        return _build_account(me, list_second_factors(session, person_id=person.id), person.name)


@router.get("/me/places", operation_id="listMyPlaces")
def list_my_places(me: _OwnAccount, paging: Annotated[Paging, Depends()]) -> Page[MyPlace]:
    """List MSPs and tenants that you can access, by slug, with your permissions.

    Permissions of the platform are not included.
    """
    with me.session() as session:
        rows = accessible_places.list_places(
            session, principal=me.asked.principal, via=me.signed_in.via, after=paging.after(), limit=paging.limit + 1
        )
        return paging.page(rows, lambda row: row.key, _build_place)


@router.get("/me/sessions", operation_id="listMySessions")
def list_my_sessions(
    me: _OwnAccount, paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))]
) -> Page[MySession]:
    """List the browsers where you are signed in, newest first by default."""
    with me.session() as session:
        rows = sign_ins.list_own(session, signed_in=me.signed_in, span=paging.span)
        return paging.ordered(rows, lambda row: _build_session(row, me.signed_in.sign_in_id))


@router.delete("/me/sessions/{session_id}", status_code=204, operation_id="deleteMySession")
def end_my_session(me: _OwnAccount, session_id: Annotated[UUID, Path(description="Id of the sign-in.")]) -> None:
    """Sign out one of your browsers."""
    with me.session() as session:
        sign_ins.end_own(session, signed_in=me.signed_in, sign_in_id=session_id)


@router.delete("/me/sessions", status_code=204, operation_id="deleteMyOtherSessions")
def end_my_other_sessions(me: _OwnAccount) -> None:
    """Sign out all your other browsers."""
    with me.account(confirmed=False) as (session, person):
        sign_ins.end_all(session, actor=me.signed_in.actor, person=person, but_for=me.signed_in.sign_in_id)


@router.put("/me/password", status_code=204, operation_id="updateMyPassword")
def update_my_password(me: _OwnAccount, body: PasswordUpdate) -> None:
    """Change your password.

    Admit signs out your other browsers.
    """
    with me.account() as (session, person):
        people.set_password(session, actor=me.signed_in.actor, person_id=person.id, password=body.password)
        sign_ins.end_all(session, actor=me.signed_in.actor, person=person, but_for=me.signed_in.sign_in_id)


def _build_account(me: OwnAccount, methods: tuple[str, ...], name: str) -> MyAccount:
    who = me.signed_in
    return MyAccount(
        email=who.email,
        name=name,
        factors=sorted(who.factors),
        has_two_factors=who.has_two_factors,
        methods=list(methods) if who.via is None else None,
        is_own=who.via is None,
        expires_at=who.expires_at,
        csrf_token=who.csrf_token,
    )


def _build_session(row: SignIn, here: UUID) -> MySession:
    return MySession(
        id=row.id,
        here=row.id == here,
        factors=row.factors,
        from_address=row.from_address,
        user_agent=row.user_agent,
        created_at=row.created_at,
        last_seen_at=row.last_seen_at,
    )


def _build_place(row: accessible_places.AccessiblePlace) -> MyPlace:
    return MyPlace(
        kind=row.kind,
        id=row.id,
        msp_id=row.msp_id,
        slug=row.slug,
        name=row.name,
        status=row.status,
        permissions=sorted(row.permissions),
    )

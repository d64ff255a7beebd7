"""Whoever is signed in: who it is, where it may do what, and in which browsers."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from api.me import Me
from api.v1.inputs import Input, Name
from api.v1.paging import OrderedPaging, Page, Paging, sorted_by
from api.v1.sign_in import Password
from nac.models import SignIn
from nac.people import service as people
from nac.sign_in import accessible_places, sign_ins
from nac.sign_in.repository import ORDERS
from nac.sign_in.second_factors import list_second_factors

router = APIRouter(tags=["me"])

_Me = Annotated[Me, Depends()]


class MyAccount(BaseModel):
    email: str = Field(description="E-mail address.")
    name: str = Field(description="As others see it.")
    factors: list[str] = Field(description="What was shown in this browser: password, totp, passkey ...")
    has_two_factors: bool = Field(description="Whether two factors are registered.")
    methods: list[str] | None = Field(
        description="How a sign-in by password goes on; null where an organisation's provider has named the person."
    )
    is_own: bool = Field(description="Whether the account signs in here, with a password or passkey of its own.")
    expires_at: datetime = Field(description="When it ends.")
    csrf_token: str = Field(description="What changes by the cookie send as the header Admit-CSRF.")


class MyAccountUpdate(Input):
    name: Name = Field(description="As others see it.")


class MySession(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    here: bool = Field(description="Whether it is the sign-in of this request.")
    factors: list[str] = Field(
        description="What was shown to sign in: password, totp, passkey, recovery-code, sign-on."
    )
    from_address: str | None = Field(description="IP address that it came from.")
    user_agent: str = Field(description="What the browser says that it is.")
    created_at: datetime = Field(description="When it was made.")
    last_seen_at: datetime = Field(description="When it was seen last; null: never.")


class MyPlace(BaseModel):
    kind: Literal["msp", "tenant"] = Field(description="Whether it is an MSP or a tenant.")
    id: UUID = Field(description="Id; it stays.")
    msp_id: UUID = Field(description="Id of the MSP.")
    slug: str = Field(description="Its name in addresses: a DNS label.")
    name: str = Field(description="Name of the MSP or tenant.")
    status: str = Field(description="Of a tenant its status; of an MSP active.")
    permissions: list[str] = Field(description="What the asker may do there.")


class PasswordUpdate(Input):
    password: Password = Field(description="The new password.")


@router.get("/me", operation_id="getMe")
def get_me(me: _Me) -> MyAccount:
    with me.session() as session:
        return _account(me, list_second_factors(session, person_id=me.signed_in.person_id), me.signed_in.name)


@router.patch("/me", operation_id="updateMe")
def update_me(me: _Me, body: MyAccountUpdate) -> MyAccount:
    with me.account(confirmed=False) as (session, person):
        people.rename_person(session, actor=me.signed_in.actor, person_id=person.id, name=body.name)
        return _account(me, list_second_factors(session, person_id=person.id), person.name)


@router.get("/me/places", operation_id="listMyPlaces")
def list_my_places(me: _Me, paging: Annotated[Paging, Depends()]) -> Page[MyPlace]:
    """MSPs and tenants that you may do something in, by slug, and what. Of the platform nothing is said here."""
    with me.session() as session:
        rows = accessible_places.list_places(
            session, principal=me.asked.principal, via=me.signed_in.via, after=paging.after(), limit=paging.limit + 1
        )
        return paging.page(rows, lambda row: row.key, _place)


@router.get("/me/sessions", operation_id="listMySessions")
def list_my_sessions(me: _Me, paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))]) -> Page[MySession]:
    """Where you are signed in, newest first, unless `sort` says otherwise."""
    with me.session() as session:
        rows = sign_ins.list_own(session, signed_in=me.signed_in, span=paging.span)
        return paging.ordered(rows, lambda row: _session(row, me.signed_in.sign_in_id))


@router.delete("/me/sessions/{session_id}", status_code=204, operation_id="deleteMySession")
def end_my_session(me: _Me, session_id: UUID) -> None:
    """That browser is signed out from now on."""
    with me.session() as session:
        sign_ins.end_own(session, signed_in=me.signed_in, sign_in_id=session_id)


@router.delete("/me/sessions", status_code=204, operation_id="deleteMyOtherSessions")
def end_my_other_sessions(me: _Me) -> None:
    """All but this one."""
    with me.account(confirmed=False) as (session, person):
        sign_ins.end_all(session, actor=me.signed_in.actor, person=person, but_for=me.signed_in.sign_in_id)


@router.put("/me/password", status_code=204, operation_id="updateMyPassword")
def update_my_password(me: _Me, body: PasswordUpdate) -> None:
    """Signs all other browsers out."""
    with me.account() as (session, person):
        people.set_password(session, actor=me.signed_in.actor, person_id=person.id, password=body.password)
        sign_ins.end_all(session, actor=me.signed_in.actor, person=person, but_for=me.signed_in.sign_in_id)


def _account(me: Me, methods: tuple[str, ...], name: str) -> MyAccount:
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


def _session(row: SignIn, here: UUID) -> MySession:
    return MySession(
        id=row.id,
        here=row.id == here,
        factors=row.factors,
        from_address=row.from_address,
        user_agent=row.user_agent,
        created_at=row.created_at,
        last_seen_at=row.last_seen_at,
    )


def _place(row: accessible_places.AccessiblePlace) -> MyPlace:
    return MyPlace(
        kind=row.kind,
        id=row.id,
        msp_id=row.msp_id,
        slug=row.slug,
        name=row.name,
        status=row.status,
        permissions=sorted(row.permissions),
    )

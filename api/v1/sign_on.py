"""Single sign-on by the provider of an MSP or a tenant: its settings, who came by it, and the sign-in itself."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from api import signing_on
from api.access import Access, Anyone, Requires
from api.description import refuses
from api.head import get_only
from api.signing_in import Desk
from api.signing_on import Back
from api.state import signing_of
from api.v1.inputs import Input, Slug
from api.v1.owners import of_tenants_and_msps
from api.v1.paging import OrderedPaging, Page, sorted_by
from api.v1.sign_in import desk_of
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.models import Person, SignIn
from nac.models import SignOn as SignOnRow
from nac.settings import Settings
from nac.sign_in import sign_ins
from nac.sign_in.repository import ORDERS
from nac.sign_ons import service as sign_ons
from nac.sign_ons.settings import MAX_JOINS

router = APIRouter(tags=["sign-on"])

_ANYONE = Depends(Anyone("Whoever signs in is nobody yet."))
# Of this site: nothing that a browser could take for another host.
_PATH = r"^/(?:[A-Za-z0-9._~%?&=+,:@-][A-Za-z0-9._~%?&=+,:@/-]*)?$"
_Desk = Annotated[Desk, Depends(desk_of)]


class SignOnRule(Input):
    """Whoever the provider names becomes a member, where domain and group, as far as given, are theirs."""

    role: Slug = Field(examples=["help-desk"], description="Slug of the role that they have.")
    domain: str = Field(
        "", max_length=253, examples=["acme.example"], description='Domain of e-mail addresses; "" for any.'
    )
    group: str = Field("", max_length=300, description='A value of the groups claim; "" for anybody of the domain.')
    tenants: list[Slug] | None = Field(
        None, max_length=1_000, description="Slugs of the MSP's tenants that the role is for; null for all of them."
    )


class SignOnSettings(Input):
    issuer: str = Field(
        max_length=1_000, examples=["https://login.acme.example"], description="The provider's issuer (OpenID Connect)."
    )
    client_id: str = Field(max_length=200, examples=["admit"], description="As the provider knows this installation.")
    scope: str = Field(
        "openid email profile", max_length=300, description="Scopes that are asked for, with spaces between."
    )
    ca_certificate: str = Field(
        "",
        max_length=50_000,
        description='PEM of the authorities that the other side\'s certificate may come from; null or "" '
        "for those of the system.",
    )
    groups_claim: str = Field(
        "groups", max_length=200, description='The claim of the provider\'s ID token that lists groups; "" for none.'
    )
    trusts_email: bool = Field(
        False, description="Addresses count without `email_verified`, which some providers never say."
    )
    counts_as_two: bool = Field(
        False, description="The provider asks for two factors itself, whether it says so (amr: mfa) or not."
    )
    joins: list[SignOnRule] = Field(
        [], max_length=MAX_JOINS, description="Which people become members on their first sign-in, and as what."
    )


class SignOnUpdate(SignOnSettings):
    client_secret: str | None = Field(
        None,
        max_length=1_000,
        description="As the provider gave it; sealed, and never shown. Needed at first and with another "
        "provider; null leaves it as it is.",
    )


class SignOn(SignOnSettings):
    id: UUID = Field(description="Id; it stays.")
    begin_url: str = Field(description="Where people begin; `?next=/...` says where to afterwards.")
    callback_url: str = Field(description="For the provider's list of redirect URIs.")


class SignOnSession(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    email: str | None = Field(description="E-mail address.")
    factors: list[str] = Field(
        description="What was shown to sign in: password, totp, passkey, recovery-code, sign-on."
    )
    from_address: str | None = Field(description="IP address that it came from.")
    user_agent: str = Field(description="What the browser says that it is.")
    created_at: datetime = Field(description="When it was made.")
    last_seen_at: datetime = Field(description="When it was seen last; null: never.")


def _routes(prefix: str, noun: str, reads: Requires, manages: Requires) -> None:
    read, manage = Depends(reads), Depends(manages)

    @router.get(f"{prefix}/sign-on", operation_id=f"get{noun}SignOn")
    def get_sign_on(request: Request, access: Annotated[Access, read]) -> SignOn:
        with access.read() as session:
            return access.shown(_sign_on(request, sign_ons.require_sign_on(session, owner=access.owner)))

    @router.put(f"{prefix}/sign-on", operation_id=f"update{noun}SignOn")
    def set_up_sign_on(request: Request, access: Annotated[Access, manage], body: SignOnUpdate) -> SignOn:
        """By who may everything there: whoever names the provider could be every member. Its people sign in here alone,
        whatever else they are members of."""
        with access.change() as change:
            before = sign_ons.find_sign_on(change.session, owner=access.owner, lock=True)
            change.require_match(None if before is None else _sign_on(request, before))
            row = sign_ons.set_up_sign_on(
                change.session,
                actor=access.actor,
                held=access.held,
                owner=access.owner,
                document=body.model_dump(exclude={"client_secret"}),
                secret=body.client_secret,
                seal=signing_of(request).sealer.seal,
            )
            return change.answer(_sign_on(request, row))

    @router.delete(f"{prefix}/sign-on", status_code=204, operation_id=f"delete{noun}SignOn")
    def remove_sign_on(request: Request, access: Annotated[Access, manage]) -> None:
        """Who has signed in by it is signed out. By who may everything there, as `setUp` is."""
        with access.change() as change:
            change.require_match(
                _sign_on(request, sign_ons.require_sign_on(change.session, owner=access.owner, lock=True))
            )
            sign_ons.delete_sign_on(change.session, actor=access.actor, owner=access.owner)
            change.answer_nothing()


def _session_routes(prefix: str, noun: str, reads: Requires, manages: Requires) -> None:
    read, manage = Depends(reads), Depends(manages)

    @router.get(f"{prefix}/sign-on/sessions", operation_id=f"list{noun}SignOnSessions")
    def list_sign_on_sessions(
        access: Annotated[Access, read],
        paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
        text: Annotated[str, Query(max_length=255, description="A part of the e-mail address.")] = "",
    ) -> Page[SignOnSession]:
        """Who is signed in by the provider, newest first, unless `sort` says otherwise."""
        with access.read() as session:
            rows = sign_ins.list_via(session, owner=access.owner, span=paging.span, text=text)
            return paging.ordered(rows, lambda row: _via(*row), entity=lambda row: row[0])

    @router.delete(
        f"{prefix}/sign-on/sessions/{{session_id}}", status_code=204, operation_id=f"delete{noun}SignOnSession"
    )
    def end_sign_on_session(access: Annotated[Access, manage], session_id: UUID) -> None:
        """You cannot sign out a member who holds permissions that you do not have."""
        with access.change() as change:
            sign_ins.end_via(
                change.session, actor=access.actor, held=access.held, owner=access.owner, sign_in_id=session_id
            )
            change.answer_nothing()


for each in of_tenants_and_msps(Permission.SIGN_ON_READ, Permission.SIGN_ON_MANAGE, Effect.SIGN_IN):
    _session_routes(*each)
for each in of_tenants_and_msps(
    Permission.SIGN_ON_READ,
    Permission.SIGN_ON_MANAGE,
    *(Effect.SIGN_IN, Effect.CONNECTION),
    takes_everything=True,
):
    _routes(*each)


@router.get(
    "/sign-on/{sign_on_id}/begin",
    status_code=303,
    operation_id="startSignOn",
    response_class=RedirectResponse,
    dependencies=[_ANYONE],
    responses=refuses(401, 403),
)
def begin_sign_on(
    request: Request,
    desk: _Desk,
    sign_on_id: UUID,
    to: Annotated[str, Query(alias="next", max_length=500, pattern=_PATH)] = "/",
    on_error: Annotated[str, Query(max_length=500, pattern=rf"{_PATH}|^$")] = "",
) -> Response:
    """For a browser: to the provider. Where it fails, the browser is sent to the path `on_error` with `error`, the code
    of the problem, and `request_id`; without one it is answered with a page or a problem."""
    return signing_on.begin(request, desk, sign_on_id, to=to, on_error=on_error)


@router.get(
    "/sign-on/{sign_on_id}/callback",
    status_code=303,
    operation_id="finishSignOn",
    dependencies=[_ANYONE],
    responses=refuses(401, 403),
)
@get_only
def finish_sign_on(
    request: Request,
    desk: _Desk,
    sign_on_id: UUID,
    state: Annotated[str, Query(max_length=200)] = "",
    code: Annotated[str, Query(max_length=4_000)] = "",
    iss: Annotated[str | None, Query(max_length=1_000)] = None,
    error: Annotated[str, Query(max_length=200, pattern=r"^[\x20-\x7e]*$")] = "",
) -> Response:
    """For a browser: back from the provider, and on to `next`, or to `on_error` with what went wrong."""
    return signing_on.finish(request, desk, sign_on_id, Back(state, code, error, iss))


def _sign_on(request: Request, row: SignOnRow) -> SignOn:
    settings: Settings = request.app.state.settings
    return SignOn(
        **row.settings,
        id=row.id,
        begin_url=signing_on.begin_url(settings, row.id),
        callback_url=signing_on.callback_url(settings, row.id),
    )


def _via(row: SignIn, person: Person | None) -> SignOnSession:
    return SignOnSession(
        id=row.id,
        email=person.email if person is not None else None,
        factors=row.factors,
        from_address=row.from_address,
        user_agent=row.user_agent,
        created_at=row.created_at,
        last_seen_at=row.last_seen_at,
    )

"""Single sign-on by the provider of an MSP or tenant: settings, sign-in, and the list of sign-ins."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from api import sign_on_flow
from api.access import Access, AllowsAnyone, RequiresPermission
from api.application_state import get_signing
from api.described.described_routes import describe_level
from api.openapi_document import error_responses
from api.routes import NounRouter
from api.sign_in_flow import SignInFlow
from api.sign_on_flow import ProviderCallback
from api.v1.inputs import Input, Slug, body_example
from api.v1.owner_routes import list_tenant_and_msp_routes
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.sign_in import open_sign_in_flow
from nac.accounts.sign_in import sign_ins
from nac.accounts.sign_in.repository import ORDERS
from nac.accounts.sign_ons import service as sign_ons
from nac.accounts.sign_ons.settings import MAX_JOINS
from nac.kit.permissions import Effect, Permission
from nac.kit.settings import Settings
from nac.models import Person, SignIn
from nac.models import SignOn as SignOnRow

router = NounRouter(tag="sign-on", description="Single sign-on by an organisation's provider (OpenID Connect).")

_ANYONE = Depends(AllowsAnyone("The caller is not signed in yet."))
# A path of this site, never a URL that a browser could read as another host.
_LOCAL_PATH = r"^/(?:[A-Za-z0-9._~%?&=+,:@-][A-Za-z0-9._~%?&=+,:@/-]*)?$"
_SignInFlow = Annotated[SignInFlow, Depends(open_sign_in_flow)]
_SignOnId = Annotated[UUID, Path(description="Id of the single sign-on settings.")]


class SignOnRule(Input):
    """Rule by which a person who signs in by the provider becomes a member, depending on e-mail domain and group."""

    role: Slug = Field(examples=["help-desk"], description="Slug of the role of the new member.")
    domain: str = Field(
        "", max_length=253, examples=["acme.example"], description='Domain of the person\'s e-mail address; "" for any.'
    )
    group: str = Field(
        "", max_length=300, examples=["printers"], description='Value of the person\'s groups claim; "" for any.'
    )
    tenants: list[Slug] | None = Field(
        None, max_length=1_000, description="Slugs of the MSP's tenants that the role covers; null for all."
    )


class SignOnSettings(Input):
    issuer: str = Field(
        max_length=1_000,
        examples=["https://login.acme.example"],
        description="Issuer URL of the provider (OpenID Connect).",
    )
    client_id: str = Field(
        max_length=200, examples=["admit"], description="Client id of this installation at the provider."
    )
    scope: str = Field(
        "openid email profile",
        max_length=300,
        description="Scopes that Admit requests from the provider, separated by spaces.",
    )
    ca_certificate: str = Field(
        "",
        max_length=50_000,
        description='CA certificates (PEM) that verify the server; null or "" for the CA certificates of the system.',
    )
    groups_claim: str = Field(
        "groups",
        max_length=200,
        examples=["groups"],
        description='Claim of the ID token that lists groups; "" for none.',
    )
    trusts_email: bool = Field(
        False,
        description="Whether to accept e-mail addresses without `email_verified`, a claim that some providers omit.",
    )
    counts_as_two: bool = Field(
        False, description="Whether the provider always requires two factors, even without `amr: mfa`."
    )
    joins: list[SignOnRule] = Field(
        [], max_length=MAX_JOINS, description="Rules by which a person becomes a member at the person's first sign-in."
    )


class SignOnUpdate(SignOnSettings):
    model_config = body_example(
        {
            "issuer": "https://login.acme.example",
            "client_id": "admit",
            "client_secret": "four words of mine",
            "joins": [{"domain": "acme.example", "role": "help-desk"}],
        }
    )

    client_secret: str | None = Field(
        None,
        max_length=1_000,
        description=(
            "Client secret; stored encrypted and never returned. Required for the first provider and for a change to "
            "another provider; null to leave the secret unchanged."
        ),
    )


class SignOn(SignOnSettings):
    id: UUID = Field(description="Permanent id of the single sign-on settings.")
    begin_url: str = Field(
        examples=["https://admit.example.com/v1/sign-on/0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10?next=/"],
        description="URL that starts a sign-in. `?next=/...` sets the page that opens after the sign-in.",
    )
    callback_url: str = Field(
        examples=["https://admit.example.com/v1/sign-on/0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10/callback"],
        description="Redirect URI to enter in the provider's settings.",
    )


class SignOnSession(BaseModel):
    id: UUID = Field(description="Permanent id of the sign-in.")
    email: str | None = Field(description="E-mail address of the person who signed in.")
    factors: list[str] = Field(description="Factors of the sign-in: password, totp, passkey, recovery-code, sign-on.")
    from_address: str | None = Field(description="IP address of the browser that signed in.")
    user_agent: str = Field(description="User-Agent of the browser that signed in.")
    created_at: datetime = Field(description="Time when the person signed in.")
    last_seen_at: datetime = Field(description="Time of the last request of the sign-in.")


def _add_routes(prefix: str, noun: str, reads: RequiresPermission, manages: RequiresPermission) -> None:
    read, manage = Depends(reads), Depends(manages)

    @router.get(
        f"{prefix}/sign-on",
        operation_id=f"get{noun}SignOn",
        description=f"Get the provider of {describe_level(reads)}'s single sign-on.",
    )
    def get_sign_on(request: Request, access: Annotated[Access, read]) -> SignOn:
        with access.read() as session:
            return access.shown(_build_sign_on(request, sign_ons.require_sign_on(session, owner=access.owner)))

    @router.put(f"{prefix}/sign-on", operation_id=f"update{noun}SignOn")
    def set_up_sign_on(request: Request, access: Annotated[Access, manage], body: SignOnUpdate) -> SignOn:
        """Set up the provider of single sign-on.

        You need every permission of the MSP or tenant, because the provider could sign in as any member. After a
        sign-in by the provider, the person cannot use memberships of other MSPs or tenants.
        """
        with access.change() as change:
            before = sign_ons.find_sign_on(change.session, owner=access.owner, lock=True)
            change.require_match(None if before is None else _build_sign_on(request, before))
            row = sign_ons.set_up_sign_on(
                change.session,
                actor=access.actor,
                held=access.held,
                owner=access.owner,
                document=body.model_dump(exclude={"client_secret"}),
                secret=body.client_secret,
                seal=get_signing(request).sealer.seal,
            )
            return change.answer(_build_sign_on(request, row))

    @router.delete(f"{prefix}/sign-on", status_code=204, operation_id=f"delete{noun}SignOn")
    def remove_sign_on(request: Request, access: Annotated[Access, manage]) -> None:
        """Delete the provider of single sign-on.

        People who signed in by the provider are signed out. You need every permission of the MSP or tenant.
        """
        with access.change() as change:
            change.require_match(
                _build_sign_on(request, sign_ons.require_sign_on(change.session, owner=access.owner, lock=True))
            )
            sign_ons.delete_sign_on(change.session, actor=access.actor, owner=access.owner)
            change.set_empty_response()


def _add_session_routes(prefix: str, noun: str, reads: RequiresPermission, manages: RequiresPermission) -> None:
    read, manage = Depends(reads), Depends(manages)

    @router.get(f"{prefix}/sign-on/sessions", operation_id=f"list{noun}SignOnSessions")
    def list_sign_on_sessions(
        access: Annotated[Access, read],
        paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
        text: Annotated[
            str, Query(max_length=255, description="Part of the e-mail address of the people who signed in.")
        ] = "",
    ) -> Page[SignOnSession]:
        """List sign-ins by the provider, newest first by default."""
        with access.read() as session:
            rows = sign_ins.list_via(session, owner=access.owner, span=paging.span, text=text)
            return paging.ordered(rows, lambda row: _build_session(*row), entity=lambda row: row[0])

    @router.delete(
        f"{prefix}/sign-on/sessions/{{session_id}}", status_code=204, operation_id=f"delete{noun}SignOnSession"
    )
    def end_sign_on_session(
        access: Annotated[Access, manage], session_id: Annotated[UUID, Path(description="Id of the sign-in.")]
    ) -> None:
        """End a sign-in by the provider.

        You need each permission that the member has.
        """
        with access.change() as change:
            sign_ins.end_via(
                change.session, actor=access.actor, held=access.held, owner=access.owner, sign_in_id=session_id
            )
            change.set_empty_response()


for each in list_tenant_and_msp_routes(Permission.SIGN_ON_READ, Permission.SIGN_ON_MANAGE, Effect.SIGN_IN):
    _add_session_routes(*each)
for each in list_tenant_and_msp_routes(
    Permission.SIGN_ON_READ,
    Permission.SIGN_ON_MANAGE,
    *(Effect.SIGN_IN, Effect.CONNECTION),
    takes_everything=True,
):
    _add_routes(*each)


@router.get(
    "/sign-on/{sign_on_id}/begin",
    status_code=303,
    operation_id="startSignOn",
    response_class=RedirectResponse,
    dependencies=[_ANYONE],
    responses=error_responses(401, 403),
)
def start_sign_on(
    request: Request,
    desk: _SignInFlow,
    sign_on_id: _SignOnId,
    to: Annotated[
        str,
        Query(
            alias="next",
            max_length=500,
            pattern=_LOCAL_PATH,
            description="Path of this installation to open after the sign-in.",
        ),
    ] = "/",
    on_error: Annotated[
        str,
        Query(
            max_length=500,
            pattern=rf"{_LOCAL_PATH}|^$",
            description="Path to open after a failed sign-in, with the error code. Begins with `/`.",
        ),
    ] = "",
) -> Response:
    """Start single sign-on: redirect the browser to the provider.

    On failure, the browser is redirected to the path `on_error` with `error`, the code of the problem, and
    `request_id`. Without `on_error`, a browser gets an error page, and a program gets a problem document (RFC 9457).
    """
    return sign_on_flow.start_sign_on(request, desk, sign_on_id, to=to, on_error=on_error)


@router.get(
    "/sign-on/{sign_on_id}/callback",
    status_code=303,
    operation_id="finishSignOn",
    dependencies=[_ANYONE],
    responses=error_responses(401, 403),
)
def finish_sign_on(
    request: Request,
    desk: _SignInFlow,
    sign_on_id: _SignOnId,
    state: Annotated[str, Query(max_length=200, description="State that startSignOn sent to the provider.")] = "",
    code: Annotated[str, Query(max_length=4_000, description="Authorization code that the provider issued.")] = "",
    iss: Annotated[
        str | None, Query(max_length=1_000, description="Issuer of the provider's response (RFC 9207).")
    ] = None,
    error: Annotated[
        str,
        Query(max_length=200, pattern=r"^[\x20-\x7e]*$", description="Error code of the provider (RFC 6749 4.1.2.1)."),
    ] = "",
) -> Response:
    """Finish single sign-on: redirect the browser from the provider to `next`.

    On failure, the browser is redirected to `on_error` with the error.
    """
    return sign_on_flow.finish_sign_on(request, desk, sign_on_id, ProviderCallback(state, code, error, iss))


def _build_sign_on(request: Request, row: SignOnRow) -> SignOn:
    settings: Settings = request.app.state.settings
    return SignOn(
        **row.settings,
        id=row.id,
        begin_url=sign_on_flow.begin_url(settings, row.id),
        callback_url=sign_on_flow.callback_url(settings, row.id),
    )


def _build_session(row: SignIn, person: Person | None) -> SignOnSession:
    return SignOnSession(
        id=row.id,
        email=person.email if person is not None else None,
        factors=row.factors,
        from_address=row.from_address,
        user_agent=row.user_agent,
        created_at=row.created_at,
        last_seen_at=row.last_seen_at,
    )

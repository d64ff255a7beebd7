"""Sessions of a tenant, live and ended."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.routes import NounRouter
from api.v1.coa_requests import CoaRequest, build_coa_request
from api.v1.list_parameters import Mac, NasName, RowNumber, SiteSlug, User, format_moment_key, parse_moment_key
from api.v1.paging import Page, SortedPaging, require_time_paging
from api.v1.timestamps import PastMoment
from nac.kit.errors import InvalidInput
from nac.kit.mac import display_mac
from nac.kit.permissions import Effect, Permission
from nac.models import AuthLog
from nac.models.coa_request import CoaKind
from nac.sessions import service as sessions
from nac.sessions.coa_requests import service as coa_requests
from nac.sessions.decisions.service import build_reference
from nac.sessions.repository import SessionKey
from nac.sessions.service import SessionView

router = NounRouter(
    prefix="/tenants/{tenant}/sessions", tag="sessions", description="Live and ended sessions of devices."
)

Reads = Annotated[Access, Depends(ReadsTenant(Permission.SESSION_READ))]
Disconnects = Annotated[Access, Depends(ChangesTenant(Permission.SESSION_DISCONNECT, Effect.SESSIONS))]
_SESSION_STATES: dict[str, Literal["live", "ended"]] = {"live": "live", "ended": "ended"}
_Session = Annotated[RowNumber, Path(description="Id of the session.")]


class Session(BaseModel):
    """A session of a device. Times and octets come from accounting records."""

    id: int = Field(description="Permanent id of the session.")
    mac: str | None = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    user: str = Field(description='User name of the session; "" if unknown.')
    nas: str = Field(
        description="Name of the NAS of the session. If the NAS is not registered: its NAS-Identifier or address."
    )
    nas_id: UUID | None = Field(description="Id of the NAS of the session; null for an unregistered NAS.")
    nas_port: str = Field(description='Port of the NAS (NAS-Port-Id or NAS-Port); "" if absent.')
    site: str | None = Field(
        description="Slug of the site of the session; null if the session has no site, or the site was deleted."
    )
    address: str | None = Field(description="IPv4 address of the device.")
    ipv6_address: str | None = Field(examples=["2001:db8::10"], description="IPv6 address of the device.")
    ipv6_prefix: str | None = Field(
        examples=["2001:db8::/64"], description="IPv6 prefix of the device's network, as CIDR."
    )
    delegated_prefix: str | None = Field(description="IPv6 prefix that was delegated to the device, as CIDR.")
    session_id: str = Field(description="Acct-Session-Id of the session (RFC 2866 5.5).")
    chargeable_user: str = Field(description='Chargeable-User-Identity of the session (RFC 4372); "" if absent.')
    started_at: datetime = Field(description="Time when the session started.")
    stopped_at: datetime | None = Field(description="Time when the session ended; null while the session is live.")
    heard_at: datetime = Field(description="Time of the last accounting report about the session.")
    seconds: int = Field(description="Duration of the session in seconds.")
    input_octets: int | None = Field(description="Number of octets that the NAS received from the device.")
    output_octets: int | None = Field(description="Number of octets that the NAS sent to the device.")
    cause: str = Field(description='Acct-Terminate-Cause of the session; "" if absent.')
    flags: list[str] = Field(
        description=(
            "Flags of the session. `stale`: Admit regards the session as ended, because the accounting reports stopped."
        )
    )


class SessionDetail(Session):
    decision: str | None = Field(None, description="Id of the decision about the session in the authentication log.")
    rule: str | None = Field(None, description='Name of the rule that decided; "" if no rule decided.')
    policy_version: int | None = Field(
        None, description="Number of the policy version that decided; 0 or null if no version decided."
    )
    vlan: str | None = Field(None, description='VLAN that the decision assigned to the device; "" if none.')
    decided_as: str | None = Field(None, description="Verdict of the decision that applies to the session.")


@router.get("", operation_id="listSessions")
def list_sessions(
    access: Reads,
    paging: Annotated[SortedPaging, Depends(require_time_paging("started_at"))],
    mac: Mac = "",
    user: User = "",
    address: Annotated[
        str, Query(max_length=100, description="IP address or network; matches addresses and prefixes of sessions.")
    ] = "",
    nas: NasName = "",
    site: SiteSlug = "",
    session_id: Annotated[str, Query(max_length=253, description="Acct-Session-Id of the sessions to list.")] = "",
    chargeable_user: Annotated[
        str, Query(max_length=253, description="Chargeable-User-Identity of the sessions to list (RFC 4372).")
    ] = "",
    ended: Annotated[bool, Query(description="Whether to include ended sessions in the list.")] = False,
    since: Annotated[
        PastMoment | None, Query(description="Start of the period in which the listed sessions were live.")
    ] = None,
    until: Annotated[
        PastMoment | None, Query(description="End of the period in which the listed sessions started.")
    ] = None,
) -> Page[Session]:
    """List sessions: live sessions newest first, then ended sessions by end time.

    `sort=started_at` reverses the list. With `sort=started_at`, a list of only live sessions begins with the oldest
    session.
    """
    after = _parse_key(paging.after())
    by_key = not ended and sessions.is_indexed_query(mac=mac, user=user, nas=nas, address=address)
    with access.read(by_key=by_key) as session:
        rows = sessions.list_sessions(
            session,
            tenant_id=access.tenant_id,
            mac=mac,
            user=user,
            address=address,
            nas=nas,
            site=site,
            session_id=session_id,
            chargeable_user=chargeable_user,
            ended=ended,
            since=since,
            until=until,
            after=after,
            limit=paging.limit + 1,
            oldest_first=not paging.goes_down,
        )
        return paging.page(
            rows, lambda row: f"{row.key.part} {format_moment_key(row.key.moment, row.key.id)}", build_session
        )


@router.get("/{session}", operation_id="getSession")
def get_session(access: Reads, session: _Session) -> SessionDetail:
    """Get a session, with the decision that started the session."""
    with access.read() as opened:
        shown = sessions.get_session(opened, tenant_id=access.tenant_id, row=session)
        return _build_session_detail(shown, sessions.find_deciding_row(opened, shown))


@router.post("/{session}/disconnect", status_code=202, operation_id="disconnectSession")
def disconnect_session(access: Disconnects, session: _Session) -> CoaRequest:
    """Request that the NAS ends a session (RFC 5176).

    The response has the id of the CoA request. Get this request to see the result.
    """
    return _create_coa_request(access, session, "disconnect")


@router.post("/{session}/reauthenticate", status_code=202, operation_id="reauthenticateSession")
def reauthenticate_session(access: Disconnects, session: _Session) -> CoaRequest:
    """Request that the NAS reauthenticates the device of a session."""
    return _create_coa_request(access, session, "reauthenticate")


@router.post("/{session}/bounce", status_code=202, operation_id="bounceSession")
def bounce_session(access: Disconnects, session: _Session) -> CoaRequest:
    """Request that the NAS shuts down the port of a session for a short time (port bounce)."""
    return _create_coa_request(access, session, "bounce")


def _create_coa_request(access: Access, row: int, kind: CoaKind) -> CoaRequest:
    with access.change() as change:
        asked = coa_requests.create_requests(
            change.session, actor=access.actor, tenant_id=access.tenant_id, kind=kind, row=row
        )
        change.located(asked[0].id, at="coa-requests")
        return change.answer(build_coa_request(asked[0]))


def _parse_key(text: str) -> SessionKey | None:
    word, _, rest = text.partition(" ")
    key = parse_moment_key(rest)
    if key is None and not text:
        return None
    if key is None or word not in _SESSION_STATES:
        raise InvalidInput(
            "Invalid cursor in `after`.",
            place="after",
            remedy="Repeat the request without `after`.",
        )
    return SessionKey(_SESSION_STATES[word], *key)


def build_session(shown: SessionView) -> Session:
    row = shown.row
    return Session(
        id=row.id,
        mac=display_mac(row.mac) if row.mac else None,
        user=row.identity,
        nas=shown.nas,
        nas_id=row.nas_id,
        nas_port=row.nas_port,
        site=row.site,
        address=row.framed_ip,
        ipv6_address=row.framed_ipv6,
        ipv6_prefix=row.framed_prefix,
        delegated_prefix=row.delegated_prefix,
        session_id=row.session_id,
        chargeable_user=row.cui,
        started_at=row.started_at,
        stopped_at=row.stopped_at,
        heard_at=row.updated_at,
        seconds=shown.seconds,
        input_octets=row.input_octets,
        output_octets=row.output_octets,
        cause=row.terminate_cause,
        flags=list(row.flags),
    )


def _build_session_detail(shown: SessionView, decision: AuthLog | None) -> SessionDetail:
    known = build_session(shown).model_dump()
    if decision is None:
        return SessionDetail(**known)
    return SessionDetail(
        **known,
        decision=build_reference(decision),
        rule=decision.rule_name,
        policy_version=decision.policy_version,
        vlan=decision.vlan,
        decided_as=decision.identity,
    )

"""What is on a tenant's networks, and what was."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.v1.coa_rows import CoaRequest, shown_request
from api.v1.keys import Mac, NasName, RowId, SiteSlug, User, key_text, moment_key
from api.v1.moments import PastMoment
from api.v1.paging import Page, SortedPaging, sorted_by_time
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.coa_requests import service as coa_requests
from nac.decisions.service import reference_of
from nac.errors import InvalidInput
from nac.mac import display_mac
from nac.models import AuthLog
from nac.models.coa_request import CoaKind
from nac.sessions import service as sessions
from nac.sessions.repository import SessionKey
from nac.sessions.service import SessionView

router = APIRouter(prefix="/tenants/{tenant}/sessions", tags=["sessions"])

Reads = Annotated[Access, Depends(ReadsTenant(Permission.SESSION_READ))]
Disconnects = Annotated[Access, Depends(ChangesTenant(Permission.SESSION_DISCONNECT, Effect.SESSIONS))]
_PARTS: dict[str, Literal["live", "ended"]] = {"live": "live", "ended": "ended"}


class Session(BaseModel):
    """Times and octets as the NAS's accounting told them."""

    id: int = Field(description="Id; it stays.")
    mac: str | None = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    user: str = Field(description='User name; null or "" where there is none.')
    nas: str = Field(description="Name of the NAS or, where it is not registered, what it says of itself.")
    nas_id: UUID | None = Field(description="Id of the NAS; null where it is not registered.")
    nas_port: str = Field(description='Port of the NAS (NAS-Port-Id or NAS-Port); "" where none was told.')
    site: str | None = Field(
        description='Slug of the site; null or "" where it belongs to none, or to one that is gone.'
    )
    address: str | None = Field(description="IPv4 address of the device.")
    ipv6_address: str | None = Field(description="IPv6 address of the device.")
    ipv6_prefix: str | None = Field(description="IPv6 prefix of the device's network, as CIDR.")
    delegated_prefix: str | None = Field(description="IPv6 prefix that was delegated to the device, as CIDR.")
    session_id: str = Field(description="Acct-Session-Id (RFC 2866 5.5).")
    chargeable_user: str = Field(description='Chargeable-User-Identity (RFC 4372); "" where there is none.')
    started_at: datetime = Field(description="When it started; null while it waits.")
    stopped_at: datetime | None = Field(description="When it ended; null while it is live.")
    heard_at: datetime = Field(description="When something was heard of it last.")
    seconds: int = Field(description="How many seconds it lasted.")
    input_octets: int | None = Field(description="Octets that came from the device.")
    output_octets: int | None = Field(description="Octets that went to the device.")
    cause: str = Field(description='Acct-Terminate-Cause; "" where there is none.')
    flags: list[str] = Field(
        description="What is odd: stale for a session taken for ended, since nothing is heard of it."
    )


class SessionDetail(Session):
    decision: str | None = Field(None, description="Id of the decision in the authentication log.")
    rule: str | None = Field(None, description='Name of the rule; "" for the fallback.')
    policy_version: int | None = Field(
        None, description="Number of the policy's version that decided; 0 or null where none did."
    )
    vlan: str | None = Field(None, description='VLAN that the device gets; "" where none is said.')
    decided_as: str | None = Field(None, description="The verdict that the session goes by.")


@router.get("", operation_id="listSessions")
def list_sessions(
    access: Reads,
    paging: Annotated[SortedPaging, Depends(sorted_by_time("started_at"))],
    mac: Mac = "",
    user: User = "",
    address: Annotated[str, Query(max_length=100, description="IP address or network, or within its prefix.")] = "",
    nas: NasName = "",
    site: SiteSlug = "",
    session_id: Annotated[str, Query(max_length=253, description="With this Acct-Session-Id.")] = "",
    chargeable_user: Annotated[
        str, Query(max_length=253, description="With this Chargeable-User-Identity (RFC 4372).")
    ] = "",
    ended: Annotated[bool, Query(description="Those that ended as well.")] = False,
    since: Annotated[PastMoment | None, Query(description="That were there after that.")] = None,
    until: Annotated[PastMoment | None, Query(description="That began before that.")] = None,
) -> Page[Session]:
    """Live ones, the newest first; behind them those that ended, the one that ended last first. With
    `sort=started_at` all of that from its end: live ones alone begin with the one that is there longest."""
    after = _key(paging.after())
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
        return paging.page(rows, lambda row: f"{row.key.part} {key_text(row.key.moment, row.key.id)}", _session)


@router.get("/{session}", operation_id="getSession")
def get_session(access: Reads, session: RowId) -> SessionDetail:
    """With the decision that began it."""
    with access.read() as opened:
        shown = sessions.get_session(opened, tenant_id=access.tenant_id, row=session)
        return _decided(shown, sessions.find_deciding_row(opened, shown))


@router.post("/{session}/disconnect", status_code=202, operation_id="disconnectSession")
def disconnect_session(access: Disconnects, session: RowId) -> CoaRequest:
    """Ask the NAS to end it (RFC 5176). Its answer stands in the request of this id."""
    return _ask(access, session, "disconnect")


@router.post("/{session}/reauthenticate", status_code=202, operation_id="reauthenticateSession")
def reauthenticate_session(access: Disconnects, session: RowId) -> CoaRequest:
    """Ask the NAS to have the device authenticate again."""
    return _ask(access, session, "reauthenticate")


@router.post("/{session}/bounce", status_code=202, operation_id="bounceSession")
def bounce_session(access: Disconnects, session: RowId) -> CoaRequest:
    """Ask the NAS to take the port down and up again."""
    return _ask(access, session, "bounce")


def _ask(access: Access, row: int, kind: CoaKind) -> CoaRequest:
    with access.change() as change:
        asked = coa_requests.ask(change.session, actor=access.actor, tenant_id=access.tenant_id, kind=kind, row=row)
        change.located(asked[0].id, at="coa-requests")
        return change.answer(shown_request(asked[0]))


def _key(text: str) -> SessionKey | None:
    word, _, rest = text.partition(" ")
    key = moment_key(rest)
    if key is None and not text:
        return None
    if key is None or word not in _PARTS:
        raise InvalidInput("This is no place in this list.", place="after")
    return SessionKey(_PARTS[word], *key)


def _session(shown: SessionView) -> Session:
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


def _decided(shown: SessionView, decision: AuthLog | None) -> SessionDetail:
    known = _session(shown).model_dump()
    if decision is None:
        return SessionDetail(**known)
    return SessionDetail(
        **known,
        decision=reference_of(decision),
        rule=decision.rule_name,
        policy_version=decision.policy_version,
        vlan=decision.vlan,
        decided_as=decision.identity,
    )

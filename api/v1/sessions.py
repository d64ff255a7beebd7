"""What is on a tenant's networks, and what was."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel

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
from nac.sessions.repository import Key
from nac.sessions.service import Shown

router = APIRouter(prefix="/tenants/{tenant}/sessions", tags=["sessions"])

Reads = Annotated[Access, Depends(ReadsTenant(Permission.SESSION_READ))]
Disconnects = Annotated[Access, Depends(ChangesTenant(Permission.SESSION_DISCONNECT, Effect.SESSIONS))]
_PARTS: dict[str, Literal["live", "ended"]] = {"live": "live", "ended": "ended"}


class Session(BaseModel):
    """Times and octets as the NAS's accounting told them."""

    id: int
    mac: str | None
    user: str
    # Its name or, where it is not registered, what it says of itself.
    nas: str
    nas_id: UUID | None
    nas_port: str
    # Slug; null where it belonged to none, or to one that is gone.
    site: str | None
    address: str | None
    ipv6_address: str | None
    ipv6_prefix: str | None
    delegated_prefix: str | None
    # Acct-Session-Id.
    session_id: str
    # Chargeable-User-Identity (RFC 4372).
    chargeable_user: str
    started_at: datetime
    # null while it is live.
    stopped_at: datetime | None
    heard_at: datetime
    seconds: int
    input_octets: int | None
    output_octets: int | None
    # Acct-Terminate-Cause.
    cause: str
    # stale: taken for ended, since nothing is heard of it.
    flags: list[str]


class SessionDetail(Session):
    # The decision that began it; null where none did, or it is not in the log any more.
    decision: str | None = None
    rule: str | None = None
    policy_version: int | None = None
    vlan: str | None = None
    decided_as: str | None = None


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
    by_key = not ended and sessions.is_by_key(mac=mac, user=user, nas=nas, address=address)
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
        return _decided(shown, sessions.deciding_row(opened, shown))


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


def _key(text: str) -> Key | None:
    word, _, rest = text.partition(" ")
    key = moment_key(rest)
    if key is None and not text:
        return None
    if key is None or word not in _PARTS:
        raise InvalidInput("This is no place in this list.", place="after")
    return Key(_PARTS[word], *key)


def _session(shown: Shown) -> Session:
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


def _decided(shown: Shown, decision: AuthLog | None) -> SessionDetail:
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

"""Events of finished CoA-Requests and Disconnect-Requests (RFC 5176)."""

from nac.kit.mac import display_mac
from nac.logs.events.document import VERSION, Coa, Event, EventPart, SessionPart
from nac.logs.events.event_values import (
    EventTenant,
    clip_line,
    clip_text,
    format_address,
    format_moment,
    format_optional_moment,
    row_key,
)
from nac.logs.events.parts import ECS, build_named, client, observer, organization, user
from nac.models import CoaRequest
from nac.sessions.coa_requests.error_causes import explain_error_cause


def from_request(row: CoaRequest, *, tenant: EventTenant) -> Event:
    if row.ended_at is None:
        raise ValueError("the request has not ended")
    done = row.state == "acknowledged"
    name = row.nas_key.partition("|")[0]
    return Event(
        timestamp=format_moment(row.ended_at),
        ecs=ECS,
        event=EventPart(
            id=f"coa:{row_key(row.created_at, row.id)}",
            kind="event",
            category=("session", "network"),
            type=("info",),
            dataset="admit.coa",
            action=f"request-{row.state}",
            outcome="success" if done else "failure",
            code=str(row.error_cause or ""),
            reason=clip_text(explain_error_cause(row.error_cause)) if row.error_cause else "",
            created=format_moment(row.created_at),
        ),
        message=_build_message(row, name),
        organization=organization(tenant),
        user=user(row.identity, row.mac),
        client=client(row.mac, ip=row.framed_ip),
        observer=observer(name, row.nas_address, row.nas_port),
        admit=Coa(
            version=VERSION,
            nas=build_named(row.nas_id),
            request=clip_text(row.kind),
            state=clip_text(row.state),
            cause=clip_text(row.reason),
            requested_by=clip_text(row.asked_by),
            detail=clip_text(row.detail),
            session=SessionPart(id=clip_text(row.session_id), row=row.session_row),
            packets=row.attempts,
            step=row.step + 1,
            answer_code=row.answer_code,
            error_cause=row.error_cause,
            requested=format_moment(row.created_at),
            sent=format_optional_moment(row.sent_at),
        ),
    )


def _build_message(row: CoaRequest, nas: str) -> str:
    device = display_mac(row.mac) if row.mac else clip_text(row.identity) or "a session"
    return clip_line(
        f"{row.kind} of {device} at {clip_text(nas) or format_address(row.nas_address) or 'an unknown NAS'}: "
        f"{row.state}. {row.detail}"
    )

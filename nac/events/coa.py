"""Events of finished requests to NASes about live sessions (RFC 5176)."""

from nac.coa_requests.causes import explain
from nac.events.document import VERSION, Coa, Event, EventPart, SessionPart
from nac.events.parts import ECS, client, named, observer, organization, user
from nac.events.texts import Tenant, address, key, line, moment, optional_moment, text
from nac.mac import display_mac
from nac.models import CoaRequest


def from_request(row: CoaRequest, *, tenant: Tenant) -> Event:
    if row.ended_at is None:
        raise ValueError("the request has not ended")
    done = row.state == "acknowledged"
    name = row.nas_key.partition("|")[0]
    return Event(
        timestamp=moment(row.ended_at),
        ecs=ECS,
        event=EventPart(
            id=f"coa:{key(row.created_at, row.id)}",
            kind="event",
            category=("session", "network"),
            type=("info",),
            dataset="admit.coa",
            action=f"request-{row.state}",
            outcome="success" if done else "failure",
            code=str(row.error_cause or ""),
            reason=text(explain(row.error_cause)) if row.error_cause else "",
            created=moment(row.created_at),
        ),
        message=_message(row, name),
        organization=organization(tenant),
        user=user(row.identity, row.mac),
        client=client(row.mac, ip=row.framed_ip),
        observer=observer(name, row.nas_address, row.nas_port),
        admit=Coa(
            version=VERSION,
            nas=named(row.nas_id),
            request=text(row.kind),
            state=text(row.state),
            cause=text(row.reason),
            asked_by=text(row.asked_by),
            detail=text(row.detail),
            session=SessionPart(id=text(row.session_id), row=row.session_row),
            packets=row.attempts,
            step=row.step + 1,
            answer_code=row.answer_code,
            error_cause=row.error_cause,
            asked=moment(row.created_at),
            sent=optional_moment(row.sent_at),
        ),
    )


def _message(row: CoaRequest, nas: str) -> str:
    who = display_mac(row.mac) if row.mac else text(row.identity) or "a session"
    return line(
        f"{row.kind} of {who} at {text(nas) or address(row.nas_address) or 'an unknown NAS'}: {row.state}. {row.detail}"
    )

"""Response models of CoA and disconnect requests to NASes."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from nac.kit.mac import display_mac
from nac.models import CoaRequest as CoaRequestRow
from nac.models.coa_request import CoaKind, CoaReason, CoaState
from nac.sessions.coa_requests.error_causes import explain_error_cause


class CoaRequest(BaseModel):
    """A request to a NAS about a live session (RFC 5176), and its result."""

    id: int = Field(description="Permanent id of the request.")
    kind: CoaKind = Field(description="Kind of request to the NAS.")
    state: CoaState = Field(description="State of the request.")
    session: int = Field(description="Id of the session that the request is about.")
    session_id: str = Field(description="Acct-Session-Id of the session (RFC 2866 5.5).")
    mac: str | None = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    user: str = Field(description='User name of the session; "" if unknown.')
    nas: str = Field(
        description="Name of the NAS that receives the request; NAS-Identifier or address of an unregistered NAS."
    )
    nas_id: UUID | None = Field(description="Id of the NAS that receives the request; null for an unregistered NAS.")
    nas_address: str | None = Field(description="IP address of the NAS that receives the request.")
    reason: CoaReason = Field(
        description="Reason of the request, such as requested, endpoint-blocked, certificate-revoked or redecided."
    )
    attributes: list[dict[str, Any]] = Field(
        description="Attributes that a request of the kind `change` sets, with value and optional tag."
    )
    redecision: int | None = Field(
        description="Id of the re-decision (new decision about live sessions) that caused the request."
    )
    asked_by: str = Field(description="Actor who created the request, such as token:setup.")
    asked_at: datetime = Field(description="Time when the request was created.")
    sent_at: datetime | None = Field(description="Time when Admit sent the request; null while the request waits.")
    ended_at: datetime | None = Field(description="Time when the request ended; null if the request has not ended.")
    expires_at: datetime = Field(description="Time after which Admit does not send the request to the NAS.")
    packets: int = Field(description="Number of packets that Admit sent for the request, including retransmissions.")
    retries: int = Field(
        description="Number of times that Admit postponed the request because the NAS did not respond."
    )
    step: int = Field(description="Number of the current step in the vendor's sequence of requests, from 1.")
    answer_code: int | None = Field(description="RADIUS code of the NAS's response, such as 44 for CoA-ACK.")
    error_cause: int | None = Field(description="Error-Cause of the NAS's response (RFC 5176 3.5).")
    explanation: str = Field(
        examples=["Error-Cause 503: The NAS does not know the session."],
        description='Meaning of the NAS\'s response and what to do; "" if the request succeeded.',
    )
    detail: str = Field(description='Explanation of the request in one sentence; "" if none.')


class CreatedCoaRequests(BaseModel):
    items: list[CoaRequest] = Field(description="Created requests to NASes.")


def build_coa_request(row: CoaRequestRow) -> CoaRequest:
    return CoaRequest.model_validate(
        {
            "id": row.id,
            "kind": row.kind,
            "state": row.state,
            "session": row.session_row,
            "session_id": row.session_id,
            "mac": display_mac(row.mac) if row.mac else None,
            "user": row.identity,
            "nas": row.nas_key.partition("|")[0] or row.nas_address or "",
            "nas_id": row.nas_id,
            "nas_address": row.nas_address,
            "reason": row.reason,
            "attributes": list(row.attributes),
            "redecision": row.redecision_id,
            "asked_by": row.asked_by,
            "asked_at": row.created_at,
            "sent_at": row.sent_at,
            "ended_at": row.ended_at,
            "expires_at": row.expires_at,
            "packets": row.attempts,
            "retries": row.retries,
            "step": row.step + 1,
            "answer_code": row.answer_code,
            "error_cause": row.error_cause,
            "explanation": explain_error_cause(row.error_cause) if row.error_cause else "",
            "detail": row.detail,
        }
    )

"""Requests to NASes as the API shows them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from nac.coa_requests.causes import explain
from nac.mac import display_mac
from nac.models import CoaRequest as CoaRequestRow
from nac.models.coa_request import CoaKind, CoaReason, CoaState


class CoaRequest(BaseModel):
    """Something asked of a NAS about a live session (RFC 5176), and what it answered."""

    id: int
    kind: CoaKind
    state: CoaState
    # Id of the session; the others are what the NAS knows it by.
    session: int
    session_id: str
    mac: str | None
    user: str
    nas: str
    nas_id: UUID | None
    nas_address: str | None
    reason: CoaReason
    # Of a change: attribute, value and perhaps tag.
    attributes: list[dict[str, Any]]
    # Id of the re-decision that it follows from.
    redecision: int | None
    asked_by: str
    asked_at: datetime
    sent_at: datetime | None
    ended_at: datetime | None
    # It is not sent any more after that.
    expires_at: datetime
    packets: int
    # How often nobody answered and it was put off.
    retries: int
    # Of the vendor's recipe, from 1.
    step: int
    # Code of the packet that came back, and its Error-Cause with what to do about it.
    answer_code: int | None
    error_cause: int | None
    explanation: str = Field(examples=["Error-Cause 503: It knows no such session."])
    detail: str


class CreatedCoaRequests(BaseModel):
    items: list[CoaRequest]


def shown_request(row: CoaRequestRow) -> CoaRequest:
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
            "explanation": explain(row.error_cause) if row.error_cause else "",
            "detail": row.detail,
        }
    )

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

    id: int = Field(description="Id; it stays.")
    kind: CoaKind = Field(description="What the NAS is asked.")
    state: CoaState = Field(description="How far it is.")
    session: int = Field(description="Id of the session.")
    session_id: str = Field(description="Acct-Session-Id (RFC 2866 5.5).")
    mac: str | None = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    user: str = Field(description='User name; null or "" where there is none.')
    nas: str = Field(description="Name of the NAS or, where it is not registered, what it says of itself.")
    nas_id: UUID | None = Field(description="Id of the NAS; null where it is not registered.")
    nas_address: str | None = Field(description="IP address of the NAS.")
    reason: CoaReason = Field(
        description="Why it is asked: requested, endpoint-blocked, certificate-revoked, redecided ..."
    )
    attributes: list[dict[str, Any]] = Field(description="Of a change: attribute, value and perhaps tag.")
    redecision: int | None = Field(description="Id of the re-decision that it follows from.")
    asked_by: str = Field(description="Who asked for it, such as token:setup.")
    asked_at: datetime = Field(description="When it was asked for.")
    sent_at: datetime | None = Field(description="When it was sent; null while it waits.")
    ended_at: datetime | None = Field(description="When it ended; null while it has not.")
    expires_at: datetime = Field(description="It is not sent any more after that.")
    packets: int = Field(description="Packets that were sent, repeats included.")
    retries: int = Field(description="How often nobody answered and it was put off.")
    step: int = Field(description="Step of the vendor's recipe, from 1.")
    answer_code: int | None = Field(description="RADIUS code of the packet that came back, such as 44 for CoA-ACK.")
    error_cause: int | None = Field(description="Error-Cause of the answer (RFC 5176 3.5).")
    explanation: str = Field(
        examples=["Error-Cause 503: It knows no such session."],
        description='What the answer means, and what to do about it; "" where nothing is amiss.',
    )
    detail: str = Field(description='What is so, in a sentence for people. "" where there is nothing to say.')


class CreatedCoaRequests(BaseModel):
    items: list[CoaRequest] = Field(description="The rows.")


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

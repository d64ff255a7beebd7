"""Requests to NASes as commands show them."""

from cli.output import Row
from nac.coa_requests.causes import explain
from nac.mac import display_mac
from nac.models import CoaRequest


def coa_row(request: CoaRequest) -> Row:
    return {
        "id": request.id,
        "kind": request.kind,
        "state": request.state,
        "session": request.session_row,
        "session_id": request.session_id,
        "mac": display_mac(request.mac) if request.mac else "",
        "user": request.identity,
        "nas": request.nas_key.partition("|")[0] or request.nas_address or "",
        "nas_address": request.nas_address or "",
        "reason": request.reason,
        "asked_by": request.asked_by,
        "asked": request.created_at.isoformat(),
        "sent": request.sent_at and request.sent_at.isoformat(),
        "ended": request.ended_at and request.ended_at.isoformat(),
        "packets": request.attempts,
        # Of the vendor's recipe, from 1.
        "step": request.step + 1,
        "answer_code": request.answer_code,
        "error_cause": request.error_cause,
        "explanation": explain(request.error_cause) if request.error_cause else "",
        "detail": request.detail,
    }


def short_coa_row(request: CoaRequest) -> Row:
    row = coa_row(request)
    wanted = ("id", "asked", "kind", "state", "mac", "user", "nas", "reason", "packets", "detail")
    return {name: str(row[name])[:19] if name == "asked" else row[name] for name in wanted}

"""Rows for requests to NASes."""

import re
from collections.abc import Sequence

from cli.output import Row
from nac.kit.errors import InvalidInput
from nac.kit.mac import display_mac
from nac.models import CoaRequest
from nac.sessions.coa_requests.error_causes import explain_error_cause

# RFC 2868 3.1: a tag is 1 to 31.
_CHANGE = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*)(?::([0-9]{1,2}))?=(.+)", re.DOTALL)


def read_changes(texts: Sequence[str]) -> list[Row]:
    """Parse ATTRIBUTE[:TAG]=VALUE for `nac.sessions.coa_requests.service`. Raises InvalidInput with each mistake."""
    matches = [(text, _CHANGE.fullmatch(text)) for text in texts]
    if wrong := [text for text, match in matches if match is None]:
        raise InvalidInput(
            f"Invalid ATTRIBUTE=VALUE: {', '.join(map(repr, wrong))}.",
            place="set",
            remedy="For example --set Session-Timeout=600, or with a tag --set Tunnel-Private-Group-Id:1=30.",
        )
    rows: list[Row] = []
    for _, match in matches:
        assert match is not None
        name, tag, value = match.groups()
        rows.append({"attribute": name, "value": value} | ({"tag": int(tag)} if tag else {}))
    return rows


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
        # Only for a change.
        "attributes": list(request.attributes),
        "redecision": request.redecision_id,
        "asked_by": request.asked_by,
        "asked": request.created_at.isoformat(),
        "sent": request.sent_at and request.sent_at.isoformat(),
        "ended": request.ended_at and request.ended_at.isoformat(),
        "packets": request.attempts,
        # Number of postponements after timeouts.
        "retries": request.retries,
        # Step of the vendor's recipe, from 1.
        "step": request.step + 1,
        "answer_code": request.answer_code,
        "error_cause": request.error_cause,
        "explanation": explain_error_cause(request.error_cause) if request.error_cause else "",
        "detail": request.detail,
    }


def short_coa_row(request: CoaRequest) -> Row:
    row = coa_row(request)
    columns = ("id", "asked", "kind", "state", "mac", "user", "nas", "reason", "packets", "detail")
    return {name: str(row[name])[:19] if name == "asked" else row[name] for name in columns}

"""Sessions that must end because what admitted them is no longer good: a row for each, before anything is sent."""

from collections.abc import Sequence

from sqlalchemy import CursorResult, bindparam, delete, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session
from sqlalchemy.types import Text

from nac.ids import TenantId
from nac.models import CoaRequest

# The certificate that admitted a device is the one it showed when it was last let in. No session is older than the
# oldest that is live, and its authentication came less than a day before its Start.
_QUEUE = text(
    """
    WITH shown AS MATERIALIZED (
        SELECT DISTINCT a.mac FROM auth_log a
        WHERE a.tenant_id = :tenant AND a.certificate_serial = ANY (:serials) AND a.permitted AND a.mac IS NOT NULL
            AND a.at >= (
                SELECT min(s.started_at) FROM sessions s WHERE s.tenant_id = :tenant AND s.stopped_at IS NULL
            ) - interval '1 day'
    )
    INSERT INTO coa_requests (tenant_id, session_row, session_id, nas_id, nas_address, mac, reason, certificate_serial)
    SELECT s.tenant_id, s.id, s.session_id, s.nas_id, s.nas_address, s.mac, :reason, last.certificate_serial
    FROM shown
    JOIN sessions s ON s.tenant_id = :tenant AND s.mac = shown.mac AND s.stopped_at IS NULL
    CROSS JOIN LATERAL (
        SELECT a.certificate_serial FROM auth_log a
        WHERE a.tenant_id = :tenant AND a.mac = s.mac AND a.permitted ORDER BY a.at DESC LIMIT 1
    ) last
    WHERE last.certificate_serial = ANY (:serials)
    ON CONFLICT (tenant_id, session_row) WHERE state = 'queued' DO NOTHING
    """
).bindparams(bindparam("serials", type_=ARRAY(Text())))


def queue_disconnects(session: Session, *, tenant_id: TenantId, serials: Sequence[bytes], reason: str) -> int:
    """Ask for the end of the live sessions that certificates of these serial numbers opened; returns how many.

    `reason` is a code of nac.reasons. A device whose accounting has not begun is not found: it is refused when it comes
    again.
    """
    told = {"tenant": tenant_id, "serials": [serial.hex() for serial in serials], "reason": reason}
    result = session.execute(_QUEUE, told)
    assert isinstance(result, CursorResult)
    return result.rowcount


def withdraw(session: Session, *, tenant_id: TenantId, serials: Sequence[bytes]) -> None:
    """The certificates are good again: what was not sent yet is not sent."""
    session.execute(
        delete(CoaRequest).where(
            CoaRequest.tenant_id == tenant_id,
            CoaRequest.state == "queued",
            CoaRequest.certificate_serial.in_([serial.hex() for serial in serials]),
        )
    )

"""Decisions of a tenant's cell as the auth log keeps them, in words that a help desk can act on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from nac.decisions import repository
from nac.ids import TenantId
from nac.models import AuthLog
from nac.reasons import Reason, reason_of
from nac.validation import require_mac


@dataclass(frozen=True, slots=True)
class LoggedDecision:
    log: AuthLog
    # The NAS's name or, where it is not registered, what it calls itself or its address.
    nas: str
    # "" where it belonged to none, or to one that is gone.
    site: str

    @property
    def key(self) -> tuple[datetime, int]:
        """To page on with."""
        return self.log.at, self.log.id

    @property
    def reason(self) -> Reason:
        return reason_of(self.log.reason)


def list_decisions(
    session: Session,
    *,
    tenant_id: TenantId,
    mac: str = "",
    user: str = "",
    reason: str = "",
    since: datetime | None = None,
    before: tuple[datetime, int] | None = None,
    limit: int = 100,
) -> Sequence[LoggedDecision]:
    """Newest first; page on with the last one's key as `before`.

    `mac` in any notation, `user` as the device sent it, in upper or lower case.
    """
    found = repository.list_page(
        session,
        tenant_id,
        mac=require_mac(mac) if mac else "",
        user=user,
        reason=reason,
        since=since,
        before=before,
        limit=limit,
    )
    return [
        LoggedDecision(log, nas or log.nas_identifier or log.nas_address or "", site or "") for log, nas, site in found
    ]

"""History of Message-Authenticator in the requests of exempt NASes.

An exempt NAS may omit Message-Authenticator (`require_message_authenticator` is false). If the NAS sends the attribute
in all its requests, a user can safely end the exemption.

The history ignores requests with EAP, because these requests always contain Message-Authenticator (RFC 3579 3.2).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from nac.kit.advice import Advice, NextStep
from nac.kit.ids import TenantId
from nac.models import Nas, NasSignature

# Time for which an exempt NAS must sign all requests before Admit recommends to end the exemption.
SAFE_AFTER = timedelta(days=7)
# Maximum age of an unsigned request about which Admit warns after an exemption ended.
RECENT_WINDOW = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class SigningHistory:
    """Times of requests with and without Message-Authenticator (signed and unsigned) from an exempt NAS."""

    last_unsigned_at: datetime | None
    # Time of the first signed request after the last unsigned request.
    signs_since: datetime | None
    last_signed_at: datetime | None

    @property
    def is_safe(self) -> bool:
        """Whether ending the exemption is safe, because the NAS has signed all requests for at least SAFE_AFTER."""
        if self.signs_since is None or self.last_signed_at is None:
            return False
        return self.last_signed_at - self.signs_since >= SAFE_AFTER

    def __str__(self) -> str:
        if self.signs_since is None:
            return f"unsigned requests, the last at {_format_minute(self.last_unsigned_at)}"
        return f"signs since {_format_minute(self.signs_since)}{', safe to enforce' if self.is_safe else ''}"


def _format_minute(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else "an unknown time"


def is_safe_to_enforce() -> ColumnElement[bool]:
    """Return the condition of `SigningHistory.is_safe` in SQL, for the table of NasSignature."""
    return NasSignature.last_signed_at - NasSignature.signs_since >= SAFE_AFTER


def find_signing_histories(
    session: Session, *, tenant_id: TenantId, nases: Iterable[Nas]
) -> Mapping[UUID, SigningHistory]:
    """Map the id of each exempt NAS in `nases` to its history. Omits NASes that have not sent requests.

    If no NAS is exempt, sends no query.
    """
    return _find(session, tenant_id, [nas.id for nas in nases if not nas.require_message_authenticator])


def get_signing_history(session: Session, nas: Nas) -> SigningHistory | None:
    """Return the history of a NAS, even after its exemption ended. Returns None if the NAS has no address."""
    return _find(session, nas.tenant_id, [nas.id]).get(nas.id) if nas.address else None


def list_signing_notes(nas: Nas, signing: SigningHistory | None, *, now: datetime) -> list[str]:
    """Return advice about the NAS: to end its exemption, or to exempt it again. Returns [] if nothing is to be done."""
    if signing is None:
        return []
    if not nas.require_message_authenticator:
        if not signing.is_safe:
            return []
        since = _format_minute(signing.signs_since)
        return [
            Advice(
                f"the NAS has sent Message-Authenticator with every request since {since}: turn off its exemption",
                NextStep("updateNas", {"require_message_authenticator": "true"}),
            )
        ]
    unsigned = signing.last_unsigned_at
    if unsigned is None or now - unsigned > RECENT_WINDOW:
        return []
    return [
        Advice(
            f"the NAS sent a request without Message-Authenticator at {_format_minute(unsigned)}; Admit ignores such"
            " requests; to exempt the NAS again",
            NextStep("updateNas", {"require_message_authenticator": "false"}),
        )
    ]


def _find(session: Session, tenant_id: TenantId, ids: list[UUID]) -> Mapping[UUID, SigningHistory]:
    if not ids:
        return {}
    row = NasSignature
    query = select(row.nas_id, row.last_unsigned_at, row.signs_since, row.last_signed_at)
    found = session.execute(query.where(row.tenant_id == tenant_id, row.nas_id.in_(ids)))
    return {nas_id: SigningHistory(*times) for nas_id, *times in found}

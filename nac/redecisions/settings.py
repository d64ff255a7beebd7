"""A tenant's settings for re-decisions."""

from dataclasses import asdict, dataclass, fields

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.models import RedecisionSettings, Tenant
from nac.models.redecision import REDECISION_MODES, RedecisionMode

# Up to this number, disconnects never need approval, so that users can always remove a single device.
MIN_CEILING = 10
_BOUNDS = {
    "per_second": (1, 500),
    "ceiling_percent": (0, 100),
    "ceiling_sessions": (0, 10_000_000),
    "every_minutes": (5, 1_440),
}


@dataclass(frozen=True, slots=True)
class TenantRedecisionSettings:
    """Settings of a tenant, as in nac.models.RedecisionSettings. The defaults apply to a tenant without a row.

    By default, changes apply to connected devices, too. A change that would disconnect many devices waits for approval.
    """

    mode: RedecisionMode = "send"
    per_second: int = 20
    ceiling_percent: int = 10
    ceiling_sessions: int = 1_000
    every_minutes: int = 0

    def compute_ceiling(self, live: int) -> int:
        """Return how many of `live` sessions may be disconnected automatically within an hour.

        With a ceiling of 100 percent, only the ceiling `ceiling_sessions` applies. The share of live sessions then does
        not apply, because an hour can have more disconnects than live sessions.
        """
        share = self.ceiling_sessions if self.ceiling_percent == 100 else live * self.ceiling_percent // 100
        return max(MIN_CEILING, min(self.ceiling_sessions, share))


def get_settings(session: Session, *, tenant_id: TenantId, lock: bool = False) -> TenantRedecisionSettings:
    """Return the settings. `lock` prevents changes until the transaction ends."""
    if lock:
        session.execute(select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(key_share=True))
    query = select(RedecisionSettings).where(RedecisionSettings.tenant_id == tenant_id)
    row = session.scalar(query.execution_options(populate_existing=True))
    return (
        TenantRedecisionSettings()
        if row is None
        else TenantRedecisionSettings(
            **{each.name: getattr(row, each.name) for each in fields(TenantRedecisionSettings)}
        )
    )


def update_settings(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    mode: str | None = None,
    per_second: int | None = None,
    ceiling_percent: int | None = None,
    ceiling_sessions: int | None = None,
    every_minutes: int | None = None,
) -> TenantRedecisionSettings:
    """Change settings; None leaves a value unchanged. Raises InvalidInput with every mistake."""
    values = {
        "mode": mode,
        "per_second": per_second,
        "ceiling_percent": ceiling_percent,
        "ceiling_sessions": ceiling_sessions,
        "every_minutes": every_minutes,
    }
    changes = {name: value for name, value in values.items() if value is not None}
    if mistakes := [sentence for name, value in changes.items() if (sentence := _find_mistake(name, value))]:
        raise InvalidInput(" ".join(mistakes), place=", ".join(changes))
    before = get_settings(session, tenant_id=tenant_id, lock=True)
    if changes:
        row = insert(RedecisionSettings).values(tenant_id=tenant_id, **changes)
        session.execute(row.on_conflict_do_update(index_elements=["tenant_id"], set_=changes))
    after = get_settings(session, tenant_id=tenant_id)
    if after != before:
        audit.append(
            session,
            actor=actor,
            action="redecision.set",
            target="settings",
            tenant_id=tenant_id,
            before=asdict(before),
            after=asdict(after),
        )
    return after


def _find_mistake(name: str, value: object) -> str:
    if name == "mode":
        return (
            "" if value in REDECISION_MODES else f"Unknown mode {value!r}. Use one of: {', '.join(REDECISION_MODES)}."
        )
    least, most = _BOUNDS[name]
    never = name == "every_minutes" and value == 0
    if never or (isinstance(value, int) and least <= value <= most):
        return ""
    return f"{name} must be {least} to {most}{', or 0 for never' if name == 'every_minutes' else ''}, not {value}."

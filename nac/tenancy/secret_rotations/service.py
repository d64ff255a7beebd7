"""Rotations of a tenant's RADIUS secret, or of a NAS's own secret.

After `start_rotation`, radiusd accepts the old and the new secret from every NAS. radiusd responds with the secret that
the request used (radius/module/secret_lookup.py). `finish_rotation` keeps only the new secret. `cancel_rotation` keeps
only the old secret. Call these functions in PlatformScope or TenantScope, unless a function's docstring names another
scope.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID, uuid4

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nac.cellformat.replica.records import rotation_context
from nac.core.audit.service import tenant_recorder
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, enter_tenant, session_scope
from nac.kit.errors import Conflict, DatabaseUnavailable, InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.kit.sealing import Unseal
from nac.kit.secrets import Sealer
from nac.models import Nas, SecretRotation, Tenant
from nac.models.secret_rotation import ROTATION_END_ACTIONS, RotationEndAction
from nac.tenancy.cells import repository as slots
from nac.tenancy.cells import service as cells
from nac.tenancy.nases import service as nases
from nac.tenancy.secret_rotations import repository
from nac.tenancy.secret_rotations.repository import RotationNas
from nac.tenancy.tenants.service import RESTORED_ROTATION, TenantNotFound

MIN_WINDOW, DEFAULT_WINDOW, MAX_WINDOW = timedelta(hours=1), timedelta(days=7), timedelta(days=30)
# Maximum number of NASes that the error NasesLeftBehind names.
_MAX_NAMED = 5
_audit = tenant_recorder("secret")
EXPIRY_ACTOR = "system:secret-rotation"
_EXPIRY_BATCH_SIZE = 100
_log = logging.getLogger(__name__)


class RotationNotFound(NotFound):
    """The secret has no rotation."""


class NasesLeftBehind(Conflict):
    """NASes still use the secret that would stop working."""


@dataclass(frozen=True, slots=True)
class RotationStatus:
    rotation: SecretRotation
    # NAS whose own secret the rotation replaces; None if the rotation replaces the tenant's secret.
    nas: Nas | None
    # Number of NASes by state: unseen, old, new or back.
    counts: dict[str, int]


def start_rotation(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    sealer: Sealer,
    nas: str = "",
    secret: str | None = None,
    hours: int | None = None,
    at_end: RotationEndAction = "finish",
) -> RotationStatus:
    """Start a rotation. `nas` refers to a NAS as in `nases.require_nas`; "" means the tenant's secret.

    Generates a new secret if `secret` is None. Raises Conflict if a rotation is in progress.
    """
    tenant = _enter(session, tenant_id)
    if tenant.status == "deleting":
        raise Conflict(f"Tenant {tenant.slug!r} is being deleted.", place="status", remedy="Restore the tenant first.")
    found = _require_own(session, tenant_id, nas)
    nas_id = found.id if found else None
    if repository.find_running(session, tenant_id, nas_id) is not None:
        raise Conflict(
            "This secret already has a rotation in progress.",
            place="rotation",
            remedy="Finish or cancel this rotation first.",
        )
    lasts = DEFAULT_WINDOW if hours is None else timedelta(hours=hours)
    if not MIN_WINDOW <= lasts <= MAX_WINDOW:
        raise InvalidInput("The time window must be between 1 and 720 hours.", place="hours")
    if at_end not in ROTATION_END_ACTIONS:
        raise InvalidInput(f"Invalid at_end {at_end!r}: use finish or wait.", place="at_end")
    following = cells.generate_secret() if secret is None else nases.require_secret(secret)
    if following.encode() in {
        _open_secret_in_force(session, tenant_id, None, sealer),
        _open_secret_in_force(session, tenant_id, found, sealer),
    }:
        raise InvalidInput(
            "This secret is already in force.",
            place="secret",
            remedy="Use another secret, or leave the secret empty to generate a new secret.",
        )
    rotation_id, now = uuid4(), utc_now()
    rotation = SecretRotation(
        id=rotation_id,
        tenant_id=tenant_id,
        nas_id=nas_id,
        next_sealed=sealer.seal(following.encode(), rotation_context(rotation_id)),
        at_end=at_end,
        ends_at=now + lasts,
        started_by=actor,
        created_at=now,
    )
    session.add(rotation)
    session.flush()
    # During a move of the tenant, the next step of the move must wait until the new cell accepts both secrets.
    cells.mark_slot_not_ready(session, tenant_id=tenant_id)
    after = {"of": found.name if found else "tenant", "ends_at": rotation.ends_at.isoformat(), "at_end": at_end}
    _audit(session, actor, tenant, "begin-rotation", after=after)
    return _build_status(session, rotation, found)


def finish_rotation(
    session: Session, *, actor: str, tenant_id: TenantId, sealer: Sealer, nas: str = "", leave_behind: bool = False
) -> RotationStatus:
    """Finish the rotation: radiusd then accepts only the new secret.

    Raises NasesLeftBehind if a NAS still uses the old secret, unless `leave_behind` is true.
    """
    tenant = _enter(session, tenant_id)
    rotation, found = _require_running(session, tenant_id, nas)
    if not leave_behind:
        _require_none_left_behind(session, rotation, "old", "back")
    _put_secret_in_force(session, rotation, found, sealer)
    return _end_rotation(session, actor, tenant, rotation, found, "finished")


def cancel_rotation(
    session: Session, *, actor: str, tenant_id: TenantId, nas: str = "", leave_behind: bool = False
) -> RotationStatus:
    """Cancel the rotation: radiusd then accepts only the old secret.

    Raises NasesLeftBehind if a NAS uses the new secret, unless `leave_behind` is true.
    """
    tenant = _enter(session, tenant_id)
    rotation, found = _require_running(session, tenant_id, nas)
    if not leave_behind:
        _require_none_left_behind(session, rotation, "new")
    return _end_rotation(session, actor, tenant, rotation, found, "cancelled")


def require_status(session: Session, *, tenant_id: TenantId, nas: str = "") -> RotationStatus:
    """Return the last rotation of the secret. Call this function in any scope that can read the tenant.

    Raises RotationNotFound.
    """
    status = _find_last(session, tenant_id, nas)
    if status is None:
        raise RotationNotFound(place="rotation")
    return status


def lock_last_status(session: Session, *, tenant_id: TenantId, nas: str = "") -> RotationStatus | None:
    """Return the last rotation of the secret, or None. Until the transaction ends, no rotation of the secret can start
    or end."""
    _enter(session, tenant_id)
    return _find_last(session, tenant_id, nas)


def _find_last(session: Session, tenant_id: TenantId, nas: str) -> RotationStatus | None:
    found = _find_nas(session, tenant_id, nas)
    rotation = repository.find_last(session, tenant_id, found.id if found else None)
    return None if rotation is None else _build_status(session, rotation, found)


def list_page(
    session: Session, *, tenant_id: TenantId, nas: str = "", state: str = "", after: str = "", limit: int = 1000
) -> Sequence[RotationNas]:
    """Return a page of the NASes whose secret a rotation replaces, ordered by key.

    Call this function in any scope that can read the tenant.
    """
    status = require_status(session, tenant_id=tenant_id, nas=nas)
    return repository.list_page(session, status.rotation, state=state, after=after, limit=limit)


def open_next_secret(session: Session, *, tenant_id: TenantId, nas: Nas | None, unseal: Unseal) -> str:
    """Return the new secret of a rotation in progress. Call this function in any scope that can read the tenant.

    Raises RotationNotFound if no rotation is in progress.
    """
    nas_id = nas.id if nas is not None and nas.secret_sealed is not None else None
    rotation = repository.find_running(session, tenant_id, nas_id)
    if rotation is None or rotation.next_sealed is None:
        raise RotationNotFound(
            "The secret has no rotation in progress.", place="next", remedy="Begin a rotation first."
        )
    return unseal(rotation.next_sealed, rotation_context(rotation.id)).decode()


def finish_expired_rotation(
    session: Session, *, actor: str, tenant_id: TenantId, rotation_id: UUID, sealer: Sealer
) -> None:
    """Finish a rotation whose planned end has passed. The audit log shows how many NASes still use the old secret.

    If the tenant is being deleted, this function extends the rotation instead. While a tenant is being deleted, nobody
    can change its NASes in Admit.
    """
    tenant = _enter(session, tenant_id)
    rotation = repository.lock_rotation(session, tenant_id, rotation_id)
    if rotation is None or rotation.state != "running" or rotation.ends_at > utc_now() or rotation.at_end != "finish":
        return
    if tenant.status == "deleting":
        rotation.ends_at = utc_now() + RESTORED_ROTATION
        return
    found = session.get(Nas, rotation.nas_id) if rotation.nas_id else None
    _put_secret_in_force(session, rotation, found, sealer)
    _end_rotation(session, actor, tenant, rotation, found, "finished")


RotationStage = Literal["preparing", "open", "overdue", "finished", "cancelled"]


def get_stage(rotation: SecretRotation, now: datetime) -> RotationStage:
    """Return the stage of a rotation.

    `preparing`: radiusd does not accept the new secret yet. `overdue`: the planned end has passed, but the rotation is
    still in progress.
    """
    if rotation.state == "finished":
        return "finished"
    if rotation.state == "cancelled":
        return "cancelled"
    if rotation.opened_at is None:
        return "preparing"
    return "overdue" if rotation.ends_at <= now else "open"


def finish_expired(sealer: Sealer, *, engine: Engine | None = None) -> None:
    """Finish the rotations of all tenants whose planned end has passed. Needs database role admit_worker."""
    with session_scope(PlatformScope(), engine=engine) as session:
        over = repository.list_expired(session, most=_EXPIRY_BATCH_SIZE)
    for tenant_id, rotation_id in over:
        try:
            with session_scope(PlatformScope(), engine=engine) as session:
                finish_expired_rotation(
                    session, actor=EXPIRY_ACTOR, tenant_id=tenant_id, rotation_id=rotation_id, sealer=sealer
                )
        except DatabaseUnavailable:
            raise
        except Exception:  # house-rule: an error of one tenant does not stop other tenants
            _log.exception("cannot finish the secret rotation of tenant %s", tenant_id)


def _enter(session: Session, tenant_id: TenantId) -> Tenant:
    if not isinstance(session.info["scope"], TenantScope):
        enter_tenant(session, tenant_id)
    tenant = session.scalar(select(Tenant).where(Tenant.id == tenant_id).with_for_update())
    if tenant is None:
        raise TenantNotFound
    return tenant


def _find_nas(session: Session, tenant_id: TenantId, nas: str) -> Nas | None:
    return nases.require_nas(session, tenant_id=tenant_id, reference=nas) if nas else None


def _require_own(session: Session, tenant_id: TenantId, nas: str) -> Nas | None:
    found = _find_nas(session, tenant_id, nas)
    if found is not None and found.secret_sealed is None:
        raise Conflict(
            f"NAS {found.name!r} uses the tenant's secret.", place="nas", remedy="Rotate the tenant's secret."
        )
    return found


def _require_running(session: Session, tenant_id: TenantId, nas: str) -> tuple[SecretRotation, Nas | None]:
    found = _find_nas(session, tenant_id, nas)
    rotation = repository.find_running(session, tenant_id, found.id if found else None)
    if rotation is None or (rotation := repository.lock_rotation(session, tenant_id, rotation.id)) is None:
        raise RotationNotFound("The secret has no rotation in progress.", place="rotation")
    return rotation, found


def _require_none_left_behind(session: Session, rotation: SecretRotation, *states: str) -> None:
    left = [
        each
        for state in states
        for each in repository.list_page(session, rotation, state=state, after="", limit=_MAX_NAMED + 1)
    ]
    if not left:
        return
    named = ", ".join(each.name or each.key for each in left[:_MAX_NAMED])
    more = " and others" if len(left) > _MAX_NAMED else ""
    used = "already use the new" if states == ("new",) else "still use the old"
    raise NasesLeftBehind(
        f"These NASes {used} secret, which would stop working: {named}{more}.",
        place="leave_behind",
        remedy="Change the secret on these NASes first, or set leave_behind.",
    )


def _open_secret_in_force(session: Session, tenant_id: TenantId, nas: Nas | None, sealer: Sealer) -> bytes:
    if nas is not None and nas.secret_sealed is not None:
        return sealer.open(nas.secret_sealed, nases.secret_context(nas))
    slot = cells.require_slot(session, tenant_id=tenant_id)
    return sealer.open(slot.secret_sealed, cells.slot_secret_context(slot))


def _put_secret_in_force(session: Session, rotation: SecretRotation, nas: Nas | None, sealer: Sealer) -> None:
    assert rotation.next_sealed is not None
    secret = sealer.open(rotation.next_sealed, rotation_context(rotation.id))
    if nas is not None:
        # Do nothing if the NAS now uses the tenant's secret.
        if nas.secret_sealed is not None:
            nas.secret_sealed = sealer.seal(secret, nases.secret_context(nas))
        return
    # During a move, also change the slot in the other cell.
    for slot in slots.list_slots_held_for(session, rotation.tenant_id):
        slot.secret_sealed = sealer.seal(secret, cells.slot_secret_context(slot))


def _end_rotation(
    session: Session,
    actor: str,
    tenant: Tenant,
    rotation: SecretRotation,
    nas: Nas | None,
    to: Literal["finished", "cancelled"],
) -> RotationStatus:
    counts = repository.count_by_state(session, rotation)
    rotation.state, rotation.next_sealed = to, None
    rotation.ended_at, rotation.ended_by = utc_now(), actor
    session.flush()
    verb = {"finished": "finish-rotation", "cancelled": "cancel-rotation"}[to]
    _audit(session, actor, tenant, verb, after={"of": nas.name if nas else "tenant", "nases": counts})
    return RotationStatus(rotation, nas, counts)


def _build_status(session: Session, rotation: SecretRotation, nas: Nas | None) -> RotationStatus:
    return RotationStatus(rotation, nas, repository.count_by_state(session, rotation))

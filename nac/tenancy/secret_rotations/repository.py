from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Select, select, text
from sqlalchemy.orm import Session

from nac.kit.ids import TenantId
from nac.models import SecretRotation

_PAGE = text("""
SELECT c.*, c.source IS NOT NULL AND CAST(c.source AS inet) IN (
    SELECT o.source FROM secret_sightings o WHERE o.tenant_id = :tenant AND o.rotation_id = :rotation
    GROUP BY o.source HAVING count(*) > 1
) AS is_shared
FROM rotation_nases(:tenant, :rotation, :nas) c WHERE c.key COLLATE "C" > :after AND (:state = '' OR c.state = :state)
ORDER BY c.key COLLATE "C" LIMIT :limit
""")
_COUNTS = text("SELECT c.state, count(*) FROM rotation_nases(:tenant, :rotation, :nas) c GROUP BY c.state")
_EXPIRED = text("SELECT tenant_id, id FROM secret_rotations_over(:most)")


class RotationNas(NamedTuple):
    """A NAS whose secret a rotation replaces."""

    key: str
    nas_id: UUID | None
    name: str
    signs: bool
    # Source address of the last request.
    source: str | None
    # Registered address of the NAS.
    address: str | None
    old_at: datetime | None
    new_at: datetime | None
    new_since: datetime | None
    # One of: unseen, old, new, back. `back` means: the NAS used the new secret, and later the old secret.
    state: str
    # Whether other NASes sent requests from the address `source`.
    is_shared: bool


def find_running(session: Session, tenant_id: TenantId, nas_id: UUID | None) -> SecretRotation | None:
    return session.scalar(_rotations_of(tenant_id, nas_id).where(SecretRotation.state == "running"))


def find_last(session: Session, tenant_id: TenantId, nas_id: UUID | None) -> SecretRotation | None:
    newest_first = (SecretRotation.created_at.desc(), SecretRotation.id)
    return session.scalar(_rotations_of(tenant_id, nas_id).order_by(*newest_first).limit(1))


def lock_rotation(session: Session, tenant_id: TenantId, rotation_id: UUID) -> SecretRotation | None:
    query = select(SecretRotation).where(SecretRotation.tenant_id == tenant_id, SecretRotation.id == rotation_id)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True))


def list_page(
    session: Session, rotation: SecretRotation, *, state: str, after: str, limit: int
) -> Sequence[RotationNas]:
    given = _params(rotation) | {"state": state, "after": after, "limit": limit}
    return [RotationNas(*row) for row in session.execute(_PAGE, given)]


def count_by_state(session: Session, rotation: SecretRotation) -> dict[str, int]:
    return {row[0]: row[1] for row in session.execute(_COUNTS, _params(rotation))}


def list_expired(session: Session, *, most: int) -> Sequence[tuple[TenantId, UUID]]:
    """Return up to `most` rotations of all tenants whose planned end has passed. Needs database role admit_worker."""
    return [(TenantId(row[0]), row[1]) for row in session.execute(_EXPIRED, {"most": most})]


def _rotations_of(tenant_id: TenantId, nas_id: UUID | None) -> Select[SecretRotation]:
    return select(SecretRotation).where(SecretRotation.tenant_id == tenant_id, SecretRotation.nas_id == nas_id)


def _params(rotation: SecretRotation) -> dict[str, object]:
    return {"tenant": rotation.tenant_id, "rotation": rotation.id, "nas": rotation.nas_id}

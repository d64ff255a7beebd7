"""MSPs and tenants that a person can access, each with the person's permissions. The portal lists them in a menu."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Integer, Text, Uuid, bindparam, text
from sqlalchemy.orm import Session

from nac.accounts.sign_in.sign_ins import SignOnOrigin
from nac.core.access.grants import MspRef, Owner, Principal, TenantRef
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Permission

_PLACES = text(
    "SELECT p.*, is_suspended_msp(p.msp_id) AS is_stopped FROM places_of_person(:msp, :tenant, :after, :most) p"
).bindparams(
    bindparam("msp", type_=Uuid()),
    bindparam("tenant", type_=Uuid()),
    bindparam("after", type_=Text()),
    bindparam("most", type_=Integer()),
)


@dataclass(frozen=True, slots=True)
class AccessiblePlace:
    # Key by which the list is sorted.
    key: str
    kind: Literal["msp", "tenant"]
    id: UUID
    # Id of this MSP, or of the tenant's MSP.
    msp_id: UUID
    slug: str
    name: str
    status: str
    permissions: frozenset[Permission]


def list_places(
    session: Session, *, principal: Principal, via: SignOnOrigin | None, after: str = "", limit: int = 100
) -> Sequence[AccessiblePlace]:
    """List MSPs and tenants that a person can access. `after` is the last key of the previous page.

    Needs PersonScope of the person `principal`. If the person signed in by single sign-on, `via` limits the list to the
    MSP or tenant that configured the provider.
    """
    only = via.owner if via is not None else Owner()
    parameters = {"msp": only.msp_id, "tenant": only.tenant_id, "after": after, "most": limit}
    rows = [dict(row) for row in session.execute(_PLACES, parameters).mappings()]
    return [AccessiblePlace(permissions=_permissions_at(principal, row, row.pop("is_stopped")), **row) for row in rows]


def _permissions_at(principal: Principal, row: dict[str, Any], is_stopped: bool) -> frozenset[Permission]:
    if row["kind"] == "msp":
        return principal.on_msp(MspRef(MspId(row["id"]), is_stopped))
    return principal.on_tenant(TenantRef(TenantId(row["id"]), MspId(row["msp_id"]), is_stopped))

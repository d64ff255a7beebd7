"""Where somebody may do what: what the portal switches between."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy import Integer, Text, Uuid, bindparam, text
from sqlalchemy.orm import Session

from nac.accounts.grants import Principal, TenantPlace
from nac.accounts.owners import Owner
from nac.accounts.permissions import Permission
from nac.ids import MspId, TenantId
from nac.sign_in.sessions import Via

_PLACES = text("SELECT * FROM places_of_person(:msp, :tenant, :after, :most)").bindparams(
    bindparam("msp", type_=Uuid()),
    bindparam("tenant", type_=Uuid()),
    bindparam("after", type_=Text()),
    bindparam("most", type_=Integer()),
)


@dataclass(frozen=True, slots=True)
class Place:
    # Orders the list.
    key: str
    kind: Literal["msp", "tenant"]
    id: UUID
    # Of a tenant its MSP.
    msp_id: UUID
    slug: str
    name: str
    status: str
    permissions: frozenset[Permission]


def list_places(
    session: Session, *, principal: Principal, via: Via | None, after: str = "", limit: int = 100
) -> Sequence[Place]:
    """Page on with the last key. `principal` is the person in scope, as signed in. In PersonScope."""
    only = via.owner if via is not None else Owner()
    asked = {"msp": only.msp_id, "tenant": only.tenant_id, "after": after, "most": limit}
    rows = session.execute(_PLACES, asked).mappings()
    return [Place(**row, permissions=_permissions(principal, row["kind"], row["id"], row["msp_id"])) for row in rows]


def _permissions(principal: Principal, kind: str, key: UUID, msp_id: UUID) -> frozenset[Permission]:
    if kind == "msp":
        return principal.on_msp(MspId(key))
    return principal.on_tenant(TenantPlace(TenantId(key), MspId(msp_id)))

"""Lookup of a tenant or MSP by slug or id, before Admit checks permissions. Works in any database scope."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from sqlalchemy import Text, Uuid, bindparam, select, text, union_all
from sqlalchemy.orm import Session

from nac.core.access.grants import UNKNOWN_MSP, Grant, MspRef, TenantRef
from nac.kit.db.queries import in_array
from nac.models import Msp, Tenant

# Returns one row even for an unknown key, so that known and unknown keys take the same time.
_FIND_TENANT = text(
    "SELECT tenant_id, msp_id, is_suspended_msp(coalesce(msp_id, :no_msp)) AS is_suspended"
    " FROM (SELECT) AS asked LEFT JOIN find_tenant(:key) ON true"
).bindparams(bindparam("key", type_=Text()), bindparam("no_msp", UNKNOWN_MSP.msp_id, type_=Uuid()))
_FIND_MSP = text(
    "SELECT msp_id, is_suspended_msp(coalesce(msp_id, :no_msp)) AS is_suspended FROM find_msp(:key) AS msp_id"
).bindparams(bindparam("key", type_=Text()), bindparam("no_msp", UNKNOWN_MSP.msp_id, type_=Uuid()))


def find_tenant(session: Session, key: str) -> TenantRef | None:
    """Tenant with this slug or id. A slug never has the form of an id."""
    row = session.execute(_FIND_TENANT, {"key": key}).one()
    return None if row.tenant_id is None else TenantRef(row.tenant_id, row.msp_id, row.is_suspended)


def slugs_by_id(session: Session, grants: Iterable[Grant]) -> Mapping[UUID, str]:
    """Map the ids of the MSPs and tenants in the grants to their slugs.

    Omits MSPs and tenants that the current database scope cannot read.
    """
    ids: set[UUID] = set()
    for grant in grants:
        ids.update(each for each in (grant.msp_id, grant.tenant_id, *(grant.chosen or ())) if each is not None)
    named = (select(noun.id, noun.slug).where(in_array(noun.id, sorted(ids))) for noun in (Msp, Tenant))
    return {row[0]: row[1] for row in session.execute(union_all(*named))} if ids else {}


def find_msp(session: Session, key: str) -> MspRef | None:
    row = session.execute(_FIND_MSP, {"key": key}).one()
    return None if row.msp_id is None else MspRef(row.msp_id, row.is_suspended)

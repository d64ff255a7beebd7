"""Which tenant or MSP is meant, before anything is known of who may see it. In any scope."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from sqlalchemy import Text, Uuid, bindparam, select, text, union_all
from sqlalchemy.orm import Session

from nac.accounts.grants import NO_MSP, Grant, MspPlace, TenantPlace
from nac.db.sets import among
from nac.models import Msp, Tenant

# A row also of what there is not (NO_MSP).
_TENANT = text(
    "SELECT tenant_id, msp_id, is_suspended_msp(coalesce(msp_id, :no_msp)) AS is_suspended"
    " FROM (SELECT) AS asked LEFT JOIN find_tenant(:key) ON true"
).bindparams(bindparam("key", type_=Text()), bindparam("no_msp", NO_MSP.msp_id, type_=Uuid()))
_MSP = text(
    "SELECT msp_id, is_suspended_msp(coalesce(msp_id, :no_msp)) AS is_suspended FROM find_msp(:key) AS msp_id"
).bindparams(bindparam("key", type_=Text()), bindparam("no_msp", NO_MSP.msp_id, type_=Uuid()))


def find_tenant(session: Session, key: str) -> TenantPlace | None:
    """`key` is a slug or an id; a slug that looks like an id cannot be made."""
    row = session.execute(_TENANT, {"key": key}).one()
    return None if row.tenant_id is None else TenantPlace(row.tenant_id, row.msp_id, row.is_suspended)


def slugs_of(session: Session, grants: Iterable[Grant]) -> Mapping[UUID, str]:
    """Of what the grants are on, by id, as far as the scope sees it."""
    ids: set[UUID] = set()
    for grant in grants:
        ids.update(each for each in (grant.msp_id, grant.tenant_id, *(grant.chosen or ())) if each is not None)
    named = (select(noun.id, noun.slug).where(among(noun.id, sorted(ids))) for noun in (Msp, Tenant))
    return {row[0]: row[1] for row in session.execute(union_all(*named))} if ids else {}


def find_msp(session: Session, key: str) -> MspPlace | None:
    row = session.execute(_MSP, {"key": key}).one()
    return None if row.msp_id is None else MspPlace(row.msp_id, row.is_suspended)

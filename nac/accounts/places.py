"""Which tenant or MSP is meant, before anything is known of who may see it. In any scope."""

from sqlalchemy import Text, bindparam, text
from sqlalchemy.orm import Session

from nac.accounts.grants import MspPlace, TenantPlace

_TENANT = text("SELECT tenant_id, msp_id, is_suspended_msp(msp_id) AS is_suspended FROM find_tenant(:key)").bindparams(
    bindparam("key", type_=Text())
)
_MSP = text(
    "SELECT msp_id, is_suspended_msp(msp_id) AS is_suspended FROM find_msp(:key) AS msp_id WHERE msp_id IS NOT NULL"
).bindparams(bindparam("key", type_=Text()))


def find_tenant(session: Session, key: str) -> TenantPlace | None:
    """`key` is a slug or an id; a slug that looks like an id cannot be made."""
    row = session.execute(_TENANT, {"key": key}).one_or_none()
    return None if row is None else TenantPlace(row.tenant_id, row.msp_id, row.is_suspended)


def find_msp(session: Session, key: str) -> MspPlace | None:
    row = session.execute(_MSP, {"key": key}).one_or_none()
    return None if row is None else MspPlace(row.msp_id, row.is_suspended)

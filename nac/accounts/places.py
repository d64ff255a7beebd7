"""Which tenant or MSP is meant, before anything is known of who may see it. In any scope."""

from sqlalchemy import Text, bindparam, text
from sqlalchemy.orm import Session

from nac.accounts.grants import TenantPlace
from nac.ids import MspId

_TENANT = text("SELECT tenant_id, msp_id FROM find_tenant(:key)").bindparams(bindparam("key", type_=Text()))
_MSP = text("SELECT find_msp(:key)").bindparams(bindparam("key", type_=Text()))


def find_tenant(session: Session, key: str) -> TenantPlace | None:
    """`key` is a slug or an id; a slug that looks like an id cannot be made."""
    row = session.execute(_TENANT, {"key": key}).one_or_none()
    return None if row is None else TenantPlace(row.tenant_id, row.msp_id)


def find_msp(session: Session, key: str) -> MspId | None:
    found: MspId | None = session.scalar(_MSP, {"key": key})
    return found

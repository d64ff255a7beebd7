"""Whose a membership, role or token is: the platform's, an MSP's or a tenant's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_

from nac.accounts.permissions import Level
from nac.ids import MspId, TenantId


@dataclass(frozen=True, slots=True)
class Owner:
    """The platform, where neither is named."""

    msp_id: MspId | None = None
    tenant_id: TenantId | None = None

    def __post_init__(self) -> None:
        if self.msp_id is not None and self.tenant_id is not None:
            raise ValueError("an MSP or a tenant, not both")

    @property
    def level(self) -> Level:
        if self.tenant_id is not None:
            return Level.TENANT
        return Level.PLATFORM if self.msp_id is None else Level.MSP

    def columns(self) -> Mapping[str, Any]:
        return {"msp_id": self.msp_id, "tenant_id": self.tenant_id}

    def owns(self, table: Any) -> ColumnElement[bool]:  # noqa: ANN401 -- any model with these two columns
        """Of rows that are its own, which those of its tenants are not. IS NOT DISTINCT FROM is asked of no index."""
        return and_(table.msp_id == self.msp_id, table.tenant_id == self.tenant_id)

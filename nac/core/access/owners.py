"""Owners of memberships, roles and tokens: the platform, an MSP or a tenant."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_

from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import PermissionLevel


@dataclass(frozen=True, slots=True)
class Owner:
    """An MSP or a tenant; the platform if both ids are None."""

    msp_id: MspId | None = None
    tenant_id: TenantId | None = None

    def __post_init__(self) -> None:
        if self.msp_id is not None and self.tenant_id is not None:
            raise ValueError("an MSP or a tenant, not both")

    @property
    def level(self) -> PermissionLevel:
        if self.tenant_id is not None:
            return PermissionLevel.TENANT
        return PermissionLevel.PLATFORM if self.msp_id is None else PermissionLevel.MSP

    def columns(self) -> Mapping[str, Any]:
        return {"msp_id": self.msp_id, "tenant_id": self.tenant_id}

    def owns(self, table: Any) -> ColumnElement[bool]:  # noqa: ANN401 -- any model with these two columns
        """SQL condition for rows of this owner. Rows of the MSP's tenants do not match.

        The condition uses `=`, because indexes do not support IS NOT DISTINCT FROM.
        """
        return and_(table.msp_id == self.msp_id, table.tenant_id == self.tenant_id)

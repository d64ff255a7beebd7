"""Typed identifiers. A tenant's id has its own type, so that it cannot be confused with other ids."""

from typing import NewType
from uuid import UUID

MspId = NewType("MspId", UUID)
TenantId = NewType("TenantId", UUID)
# Small and never reused; prefix of a tenant's keys in replicas.
TenantNumber = NewType("TenantNumber", int)
CellId = NewType("CellId", int)
SlotNumber = NewType("SlotNumber", int)

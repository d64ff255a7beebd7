"""Typed identifiers. A tenant's id has one type and one source, so that scope cannot be mixed up with any other id."""

from typing import NewType
from uuid import UUID

MspId = NewType("MspId", UUID)
TenantId = NewType("TenantId", UUID)
# Small, never re-used; the key prefix of a tenant's records in a cell's replica.
TenantNumber = NewType("TenantNumber", int)
CellId = NewType("CellId", int)
SlotNumber = NewType("SlotNumber", int)

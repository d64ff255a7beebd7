"""Typed identifiers. The id of a tenant has its own type, so that mypy detects a confusion with other ids."""

from typing import NewType
from uuid import UUID

MspId = NewType("MspId", UUID)
TenantId = NewType("TenantId", UUID)
# Small number that is never reused. The number is the prefix of the tenant's keys in replicas.
TenantNumber = NewType("TenantNumber", int)
CellId = NewType("CellId", int)
SlotNumber = NewType("SlotNumber", int)

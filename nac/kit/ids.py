"""Typed identifiers. Each kind of id has its own type, so that mypy detects if code confuses two ids."""

from typing import NewType
from uuid import UUID

MspId = NewType("MspId", UUID)
TenantId = NewType("TenantId", UUID)
# Small number that is never reused. The number is the prefix of the tenant's keys in replicas.
TenantNumber = NewType("TenantNumber", int)
CellId = NewType("CellId", int)
SlotNumber = NewType("SlotNumber", int)

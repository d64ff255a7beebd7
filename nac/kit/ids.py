"""Types of ids. Each kind of id has its own type, so that mypy reports code that passes the wrong kind of id."""

from typing import NewType
from uuid import UUID

MspId = NewType("MspId", UUID)
TenantId = NewType("TenantId", UUID)
# Small number of a tenant, which no later tenant gets. The tenant's keys in replicas begin with this number.
TenantNumber = NewType("TenantNumber", int)
CellId = NewType("CellId", int)
SlotNumber = NewType("SlotNumber", int)

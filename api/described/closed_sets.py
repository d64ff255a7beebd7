"""Closed sets of values for fields that the code types as text."""

from typing import Any, Final, get_args

from nac.engine.outcome import Verdict
from nac.models.tenant import TenantStatus
from nac.tenancy.cells.cell_admin import CellStatus
from nac.tenancy.tenants.moves import MoveState

_TENANT_STATUSES, _VERDICTS, _MOVE_STATES = get_args(TenantStatus), get_args(Verdict), get_args(MoveState)
_MEMBER_STATUSES = ("invited", "active", "disabled")

# By schema and property.
CLOSED_SETS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("Tenant", "status"): _TENANT_STATUSES,
    ("MspTenant", "status"): _TENANT_STATUSES,
    ("TenantDetail", "status"): _TENANT_STATUSES,
    ("Member", "status"): _MEMBER_STATUSES,
    ("Cell", "status"): (*get_args(CellStatus), "retired"),
    ("PlatformCell", "status"): (*get_args(CellStatus), "retired"),
    ("Decision", "verdict"): _VERDICTS,
    ("DecisionDetail", "verdict"): _VERDICTS,
    ("RecordedDecision", "verdict"): _VERDICTS,
    ("Move", "state"): _MOVE_STATES,
    ("TenantMove", "state"): _MOVE_STATES,
    ("PoolLease", "state"): ("leased", "quarantined"),
}


def add_closed_sets(schemas: dict[str, Any]) -> None:
    for (name, field), values in CLOSED_SETS.items():
        field_schema = schemas.get(name, {}).get("properties", {}).get(field)
        if field_schema is not None:
            field_schema["enum"] = list(values)

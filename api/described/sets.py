"""Closed sets of values for fields that the code types as text."""

from typing import Any, Final, get_args

from nac.cells.operating import CellStatus
from nac.engine.outcome import Verdict
from nac.models.tenant import TenantStatus
from nac.tenants.moves import MoveState

_TENANT, _VERDICT, _MOVE = get_args(TenantStatus), get_args(Verdict), get_args(MoveState)
_MEMBER = ("invited", "active", "disabled")

# By schema and property.
SETS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("Tenant", "status"): _TENANT,
    ("MspTenant", "status"): _TENANT,
    ("TenantDetail", "status"): _TENANT,
    ("Member", "status"): _MEMBER,
    ("Cell", "status"): (*get_args(CellStatus), "retired"),
    ("PlatformCell", "status"): (*get_args(CellStatus), "retired"),
    ("Decision", "verdict"): _VERDICT,
    ("DecisionDetail", "verdict"): _VERDICT,
    ("RecordedDecision", "verdict"): _VERDICT,
    ("Move", "state"): _MOVE,
    ("TenantMove", "state"): _MOVE,
    ("PoolLease", "state"): ("leased", "quarantined"),
}


def tell_sets(schemas: dict[str, Any]) -> None:
    for (name, field), values in SETS.items():
        field_schema = schemas.get(name, {}).get("properties", {}).get(field)
        if field_schema is not None:
            field_schema["enum"] = list(values)

"""Values of fields: allowed values of fields whose type in the code is text, and sizes of numbers."""

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
_FORMATS: Final = {"integer": "int64", "number": "double"}


def add_closed_sets(schemas: dict[str, Any]) -> None:
    for (name, field), values in CLOSED_SETS.items():
        field_schema = schemas.get(name, {}).get("properties", {}).get(field)
        if field_schema is not None:
            field_schema["enum"] = list(values)


def add_number_formats(part: Any) -> None:  # noqa: ANN401 -- a part of a JSON document
    """Set the format of each number in a description, recursively."""
    if isinstance(part, dict):
        kind = part.get("type")
        if isinstance(kind, str) and kind in _FORMATS:
            part.setdefault("format", _FORMATS[kind])
        for name, value in part.items():
            if name == "properties":
                # The keys are field names, so `value` or `default` is an ordinary field here.
                add_number_formats(list(value.values()))
            elif name not in ("example", "examples", "default", "value"):
                add_number_formats(value)
    elif isinstance(part, list):
        for value in part:
            add_number_formats(value)

"""Types and functions of FreeRADIUS' module `radiusd`, which exists only inside radiusd (rlm_python3.c of 3.2.7)."""

import radiusd

REJECT: int = radiusd.RLM_MODULE_REJECT
FAIL: int = radiusd.RLM_MODULE_FAIL
OK: int = radiusd.RLM_MODULE_OK
HANDLED: int = radiusd.RLM_MODULE_HANDLED
NOOP: int = radiusd.RLM_MODULE_NOOP
UPDATED: int = radiusd.RLM_MODULE_UPDATED

Pairs = tuple[tuple[str, str], ...]
PairLists = dict[str, Pairs | None]
AttributeUpdate = tuple[str, str, str]
ModuleResult = int | tuple[int, dict[str, tuple[AttributeUpdate, ...]]]


def log_error(message: str) -> None:
    """Write one line to radiusd's log. The agent reads the line from radiusd's log."""
    radiusd.radlog(radiusd.L_ERR, message)

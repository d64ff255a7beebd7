"""Which permission each operation asks for, in its description and as `x-permission`."""

from typing import Any

from api.access import Anyone, Mine, Requires
from api.described.routes import Told, level_of

BEARER, COOKIE, CSRF = "bearer", "cookie", "csrf"
_SAFE = {"get", "head"}


def tell_permission(operation: dict[str, Any], told: Told) -> None:
    asks = told.asks
    if isinstance(asks, Requires):
        operation["x-permission"] = asks.permission.value
        _add(operation, f"Permission: `{asks.permission}` on {level_of(asks)}.")
    elif isinstance(asks, Mine):
        _add(operation, "Permission: none, it is about who asks.")
    elif isinstance(asks, Anyone):
        _add(operation, f"Permission: none. {asks.reason[:1].upper()}{asks.reason[1:].rstrip('.')}.")
    if operation.pop("security", None):
        by_cookie: dict[str, list[str]] = {COOKIE: []} if told.method in _SAFE else {COOKIE: [], CSRF: []}
        operation["security"] = [{BEARER: []}, by_cookie]


def _add(operation: dict[str, Any], sentence: str) -> None:
    operation["description"] = f"{operation.get('description', '')}\n\n{sentence}".strip()

"""Required permission of each operation, in its description and as `x-permission`."""

from collections.abc import Collection
from typing import Any

from api.access import AllowsAnyone, RequiresPermission, RequiresSelf
from api.described.described_routes import DescribedRoute, describe_level
from nac.core.access.permissions import Permission, permissions_at

BEARER_SCHEME, COOKIE_SCHEME, CSRF_SCHEME = "bearer", "cookie", "csrf"
_SAFE_METHODS = {"get", "head"}


def add_permission(operation: dict[str, Any], route: DescribedRoute) -> None:
    asks = route.asks
    if isinstance(asks, RequiresPermission):
        operation["x-permission"] = asks.permission.value
        _append_sentence(
            operation, f"Permission: `{asks.permission}` on {describe_level(asks)}.{_describe_other_permissions(asks)}"
        )
    elif isinstance(asks, RequiresSelf):
        _append_sentence(operation, "Permission: none. It applies to the caller.")
    elif isinstance(asks, AllowsAnyone):
        _append_sentence(operation, f"Permission: none. {asks.reason[:1].upper()}{asks.reason[1:].rstrip('.')}.")
    if isinstance(asks, AllowsAnyone):
        # Explicit, so that no default of the document applies.
        operation["security"] = []
    elif operation.pop("security", None):
        by_cookie: dict[str, list[str]] = (
            {COOKIE_SCHEME: []} if route.method in _SAFE_METHODS else {COOKIE_SCHEME: [], CSRF_SCHEME: []}
        )
        operation["security"] = [{BEARER_SCHEME: []}, by_cookie]


def _describe_other_permissions(asks: RequiresPermission) -> str:
    always = asks.always - {asks.permission}
    if asks.always >= permissions_at(asks.level):
        return " Requires every other permission there too."
    sentences = [f" Requires {_join_permissions(always)} too."] if always else []
    if asks.also - always:
        sentences.append(f" Some requests require {_join_permissions(asks.also - always)} too.")
    return "".join(sentences)


def _join_permissions(permissions: Collection[Permission]) -> str:
    return ", ".join(f"`{each}`" for each in sorted(permissions))


def _append_sentence(operation: dict[str, Any], sentence: str) -> None:
    operation["description"] = f"{operation.get('description', '')}\n\n{sentence}".strip()

"""Required permission of each operation, in its description and as `x-permission`."""

from collections.abc import Collection
from typing import Any

from api.access import Anyone, Mine, Requires
from api.described.routes import Told, level_of
from nac.accounts.permissions import Permission, permissions_at

BEARER, COOKIE, CSRF = "bearer", "cookie", "csrf"
_SAFE = {"get", "head"}


def tell_permission(operation: dict[str, Any], route: Told) -> None:
    asks = route.asks
    if isinstance(asks, Requires):
        operation["x-permission"] = asks.permission.value
        _add(operation, f"Permission: `{asks.permission}` on {level_of(asks)}.{_beside(asks)}")
    elif isinstance(asks, Mine):
        _add(operation, "Permission: none. It applies to the caller.")
    elif isinstance(asks, Anyone):
        _add(operation, f"Permission: none. {asks.reason[:1].upper()}{asks.reason[1:].rstrip('.')}.")
    if isinstance(asks, Anyone):
        # Explicit, so that no default of the document applies.
        operation["security"] = []
    elif operation.pop("security", None):
        by_cookie: dict[str, list[str]] = {COOKIE: []} if route.method in _SAFE else {COOKIE: [], CSRF: []}
        operation["security"] = [{BEARER: []}, by_cookie]


def _beside(asks: Requires) -> str:
    always = asks.always - {asks.permission}
    if asks.always >= permissions_at(asks.level):
        return " Requires every other permission there too."
    sentences = [f" Requires {_listed(always)} too."] if always else []
    if asks.also - always:
        sentences.append(f" Some requests require {_listed(asks.also - always)} too.")
    return "".join(sentences)


def _listed(permissions: Collection[Permission]) -> str:
    return ", ".join(f"`{each}`" for each in sorted(permissions))


def _add(operation: dict[str, Any], sentence: str) -> None:
    operation["description"] = f"{operation.get('description', '')}\n\n{sentence}".strip()

"""Title and authentication of the API, and the required permission of each operation."""

from collections.abc import Collection
from typing import Any, Final

from api.access import AllowsAnyone, RequiresPermission, RequiresSelf
from api.cookies import CSRF_HEADER, SESSION_COOKIE
from api.described.described_routes import DescribedRoute, describe_level
from nac.core.access.permissions import Permission, permissions_at

SUMMARY: Final = "Network access control for many tenants: devices, policies, certificates, sessions, logs."
DESCRIPTION: Final = """\
Admit decides which devices can access the networks of many tenants, and with which restrictions.

* **Authentication**: an API token (`Authorization: Bearer admit_...`), or the cookie of a person's sign-in. Changes by
  cookie also need the header `Admit-CSRF`. Each operation names its permission (`x-permission`).
* **Lists** have pages: `limit` is the page size, and `after` is the `next` of the previous page.
* **Changes** with an `Idempotency-Key` happen only once. With `If-Match`, a change fails if the object has changed.
  `Admit-Live` shows whether a change is in force in the tenant's cell, and `wait=live` waits for it.
* **Errors** are problem details (RFC 9457) with a stable `code`. Unknown fields and query parameters are rejected.
* **Timestamps** are RFC 3339 with an offset; responses use UTC. null means no value, and "" means empty text.
"""
BEARER_SCHEME, COOKIE_SCHEME, CSRF_SCHEME = "bearer", "cookie", "csrf"
_SAFE_METHODS = {"get", "head"}


def add_info(document: dict[str, Any]) -> None:
    document["info"] |= {
        "summary": SUMMARY,
        "description": DESCRIPTION,
        "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
    }
    document["servers"] = [{"url": "/", "description": "This installation."}]


def add_security_schemes(document: dict[str, Any]) -> None:
    document["components"]["securitySchemes"] = {
        BEARER_SCHEME: {"type": "http", "scheme": "bearer", "description": "API token: admit_<id>_<secret>."},
        COOKIE_SCHEME: {
            "type": "apiKey",
            "in": "cookie",
            "name": f"__Host-{SESSION_COOKIE}",
            "description": f"Sign-in cookie of a person, set by signIn. Over plain HTTP it is `{SESSION_COOKIE}`.",
        },
        CSRF_SCHEME: {
            "type": "apiKey",
            "in": "header",
            "name": CSRF_HEADER,
            "description": "`csrf_token` of the sign-in or of GET /v1/me. Required with the cookie for each change.",
        },
    }


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

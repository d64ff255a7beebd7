"""Texts of /openapi.json: title, authentication, permissions of operations, and null and defaults of fields."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from api.access import AllowsAnyone, RequiresPermission, RequiresSelf
from api.cookies import CSRF_HEADER, SESSION_COOKIE
from api.described.described_routes import DescribedRoute, describe_level
from nac.kit.permissions import Permission, permissions_at

SUMMARY: Final = "Network access control for many tenants: devices, policies, certificates, sessions, logs."
DESCRIPTION: Final = """\
Admit decides which devices can access the networks of many tenants, and with which restrictions.

* **Authentication**: an API token (`Authorization: Bearer admit_...`), or the cookie of a person's sign-in. Changes by
  cookie also need the header `Admit-CSRF`. Each operation names its permission (`x-permission`).
* **Lists** have pages: `limit` is the page size, and `after` is the `next` of the previous page.
* **Changes** with an `Idempotency-Key` happen only once. With `If-Match`, a change fails if the object has changed.
  `Admit-Live` shows whether a change is in force in the tenant's cell, and `wait=live` waits until then.
* **Errors** are problem details (RFC 9457) with a stable `code`. Unknown fields and query parameters are rejected.
* **Timestamps** are RFC 3339 with an offset; responses use UTC. null means no value, and "" means empty text.
"""
BEARER_SCHEME, COOKIE_SCHEME, CSRF_SCHEME = "bearer", "cookie", "csrf"
_SAFE_METHODS = {"get", "head"}
_SENTENCE = re.compile(r"(?P<first>.+?)[.](?:\s|$)", re.DOTALL)
_MAX_SUMMARY_LENGTH = 100
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
_SPELLINGS = {
    "msp": "MSP",
    "nas": "NAS",
    "nases": "NASes",
    "coa": "CoA",
    "totp": "TOTP",
    "scep": "SCEP",
    "msps": "MSPs",
}
_UNCHANGED_SENTENCE = "Unchanged if omitted."
_FORMATS: Final = {"integer": "int64", "number": "double"}


def add_summary(operation: dict[str, Any]) -> None:
    operation["summary"] = _build_summary(operation["operationId"], operation.get("description", ""))


def _build_summary(name: str, description: str) -> str:
    """Return the first sentence of the description, or the words of the operation id if the sentence is too long."""
    first = _SENTENCE.match(description)
    sentence = " ".join(first["first"].split()) if first else ""
    if sentence and len(sentence) <= _MAX_SUMMARY_LENGTH:
        return sentence
    spelt = _WORD_START.sub(" ", name).lower()
    for wrong, right in _SPELLINGS.items():
        spelt = re.sub(rf"\b{wrong}\b", right, spelt)
    return spelt[:1].upper() + spelt[1:]


def add_field_descriptions(schemas: Mapping[str, Any]) -> None:
    for name, schema in schemas.items():
        changes = schema.get("additionalProperties") is False and name.endswith("Update")
        for field in schema.get("properties", {}).values():
            text = _append_null_meaning(field.get("description", ""), field, changes=changes)
            field["description"] = text if name.startswith("Bulk") else _append_default(text, field)
            # With a default in the schema, generated clients would always send the default, or require the field.
            field.pop("default", None)


def _append_null_meaning(text: str, field: Mapping[str, Any], *, changes: bool) -> str:
    """Append the meaning of null, and of an omitted field in a change."""
    nullable = {"type": "null"} in field.get("anyOf", ())
    if not text or not nullable:
        return text
    if changes:
        return text if _UNCHANGED_SENTENCE in text else f"{text} {_UNCHANGED_SENTENCE}"
    return text if "null" in text else f"{text} null if none."


def _append_default(text: str, field: Mapping[str, Any]) -> str:
    default = field.get("default")
    return text if default in (None, "", [], {}) else f"{text} Default: {json.dumps(default)}."


def add_number_formats(part: Any) -> None:  # noqa: ANN401 -- a part of a JSON document
    """Set the format of each number in a description, recursively."""
    if isinstance(part, dict):
        kind = part.get("type")
        if isinstance(kind, str) and kind in _FORMATS:
            part.setdefault("format", _FORMATS[kind])
        for name, value in part.items():
            if name == "properties":
                # Field names, which can be `value` or `default`.
                add_number_formats(list(value.values()))
            elif name not in ("example", "examples", "default", "value"):
                add_number_formats(value)
    elif isinstance(part, list):
        for value in part:
            add_number_formats(value)


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
            "description": f"Sign-in cookie of a person, set by signIn. Its name over HTTP is `{SESSION_COOKIE}`.",
        },
        CSRF_SCHEME: {
            "type": "apiKey",
            "in": "header",
            "name": CSRF_HEADER,
            "description": "`csrf_token` of the sign-in or of GET /v1/me. Changes with the cookie require this header.",
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
        _append_sentence(operation, "Permission: none. The operation applies to the caller.")
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

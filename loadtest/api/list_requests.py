"""Requests for each list in the API description, with each filter and sort order.

A new list is therefore tested automatically, or reported as missing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

Description = dict[str, Any]
# Sample values of filters, with their meaning. Values in braces, such as "{mac}", come from a row of the tenant.
_Values = tuple[str, ...]

_BY_NAME: Mapping[str, _Values] = {
    "action": ("endpoint.add", "site.remove"),
    "actor": ("token:t7", "nobody"),
    "address": ("{address}", "192.0.2.7", "203.0.113.9"),
    "chargeable_user": ("nobody",),
    "days": ("30", "365"),
    "endpoint": ("{mac}", "02ffffffffff"),
    "group": ("group-1", "group-6", "group-7", "nothing"),
    "limit": ("1000",),
    "mac": ("{mac}", "02ffffffffff"),
    "msp": ("bench", "nothing"),
    "name": ("{user}", "laptop-7", "nobody"),
    "nas": ("switch-3", "192.0.2.7", "nothing"),
    "policy": ("office", "nothing"),
    "pool": ("office",),
    "profile": ("printer", "eap-client-user", "nothing"),
    "redecision": ("7",),
    "request_id": ("request-2000", "nothing"),
    "role": ("auditor", "tenant-admin", "msp-technician"),
    "seen_since": ("{days_ago}", "{a_minute_ago}"),
    "session": ("7",),
    "session_id": ("{session_id}", "nothing"),
    "since": ("{days_ago}", "{a_minute_ago}", "2020-01-01T00:00:00Z"),
    "site": ("site-1", "nothing"),
    "status_type": ("Start", "Accounting-On"),
    "target": ("{mac_with_colons}", "nothing"),
    "text": ("7", "zzz"),
    "until": ("{days_ago}", "2020-01-01T00:00:00Z"),
    "user": ("{user}", "nobody"),
    "vendor": ("cisco", "zzz"),
}
# Sample values for one operation, in which the name of the filter has another meaning than in `_BY_NAME`.
_OPERATION_VALUES: Mapping[tuple[str, str], _Values] = {
    ("listSecretRotationNases", "nas"): (),
    ("listNases", "vendor"): ("cisco", "aruba"),
    ("listNases", "address"): ("10.0.0.7", "203.0.113.9"),
    ("listPoolLeases", "site"): (),
    ("listDecisionCounts", "since"): ("{a_minute_ago}",),
    ("listDecisionCounts", "until"): ("{a_minute_ago}",),
    ("listRejectReasons", "since"): ("{days_ago}", "{a_minute_ago}"),
    ("listRejectReasons", "until"): ("{days_ago}",),
    ("listUsage", "since"): ("{days_ago}",),
    ("listUsage", "until"): ("{a_minute_ago}",),
}
# Lists with few rows that parse certificates. The data set has no valid certificates.
_SKIPPED_OPERATIONS = {"listAuthorities", "listExternalAuthorities"}
_MAX_CHOICES = 4
_PATH_VALUES = {"policy": "office", "slug": "template-1", "msp": "bench"}


@dataclass(frozen=True)
class ListRequest:
    """A request for a list. Names in braces in `path` are placeholders."""

    operation: str
    path: str
    query: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return " ".join([self.operation, *(f"{name}={value}" for name, value in self.query)])

    def of(self, values: Mapping[str, str]) -> str:
        query = urlencode([(name, value.format_map(values)) for name, value in self.query])
        return f"{self.path.format_map(_PATH_VALUES | dict(values))}?{query}"

    @property
    def is_tenants(self) -> bool:
        return "{tenant}" in self.path


def iterate_list_requests(description: Description) -> Iterator[ListRequest]:
    for path, methods in description["paths"].items():
        operation = methods.get("get", {"operationId": ""})
        if operation["operationId"].startswith("list") and operation["operationId"] not in _SKIPPED_OPERATIONS:
            yield from _operation_requests(description, path, operation)


def _operation_requests(description: Description, path: str, operation: Description) -> Iterator[ListRequest]:
    name = operation["operationId"]
    given = [each for each in operation.get("parameters", ()) if each["in"] == "query" and each["name"] != "after"]
    sorts = next((_choices(description, each["schema"]) for each in given if each["name"] == "sort"), [""])
    filters: list[tuple[tuple[str, str], ...]] = [()]
    for each in given:
        if each["name"] != "sort":
            filters += [((each["name"], value),) for value in _values(description, name, each)]
    for wanted in filters:
        for sort in sorts:
            yield ListRequest(name, path, (*wanted, ("sort", sort)) if sort else wanted)


def _values(description: Description, operation: str, parameter: Description) -> list[str]:
    name = parameter["name"]
    if (operation, name) in _OPERATION_VALUES:
        return list(_OPERATION_VALUES[operation, name])
    choices = _choices(description, parameter["schema"])
    # If a filter has many values, use only the first few and the last.
    return [*choices[:_MAX_CHOICES], *choices[_MAX_CHOICES:][-1:]] or list(_BY_NAME[name])


def _choices(description: Description, schema: Description) -> list[str]:
    """Return the values of an enumeration, or of the items of a list; [] if any value is allowed."""
    while "$ref" in schema:
        schema = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if schema.get("type") == "boolean":
        return ["true", "false"]
    if "const" in schema:
        return [schema["const"]]
    if "enum" in schema:
        return [str(each) for each in schema["enum"]]
    inner = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return next((found for each in inner if (found := _choices(description, each))), [])

"""JSON Schema (draft 2020-12) of policy documents, for editors and programs.

The schema describes the form of a document and the operators of every attribute. The schema accepts every valid
document. The schema cannot detect unknown names, cycles, exceeded limits, unreachable rules and replies that
radiusd's dictionaries do not know. Only the engine rejects such mistakes.
"""

from collections.abc import Sequence

from nac.engine.attributes import ATTRIBUTE_CATALOGUE, PolicyAttribute, list_open_attributes
from nac.engine.conditions import MAX_CONDITIONS, MAX_NAMED
from nac.engine.operators import (
    FOLDABLE_OPERATORS,
    NUMERIC_OPERATORS,
    PARTIAL_OPERATORS,
    list_operators,
    takes_ignore_case,
)
from nac.engine.patterns import MAX_PATTERN_LENGTH
from nac.engine.policy import MAX_RULES
from nac.engine.results import MAX_ACL_ENTRIES, SESSION_SECONDS_RANGE
from nac.engine.time_windows import WEEKDAYS
from nac.engine.vendors import POOL_KEYS

JsonSchema = dict[str, object]

_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_POOL: JsonSchema = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}
_TEXT: JsonSchema = {"type": "string", "minLength": 1}
_WHOLE_NUMBER: JsonSchema = {"type": "integer", "exclusiveMinimum": -(2**64), "exclusiveMaximum": 2**64}
_TIME_OF_DAY = "([01][0-9]|2[0-3]):[0-5][0-9]"
_DATE: JsonSchema = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "format": "date"}
_CONDITION: JsonSchema = {"$ref": "#/$defs/condition"}


def policy_schema() -> JsonSchema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Admit policy",
        "description": "Decides which devices a site admits, and with which results. See docs/reference/policy.md.",
        **_object(
            {
                "conditions": {
                    "type": "object",
                    "description": "Named conditions, for rules and other conditions.",
                    "patternProperties": {f"^{_NAME}$": _CONDITION},
                    "additionalProperties": False,
                    "maxProperties": MAX_NAMED,
                },
                "profiles": {
                    "type": "object",
                    "description": "Named results, shared by rules.",
                    "patternProperties": {f"^{_NAME}$": {"$ref": "#/$defs/profile"}},
                    "additionalProperties": False,
                },
                "pinned_denies": _array({"$ref": "#/$defs/pinned_deny"}, most=MAX_RULES),
                "rules": _array({"$ref": "#/$defs/rule"}, most=MAX_RULES),
                "fallback": {"$ref": "#/$defs/outcome"},
                "tests": _array({"$ref": "#/$defs/test"}),
            }
        ),
        "$defs": {
            "condition": _condition(),
            "comparison": _comparison(),
            "window": _window(),
            **_rules(),
            **_results(),
            "test": _test(),
        },
    }


def _object(properties: JsonSchema, *, required: Sequence[str] = ()) -> JsonSchema:
    schema: JsonSchema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def _array(items: JsonSchema, *, least: int = 0, most: int | None = None) -> JsonSchema:
    schema: JsonSchema = {"type": "array", "items": items}
    if least:
        schema["minItems"] = least
    return schema if most is None else {**schema, "maxItems": most}


def _condition() -> JsonSchema:
    several = _array(_CONDITION, most=MAX_CONDITIONS)
    return {
        "type": "object",
        "oneOf": [
            _object({"all": several}, required=["all"]),
            _object({"any": {**several, "minItems": 1}}, required=["any"]),
            _object({"not": _CONDITION}, required=["not"]),
            _object({"condition": {"type": "string", "pattern": f"^{_NAME}$"}}, required=["condition"]),
            {"$ref": "#/$defs/comparison"},
        ],
    }


def _comparison() -> JsonSchema:
    """Return the schema of a comparison, with one branch per set of attributes that support the same comparisons."""
    alike: dict[tuple[str, tuple[str, ...]], list[PolicyAttribute]] = {}
    for attribute in (*ATTRIBUTE_CATALOGUE.values(), *list_open_attributes()):
        alike.setdefault((attribute.kind, attribute.choices), []).append(attribute)
    return {
        "type": "object",
        "required": ["attribute", "operator"],
        "oneOf": [_branch(attributes) for attributes in alike.values()],
    }


def _branch(attributes: list[PolicyAttribute]) -> JsonSchema:
    """Return the schema of a comparison with one of `attributes`, all of which support the same comparisons."""
    first = attributes[0]
    operators: dict[str, list[str]] = {}
    values: dict[str, JsonSchema | None] = {}
    for operator in list_operators(first):
        value = _value_schema(first, operator)
        form = repr((value, takes_ignore_case(first, operator)))
        operators.setdefault(form, []).append(operator)
        values[form] = value
    branches = []
    for form, alike in operators.items():
        properties: JsonSchema = {"attribute": True, "operator": {"enum": alike}}
        if takes_ignore_case(first, alike[0]):
            properties["ignore_case"] = {"type": "boolean"}
        else:
            properties["ignore_case"] = {"const": False}
        value = values[form]
        properties["value"] = {"const": True} if value is None else value
        branches.append(_object(properties, required=[] if value is None else ["value"]))
    return {"properties": {"attribute": _attribute_names(attributes)}, "oneOf": branches}


def _attribute_names(attributes: list[PolicyAttribute]) -> JsonSchema:
    fixed = [attribute.name for attribute in attributes if "<name>" not in attribute.name]
    if fixed:
        return {"enum": fixed}
    prefixes = "|".join(attribute.name.removesuffix("<name>").replace(".", "\\.") for attribute in attributes)
    return {"type": "string", "pattern": f"^({prefixes})[A-Za-z0-9][A-Za-z0-9_.+/-]{{0,127}}$"}


def _value_schema(attribute: PolicyAttribute, operator: str) -> JsonSchema | None:
    """Return the schema of a value; None if the operator needs no value."""
    if operator == "exists":
        return None
    if operator == "within":
        return {"$ref": "#/$defs/window"}
    if operator == "between":
        return {"type": "array", "items": _WHOLE_NUMBER, "minItems": 2, "maxItems": 2}
    if operator in NUMERIC_OPERATORS:
        return _WHOLE_NUMBER
    if operator in ("in_domain", "in_network"):
        return {"anyOf": [_TEXT, _array(_TEXT, least=1)]}
    if operator == "matches":
        return {**_TEXT, "maxLength": MAX_PATTERN_LENGTH}
    if operator in PARTIAL_OPERATORS:
        return _TEXT
    assert operator in FOLDABLE_OPERATORS
    return _exact_value_schema(attribute, several=operator == "one_of")


def _exact_value_schema(attribute: PolicyAttribute, *, several: bool) -> JsonSchema:
    kinds: list[JsonSchema] = [{"enum": list(attribute.choices)} if attribute.choices else _TEXT]
    if attribute.kind == "boolean":
        kinds = [{"type": "boolean"}]
    elif attribute.kind == "number":
        kinds = [_WHOLE_NUMBER]
    elif attribute.kind == "open":
        kinds = [_TEXT, _WHOLE_NUMBER] if several else [_TEXT, _WHOLE_NUMBER, {"type": "boolean"}]
    if several:
        kinds = [_array(kind, least=1) for kind in kinds]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _window() -> JsonSchema:
    return {
        **_object(
            {
                "days": _array({"enum": list(WEEKDAYS)}, least=1),
                "from": {"type": "string", "pattern": f"^{_TIME_OF_DAY}$"},
                "to": {"type": "string", "pattern": f"^({_TIME_OF_DAY}|24:00)$"},
                "dates": {**_object({"from": _DATE, "to": _DATE}), "minProperties": 1},
            }
        ),
        "minProperties": 1,
    }


def _rules() -> JsonSchema:
    named: JsonSchema = {
        "id": {"type": "string", "pattern": f"^{_NAME}$"},
        "name": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S"},
        "when": _CONDITION,
    }
    monitored: JsonSchema = {**named, "monitor": {"type": "boolean"}, "then": {"$ref": "#/$defs/outcome"}}
    return {
        "pinned_deny": _object(named, required=list(named)),
        "rule": _object(monitored, required=[*named, "then"]),
    }


def _results() -> JsonSchema:
    """Return the schemas of results (ADR 0005): vendor-neutral results, and RADIUS attributes."""
    reply = _object(
        {
            "attribute": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_./-]{0,126}$"},
            "operator": {"enum": [":=", "+="]},
            "value": _TEXT,
            "tag": {"type": ["integer", "null"], "minimum": 0, "maximum": 31},
        },
        required=["attribute", "value"],
    )
    entries = _array(_TEXT, least=1, most=MAX_ACL_ENTRIES)
    of_vendors: JsonSchema = {"type": "object", "minProperties": 1, "additionalProperties": entries}
    named_acl: JsonSchema = {"name": _TEXT, "entries": {"anyOf": [entries, of_vendors]}}
    result: JsonSchema = {
        "vlan": {"type": ["string", "null"], "minLength": 1},
        "acl": _TEXT,
        "downloadable_acl": {"anyOf": [entries, _object(named_acl, required=("entries",))]},
        "role": _TEXT,
        "session_timeout": {
            "type": "integer",
            "minimum": SESSION_SECONDS_RANGE[0],
            "maximum": SESSION_SECONDS_RANGE[1],
        },
        "reauthenticate": {"type": "boolean"},
        "psk": {"const": "endpoint"},
        **dict.fromkeys(POOL_KEYS, _POOL),
        "reply": _array({"$ref": "#/$defs/reply"}, most=100),
    }
    admitted: JsonSchema = {**result, "profile": {"type": "string", "pattern": f"^{_NAME}$"}}
    empty: JsonSchema = {"vlan": {"const": None}, "reply": _array({}, most=0)}
    return {
        "reply": reply,
        "profile": _object(result),
        "outcome": {
            "type": "object",
            "oneOf": [
                _object({"verdict": {"enum": ["permit", "quarantine"]}, **admitted}, required=["verdict"]),
                _object({"verdict": {"const": "deny"}, **empty}, required=["verdict"]),
            ],
        },
    }


def _test() -> JsonSchema:
    scalar: JsonSchema = {"type": ["string", "integer", "boolean"]}
    request: JsonSchema = {"type": "object", "additionalProperties": {"anyOf": [scalar, _array(scalar)]}}
    expect = {
        **_object(
            {
                "verdict": {"enum": ["permit", "deny", "quarantine"]},
                "rule": {"type": "string"},
                "reason": {"type": "string"},
                "vlan": {"type": "string"},
                "monitored": {"type": "boolean"},
                "reply": _array({}),
            }
        ),
        "minProperties": 1,
    }
    return _object(
        {
            "name": {"type": "string", "minLength": 1},
            "request": request,
            "at": {"type": "string", "format": "date-time"},
            "site": {"type": "string"},
            "expect": expect,
        },
        required=["name", "request", "expect"],
    )

"""A second, slow implementation of policies, based only on docs/reference/policy.md.

It shares the list of attributes with the engine, and no code for closures, fusion or precomputation.
"""

import ipaddress
import re
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from nac.engine.attributes import find_attribute

DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def first_rule(document, attributes, *, at=0, zone="UTC"):
    """The id of the rule that decides, "" for the fallback."""
    for rule in [*document.get("pinned_denies", []), *document.get("rules", [])]:
        if holds(rule["when"], attributes, at=at, zone=zone, named=document.get("conditions", {})):
            return rule["id"]
    return ""


def holds(condition, attributes, *, at=0, zone="UTC", named=None):
    def inner(part):
        return holds(part, attributes, at=at, zone=zone, named=named)

    if "all" in condition:
        return all(inner(part) for part in condition["all"])
    if "any" in condition:
        return any(inner(part) for part in condition["any"])
    if "not" in condition:
        return not inner(condition["not"])
    if "condition" in condition:
        return inner(named[condition["condition"]])
    name = condition["attribute"]
    if name == "time":
        return in_window(condition["value"], at, zone)
    seen = [value for value in seen_values(name, attributes) if type(value) in (str, int, bool)]
    return any(compare(condition, value) for value in seen)


def seen_values(name, attributes):
    whole = attributes.get("identity", ())
    if name == "identity.realm":
        return [realm for value in whole if "@" in value and (realm := value.split("@")[-1])]
    if name == "identity.user":
        return [user for value in whole if (user := value.rsplit("@", 1)[0])]
    return attributes.get(name, ())


def compare(condition, value):
    attribute, operator = find_attribute(condition["attribute"]), condition["operator"]
    if operator == "exists":
        return True
    expected = condition["value"]
    if operator in ("equals", "one_of"):
        members = expected if operator == "one_of" else [expected]
        return any(same(attribute, condition, value, member) for member in members)
    if operator in ("greater_than", "less_than", "at_least", "at_most", "between"):
        number = as_number(value)
        if number is None or attribute.kind not in ("number", "open"):
            return False
        if operator == "between":
            return expected[0] <= number <= expected[1]
        return {
            "greater_than": number > expected,
            "less_than": number < expected,
            "at_least": number >= expected,
            "at_most": number <= expected,
        }[operator]
    text = as_text(attribute, value)
    if text is None:
        return False
    members = expected if isinstance(expected, list) else [expected]
    if operator == "in_domain":
        return any(in_domain(text, member) for member in members)
    if operator == "in_network":
        return any(in_network(text, member) for member in members)
    blind = attribute.folded or condition.get("ignore_case", False)
    if operator == "matches":
        return re.search(expected, text, re.IGNORECASE if blind else 0) is not None
    if attribute.kind == "mac":
        expected = re.sub("[^0-9a-fA-F]", "", expected)
    if blind:
        text, expected = text.casefold(), expected.casefold()
    if operator == "starts_with":
        return text[: len(expected)] == expected
    if operator == "ends_with":
        return text[len(text) - len(expected) :] == expected if len(text) >= len(expected) else False
    assert operator == "contains"
    return expected in text


def same(attribute, condition, value, expected):
    if attribute.kind == "boolean":
        return value is expected
    if attribute.kind == "number" or (attribute.kind == "open" and type(expected) is int):
        return as_number(value) == expected
    text = as_text(attribute, value)
    if text is None:
        return False
    if type(expected) is bool:
        expected = "true" if expected else "false"
    if attribute.kind == "mac":
        expected = re.sub("[^0-9a-fA-F]", "", expected)
    if attribute.kind == "address":
        expected = str(ipaddress.ip_address(expected))
    if attribute.folded or condition.get("ignore_case", False):
        return text.casefold() == expected.casefold()
    return text == expected


def as_text(attribute, value):
    if type(value) is str:
        return value
    if attribute.kind != "open":
        return None
    if type(value) is bool:
        return "true" if value else "false"
    return str(value) if abs(value) < 2**64 else None


def as_number(value):
    if type(value) is str and re.fullmatch("-?[0-9]{1,20}", value):
        value = int(value)
    return value if type(value) is int and abs(value) < 2**64 else None


def in_domain(text, domain):
    labels = text.split("@")[-1].lower().removesuffix(".").split(".")
    expected = domain.lower().removesuffix(".").split(".")
    return labels[-len(expected) :] == expected


def in_network(text, network):
    try:
        there = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    if there.version == 6 and there.prefixlen == 128 and there.network_address.ipv4_mapped:
        there = ipaddress.ip_network(there.network_address.ipv4_mapped)
    expected = ipaddress.ip_network(network)
    return there.version == expected.version and there.subnet_of(expected)


def in_window(window, at, zone):
    """Compare with today's and yesterday's window as naive dates and times."""
    local = datetime.fromtimestamp(at, ZoneInfo(zone)).replace(tzinfo=None)
    begins = time.fromisoformat(window.get("from", "00:00"))
    ends = window.get("to", "24:00")
    days, dates = window.get("days", DAYS), window.get("dates", {})
    for day in (local.date(), local.date() - timedelta(days=1)):
        start = datetime.combine(day, begins)
        if ends == "24:00":
            end = datetime.combine(day + timedelta(days=1), time())
        else:
            end = datetime.combine(day, time.fromisoformat(ends))
            if end < start:
                end += timedelta(days=1)
        if not start <= local < end or DAYS[day.weekday()] not in days:
            continue
        first = date.fromisoformat(dates.get("from", "0001-01-01"))
        last = date.fromisoformat(dates.get("to", "9999-12-31"))
        if first <= day <= last:
            return True
    return False

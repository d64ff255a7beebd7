"""Random policies and requests.

Values come from small pools of neighbours, so that near misses are frequent. Strategies are built once, because
building a strategy takes longer than drawing from it.
"""

from functools import cache

from hypothesis import strategies as st

from nac.engine.attributes import find_attribute
from nac.engine.operators import list_operators, takes_ignore_case
from tests.engine.builders import DENY, PERMIT, compare, rule

TEXTS = (
    *(
        "corp",
        "Corp",
        "corp2",
        "a.corp.example",
        "corp.example",
        "evilcorp.example",
        "A.CORP.Example.",
        "anna@corp.example",
    ),
    *("true", "false", "5", "05", "-5", "12", "straße", "STRASSE", "10.0.0.1", "10.1.0.0/16", "::ffff:10.0.0.1", "x"),
)
MACS = ("001b21aabbcc", "001B21AABBCD", "aa001b21bbcc")
ADDRESSES = ("10.0.0.1", "10.0.1.255", "10.1.0.0", "192.0.2.1", "2001:db8::1", "2001:db9::1")
NETWORKS = ("10.0.0.0/24", "10.0.0.0/8", "10.0.0.1", "0.0.0.0/0", "2001:db8::/32", "::/0", "192.0.2.0/31")
DOMAINS = ("corp.example", "example", "a.corp.example", "Corp.Example.", "lab.example")
PATTERNS = ("^corp", "corp$", "^[0-9]+$", "c.rp", "(a|x)", "x|^corp2$", "corp|x", "^$", "example$")
NUMBERS = st.sampled_from((-5, 0, 4, 5, 6, 12, 2**64 - 1))
TIMES = ("00:00", "02:30", "08:00", "18:00", "23:59")
DATES = ("2026-03-28", "2026-03-29", "2026-10-25", "2026-12-31")
ZONES = st.sampled_from(("UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Asia/Kathmandu"))
# Times around the 2026 daylight saving changes in Berlin, and any time within forty years.
MOMENTS = (
    st.integers(1774742400 - 90_000, 1774742400 + 90_000)
    | st.integers(1792886400 - 90_000, 1792886400 + 90_000)
    | st.integers(0, 2_500_000_000)
)

NAMES_COMPARED = (
    *("ssid", "user.name", "identity.realm", "identity.user", "endpoint.group", "certificate.san.dns"),
    *("radius.Foo", "mdm.foo", "posture.foo", "endpoint.attribute.foo", "certificate.age_days", "session.count.user"),
    *("mac", "nas.address", "tls.resumed", "time"),
)
_PARTS = ("c", "Corp", "corp", ".example", "10.0", "5", "SS")
_PARTS_OF_MACS = ("00:1b", "001B21", "bb:cc")
_names = st.sampled_from(NAMES_COMPARED)
texts = st.sampled_from(TEXTS)


_VALUES = {
    "mac": st.sampled_from(MACS),
    "address": st.sampled_from(ADDRESSES),
    "boolean": st.booleans(),
    "number": NUMBERS,
}


def listed(members):
    return st.lists(members, min_size=1, max_size=3)


_DAYS = listed(st.sampled_from(("mon", "tue", "wed", "thu", "fri", "sat", "sun")))
_STARTS, _ENDS, _DATES = st.sampled_from(TIMES), st.sampled_from((*TIMES, "24:00")), st.sampled_from(DATES)
_BOUNDS = st.sampled_from((("from", "to"), ("from",), ("to",)))


@st.composite
def windows(draw):
    window = {}
    if draw(st.booleans()):
        window["days"] = draw(_DAYS)
    start, end = draw(_STARTS), draw(_ENDS)
    if start != end and draw(st.booleans()):
        window |= {"from": start, "to": end}
    if not window or draw(st.booleans()):
        first, last = sorted((draw(_DATES), draw(_DATES)))
        days = {"from": first, "to": last}
        window["dates"] = {bound: days[bound] for bound in draw(_BOUNDS)}
    return window


@cache
def values(operator, whole, part):
    match operator:
        case "one_of":
            return listed(whole)
        case "equals":
            return whole
        case "in_domain":
            return st.sampled_from(DOMAINS) | listed(st.sampled_from(DOMAINS))
        case "in_network":
            return st.sampled_from(NETWORKS) | listed(st.sampled_from(NETWORKS))
        case "matches":
            return st.sampled_from(PATTERNS)
        case "between":
            return st.tuples(NUMBERS, NUMBERS).map(sorted)
        case "greater_than" | "less_than" | "at_least" | "at_most":
            return NUMBERS
        case "within":
            return windows()
    return part


# Values of any kind of attribute. The members of a list have one kind and are no booleans.
_BOOLEANS = st.booleans()
_OPEN_LISTED, _OPEN = st.sampled_from((texts, NUMBERS)), st.sampled_from((texts, NUMBERS, _BOOLEANS))
_PART, _PART_OF_MAC = st.sampled_from(_PARTS), st.sampled_from(_PARTS_OF_MACS)
_operators = cache(lambda attribute: st.sampled_from(list_operators(attribute)))


@st.composite
def comparisons(draw, names=_names):
    attribute = find_attribute(draw(names))
    operator = draw(_operators(attribute))
    if operator == "exists":
        return compare(attribute.name, operator)
    whole = _VALUES.get(attribute.kind, texts)
    if attribute.kind == "open":
        whole = draw(_OPEN_LISTED if operator == "one_of" else _OPEN)
    part = _PART_OF_MAC if attribute.kind == "mac" else _PART
    condition = compare(attribute.name, operator, draw(values(operator, whole, part)))
    if takes_ignore_case(attribute, operator) and draw(_BOOLEANS):
        condition["ignore_case"] = True
    return condition


def nested(leaves, levels=2):
    """Conditions with a maximum depth of all, any and not."""
    for _ in range(levels):
        leaves = leaves | st.tuples(_JOINTS, st.lists(leaves, min_size=1, max_size=3)).map(_joined)
    return leaves


_JOINTS = st.sampled_from(("all", "any", "not"))


def _joined(drawn):
    joint, parts = drawn
    return {joint: parts[0] if joint == "not" else parts}


_NAMES = ("one", "two", "three")
_VERDICTS = st.sampled_from((PERMIT, DENY))
_NUMBER_OF_NAMES = st.integers(0, len(_NAMES))


@st.composite
def policies(draw):
    """Policies with named conditions. Each condition may refer to earlier conditions."""
    count = draw(_NUMBER_OF_NAMES)
    named = {name: draw(_condition(number, levels=1)) for number, name in enumerate(_NAMES[:count])}
    rules = [rule(f"r{number}", when, draw(_VERDICTS)) for number, when in enumerate(draw(_whens(count)))]
    return {"conditions": named, "rules": rules, "fallback": draw(_VERDICTS)}


@cache
def _condition(known, levels=2):
    """A condition that may refer to the first `known` of the names."""
    references = [{"condition": name} for name in _NAMES[:known]]
    return nested(comparisons() | st.sampled_from(references) if references else comparisons(), levels)


@cache
def _whens(known):
    return st.lists(_condition(known), min_size=1, max_size=5)


def _some(members, most):
    return st.lists(members, max_size=most).map(tuple)


# One value for a single-valued attribute, as `read_request` and the module ensure.
requests = st.fixed_dictionaries(
    {},
    optional={
        "ssid": _some(texts, 1),
        "user.name": _some(texts, 1),
        "identity": _some(texts | st.sampled_from(("@", "a@", "@b", "x@y@Corp.example", "host/pc.corp.example")), 1),
        "endpoint.group": _some(texts, 3),
        "certificate.san.dns": _some(texts, 3),
        "radius.Foo": _some(texts, 3),
        "mdm.foo": _some(texts | NUMBERS | st.booleans(), 1),
        "posture.foo": _some(texts | NUMBERS | st.booleans(), 1),
        "endpoint.attribute.foo": _some(texts, 1),
        "certificate.age_days": _some(NUMBERS, 1),
        "session.count.user": _some(NUMBERS, 1),
        "mac": _some(st.sampled_from(MACS), 1),
        "nas.address": _some(st.sampled_from((*ADDRESSES, "none")), 1),
        "tls.resumed": _some(st.booleans(), 1),
    },
)

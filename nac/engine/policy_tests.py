"""Policy tests: requests in a policy and their expected results."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from nac.engine.decision import PolicyRequest
from nac.engine.mistakes import MistakeReport, RequestErrors, at_index, at_key
from nac.engine.outcome import Verdict
from nac.engine.requests import parse_request
from nac.engine.vendors import ReplyAttribute

MAX_TESTS = 500
_MAX_NAME = 200
_MAX_TEXT = 253
_KEYS = ("name", "request", "at", "site", "expect")
_EXPECTATION_KEYS = ("verdict", "rule", "reason", "vlan", "monitored", "reply")
_REPLY_KEYS = ("attribute", "operator", "value", "tag")
# A test without a time uses a Monday at noon UTC, so that its result never changes.
DEFAULT_TEST_TIME = int(datetime(2024, 1, 1, 12, tzinfo=UTC).timestamp())
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9998, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected parts of the decision. A part that is None is not checked."""

    verdict: Verdict | None = None
    # Id of the deciding rule; "" if no rule may decide.
    rule: str | None = None
    reason: str | None = None
    # "" if the decision must have no VLAN.
    vlan: str | None = None
    # Whether monitor mode must apply, so that the verdict is only logged.
    monitored: bool | None = None
    # Attributes that the reply must contain. The operator "" matches any operator.
    reply: tuple[ReplyAttribute, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyTest:
    place: str
    name: str
    request: PolicyRequest
    # Slug of the site whose time zone and fallback apply; "" for UTC and the policy's own fallback.
    site: str
    expect: Expectation


def parse_moment(text: object) -> int:
    """Return the epoch seconds of a time such as "2026-01-05T09:00:00Z" (RFC 3339).

    Raises ValueError with a message for the author of the policy.
    """
    try:
        moment = datetime.fromisoformat(text if isinstance(text, str) else "")
    except ValueError:
        raise ValueError('must be a time such as "2026-01-05T09:00:00Z" (RFC 3339)') from None
    if moment.tzinfo is None:
        raise ValueError('must have a UTC offset, such as "Z" or "+01:00" at the end')
    if not _EARLIEST <= moment < _LATEST:
        raise ValueError("must be between 1970 and 9997")
    return int(moment.timestamp())


def parse_tests(document: Mapping[str, object], report: MistakeReport) -> tuple[PolicyTest, ...]:
    """Return the tests of a policy document; add mistakes to `report`."""
    entries = document.get("tests", [])
    if not isinstance(entries, list):
        report.add("tests", "must be a list")
        return ()
    if len(entries) > MAX_TESTS:
        report.add("tests", f"too many tests: {len(entries)}; the limit is {MAX_TESTS}")
        return ()
    parser = _TestParser(report, _rule_ids(document))
    parsed = [parser.parse(entry, at_index("tests", index)) for index, entry in enumerate(entries)]
    return tuple(test for test in parsed if test is not None)


def _rule_ids(document: Mapping[str, object]) -> frozenset[str]:
    """Return the ids of all rules, including invalid rules."""
    sections = [document.get(name) for name in ("pinned_denies", "rules")]
    rules = [rule for section in sections if isinstance(section, list) for rule in section if isinstance(rule, dict)]
    return frozenset(rule["id"] for rule in rules if isinstance(rule.get("id"), str))


class _TestParser:
    def __init__(self, report: MistakeReport, rules: frozenset[str]) -> None:
        self._report = report
        self._rules = rules
        self._names: dict[str, str] = {}

    def parse(self, document: object, place: str) -> PolicyTest | None:
        report = self._report
        if not isinstance(document, dict):
            report.add(place, "must be an object with name, request and expect")
            return None
        self._refuse_other_keys(document, _KEYS, place, "a test")
        missing = [key for key in ("name", "request", "expect") if key not in document]
        if missing:
            report.add(place, f"lacks {', '.join(missing)}")
        name = self._name(document["name"], at_key(place, "name")) if "name" in document else ""
        request = self._request(document, place)
        site = document.get("site", "")
        if "site" in document and (not isinstance(site, str) or not site):
            report.add(at_key(place, "site"), "must be the slug of a site, in quotes")
            site = ""
        expect = self._expectation(document["expect"], at_key(place, "expect")) if "expect" in document else None
        if request is None or expect is None:
            return None
        return PolicyTest(place, name, request, str(site), expect)

    def _name(self, value: object, place: str) -> str:
        if not isinstance(value, str) or not value.strip() or len(value) > _MAX_NAME:
            self._report.add(place, f"must be text of 1 to {_MAX_NAME} characters")
            return ""
        if value in self._names:
            self._report.add(place, f"the name {value!r} is already used by {self._names[value]}")
        self._names.setdefault(value, place.removesuffix(".name"))
        return value

    def _request(self, document: dict[str, object], place: str) -> PolicyRequest | None:
        at = DEFAULT_TEST_TIME
        if "at" in document:
            try:
                at = parse_moment(document["at"])
            except ValueError as error:
                self._report.add(at_key(place, "at"), str(error))
        if "request" not in document:
            return None
        try:
            return parse_request(document["request"], at=at)
        except RequestErrors as errors:
            for mistake in errors.mistakes:
                where = at_key(place, "request")
                self._report.add(f"{where}[{mistake.place!r}]" if mistake.place else where, mistake.message)
            return None

    def _expectation(self, document: object, place: str) -> Expectation | None:
        report = self._report
        if not isinstance(document, dict) or not document.keys() & set(_EXPECTATION_KEYS):
            report.add(place, f"must be an object with at least one of {', '.join(_EXPECTATION_KEYS)}")
            return None
        self._refuse_other_keys(document, _EXPECTATION_KEYS, place, "an expectation")
        verdict = document.get("verdict")
        if "verdict" in document and verdict not in get_args(Verdict):
            report.add(at_key(place, "verdict"), f"must be one of: {', '.join(get_args(Verdict))}")
        texts = {key: self._text(document, key, place) for key in ("rule", "reason", "vlan")}
        rule = texts["rule"]
        if rule and rule not in self._rules:
            report.add(at_key(place, "rule"), f'unknown rule {rule!r}; use "" for no rule')
        monitored = document.get("monitored")
        if "monitored" in document and not isinstance(monitored, bool):
            report.add(at_key(place, "monitored"), "must be true or false, without quotes")
        reply = self._reply(document.get("reply", []), at_key(place, "reply"))
        return Expectation(verdict, rule, texts["reason"], texts["vlan"], monitored, reply)

    def _text(self, document: dict[str, object], key: str, place: str) -> str | None:
        if key not in document:
            return None
        value = document[key]
        if not isinstance(value, str) or len(value) > _MAX_TEXT:
            self._report.add(at_key(place, key), f"must be text of up to {_MAX_TEXT} characters, in quotes")
            return None
        return value

    def _reply(self, document: object, place: str) -> tuple[ReplyAttribute, ...]:
        if not isinstance(document, list):
            self._report.add(place, "must be a list of attributes, like a rule's reply")
            return ()
        parsed = [self._reply_item(entry, at_index(place, index)) for index, entry in enumerate(document)]
        return tuple(item for item in parsed if item is not None)

    def _reply_item(self, document: object, place: str) -> ReplyAttribute | None:
        if not isinstance(document, dict):
            self._report.add(place, 'must be an object: {"attribute": ..., "value": ...}')
            return None
        self._refuse_other_keys(document, _REPLY_KEYS, place, "a reply attribute")
        name, value, tag = document.get("attribute"), document.get("value"), document.get("tag")
        operator = document.get("operator", "")
        if not isinstance(name, str) or not name or not isinstance(value, str) or not value:
            self._report.add(place, "must have attribute and value, both text in quotes")
            return None
        if "operator" in document and operator not in (":=", "+="):
            self._report.add(at_key(place, "operator"), 'must be ":=" or "+="')
            return None
        if tag is not None and (not isinstance(tag, int) or isinstance(tag, bool) or not 0 <= tag <= 31):
            self._report.add(at_key(place, "tag"), "must be a number from 0 to 31 (RFC 2868 3)")
            return None
        return ReplyAttribute(name, operator, value, tag)

    def _refuse_other_keys(self, document: dict[str, object], allowed: tuple[str, ...], place: str, what: str) -> None:
        for key in document:
            if key not in allowed:
                self._report.add(at_key(place, key), f"unknown key; keys of {what}: {', '.join(allowed)}")

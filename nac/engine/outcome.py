"""What a rule or a fallback says: a verdict and, unless it denies, results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from nac.engine.mistakes import Report, at_key
from nac.engine.rendering import RenderingCheck, ReplyDictionary
from nac.engine.results import RESULT_KEYS, Given, make_results, parse_results
from nac.vendors import Results

Verdict = Literal["permit", "deny", "quarantine"]

MAX_PROFILES = 200
# The profile with which a quarantine admits that names none.
QUARANTINE = "quarantine"
_KEYS = ("verdict", "profile", *RESULT_KEYS)
_MAX_NAME = 64
_NOTHING = Results()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The zero value denies."""

    verdict: Verdict = "deny"
    results: Results = _NOTHING


class OutcomeParser:
    """Reads the outcomes of one document, and the profiles that they share."""

    def __init__(self, report: Report, replies: ReplyDictionary | None) -> None:
        self._report = report
        self._check = RenderingCheck(report, replies)
        self._profiles: dict[str, Given] = {}

    def read_profiles(self, document: object) -> None:
        """The key `profiles` of a policy."""
        if not isinstance(document, dict):
            self._report.add("profiles", "must be an object: the name of each profile and its results")
            return
        if len(document) > MAX_PROFILES:
            self._report.add("profiles", f"{len(document)} profiles; a policy has at most {MAX_PROFILES}")
        for name, results in document.items():
            place = at_key("profiles", name)
            if not name.strip() or name != name.strip() or not name.isprintable() or len(name) > _MAX_NAME:
                self._report.add(place, f"a profile's name has 1 to {_MAX_NAME} printable characters")
            # Known all the same, so that rules that name it are not reported as well.
            self._profiles[name] = self._profile(results, place)

    def _profile(self, document: object, place: str) -> Given:
        if not isinstance(document, dict):
            self._report.add(place, f"must be an object with any of: {', '.join(RESULT_KEYS)}")
            return {}
        for key in document:
            if key not in RESULT_KEYS:
                self._report.add(at_key(place, key), f"unknown key; a profile has: {', '.join(RESULT_KEYS)}")
        given = parse_results(document, place, self._report)
        self._check.check(Results(**given), place)
        return given

    def parse(self, document: object, place: str, *, of_site: bool = False) -> Outcome:
        """The outcome; a deny where `document` has mistakes, which are in the report then.

        `of_site`: a site's own fallback, which holds with whatever policy decides there and so names no profile.
        """
        report = self._report
        if not isinstance(document, dict):
            report.add(place, 'must be an object: {"verdict": "permit", "quarantine" or "deny", ...}')
            return Outcome()
        for key in document:
            if key not in _KEYS:
                report.add(at_key(place, key), f"unknown key; an outcome has: {', '.join(_KEYS)}")
        verdict = document.get("verdict")
        if verdict not in ("permit", "deny", "quarantine"):
            report.add(at_key(place, "verdict"), 'must be "permit", "quarantine" or "deny"')
            return Outcome()
        if verdict == "deny":
            for key in _KEYS[1:]:
                if document.get(key):
                    report.add(at_key(place, key), "a deny answers nothing but the reject; remove it")
            return Outcome()
        given = self._named(document, place, verdict, of_site=of_site) | parse_results(document, place, report)
        results = make_results(given, place, report)
        self._check.check(results, place)
        return Outcome(verdict, results)

    def _named(self, document: Mapping[str, object], place: str, verdict: str, *, of_site: bool) -> Given:
        """What the profile gives that the outcome names."""
        name, where = document.get("profile"), at_key(place, "profile")
        if of_site:
            if name is not None:
                self._report.add(where, "a site's fallback goes with any policy and names no profile; write its keys")
            elif verdict == "quarantine" and not any(document.get(key) for key in RESULT_KEYS):
                self._report.add(place, "a quarantine must say how: give it a vlan, an acl or a role")
            return {}
        if name is None and verdict == "permit":
            return {}
        if name is None:
            name = QUARANTINE
            if name not in self._profiles:
                why = f'a quarantine admits with the profile "{QUARANTINE}", which is missing; make it or name another'
                self._report.add(place, why)
                return {}
        if not isinstance(name, str) or name not in self._profiles:
            known = ", ".join(sorted(self._profiles)[:12])
            self._report.add(where, f"must be the name of a profile of this policy{': ' + known if known else ''}")
            return {}
        return self._profiles[name]

"""Outcomes of rules and fallbacks: a verdict and, except for deny, results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from nac.engine.mistakes import MistakeReport, at_key
from nac.engine.reply_check import ReplyCheck, ReplyDictionary
from nac.engine.results import RESULT_KEYS, ParsedResults, build_results, parse_results
from nac.engine.vendors import Results

Verdict = Literal["permit", "deny", "quarantine"]

MAX_PROFILES = 200
# Reply profile that an outcome with the verdict `quarantine` uses by default.
QUARANTINE_PROFILE = "quarantine"
_KEYS = ("verdict", "profile", *RESULT_KEYS)
_MAX_NAME = 64
_NO_RESULTS = Results()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict and its results. An `Outcome` with default values is a deny."""

    verdict: Verdict = "deny"
    results: Results = _NO_RESULTS


class OutcomeParser:
    """Parses the outcomes of one document and its profiles."""

    def __init__(self, report: MistakeReport, replies: ReplyDictionary | None) -> None:
        self._report = report
        self._check = ReplyCheck(report, replies)
        self._profiles: dict[str, ParsedResults] = {}

    def read_profiles(self, document: object) -> None:
        if not isinstance(document, dict):
            self._report.add("profiles", "must be an object with names as keys and results as values")
            return
        if len(document) > MAX_PROFILES:
            self._report.add("profiles", f"too many profiles: {len(document)}; the limit is {MAX_PROFILES}")
        for name, results in document.items():
            place = at_key("profiles", name)
            if not name.strip() or name != name.strip() or not name.isprintable() or len(name) > _MAX_NAME:
                self._report.add(place, f"the name must have 1 to {_MAX_NAME} printable characters")
            # Store the profile despite mistakes, so that rules that use it are not reported, too.
            self._profiles[name] = self._profile(results, place)

    def _profile(self, document: object, place: str) -> ParsedResults:
        if not isinstance(document, dict):
            self._report.add(place, f"must be an object with any of: {', '.join(RESULT_KEYS)}")
            return {}
        for key in document:
            if key not in RESULT_KEYS:
                self._report.add(at_key(place, key), f"unknown key; keys of a profile: {', '.join(RESULT_KEYS)}")
        results = parse_results(document, place, self._report)
        self._check.check(Results(**results), place)
        return results

    def parse(self, document: object, place: str, *, of_site: bool = False) -> Outcome:
        """Return the outcome; a deny if `document` has mistakes, which are in the report.

        `of_site` means that the document is a site's own fallback. A site's own fallback applies with any policy, so
        the document cannot use a profile.
        """
        report = self._report
        if not isinstance(document, dict):
            report.add(place, 'must be an object: {"verdict": "permit", "quarantine" or "deny", ...}')
            return Outcome()
        for key in document:
            if key not in _KEYS:
                report.add(at_key(place, key), f"unknown key; keys of an outcome: {', '.join(_KEYS)}")
        verdict = document.get("verdict")
        if verdict not in ("permit", "deny", "quarantine"):
            report.add(at_key(place, "verdict"), 'must be "permit", "quarantine" or "deny"')
            return Outcome()
        if verdict == "deny":
            for key in _KEYS[1:]:
                if document.get(key):
                    report.add(at_key(place, key), "a deny has no results; remove this key")
            return Outcome()
        parsed = self._profile_results(document, place, verdict, of_site=of_site)
        parsed |= parse_results(document, place, report)
        results = build_results(parsed, place, report)
        self._check.check(results, place)
        return Outcome(verdict, results)

    def _profile_results(
        self, document: Mapping[str, object], place: str, verdict: str, *, of_site: bool
    ) -> ParsedResults:
        name, where = document.get("profile"), at_key(place, "profile")
        if of_site:
            if name is not None:
                self._report.add(
                    where, "a site's fallback applies with any policy and has no profile; write the results here"
                )
            elif verdict == "quarantine" and not any(document.get(key) for key in RESULT_KEYS):
                self._report.add(place, "a quarantine must have a vlan, an acl or a role")
            return {}
        if name is None and verdict == "permit":
            return {}
        if name is None:
            name = QUARANTINE_PROFILE
            if name not in self._profiles:
                why = f'a quarantine uses the profile "{QUARANTINE_PROFILE}" by default; create it or use another'
                self._report.add(place, why)
                return {}
        if not isinstance(name, str) or name not in self._profiles:
            known = ", ".join(sorted(self._profiles)[:12])
            self._report.add(where, f"must be the name of a profile of this policy{': ' + known if known else ''}")
            return {}
        return self._profiles[name]

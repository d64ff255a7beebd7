"""Derives the device profile from evidence, by the clues in `profiles/*.toml`, with a confidence and reasons.

A clue is a word in a field of the evidence, such as the DHCP host name. If only one clue of a profile matches, the
confidence is the clue's `weight` in percent. For each field, only the matching clue with the highest weight counts.
Clues of different fields combine as independent probabilities: the doubts (100 % minus weight) are multiplied. Half the
confidence of the second-best profile is additional doubt about the best profile. Users can compute each confidence from
the reasons that Admit stores.
"""

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from nac.inventory.profiling.evidence import EVIDENCE_KEYS, Evidence
from nac.kit.mac import is_random_mac

# Only a profile that a person set has the confidence 100.
MAX_CONFIDENCE = 99
# With a lower confidence, the device gets no profile.
MIN_CONFIDENCE = 20
_FIELDS = frozenset(("vendor", "random", *(f"{source}.{key}" for source, key in EVIDENCE_KEYS)))
_TESTS = ("equals", "starts_with", "ends_with", "contains")


class Clue(NamedTuple):
    profile: str
    field: str
    test: str
    # Case-folded texts. The value of the evidence must match one of these texts.
    words: tuple[str, ...]
    weight: int
    os: str
    # Whether the matching value of the evidence is the model name of the device.
    model: bool

    def holds(self, folded: str) -> bool:
        match self.test:
            case "equals":
                return folded in self.words
            case "starts_with":
                return folded.startswith(self.words)
            case "ends_with":
                return folded.endswith(self.words)
            case _:
                return any(word in folded for word in self.words)


class ProfileReason(NamedTuple):
    profile: str
    field: str
    value: str
    weight: int


class ProfileFinding(NamedTuple):
    """Result of a classification. `profile` is "" and `confidence` is 0 if no profile reaches MIN_CONFIDENCE.

    `why` also includes the matching clues of other profiles.
    """

    profile: str = ""
    confidence: int = 0
    os: str = ""
    model: str = ""
    why: tuple[ProfileReason, ...] = ()


class ProfileCatalogue(NamedTuple):
    # Titles by profile name.
    titles: Mapping[str, str]
    clues: Mapping[str, tuple[Clue, ...]]

    def classify(self, *, mac: str, vendor: str, evidence: Iterable[Evidence]) -> ProfileFinding:
        """Derive the profile of a device. `mac` has 12 hex digits. Never raises an error."""
        facts = [("vendor", vendor), ("random", "true" if is_random_mac(mac) else "")]
        facts += [(f"{each.source}.{each.key}", each.value) for each in evidence]
        # For each profile and field, the matching clue with the highest weight, and the value that matched.
        held: defaultdict[str, dict[str, tuple[Clue, str]]] = defaultdict(dict)
        for field, value in facts:
            folded = value.casefold()
            for clue in self.clues.get(field, ()) if value else ():
                known = held[clue.profile].get(field) if clue.profile in held else None
                if clue.holds(folded) and (known is None or known[0].weight < clue.weight):
                    held[clue.profile][field] = clue, value
        return _rank_profiles(held)


def _rank_profiles(held: Mapping[str, Mapping[str, tuple[Clue, str]]]) -> ProfileFinding:
    if not held:
        return ProfileFinding()
    sure = {profile: _combine_weights(clue.weight for clue, _ in clues.values()) for profile, clues in held.items()}
    ranked = sorted(sure, key=lambda profile: (-sure[profile], profile))
    best = ranked[0]
    against = sure[ranked[1]] / 2 if len(ranked) > 1 else 0
    confidence = round(100 * min(MAX_CONFIDENCE / 100, sure[best] * (1 - against)))
    own = sorted(held[best].values(), key=lambda each: (-each[0].weight, each[0].field))
    why = tuple(
        ProfileReason(profile, clue.field, value, clue.weight)
        for profile in ranked
        for clue, value in sorted(held[profile].values(), key=lambda each: (-each[0].weight, each[0].field))
    )
    if confidence < MIN_CONFIDENCE:
        return ProfileFinding(why=why)
    os = next((clue.os for clue, _ in own if clue.os), "")
    model = next((value for clue, value in own if clue.model), "")
    return ProfileFinding(best, confidence, os, model, why)


def _combine_weights(weights: Iterable[int]) -> float:
    doubt = 1.0
    for weight in weights:
        doubt *= 1 - weight / 100
    return 1 - doubt


@cache
def load_packaged_profiles() -> ProfileCatalogue:
    """Return the profiles of this version of Admit. Raises ValueError with the file name if a file has a mistake."""
    titles = {}
    clues: defaultdict[str, list[Clue]] = defaultdict(list)
    for file in sorted(files("nac.inventory.profiling").joinpath("profiles").iterdir(), key=lambda entry: entry.name):
        profile = file.name.removesuffix(".toml")
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        titles[profile] = str(document["title"])
        for number, entry in enumerate(document["clue"]):
            clue = _parse_clue(profile, entry, place=f"{file.name}: clue {number + 1}")
            clues[clue.field].append(clue)
    return ProfileCatalogue(titles, {field: tuple(found) for field, found in clues.items()})


def _parse_clue(profile: str, entry: Mapping[str, Any], *, place: str) -> Clue:
    tests = [test for test in _TESTS if test in entry]
    known = {"field", "weight", "os", "model", *_TESTS}
    if entry.keys() - known or len(tests) != 1:
        raise ValueError(
            f"{place}: needs exactly one of {', '.join(_TESTS)}, and only fields of {', '.join(sorted(known))}"
        )
    if entry["field"] not in _FIELDS:
        raise ValueError(f"{place}: unknown field {entry['field']!r}")
    if not 0 < entry["weight"] < 100:
        raise ValueError(f"{place}: the weight must be between 0 and 100 percent")
    words = tuple(str(word).casefold() for word in entry[tests[0]])
    return Clue(
        profile, entry["field"], tests[0], words, entry["weight"], entry.get("os", ""), bool(entry.get("model"))
    )

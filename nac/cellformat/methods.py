"""Authentication methods and TLS versions that a tenant can offer, by their names in policies and logs."""

from collections.abc import Sequence
from typing import NamedTuple

from nac.engine.admission import TLS_VERSIONS as TLS_VERSIONS
from nac.engine.attributes import ATTRIBUTE_CATALOGUE
from nac.kit.errors import InvalidInput

METHODS = ATTRIBUTE_CATALOGUE["method"].choices

# Admit offers these methods only if the tenant lists them, and warns about them. A fake access point can collect PEAP
# responses and test passwords offline (docs/reference/methods.md).
WEAK_METHODS = ("peap-mschapv2",)
DEFAULT_METHODS = tuple(name for name in METHODS if name not in WEAK_METHODS)
DEFAULT_TLS_VERSIONS = TLS_VERSIONS

# Names that stand for several methods.
_METHOD_FAMILIES = {"eap-ttls": ("eap-ttls-pap", "eap-ttls-mschapv2")}


class MethodOffer(NamedTuple):
    """Authentication methods and TLS versions that a tenant offers. None means that a setting does not change."""

    methods: tuple[str, ...] | None
    tls_versions: tuple[str, ...] | None


def parse_offer(*, methods: str | None, tls_versions: str | None) -> MethodOffer:
    """Parse lists such as "eap-tls,mab" and "1.2,1.3". "eap-ttls" stands for EAP-TTLS with both inner methods.

    Raises InvalidInput with all unknown words.
    """
    mistakes: list[InvalidInput] = []
    names = (
        None
        if methods is None
        else [name for word in _split_words(methods) for name in _METHOD_FAMILIES.get(word, (word,))]
    )
    offer = MethodOffer(
        _pick_known(names, METHODS, "methods", mistakes),
        _pick_known(
            None if tls_versions is None else _split_words(tls_versions), TLS_VERSIONS, "tls_versions", mistakes
        ),
    )
    if len(mistakes) > 1:
        raise InvalidInput(" ".join(map(str, mistakes)))
    if mistakes:
        raise mistakes[0]
    return offer


def _split_words(text: str) -> list[str]:
    return [word for word in (part.strip().lower() for part in text.split(",")) if word]


def _pick_known(
    asked: Sequence[str] | None, known: Sequence[str], place: str, mistakes: list[InvalidInput]
) -> tuple[str, ...] | None:
    if asked is None:
        return None
    unknown = [word for word in asked if word not in known]
    if unknown or not asked:
        noun = "value" if len(unknown) == 1 else "values"
        what = f"Unknown {noun} {', '.join(map(repr, unknown))}." if unknown else "At least one value is required."
        mistakes.append(InvalidInput(what, place=place, remedy=f"Use one or more of: {', '.join(known)}."))
    return tuple(choice for choice in known if choice in asked)

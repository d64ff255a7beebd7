"""The methods that a tenant may offer and the TLS versions in which, by the names that policies and logs use."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nac.engine.attributes import CATALOGUE
from nac.errors import InvalidInput

METHODS = CATALOGUE["method"].choices
TLS_VERSIONS = ("1.2", "1.3")

# Offered only by tenants that ask for them, with the sentence that such a tenant is told.
METHOD_RISKS = {
    "peap-mschapv2": (
        "PEAP lets whoever imitates the network try passwords offline, unless every device is set to check the "
        "server's certificate and name: most are not. Prefer EAP-TLS, or EAP-TTLS with a profile that checks them."
    ),
    "mschapv1": "MS-CHAP of version 1 does not prove the server to the device, and its DES keys are found in hours.",
}
DEFAULT_METHODS = tuple(name for name in METHODS if name not in METHOD_RISKS)
DEFAULT_TLS_VERSIONS = TLS_VERSIONS

# What a person may write for several.
_METHOD_FAMILIES = {"eap-ttls": ("eap-ttls-pap", "eap-ttls-mschapv2")}


class MethodOffer(NamedTuple):
    """What is set of a tenant; None leaves it as it is."""

    methods: tuple[str, ...] | None
    tls_versions: tuple[str, ...] | None


def parse_offer(*, methods: str | None, tls_versions: str | None) -> MethodOffer:
    """From "eap-tls,mab" and "1.2,1.3"; "eap-ttls" stands for both inner ones.

    Raises InvalidInput that names all that is unknown.
    """
    mistakes: list[InvalidInput] = []
    asked = (
        None
        if methods is None
        else [name for word in _split_words(methods) for name in _METHOD_FAMILIES.get(word, (word,))]
    )
    offer = MethodOffer(
        _pick_known(asked, METHODS, "methods", mistakes),
        _pick_known(
            None if tls_versions is None else _split_words(tls_versions), TLS_VERSIONS, "tls_versions", mistakes
        ),
    )
    if len(mistakes) > 1:
        raise InvalidInput(" ".join(map(str, mistakes)))
    if mistakes:
        raise mistakes[0]
    return offer


def list_risks(methods: Iterable[str]) -> list[str]:
    """A sentence for each method that a tenant should know the risk of."""
    return [METHOD_RISKS[method] for method in methods if method in METHOD_RISKS]


def _split_words(text: str) -> list[str]:
    return [word for word in (part.strip().lower() for part in text.split(",")) if word]


def _pick_known(
    asked: Sequence[str] | None, known: Sequence[str], place: str, mistakes: list[InvalidInput]
) -> tuple[str, ...] | None:
    if asked is None:
        return None
    unknown = [word for word in asked if word not in known]
    if unknown or not asked:
        what = f"There is no {', '.join(map(repr, unknown))}." if unknown else "At least one is needed."
        mistakes.append(InvalidInput(what, place=place, remedy=f"Choose from: {', '.join(known)}."))
    return tuple(choice for choice in known if choice in asked)

"""Matching of DNS domains by label: "evilcorp.example" is not in "corp.example"."""

import re
from collections.abc import Callable

_MAX_NAME = 253
# RFC 1035 2.3.4 limits the length of a label. Underscores occur in service names.
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)\Z")


def parse_domain(text: str) -> str:
    """Return the domain in lower case, with xn--... labels (RFC 3490), without a final dot.

    Raises ValueError with a message for the author of the policy.
    """
    if text.startswith((".", "*.")):
        raise ValueError(
            f"{text!r}: write only the domain, {text.lstrip('*.')!r}; a domain includes all names below it"
        )
    name = _to_ascii(text.removesuffix(".").casefold())
    if name is None or len(name) > _MAX_NAME or not all(map(_LABEL.match, name.split("."))):
        raise ValueError(f"{text!r} is not a DNS domain such as corp.example")
    return name


def build_domain_test(domains: frozenset[str]) -> Callable[[str], bool]:
    """Return a test whether a name is in `domains`.

    For a mail address, UPN or NAI, the test uses the part after the last @.
    """
    suffixes = tuple("." + domain for domain in sorted(domains))

    def test(text: str) -> bool:
        name = text[text.rfind("@") + 1 :].casefold().removesuffix(".")
        if not name.isascii():
            name = _to_ascii(name) or ""
        return name in domains or name.endswith(suffixes)

    return test


def build_domain_cover_test(domains: frozenset[str]) -> Callable[[str], bool]:
    """Return a test whether a domain is in `domains`, or is a subdomain of a domain in `domains`."""

    def test(domain: str) -> bool:
        labels = domain.split(".")
        return any(".".join(labels[start:]) in domains for start in range(len(labels)))

    return test


def _to_ascii(name: str) -> str | None:
    if name.isascii():
        return name
    # The codec takes quadratic time, so reject long names first.
    if len(name) > _MAX_NAME:
        return None
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return None

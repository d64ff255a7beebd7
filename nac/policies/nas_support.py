"""Checks whether the NASes of a site support the results of its policy.

If the NASes of a site do not support a result, Admit rejects the devices at these NASes.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nac.engine import DocumentMistake, Policy
from nac.engine.vendors import all_vendors, find_vendor, known_vendor, vendor_name
from nac.kit.advice import Advice

if TYPE_CHECKING:
    # Only for type checks, because the command line checks documents without the database libraries.
    from nac.models import Nas, Site

_REMEDY = "or use the result in a rule with a condition on nas.vendor"


def find_unsupported(policy: Policy, site: "Site", nases: "Iterable[Nas]") -> list[DocumentMistake]:
    """Return the results that registered NASes of the site do not support.

    Considers only rules that can match at the site.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for nas in nases:
        known = {"nas.name": (nas.name,), "nas.vendor": (vendor_name(nas.vendor),), "site.name": (site.name,)}
        for place, why in policy.refusals(known):
            of_site = site.fallback is not None and place.startswith("fallback")
            found.setdefault((f"site.{place}" if of_site else place, why), []).append(nas.name)
    return [
        DocumentMistake(place, f"{why} ({_join_names(names)} at site {site.slug}); {_REMEDY}")
        for (place, why), names in found.items()
    ]


def list_vendor_limits(policy: Policy, vendors: Iterable[str] | None = None) -> list[DocumentMistake]:
    """Return the results that vendors do not support, as notes for the author of the policy.

    The function checks all vendors, or only `vendors`.
    """
    names = all_vendors() if vendors is None else vendors
    mistakes = {mistake: None for vendor in names for mistake in policy.refusals({"nas.vendor": (vendor,)})}
    return [DocumentMistake(place, why) for place, why in mistakes]


def list_vendor_names(nases: "Iterable[Nas]") -> list[str]:
    return sorted({find_vendor(nas.vendor).name for nas in nases})


def unknown_vendor_note(vendor: str) -> str:
    """Return a note if the vendor is unknown, otherwise ""."""
    if not vendor or known_vendor(vendor) is not None:
        return ""
    return Advice(f"Unknown vendor {vendor!r}: the NAS gets standard RADIUS attributes. List vendors", "listVendors")


def _join_names(names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:3])
    return f"{shown} and {len(names) - 3} more NASes" if len(names) > 3 else shown

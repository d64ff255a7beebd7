"""Whether the NASes at a site can do what its policy answers: a device behind one that cannot is refused."""

from collections.abc import Iterable, Sequence

from nac.engine import Mistake, Policy
from nac.models import Nas, Site
from nac.vendors import all_vendors, find_vendor, known_vendor, vendor_name

_REMEDY = "or give it in a rule that asks for the nas.vendor of those that can"


def find_unsupported(policy: Policy, site: Site, nases: Iterable[Nas]) -> list[Mistake]:
    """What registered NASes of the site cannot do, by the place in the policy, of the rules that can match there."""
    found: dict[tuple[str, str], list[str]] = {}
    for nas in nases:
        known = {"nas.name": (nas.name,), "nas.vendor": (vendor_name(nas.vendor),), "site.name": (site.name,)}
        for place, why in policy.refusals(known):
            of_site = site.fallback is not None and place.startswith("fallback")
            found.setdefault((f"site.{place}" if of_site else place, why), []).append(nas.name)
    return [
        Mistake(place, f"{why} ({_join_names(names)} at site {site.slug}); {_REMEDY}")
        for (place, why), names in found.items()
    ]


def list_vendor_limits(policy: Policy, vendors: Iterable[str] | None = None) -> list[Mistake]:
    """What some vendors cannot do, to be told to whoever writes the policy: their NASes would refuse the devices.

    Of all vendors or, where given, of `vendors`.
    """
    asked = all_vendors() if vendors is None else vendors
    found = {mistake: None for vendor in asked for mistake in policy.refusals({"nas.vendor": (vendor,)})}
    return [Mistake(place, why) for place, why in found]


def list_vendor_names(nases: Iterable[Nas]) -> list[str]:
    """Names of the vendors in whose form these are answered."""
    return sorted({find_vendor(nas.vendor).name for nas in nases})


def unknown_vendor_note(vendor: str) -> str:
    """What to tell of a NAS whose vendor is none of ours; "" where there is nothing to tell."""
    if not vendor or known_vendor(vendor) is not None:
        return ""
    return f"{vendor!r} is no vendor that Admit knows, so the NAS is answered as the RFCs have it: ./admit nas vendors"


def _join_names(names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:3])
    return f"{shown} and {len(names) - 3} more NASes" if len(names) > 3 else shown

"""NAS vendors: data files (`*.toml`, format in docs/reference/vendors.md) that map results to attributes.

`find_vendor(nas.vendor).render(results)` gives the attributes, or what that vendor cannot do. Nothing here imports
more than the standard library: radiusd's module, the API and the worker share it through `nac.engine`.
"""

from nac.vendors.catalogue import DEFAULT, all_vendors, find_vendor, known_vendor, vendor_name
from nac.vendors.recipe import Recipe, Step
from nac.vendors.results import KEYS, POOL_KEYS, DownloadableAcl, Pool, ReplyAttribute, ReplyPair, Results
from nac.vendors.vendor import Refusal, Rendering, Template, Vendor

__all__ = [
    "DEFAULT",
    "KEYS",
    "POOL_KEYS",
    "DownloadableAcl",
    "Pool",
    "Recipe",
    "Refusal",
    "Rendering",
    "ReplyAttribute",
    "ReplyPair",
    "Results",
    "Step",
    "Template",
    "Vendor",
    "all_vendors",
    "find_vendor",
    "known_vendor",
    "vendor_name",
]

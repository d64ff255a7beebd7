"""NAS vendors: data files (`*.toml`, see docs/reference/vendors.md) that map results to attributes.

`find_vendor(nas.vendor).render(results)` returns the attributes, and the results that the vendor does not support. The
package imports only the standard library, because radiusd's Python module imports this package through `nac.engine`.
"""

from nac.engine.vendors.catalogue import DEFAULT_VENDOR, all_vendors, find_vendor, known_vendor, vendor_name
from nac.engine.vendors.recipes import Recipe, RecipeStep
from nac.engine.vendors.results import (
    NEUTRAL_KEYS,
    POOL_KEYS,
    DownloadableAcl,
    PoolAssignment,
    ReplyAttribute,
    ReplyPair,
    Results,
)
from nac.engine.vendors.vendor import AttributeTemplate, Rendering, Vendor, VendorRefusal

__all__ = [
    "DEFAULT_VENDOR",
    "NEUTRAL_KEYS",
    "POOL_KEYS",
    "AttributeTemplate",
    "DownloadableAcl",
    "PoolAssignment",
    "Recipe",
    "RecipeStep",
    "Rendering",
    "ReplyAttribute",
    "ReplyPair",
    "Results",
    "Vendor",
    "VendorRefusal",
    "all_vendors",
    "find_vendor",
    "known_vendor",
    "vendor_name",
]

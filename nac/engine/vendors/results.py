"""Results of a policy in a vendor-neutral form, and the RADIUS attributes of the results."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

# Attribute, operator, value in rlm_python3's format.
ReplyPair = tuple[str, str, str]

# Keys of results that apply to all vendors. Each key is a table in a vendor's file.
NEUTRAL_KEYS = ("vlan", "acl", "downloadable_acl", "role", "session_timeout", "reauthenticate", "psk")

# Key with the name of a pool -> attribute for the pool's address or prefix (RFC 2865 5.8, RFC 3162 2.3, RFC 4818 3).
POOL_KEYS = {
    "ip_pool": "Framed-IP-Address",
    "ipv6_pool": "Framed-IPv6-Prefix",
    "delegated_pool": "Delegated-IPv6-Prefix",
}
# (attribute, name of the pool)
PoolAssignment = tuple[str, str]


@lru_cache(maxsize=4_096)
def _shared_pair(name: str, operator: str, value: str) -> ReplyPair:
    """Return the tuple from the cache, because many rules reply with the same attributes."""
    return name, operator, value


@dataclass(frozen=True, slots=True)
class ReplyAttribute:
    attribute: str
    operator: str
    value: str
    tag: int | None = None

    def pair(self) -> ReplyPair:
        """Return the pair for rlm_python3. Backslashes are doubled, because radiusd reads a double-quoted string."""
        name = self.attribute if self.tag is None else f"{self.attribute}:{self.tag}"
        return _shared_pair(name, self.operator, self.value.replace("\\", "\\\\"))


@dataclass(frozen=True, slots=True)
class DownloadableAcl:
    """An ACL with entries in the syntax of the NAS. `by_vendor` (vendor name, entries) overrides `entries`."""

    name: str = ""
    entries: tuple[str, ...] = ()
    by_vendor: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def entries_for(self, vendor: str) -> tuple[str, ...]:
        return dict(self.by_vendor).get(vendor, self.entries)


@dataclass(frozen=True, slots=True)
class Results:
    """Results of an outcome. With default values, the policy adds no attributes to the Access-Accept."""

    # An id from 1 to 4094, or a name.
    vlan: str = ""
    # Name of an ACL on the NAS.
    acl: str = ""
    downloadable_acl: DownloadableAcl | None = None
    role: str = ""
    # Seconds; 0 to use the timeout of the NAS.
    session_timeout: int = 0
    # Whether the device authenticates again at the end of the session (RFC 2865 5.29), so that the session continues.
    reauthenticate: bool = False
    # "endpoint": the passphrase of the endpoint or its group.
    psk: Literal["", "endpoint"] = ""
    # Names of pools: for an address, for an IPv6 prefix of the link, and for a delegated prefix.
    ip_pool: str = ""
    ipv6_pool: str = ""
    delegated_pool: str = ""
    reply: tuple[ReplyAttribute, ...] = field(default=())

    def pools(self) -> tuple[PoolAssignment, ...]:
        """Return pairs of attribute and pool, without attributes that `reply` sets."""
        set_attributes = {item.attribute.lower() for item in self.reply}
        return tuple(
            (attribute, name)
            for key, attribute in POOL_KEYS.items()
            if (name := getattr(self, key)) and attribute.lower() not in set_attributes
        )

    def used_keys(self) -> Iterator[str]:
        """Yield the keys with values, in the order in which their attributes are sent."""
        return (key for key in NEUTRAL_KEYS if getattr(self, key))

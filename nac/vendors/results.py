"""What a policy answers, in words of no vendor, and the RADIUS attributes that it becomes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

# Attribute, operator, value as rlm_python3 takes them.
ReplyPair = tuple[str, str, str]

# The vendor-neutral keys of a result; each is a table in a vendor's file.
NEUTRAL_KEYS = ("vlan", "acl", "downloadable_acl", "role", "session_timeout", "reauthenticate", "psk")

# Keys that name pools, and the attribute that each fills (RFC 2865 5.8, RFC 3162 2.3, RFC 4818 3).
POOL_KEYS = {
    "ip_pool": "Framed-IP-Address",
    "ipv6_pool": "Framed-IPv6-Prefix",
    "delegated_pool": "Delegated-IPv6-Prefix",
}
# Attribute, name of the pool.
PoolAssignment = tuple[str, str]


@lru_cache(maxsize=4_096)
def _shared_pair(name: str, operator: str, value: str) -> ReplyPair:
    """Rules by the dozen answer with the same attributes: one tuple for all of them in a process."""
    return name, operator, value


@dataclass(frozen=True, slots=True)
class ReplyAttribute:
    attribute: str
    operator: str
    value: str
    tag: int | None = None

    def pair(self) -> ReplyPair:
        """As rlm_python3 takes it. radiusd reads a value as a double-quoted string, so backslashes are doubled."""
        name = self.attribute if self.tag is None else f"{self.attribute}:{self.tag}"
        return _shared_pair(name, self.operator, self.value.replace("\\", "\\\\"))


@dataclass(frozen=True, slots=True)
class DownloadableAcl:
    """Entries in the syntax of the NAS; those of `by_vendor` (canonical name, entries) in place of `entries`."""

    name: str = ""
    entries: tuple[str, ...] = ()
    by_vendor: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def entries_for(self, vendor: str) -> tuple[str, ...]:
        return dict(self.by_vendor).get(vendor, self.entries)


@dataclass(frozen=True, slots=True)
class Results:
    """The zero value answers a bare Access-Accept."""

    # An id from 1 to 4094, or a name.
    vlan: str = ""
    # Name of an ACL that the NAS has.
    acl: str = ""
    downloadable_acl: DownloadableAcl | None = None
    role: str = ""
    # Seconds; 0 leaves it to the NAS.
    session_timeout: int = 0
    # At the end of the session authenticate again (RFC 2865 5.29) in place of ending it.
    reauthenticate: bool = False
    # "endpoint": the passphrase stored with the endpoint or its group.
    psk: Literal["", "endpoint"] = ""
    # Names of pools: an address, an IPv6 prefix for the link, one to delegate. The same attributes for every vendor.
    ip_pool: str = ""
    ipv6_pool: str = ""
    delegated_pool: str = ""
    reply: tuple[ReplyAttribute, ...] = field(default=())

    def pools(self) -> tuple[PoolAssignment, ...]:
        """What is to be given out of pools: all but what `reply` sets itself."""
        given = {item.attribute.lower() for item in self.reply}
        return tuple(
            (attribute, name)
            for key, attribute in POOL_KEYS.items()
            if (name := getattr(self, key)) and attribute.lower() not in given
        )

    def given(self) -> Iterator[str]:
        """The keys that say something, in the order in which they become attributes."""
        return (key for key in NEUTRAL_KEYS if getattr(self, key))

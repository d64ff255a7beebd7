"""Builds keys of the replica's databases. The table in `records` lists the keys."""

import struct

from nac.cellformat.replica.records import MAX_NAME_BYTES
from nac.cellformat.replica.records import authority_key as authority_key

_SLOT = struct.Struct(">H")
pack_slot = _SLOT.pack
unpack_slot = _SLOT.unpack
pack_tenant = struct.Struct(">I").pack


def by_id(tenant: int, record_id: str) -> bytes:
    """Return the key of a site, policy, identity source or pool stock. The id of a pool stock is the id of the pool.

    The keys of external statuses and pool leases begin with the key of the authority or pool.
    """
    return pack_tenant(tenant) + bytes.fromhex(record_id.replace("-", ""))


def by_identifier(tenant: int, identifier: str) -> bytes:
    return pack_tenant(tenant) + b"i" + _name(identifier)


def by_address(tenant: int, packed: bytes) -> bytes:
    return pack_tenant(tenant) + b"a" + packed


def endpoint(tenant: int, mac: str) -> bytes:
    """Return the key of an endpoint; `mac` is from nac.kit.mac.normalise_mac."""
    return pack_tenant(tenant) + bytes.fromhex(mac)


def user(tenant: int, name: str) -> bytes:
    return pack_tenant(tenant) + _name(name.casefold())


def certificate(tenant: int, serial_hex: str) -> bytes:
    return pack_tenant(tenant) + bytes.fromhex(serial_hex).lstrip(b"\0")[:MAX_NAME_BYTES]


def issuer(tenant: int, issuer_line: str) -> bytes:
    return pack_tenant(tenant) + authority_key(issuer_line)


def external_status(tenant: int, authority_id: str, serial_hex: str) -> bytes:
    return by_id(tenant, authority_id) + bytes.fromhex(serial_hex).lstrip(b"\0")[:MAX_NAME_BYTES]


def session_count(tenant: int, key: str) -> bytes:
    """Return the key of a count of live sessions; `key` is "m" followed by a MAC address, or "u" followed by a name."""
    return pack_tenant(tenant) + _name(key)


def pool(tenant: int, site_id: str, name: str) -> bytes:
    """Return the key of a pool; `site_id` is "" if the pool is for the whole tenant."""
    return (by_id(tenant, site_id) if site_id else pack_tenant(tenant) + bytes(16)) + _name(name)


def pool_lease(tenant: int, pool_id: str, mac: str) -> bytes:
    return by_id(tenant, pool_id) + bytes.fromhex(mac)


def _name(text: str) -> bytes:
    """Encode a name.

    A name that is too long for a key of LMDB gets a key that no record has. Stored names are never too long.
    """
    encoded = text.encode("utf-8", "surrogateescape")
    return encoded if len(encoded) <= MAX_NAME_BYTES else b"\0"

"""Keys for counting failures, and tables of counts that all tenants share."""

import unicodedata
from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

from nac.kit.mac import normalise_mac
from radius.module.request import AccessRequest

# Names are cut to this length, because PostgreSQL limits index entries. No stored user has a longer name.
MAX_NAME_CHARACTERS = 253

# Slot, NAS and station; or tenant, user name and station.
FailureKey = tuple[int, str, str]
Value = TypeVar("Value")


class SharedTable(Generic[Value]):
    """Table with keys of all slots (port pairs) or of all tenants.

    The first item of a key is the owner of the key: the slot or the tenant.

    When the table is full, the owner with the most keys loses its oldest key.
    """

    def __init__(self, max_keys: int) -> None:
        self._max_keys = max_keys
        self._count = 0
        self._shares: dict[int, OrderedDict[FailureKey, Value]] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[FailureKey]:
        return (key for keys in self._shares.values() for key in keys)

    def get(self, key: FailureKey) -> Value | None:
        keys = self._shares.get(key[0])
        return keys.get(key) if keys else None

    def put(self, key: FailureKey, value: Value) -> None:
        """Set the value, and mark the key as the newest key of its owner."""
        keys = self._shares.setdefault(key[0], OrderedDict())
        self._count += key not in keys
        keys[key] = value
        keys.move_to_end(key)
        if self._count > self._max_keys:
            largest = max(self._shares.values(), key=len)
            largest.popitem(last=False)
            self._count -= 1

    def remove(self, key: FailureKey) -> None:
        del self._shares[key[0]][key]
        self._count -= 1


def station_key(request: AccessRequest, identity: str) -> FailureKey:
    """Key of a station at a NAS. The key contains the station's MAC address, or the name if the address is unknown."""
    # Some switches send the MAC address only in User-Name, in any notation.
    station = request.mac or normalise_mac(request.user_name)
    # Case is ignored, as for user names (nac.cellformat.replica.keys.user).
    return request.slot, request.nas_key(), station or _fold_name(identity)


def guess_key(tenant: int, request: AccessRequest, identity: str) -> FailureKey:
    """Key of a user at a station. `tenant` is the tenant's number."""
    return tenant, _fold_name(identity), request.mac


def _fold_name(identity: str) -> str:
    """Convert all spellings that a directory accepts for a name to one form.

    LDAP ignores case, width and repeated blanks (RFC 4518 2). Active Directory also ignores accents.
    """
    name = " ".join(identity[:MAX_NAME_CHARACTERS].split())
    if not name.isascii():
        name = "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))
    return name.casefold()

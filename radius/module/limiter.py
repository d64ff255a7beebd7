"""Bounds on failures: per station, and per user name for methods with a password.

All tables are bounded in memory, and shared fairly: a flood at one tenant does not push out what another tenant needs.
Times are epoch microseconds.
"""

import unicodedata
from collections import OrderedDict
from typing import Generic, TypeVar

from nac.mac import normalise_mac
from radius.module.request import AccessRequest

# A key, its list and its place in the table take about 300 bytes: 12 MB at most.
MAX_KEYS = 40_000
# User names with failures, and stations from which a user's password held: 6 MB each at most.
MAX_NAMES = MAX_STATIONS = 20_000
LOG_EVERY_MICROSECONDS = 1_000_000
# RFC 3162/2865 do not bound it, PostgreSQL's index does: what is longer is no name of ours.
MAX_NAME = 253

# Slot, NAS and station; or slot, user name and station.
Key = tuple[int, str, str]
Value = TypeVar("Value")


class SharedTable(Generic[Value]):
    """A map of the keys of all slots. Where it is full, the slot with the most keys loses its oldest one.

    The first item of a key is the slot.
    """

    def __init__(self, max_keys: int) -> None:
        self._max_keys = max_keys
        self._count = 0
        self._slots: dict[int, OrderedDict[Key, Value]] = {}

    def __len__(self) -> int:
        return self._count

    def get(self, key: Key) -> Value | None:
        keys = self._slots.get(key[0])
        return keys.get(key) if keys else None

    def put(self, key: Key, value: Value) -> None:
        """Set the value and make the key the newest of its slot."""
        keys = self._slots.setdefault(key[0], OrderedDict())
        self._count += key not in keys
        keys[key] = value
        keys.move_to_end(key)
        if self._count > self._max_keys:
            largest = max(self._slots.values(), key=len)
            largest.popitem(last=False)
            self._count -= 1

    def remove(self, key: Key) -> None:
        del self._slots[key[0]][key]
        self._count -= 1


class FailureLimiter:
    """Fixed windows: `limit` failures within `window_seconds` close a key until its window ends.

    Rejects of a closed key do not count as failures, so a closed key opens by itself.
    """

    def __init__(self, max_keys: int = MAX_KEYS) -> None:
        # key -> [window start, failures, last logged, suppressed since]
        self._failures: SharedTable[list[int]] = SharedTable(max_keys)

    def is_limited(self, key: Key, *, limit: int, window_seconds: int, at: int) -> bool:
        entry = self._failures.get(key)
        if entry is None:
            return False
        if _has_ended(entry, window_seconds, at):
            self._failures.remove(key)
            return False
        return entry[1] >= limit

    def count_failure(self, key: Key, *, window_seconds: int, at: int) -> None:
        entry = self._failures.get(key)
        if entry is None or _has_ended(entry, window_seconds, at):
            self._failures.put(key, [at, 1, 0, 0])
        else:
            entry[1] += 1

    def suppressed_before(self, key: Key, *, at: int) -> int | None:
        """Rejects to be reported with the one at hand, or None where this one is not to be logged itself."""
        entry = self._failures.get(key)
        if entry is None:
            return 0
        if 0 <= at - entry[2] < LOG_EVERY_MICROSECONDS:
            entry[3] += 1
            return None
        suppressed = entry[3]
        entry[2] = at
        entry[3] = 0
        return suppressed


class GuessLimiter:
    """Wrong passwords per user name, from whatever station and NAS they come.

    A station from which the user's password has held before has a count of its own, so that guesses from elsewhere do
    not lock the user out. Every window ends by itself.
    """

    def __init__(self, max_names: int = MAX_NAMES, max_stations: int = MAX_STATIONS) -> None:
        self._failures = FailureLimiter(max_names)
        self._trusted: SharedTable[bool] = SharedTable(max_stations)

    def is_limited(self, key: Key, *, limit: int, window_seconds: int, at: int) -> bool:
        return self._failures.is_limited(self._counted(key), limit=limit, window_seconds=window_seconds, at=at)

    def count_failure(self, key: Key, *, window_seconds: int, at: int) -> None:
        self._failures.count_failure(self._counted(key), window_seconds=window_seconds, at=at)

    def count_success(self, key: Key) -> None:
        """The password held: from now on this station counts separately for this user."""
        if key[2]:
            self._trusted.put(key, True)

    def _counted(self, key: Key) -> Key:
        slot, name, _ = key
        return key if self._trusted.get(key) else (slot, name, "")


def station_key(request: AccessRequest, identity: str) -> Key:
    # A switch may name the station in User-Name alone, in any notation; the decision takes it from there later.
    station = request.mac or normalise_mac(request.user_name)
    # A name is the same user's in whatever case (nac.replica.keys.user).
    return request.slot, request.nas_key(), station or _folded(identity)


def guess_key(request: AccessRequest, identity: str) -> Key:
    return request.slot, _folded(identity), request.mac


def _folded(identity: str) -> str:
    """The same for all spellings that a directory takes for one name.

    LDAP ignores case, width and repeated blanks (RFC 4518 2), Active Directory also accents.
    """
    name = " ".join(identity[:MAX_NAME].split())
    if not name.isascii():
        name = "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))
    return name.casefold()


def _has_ended(entry: list[int], window_seconds: int, at: int) -> bool:
    """A clock that was set back ends a window too: nobody is to wait for it to catch up."""
    return not 0 <= at - entry[0] < window_seconds * 1_000_000

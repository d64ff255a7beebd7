"""Names of servers that customers name, looked up so that those which nobody answers for hold up no others.

A lookup that no DNS server answers takes the system half a minute or more, and nothing can end it before: it goes on in
a thread of its own after whoever asked has given up. Such threads are bounded, those of one owner far below all of
them, and one name is looked up once at a time.
"""

import asyncio
import socket
import threading
from concurrent.futures import Future
from typing import Any, NamedTuple

_MAX_LOOKUPS = 128
_MAX_LOOKUPS_PER_OWNER = 4
_POLL_SECONDS = 0.05

# As socket.getaddrinfo gives them.
AddressInfos = list[tuple[Any, ...]]


class _LookupKey(NamedTuple):
    owner: str
    host: str
    port: int


class NameResolver:
    def __init__(self, *, most: int = _MAX_LOOKUPS, most_of_one: int = _MAX_LOOKUPS_PER_OWNER) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._lock = threading.Lock()
        self._running: dict[_LookupKey, Future[AddressInfos]] = {}

    async def look_up(self, host: str, port: int, *, owner: str = "") -> AddressInfos:
        """For TCP; `owner` is who named the host, "" for no one who could name many.

        It waits as long as the system does, and for a place: the time is the caller's to bound. Raises OSError.
        """
        try:
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (socket.gaierror, UnicodeError):
            asked = _LookupKey(owner, host, port)
        while (lookup := self._begin(asked)) is None:
            await asyncio.sleep(_POLL_SECONDS)
        return await asyncio.wrap_future(lookup)

    def _begin(self, asked: _LookupKey) -> Future[AddressInfos] | None:
        """The one that is under way, or a new one; None where there is no place."""
        with self._lock:
            if asked in self._running:
                return self._running[asked]
            of_one = sum(other.owner == asked.owner for other in self._running)
            if len(self._running) >= self._most or (asked.owner and of_one >= self._most_of_one):
                return None
            lookup: Future[AddressInfos] = Future()
            # From now on nobody who gives up ends it for the others.
            lookup.set_running_or_notify_cancel()
            self._running[asked] = lookup
        threading.Thread(target=self._run, args=(asked, lookup), name="lookup", daemon=True).start()
        return lookup

    def _run(self, asked: _LookupKey, lookup: Future[AddressInfos]) -> None:
        try:
            found = socket.getaddrinfo(asked.host, asked.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as exc:
            self._end(asked)
            lookup.set_exception(exc if isinstance(exc, OSError) else OSError(str(exc)))
        else:
            self._end(asked)
            lookup.set_result(found)

    def _end(self, asked: _LookupKey) -> None:
        with self._lock:
            del self._running[asked]


# Of this process.
RESOLVER = NameResolver()

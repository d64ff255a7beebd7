"""DNS lookups of tenants' servers. A lookup without an answer does not delay other lookups.

Without an answer, the system's lookup takes half a minute or longer, and the caller cannot cancel it. Each lookup
therefore has its own thread. The number of threads is limited, with a much lower limit for each owner. Concurrent
lookups of a name and port for the same owner share one thread.
"""

import asyncio
import socket
import threading
from concurrent.futures import Future
from typing import Any, NamedTuple

_MAX_LOOKUPS = 128
_MAX_LOOKUPS_PER_OWNER = 4
_POLL_SECONDS = 0.05

# Result of socket.getaddrinfo.
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
        """Return the TCP addresses of a host. `owner` is the id of the tenant that configured the host.

        If `owner` is "", the limit for each owner does not apply. Waits for a free thread and for the system's lookup.
        The caller must limit the time. Raises OSError.
        """
        try:
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (socket.gaierror, UnicodeError):
            lookup_key = _LookupKey(owner, host, port)
        while (lookup := self._begin(lookup_key)) is None:
            await asyncio.sleep(_POLL_SECONDS)
        return await asyncio.wrap_future(lookup)

    def _begin(self, key: _LookupKey) -> Future[AddressInfos] | None:
        """Return the running lookup for `key`, or start a lookup. Returns None if no thread is free."""
        with self._lock:
            if key in self._running:
                return self._running[key]
            of_one = sum(other.owner == key.owner for other in self._running)
            if len(self._running) >= self._most or (key.owner and of_one >= self._most_of_one):
                return None
            lookup: Future[AddressInfos] = Future()
            # Prevent a caller that stops waiting from cancelling the lookup for other callers.
            lookup.set_running_or_notify_cancel()
            self._running[key] = lookup
        threading.Thread(target=self._run, args=(key, lookup), name="lookup", daemon=True).start()
        return lookup

    def _run(self, key: _LookupKey, lookup: Future[AddressInfos]) -> None:
        try:
            found = socket.getaddrinfo(key.host, key.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as exc:
            self._end(key)
            lookup.set_exception(exc if isinstance(exc, OSError) else OSError(str(exc)))
        else:
            self._end(key)
            lookup.set_result(found)

    def _end(self, key: _LookupKey) -> None:
        with self._lock:
            del self._running[key]


# Resolver that the whole process shares.
RESOLVER = NameResolver()

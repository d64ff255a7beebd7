"""Tests of servers that tenants name: how many may run at a time.

Each holds a thread of those that answer everybody for as long as the server keeps silent.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from nac.errors import AdmitError
from nac.ids import TenantId

_OF_TENANT_MOST: Final = 2
_IN_ALL_MOST: Final = 4
_running: Counter[TenantId] = Counter()
_lock = Lock()


class TooManyTests(AdmitError):
    """Too many tests run at this moment."""

    status = 429
    retry_after_seconds = 5


@contextmanager
def server_test(tenant_id: TenantId) -> Iterator[None]:
    """Raises TooManyTests."""
    with _lock:
        if _running[tenant_id] >= _OF_TENANT_MOST or _running.total() >= _IN_ALL_MOST:
            raise TooManyTests(remedy="Wait for the end of those that run, and try again.")
        _running[tenant_id] += 1
    try:
        yield
    finally:
        with _lock:
            _running[tenant_id] -= 1
            if not _running[tenant_id]:
                del _running[tenant_id]

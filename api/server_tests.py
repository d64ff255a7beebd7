"""Limits concurrent tests of servers that tenants configure: each holds a thread until the server responds."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from nac.kit.errors import AdmitError
from nac.kit.ids import TenantId

_MAX_PER_TENANT: Final = 2
_MAX_TOTAL: Final = 4
_running_tests: Counter[TenantId] = Counter()
_lock = Lock()


class TooManyTests(AdmitError):
    """Too many tests are running."""

    status = 429
    retry_after_seconds = 5


@contextmanager
def limit_server_tests(tenant_id: TenantId) -> Iterator[None]:
    """Count a running test of the tenant during the block. Raises TooManyTests."""
    with _lock:
        if _running_tests[tenant_id] >= _MAX_PER_TENANT or _running_tests.total() >= _MAX_TOTAL:
            raise TooManyTests(remedy="Wait until they finish and try again.")
        _running_tests[tenant_id] += 1
    try:
        yield
    finally:
        with _lock:
            _running_tests[tenant_id] -= 1
            if not _running_tests[tenant_id]:
                del _running_tests[tenant_id]

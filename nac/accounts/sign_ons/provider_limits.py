"""Limits for concurrent requests to identity providers. Each request occupies a thread of the API.

A tenant can configure a provider that never responds. Requests to providers that did not respond recently can therefore
occupy only a part of the threads, and each owner (MSP or tenant) can have only one such request at a time. After
repeated failures of an owner's provider, Admit rejects single sign-on of this owner for up to a minute.
"""

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nac.accounts.sign_in_errors import TooManySignIns
from nac.kit.errors import AdmitError, Unavailable

MAX_TOTAL = 12
MAX_PER_OWNER = 4
# This number is higher than the number for each owner, because many owners use providers on the same host.
MAX_PER_HOST = 8
# Maximum concurrent requests of all owners together to providers that did not respond recently.
MAX_UNPROVEN = 4
PROVEN_SECONDS = 24 * 3_600.0
# Number of failures without a pause. After the next failure, the pause is 2 s. Each further failure doubles the pause.
_FREE_FAILURES = 2
_MAX_PAUSE_SECONDS = 60.0
_MAX_FAILURES = 8
_MAX_OWNERS = 2_000


@dataclass(slots=True)
class _OwnerHistory:
    # Time of the provider's last response, by host.
    answered_at: dict[str, float] = field(default_factory=dict)
    failures: int = 0
    next_request_at: float = float("-inf")


class ProviderLimits:
    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of_owner: Counter[str] = Counter()
        self._of_host: Counter[str] = Counter()
        self._unproven: Counter[str] = Counter()
        self._owners: OrderedDict[str, _OwnerHistory] = OrderedDict()

    @contextmanager
    def one(self, *, owner: str, host: str) -> Iterator[None]:
        """Count one request to a provider while the block runs. Raises TooManySignIns if a limit is reached.

        An `Unavailable` error in the block counts as a failure of the provider. Any other AdmitError counts neither as
        a failure nor as a response.
        """
        is_proven = self._take(owner, host)
        has_answered: bool | None = False
        try:
            yield
            has_answered = True
        except AdmitError as exc:
            has_answered = False if isinstance(exc, Unavailable) else None
            raise
        finally:
            with self._lock:
                if has_answered is not None:
                    self._note(owner, host, has_answered=has_answered)
                for taken, name in self._counters(owner, host, is_proven=is_proven):
                    taken[name] -= 1
                    if not taken[name]:
                        del taken[name]

    def _take(self, owner: str, host: str) -> bool:
        with self._lock:
            known = self._known(owner)
            now = self._clock()
            is_proven = now - known.answered_at.get(host, float("-inf")) < PROVEN_SECONDS
            full = (
                now < known.next_request_at,
                self._of_owner.total() >= MAX_TOTAL,
                self._of_owner[owner] >= MAX_PER_OWNER,
                self._of_host[host] >= MAX_PER_HOST,
                not is_proven and (self._unproven[owner] >= 1 or self._unproven.total() >= MAX_UNPROVEN),
            )
            if any(full):
                raise TooManySignIns(remedy="Try again in a moment.")
            for taken, name in self._counters(owner, host, is_proven=is_proven):
                taken[name] += 1
            return is_proven

    def _counters(self, owner: str, host: str, *, is_proven: bool) -> list[tuple[Counter[str], str]]:
        unproven = [] if is_proven else [(self._unproven, owner)]
        return [(self._of_owner, owner), (self._of_host, host), *unproven]

    def _known(self, owner: str) -> _OwnerHistory:
        known = self._owners.setdefault(owner, _OwnerHistory())
        self._owners.move_to_end(owner)
        if len(self._owners) > _MAX_OWNERS:
            self._owners.popitem(last=False)
        return known

    def _note(self, owner: str, host: str, *, has_answered: bool) -> None:
        known = self._known(owner)
        if has_answered:
            known.answered_at = {host: self._clock()}
            # One response cancels only one failure, so that an unreliable provider keeps most of its failures.
            known.failures = max(0, known.failures - 1)
            return
        known.answered_at.pop(host, None)
        known.failures = min(known.failures + 1, _MAX_FAILURES)
        if known.failures > _FREE_FAILURES:
            pause = min(2.0 ** (known.failures - _FREE_FAILURES), _MAX_PAUSE_SECONDS)
            known.next_request_at = self._clock() + pause

"""Password checks. A password check takes the same time for known and unknown people."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nac.accounts.sign_in_errors import TooManySignIns
from nac.kit.passwords import verify_password

# Argon2id hash that matches no password, with the parameters of nac.kit.passwords.
_DUMMY_HASH = "$argon2id$v=19$m=19456,t=2,p=1$YWRtaXQgb2Ygbm9ib2R5IQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
# Maximum number of concurrent checks. A check uses 19 MiB and a CPU core. A waiting check blocks a thread of the API.
_MAX_PARALLEL = 4
_MAX_WAITING = 8
_PATIENCE_SECONDS = 5.0


class _ConcurrencyGate:
    def __init__(self, at_once: int, waiting_most: int) -> None:
        self._running = threading.BoundedSemaphore(at_once)
        self._places = threading.BoundedSemaphore(at_once + waiting_most)

    @contextmanager
    def passed(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise TooManySignIns(remedy="Try again in a moment.")
        try:
            if not self._running.acquire(timeout=_PATIENCE_SECONDS):
                raise TooManySignIns(remedy="Try again in a moment.")
            try:
                yield
            finally:
                self._running.release()
        finally:
            self._places.release()


_gate = _ConcurrencyGate(_MAX_PARALLEL, _MAX_WAITING)


def is_correct_password(password: str, password_hash: str) -> bool:
    """Check a password. `password_hash` is "" if the person is unknown or has no password.

    Do not call this function in a transaction, because the check is slow. Raises TooManySignIns.
    """
    with _gate.passed():
        found = verify_password(password.encode(errors="replace"), password_hash or _DUMMY_HASH)
    return found and bool(password_hash)


def make_password_tag(password_hash: str) -> bytes:
    """Digest of the password hash. The digest changes when the password changes."""
    return hashlib.sha256(b"admit password tag 1\0" + password_hash.encode()).digest()

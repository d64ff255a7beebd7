"""Delays for repeated sign-in attempts. Several counters in the database count the failed attempts:

* For each person and source address: Admit delays further attempts to sign in as this person from this address.
* For each source address: after many failures, Admit delays all attempts from this address.
* For each person and known browser (in which the person signed in before). Failures in other browsers do not count.
* For each person, for codes of a second factor from all unknown browsers. Only someone who knows the password can try a
  code.
* For each person, for all unknown browsers and addresses together. After very many failures, Admit delays this person's
  sign-in in all unknown browsers. The person then needs a known browser, a passkey, or a link by mail. A browser in
  which the person uses the link becomes a known browser.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import ARRAY, Integer, LargeBinary, bindparam, text
from sqlalchemy.orm import Session

from nac.accounts.sign_in_errors import PlaceNotKnown, TooManyAttempts
from nac.kit.request_sources import get_source

# Number of attempts without delay. The database function begin_sign_in_attempt() computes the growing delay.
FREE_ATTEMPTS = 5
FREE_PER_ADDRESS = 30
# Number of attempts without delay for one person from all unknown browsers (NIST SP 800-63B 5.2.2 allows 100).
FREE_ANYWHERE = 50
FREE_LINKS = 3

_BEGIN = text("SELECT begin_sign_in_attempt(:keys, :free)").bindparams(
    bindparam("keys", type_=ARRAY(LargeBinary)), bindparam("free", type_=ARRAY(Integer))
)
_FORGIVE = text("SELECT forgive_sign_in_attempt(:keys, :forgiven)").bindparams(
    bindparam("keys", type_=ARRAY(LargeBinary)), bindparam("forgiven", type_=ARRAY(LargeBinary))
)


@dataclass(frozen=True, slots=True)
class CountedAttempt:
    # Number of attempts without delay, by key of the counter in the database.
    keys: Mapping[bytes, int]
    # Like `keys`, for the counter of a person over all unknown browsers and addresses.
    anywhere: Mapping[bytes, int] = field(default_factory=dict)

    def begin(self, session: Session) -> None:
        """Count the attempt. Commit the transaction even if the sign-in fails. Works in any database scope.

        Raises TooManyAttempts and PlaceNotKnown. A delayed attempt does not count.
        """
        if seconds := self._begin(session, self.keys):
            raise TooManyAttempts(seconds)
        if self.anywhere and (seconds := self._begin(session, self.anywhere)):
            raise PlaceNotKnown(seconds)

    @staticmethod
    def _begin(session: Session, keys: Mapping[bytes, int]) -> int:
        return int(session.scalar(_BEGIN, {"keys": list(keys), "free": list(keys.values())}) or 0)

    def succeed(self, session: Session) -> None:
        """Reset the person's counter for this address or browser. Subtract this attempt from all other counters."""
        forgiven = [key for key, free in self.keys.items() if free == FREE_ATTEMPTS]
        session.execute(_FORGIVE, {"keys": [*self.keys, *self.anywhere], "forgiven": forgiven})


def password_attempt(*, email_tag: bytes, address: str, device_id: bytes | None) -> CountedAttempt:
    """Attempt with a password. `device_id` identifies a known browser; None for an unknown browser."""
    if device_id is not None:
        return CountedAttempt({_attempt_key("device", email_tag, device_id): FREE_ATTEMPTS})
    source = get_source(address).encode()
    here = {
        _attempt_key("password", email_tag, source): FREE_ATTEMPTS,
        _attempt_key("address", source): FREE_PER_ADDRESS,
    }
    return CountedAttempt(here, {_attempt_key("anywhere", email_tag): FREE_ANYWHERE})


def link_attempt(*, email_tag: bytes, address: str, device_id: bytes | None) -> CountedAttempt:
    """Request for a password link by mail. Do not call `succeed` for this attempt, so that each request counts."""
    if device_id is not None:
        return CountedAttempt({_attempt_key("device-link", email_tag, device_id): FREE_LINKS})
    source = get_source(address).encode()
    return CountedAttempt(
        {_attempt_key("link", email_tag, source): FREE_LINKS, _attempt_key("address", source): FREE_PER_ADDRESS}
    )


def code_attempt(*, person_id: UUID, address: str, device_id: bytes | None) -> CountedAttempt:
    """Attempt with a code of a second factor."""
    if device_id is not None:
        return CountedAttempt({_attempt_key("device-code", person_id.bytes, device_id): FREE_ATTEMPTS})
    source = get_source(address).encode()
    return CountedAttempt(
        {_attempt_key("code", person_id.bytes): FREE_ATTEMPTS, _attempt_key("address", source): FREE_PER_ADDRESS}
    )


def confirmation_attempt(*, sign_in_id: UUID) -> CountedAttempt:
    return CountedAttempt({_attempt_key("confirmation", sign_in_id.bytes): FREE_ATTEMPTS})


def address_attempt(*, address: str) -> CountedAttempt:
    """Attempt with a long random secret. Admit counts these attempts by address, separately from passwords."""
    return CountedAttempt({_attempt_key("unguessable", get_source(address).encode()): FREE_PER_ADDRESS})


def make_email_tag(email: str) -> bytes:
    """Digest of an e-mail address that a person typed, ignoring case. The address need not have an account."""
    return hashlib.sha256(b"admit email 1\0" + email.strip().lower().encode(errors="replace")).digest()


def _attempt_key(*parts: str | bytes) -> bytes:
    octets = [part.encode() if isinstance(part, str) else part for part in parts]
    return hashlib.sha256(b"".join(len(part).to_bytes(2) + part for part in octets)).digest()

"""Who guesses waits, and nobody else does: attempts are counted by who is meant and where they come from.

A guesser is delayed for the person that it guesses at and then at its address. Neither holds up that person anywhere
else, nor in a browser in which it has signed in before, whose attempts are counted by themselves. What comes after the
right password, a code of six digits, is counted by the person alone: whoever gets that far knows the password.

Guesses at one person from very many addresses are held up all together: from then on the person gets in by a known
browser, a passkey, or a link by mail, which makes a browser known.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import ARRAY, Integer, LargeBinary, bindparam, text
from sqlalchemy.orm import Session

from nac.request_sources import get_source
from nac.sign_in.errors import PlaceNotKnown, TooManyAttempts

# So many cost nothing; the database's function knows how the delay grows.
FREE_ATTEMPTS = 5
FREE_PER_ADDRESS = 30
# Of one person, from all browsers and addresses that are not known, whatever they are (NIST SP 800-63B 5.2.2 has 100).
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
    # How many of each key cost nothing.
    keys: Mapping[bytes, int]
    # The same of what is counted wherever it comes from, where this place is not known.
    anywhere: Mapping[bytes, int] = field(default_factory=dict)

    def begin(self, session: Session) -> None:
        """In any scope; its transaction must be committed whatever becomes of the attempt. Raises TooManyAttempts and
        PlaceNotKnown, which count nothing."""
        if seconds := self._begin(session, self.keys):
            raise TooManyAttempts(seconds)
        if self.anywhere and (seconds := self._begin(session, self.anywhere)):
            raise PlaceNotKnown(seconds)

    @staticmethod
    def _begin(session: Session, keys: Mapping[bytes, int]) -> int:
        return int(session.scalar(_BEGIN, {"keys": list(keys), "free": list(keys.values())}) or 0)

    def succeed(self, session: Session) -> None:
        """It was the person. What an address did to others stays counted, and so does what others did elsewhere."""
        forgiven = [key for key, free in self.keys.items() if free == FREE_ATTEMPTS]
        session.execute(_FORGIVE, {"keys": [*self.keys, *self.anywhere], "forgiven": forgiven})


def password_attempt(*, email_tag: bytes, address: str, device_id: bytes | None) -> CountedAttempt:
    """`device_id` is of a browser in which this person has signed in."""
    if device_id is not None:
        return CountedAttempt({_attempt_key("device", email_tag, device_id): FREE_ATTEMPTS})
    source = get_source(address).encode()
    here = {
        _attempt_key("password", email_tag, source): FREE_ATTEMPTS,
        _attempt_key("address", source): FREE_PER_ADDRESS,
    }
    return CountedAttempt(here, {_attempt_key("anywhere", email_tag): FREE_ANYWHERE})


def link_attempt(*, email_tag: bytes, address: str, device_id: bytes | None) -> CountedAttempt:
    """Of asking for a link by mail; none of them succeeds."""
    if device_id is not None:
        return CountedAttempt({_attempt_key("device-link", email_tag, device_id): FREE_LINKS})
    source = get_source(address).encode()
    return CountedAttempt(
        {_attempt_key("link", email_tag, source): FREE_LINKS, _attempt_key("address", source): FREE_PER_ADDRESS}
    )


def code_attempt(*, person_id: UUID, address: str, device_id: bytes | None) -> CountedAttempt:
    """Of a second factor."""
    if device_id is not None:
        return CountedAttempt({_attempt_key("device-code", person_id.bytes, device_id): FREE_ATTEMPTS})
    source = get_source(address).encode()
    return CountedAttempt(
        {_attempt_key("code", person_id.bytes): FREE_ATTEMPTS, _attempt_key("address", source): FREE_PER_ADDRESS}
    )


def confirmation_attempt(*, sign_in_id: UUID) -> CountedAttempt:
    return CountedAttempt({_attempt_key("confirmation", sign_in_id.bytes): FREE_ATTEMPTS})


def address_attempt(*, address: str) -> CountedAttempt:
    """What cannot be guessed, but should not be tried without end; passwords that others try there are no matter."""
    return CountedAttempt({_attempt_key("unguessable", get_source(address).encode()): FREE_PER_ADDRESS})


def make_email_tag(email: str) -> bytes:
    """Of an address, known or not, as it was typed."""
    return hashlib.sha256(b"admit email 1\0" + email.strip().lower().encode(errors="replace")).digest()


def _attempt_key(*parts: str | bytes) -> bytes:
    octets = [part.encode() if isinstance(part, str) else part for part in parts]
    return hashlib.sha256(b"".join(len(part).to_bytes(2) + part for part in octets)).digest()

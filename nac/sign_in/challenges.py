"""What a sign-in carries from one of its steps to the next: sealed, in the client's hands, good for minutes.

Nothing is stored of those who only begin. What succeeds is spent in the transaction of the success, so that nobody does
so twice.
"""

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

import msgspec
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.secrets import SecretsError
from nac.secrets.sealer import Sealer
from nac.sign_in.errors import SignInRefused, TooLateToSignIn

MAX_TEXT_LENGTH = 4_000


class FactorsNeeded(msgspec.Struct, frozen=True, tag=True):
    """The password was right; a second factor is to follow."""

    person_id: UUID
    # Of the hash: a password that is changed meanwhile leaves no half of a sign-in behind.
    password_tag: bytes


class PasskeyChallenge(msgspec.Struct, frozen=True, tag=True):
    """An authenticator is to sign `nonce`."""

    nonce: bytes
    # What it is for: of somebody whose password was right, of whoever has a passkey, or of who is signed in already.
    after: FactorsNeeded | None = None
    sign_in_id: UUID | None = None


class PasskeyRegistration(msgspec.Struct, frozen=True, tag=True):
    """A new passkey of somebody who is signed in."""

    nonce: bytes
    sign_in_id: UUID


class SignOnChallenge(msgspec.Struct, frozen=True, tag=True):
    """The browser is at the provider."""

    sign_on_id: UUID
    state: str
    nonce: str
    code_verifier: str
    # Of the settings by which it began.
    settings_tag: bytes
    # Where to, afterwards.
    next: str
    # Where to with the code of what went wrong; "" for an answer in place of it.
    on_error: str = ""


class KnownDevice(msgspec.Struct, frozen=True, tag=True):
    """A browser in which somebody has signed in before."""

    email_tag: bytes
    device_id: bytes


Kind = TypeVar("Kind", FactorsNeeded, PasskeyChallenge, PasskeyRegistration, SignOnChallenge, KnownDevice)


class _SealedChallenge(msgspec.Struct, frozen=True):
    expires_at: datetime
    content: msgspec.Raw


@dataclass(frozen=True, slots=True)
class OpenedChallenge(Generic[Kind]):
    content: Kind
    expires_at: datetime
    digest: bytes = field(repr=False)

    def spend(self, session: Session) -> None:
        """In any scope. Raises SignInRefused where it was spent before; then nothing of the transaction stays."""
        if not session.scalar(select(func.spend_challenge(self.digest, self.expires_at))):
            raise SignInRefused(remedy="Begin again.")


class ChallengeSealer:
    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def make(self, content: Kind, *, now: datetime, good_for: timedelta) -> str:
        sealed = _SealedChallenge(now + good_for, msgspec.Raw(msgspec.msgpack.encode(content)))
        octets = self._sealer.seal(msgspec.msgpack.encode(sealed), _context(type(content)))
        return base64.urlsafe_b64encode(octets).decode().rstrip("=")

    def read(self, kind: type[Kind], text: str, *, now: datetime) -> OpenedChallenge[Kind]:
        """Raises SignInRefused for what is none, of another kind, altered or too old."""
        try:
            if len(text) > MAX_TEXT_LENGTH:
                raise ValueError
            octets = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
            sealed = msgspec.msgpack.decode(self._sealer.open(octets, _context(kind)), type=_SealedChallenge)
            content = msgspec.msgpack.decode(sealed.content, type=kind)
        except (binascii.Error, ValueError, SecretsError, msgspec.DecodeError) as exc:
            raise SignInRefused(remedy="Begin again.") from exc
        if sealed.expires_at <= now:
            raise TooLateToSignIn(remedy="Begin again.")
        return OpenedChallenge(content, sealed.expires_at, hashlib.sha256(octets).digest())


def _context(kind: type) -> str:
    return f"sign-in:{kind.__name__}"

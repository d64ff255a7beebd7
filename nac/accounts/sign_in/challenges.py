"""Challenges: the state between two steps of a sign-in.

Admit encrypts the state, and the client stores the encrypted state for a few minutes. So the server stores nothing for
unfinished sign-ins. When a step succeeds, its transaction marks the challenge as used. A challenge works only once.
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

from nac.accounts.sign_in_errors import SignInRefused, TooLateToSignIn
from nac.kit.secrets import SecretsError
from nac.kit.secrets.sealer import Sealer

MAX_TEXT_LENGTH = 4_000


class FactorsNeeded(msgspec.Struct, frozen=True, tag=True):
    """State after a correct password. The person must now use a second factor."""

    person_id: UUID
    # Digest of the password hash. A change of the password invalidates the challenge.
    password_tag: bytes


class PasskeyChallenge(msgspec.Struct, frozen=True, tag=True):
    """Request to sign `nonce` with a passkey."""

    nonce: bytes
    # `after` is set if the passkey is the second factor after a password. `sign_in_id` is set if a signed-in person
    # confirms their identity. Both are None if the person signs in with only a passkey.
    after: FactorsNeeded | None = None
    sign_in_id: UUID | None = None


class PasskeyRegistration(msgspec.Struct, frozen=True, tag=True):
    """Registration of a new passkey for a signed-in person."""

    nonce: bytes
    sign_in_id: UUID


class SignOnChallenge(msgspec.Struct, frozen=True, tag=True):
    """Single sign-on in progress. The browser is at the provider."""

    sign_on_id: UUID
    state: str
    nonce: str
    code_verifier: str
    # Digest of the provider's settings at the start of the sign-in.
    settings_tag: bytes
    # Path to redirect to on success.
    next: str
    # Path to redirect to on failure, with an error code. If the path is "", Admit shows an error page.
    on_error: str = ""


class KnownDevice(msgspec.Struct, frozen=True, tag=True):
    """Known browser of a person. The browser stores the encrypted state in a cookie."""

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
        """Mark the challenge as used. Works in any database scope.

        Raises SignInRefused if the challenge was used before. In this case, roll back the transaction.
        """
        if not session.scalar(select(func.spend_challenge(self.digest, self.expires_at))):
            raise SignInRefused(remedy="Start again from the first step.")


class ChallengeSealer:
    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def make(self, content: Kind, *, now: datetime, good_for: timedelta) -> str:
        sealed = _SealedChallenge(now + good_for, msgspec.Raw(msgspec.msgpack.encode(content)))
        octets = self._sealer.seal(msgspec.msgpack.encode(sealed), _context(type(content)))
        return base64.urlsafe_b64encode(octets).decode().rstrip("=")

    def read(self, kind: type[Kind], text: str, *, now: datetime) -> OpenedChallenge[Kind]:
        """Decrypt a challenge. Raises SignInRefused if the text is invalid, has expired, or is not of this `kind`."""
        try:
            if len(text) > MAX_TEXT_LENGTH:
                raise ValueError
            octets = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
            sealed = msgspec.msgpack.decode(self._sealer.open(octets, _context(kind)), type=_SealedChallenge)
            content = msgspec.msgpack.decode(sealed.content, type=kind)
        except (binascii.Error, ValueError, SecretsError, msgspec.DecodeError) as exc:
            raise SignInRefused(remedy="Start again from the first step.") from exc
        if sealed.expires_at <= now:
            raise TooLateToSignIn(remedy="Start again from the first step.")
        return OpenedChallenge(content, sealed.expires_at, hashlib.sha256(octets).digest())


def _context(kind: type) -> str:
    return f"sign-in:{kind.__name__}"

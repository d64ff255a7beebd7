"""What the verifier says of a name and its password, and how it travels to the module.

It travels as JSON, deflated, in base64, in as many Reply-Message attributes as it takes; both ends are ours, on
loopback. Light: radiusd's module imports this.
"""

import zlib
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence

import msgspec

# RFC 2865 5: 253 octets of a value; 3: 4,096 of a packet, whose header and signatures take some 80.
_PIECE = 253
MAX_OCTETS = 15 * _PIECE
# What an answer may grow to when it is inflated: some thousands of groups.
_MAX_INFLATED = 1 << 20


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    # A code of nac.reasons; "" where the password is right.
    reason: str = ""
    detail: str = ""
    # The identity source that knows the user, by name; "" for a user of the tenant's own.
    source: str = ""
    # As the source spells it.
    name: str = ""
    groups: tuple[str, ...] = ()
    # By the name under which policies read them (user.attribute.<name>).
    attributes: dict[str, tuple[str, ...]] = {}

    @property
    def verified(self) -> bool:
        return not self.reason


class AnswerTooLong(ValueError):
    """More groups and attributes than one RADIUS packet carries."""


class AnswerUnreadable(ValueError):
    """No answer of the verifier's."""


_decode = msgspec.json.Decoder(Answer).decode
_encode = msgspec.json.Encoder().encode


def encode_answer(answer: Answer) -> list[bytes]:
    """The values of its Reply-Message attributes. Raises AnswerTooLong."""
    text = b64encode(zlib.compress(_encode(answer), 9))
    if len(text) > MAX_OCTETS:
        raise AnswerTooLong(f"{len(text)} octets, {MAX_OCTETS} fit")
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def decode_answer(pieces: Sequence[str]) -> Answer:
    """Raises AnswerUnreadable."""
    try:
        inflating = zlib.decompressobj()
        plain = inflating.decompress(b64decode("".join(pieces), validate=True), _MAX_INFLATED)
        if not inflating.eof:
            raise AnswerUnreadable("cut short, or too long")
        return _decode(plain)
    except (NotBase64, ValueError, zlib.error) as exc:
        raise AnswerUnreadable(str(exc)) from exc

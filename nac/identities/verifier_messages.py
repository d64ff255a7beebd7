"""What the module and the verifier send each other through radiusd, beside name and password.

The module sends the request's attributes, the verifier its answer. Both travel as JSON, deflated, in base64, in several
Reply-Message attributes, on loopback. radiusd's module imports this, so it imports little itself.
"""

import zlib
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence

import msgspec

from nac.packet_values import Pairs

# RFC 2865 5: 253 octets of a value; 3: 4,096 of a packet, whose header and signatures take some 80.
_ATTRIBUTE_OCTETS = 253
MAX_RESULT_OCTETS = 15 * _ATTRIBUTE_OCTETS
# Beside them go a name, a password and a few attributes of radiusd.
MAX_PAIRS_OCTETS = 12 * _ATTRIBUTE_OCTETS
_TOO_LONG = "-"
# What an answer may grow to when it is inflated: some thousands of groups.
_MAX_INFLATED = 1 << 20


class VerificationResult(msgspec.Struct, frozen=True, omit_defaults=True):
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


class ResultTooLong(ValueError):
    """More groups and attributes than one RADIUS packet carries."""


class UnreadableResult(ValueError):
    """No answer of the verifier's."""


class UnreadablePairs(ValueError):
    """Not the attributes of a request."""


_decode_json_result = msgspec.json.Decoder(VerificationResult).decode
_decode_json_pairs = msgspec.json.Decoder(tuple[tuple[str, str], ...]).decode
_encode_json = msgspec.json.Encoder().encode


def encode_result(answer: VerificationResult) -> list[bytes]:
    """The values of its Reply-Message attributes. Raises AnswerTooLong."""
    text = b64encode(zlib.compress(_encode_json(answer), 9))
    if len(text) > MAX_RESULT_OCTETS:
        raise ResultTooLong(f"{len(text)} octets, {MAX_RESULT_OCTETS} fit")
    return [text[at : at + _ATTRIBUTE_OCTETS] for at in range(0, len(text), _ATTRIBUTE_OCTETS)]


def decode_result(pieces: Sequence[str]) -> VerificationResult:
    """Raises AnswerUnreadable."""
    try:
        return _decode_json_result(_inflate("".join(pieces)))
    except (NotBase64, ValueError, zlib.error) as exc:
        raise UnreadableResult(str(exc)) from exc


def encode_pairs(pairs: Pairs) -> list[str]:
    """The values of its Reply-Message attributes. A request that is too long becomes one that decode_pairs refuses."""
    text = b64encode(zlib.compress(_encode_json(pairs), 1)).decode()
    if len(text) > MAX_PAIRS_OCTETS:
        return [_TOO_LONG]
    return [text[at : at + _ATTRIBUTE_OCTETS] for at in range(0, len(text), _ATTRIBUTE_OCTETS)]


def decode_pairs(pieces: Sequence[bytes]) -> Pairs:
    """Raises PairsUnreadable."""
    try:
        return _decode_json_pairs(_inflate(b"".join(pieces)))
    except (NotBase64, ValueError, zlib.error) as exc:
        raise UnreadablePairs(str(exc)) from exc


def _inflate(text: str | bytes) -> bytes:
    inflating = zlib.decompressobj()
    plain = inflating.decompress(b64decode(text, validate=True), _MAX_INFLATED)
    if not inflating.eof:
        raise ValueError("cut short, or too long")
    return plain

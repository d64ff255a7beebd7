"""Data that radiusd's module and the verifier exchange in addition to user name and password.

The module sends the attributes of the device's request. The verifier sends the result of the password check. Both are
compressed JSON in base64, in several Reply-Message attributes of RADIUS packets on the loopback interface. radiusd's
module imports this file, so this file has few imports.
"""

import zlib
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence

import msgspec

from nac.cellformat.packet_values import Pairs

# RFC 2865: an attribute value has at most 253 octets (section 5), and a packet at most 4,096 octets (section 3). The
# packet's header and signatures take about 80 octets.
_ATTRIBUTE_OCTETS = 253
MAX_RESULT_OCTETS = 15 * _ATTRIBUTE_OCTETS
# Maximum size of the encoded attributes of the device's request. The rest of the packet is for user name, password and
# radiusd's own attributes.
MAX_PAIRS_OCTETS = 12 * _ATTRIBUTE_OCTETS
_TOO_LONG = "-"
# Maximum size of a decompressed result. This size is enough for some thousands of groups.
_MAX_INFLATED = 1 << 20


class VerificationResult(msgspec.Struct, frozen=True, omit_defaults=True):
    # Reason code (nac.engine.reasons); "" if the password is correct.
    reason: str = ""
    detail: str = ""
    # Name of the identity source that verified the user; "" for the tenant's own users.
    source: str = ""
    # The user's name in the spelling of the source.
    name: str = ""
    groups: tuple[str, ...] = ()
    # Maps each user attribute to its values. Policies use these names as user.attribute.<name>.
    attributes: dict[str, tuple[str, ...]] = {}

    @property
    def verified(self) -> bool:
        return not self.reason


class ResultTooLong(ValueError):
    """The groups and attributes do not fit in one RADIUS packet."""


class UnreadableResult(ValueError):
    """The text is not a result of the verifier."""


class UnreadablePairs(ValueError):
    """The text is not an encoding of a request's attributes."""


_decode_json_result = msgspec.json.Decoder(VerificationResult).decode
_decode_json_pairs = msgspec.json.Decoder(tuple[tuple[str, str], ...]).decode
_encode_json = msgspec.json.Encoder().encode


def encode_result(answer: VerificationResult) -> list[bytes]:
    """Encode a result as values of Reply-Message attributes. Raises ResultTooLong."""
    text = b64encode(zlib.compress(_encode_json(answer), 9))
    if len(text) > MAX_RESULT_OCTETS:
        raise ResultTooLong(f"{len(text)} octets; the maximum is {MAX_RESULT_OCTETS}")
    return [text[at : at + _ATTRIBUTE_OCTETS] for at in range(0, len(text), _ATTRIBUTE_OCTETS)]


def decode_result(pieces: Sequence[str]) -> VerificationResult:
    """Decode a result. Raises UnreadableResult."""
    try:
        return _decode_json_result(_inflate("".join(pieces)))
    except (NotBase64, ValueError, zlib.error) as exc:
        raise UnreadableResult(str(exc)) from exc


def encode_pairs(pairs: Pairs) -> list[str]:
    """Encode the attributes of a request as values of Reply-Message attributes.

    If the text would be too long, returns a value that `decode_pairs` rejects.
    """
    text = b64encode(zlib.compress(_encode_json(pairs), 1)).decode()
    if len(text) > MAX_PAIRS_OCTETS:
        return [_TOO_LONG]
    return [text[at : at + _ATTRIBUTE_OCTETS] for at in range(0, len(text), _ATTRIBUTE_OCTETS)]


def decode_pairs(pieces: Sequence[bytes]) -> Pairs:
    """Decode the attributes of a request. Raises UnreadablePairs."""
    try:
        return _decode_json_pairs(_inflate(b"".join(pieces)))
    except (NotBase64, ValueError, zlib.error) as exc:
        raise UnreadablePairs(str(exc)) from exc


def _inflate(text: str | bytes) -> bytes:
    inflating = zlib.decompressobj()
    plain = inflating.decompress(b64decode(text, validate=True), _MAX_INFLATED)
    if not inflating.eof:
        raise ValueError("truncated or too long")
    return plain

"""LDAP messages (RFC 4511 4): requests and responses."""

from collections.abc import Sequence
from dataclasses import dataclass

from nac.inventory.identity_sources.ldap import ber
from nac.inventory.identity_sources.ldap.ber import BerReader, MalformedBer

_BIND, _UNBIND, _SEARCH, _EXTENDED = 0x60, 0x42, 0x63, 0x77
BIND_RESPONSE, SEARCH_ENTRY, SEARCH_DONE, SEARCH_REFERENCE, EXTENDED_RESPONSE = 0x61, 0x64, 0x65, 0x73, 0x78
_START_TLS = "1.3.6.1.4.1.1466.20037"
_SIMPLE, _EXTENDED_NAME = 0x80, 0x80
_VERSION, _WHOLE_SUBTREE, _NEVER_DEREF = 3, 2, 0
# Maximum number of characters of a diagnostic message.
_MAX_TEXT = 300

SUCCESS, SIZE_LIMIT_EXCEEDED = 0, 4
# Names of result codes (RFC 4511 appendix A).
RESULT_NAMES = {
    1: "operationsError",
    2: "protocolError",
    3: "timeLimitExceeded",
    4: "sizeLimitExceeded",
    7: "authMethodNotSupported",
    8: "strongerAuthRequired",
    10: "referral",
    11: "adminLimitExceeded",
    13: "confidentialityRequired",
    19: "constraintViolation",
    32: "noSuchObject",
    34: "invalidDNSyntax",
    48: "inappropriateAuthentication",
    49: "invalidCredentials",
    50: "insufficientAccessRights",
    51: "busy",
    52: "unavailable",
    53: "unwillingToPerform",
}


@dataclass(frozen=True)
class LdapResult:
    code: int
    text: str

    def __str__(self) -> str:
        name = RESULT_NAMES.get(self.code, "result")
        return f"{name} ({self.code}){': ' if self.text else ''}{self.text}"


@dataclass(frozen=True)
class LdapEntry:
    dn: str
    # Values by attribute description in lower case.
    attributes: dict[str, tuple[bytes, ...]]

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(value.decode("utf-8", "replace") for value in self.attributes.get(name.lower(), ()))


@dataclass(frozen=True)
class LdapMessage:
    number: int
    kind: int
    content: bytes


def bind_request(number: int, name: str, password: bytes) -> bytes:
    """Return a simple bind request (RFC 4511 4.2).

    Raises ValueError for an empty password, because a bind without a password succeeds (RFC 4513 5.1.2). Also raises
    ValueError for a password with NUL, because a server may ignore the text after NUL.
    """
    if not name or not password or b"\0" in password:
        raise ValueError("a bind needs a name and a password")
    return _encode_message(
        number, ber.sequence((ber.integer(_VERSION), ber.octets(name), ber.octets(password, _SIMPLE)), _BIND)
    )


def unbind_request(number: int) -> bytes:
    return _encode_message(number, ber.encode(_UNBIND))


def search_request(
    number: int, base: str, filter_: bytes, attributes: Sequence[str], *, size_limit: int, seconds: int
) -> bytes:
    """Return a request to search the whole subtree of `base`, without dereferencing aliases (RFC 4511 4.5.1)."""
    return _encode_message(
        number,
        ber.sequence(
            (
                ber.octets(base),
                ber.integer(_WHOLE_SUBTREE, ber.ENUMERATED),
                ber.integer(_NEVER_DEREF, ber.ENUMERATED),
                ber.integer(size_limit),
                ber.integer(seconds),
                ber.boolean(False),
                filter_,
                ber.sequence(ber.octets(name) for name in attributes),
            ),
            _SEARCH,
        ),
    )


def start_tls_request(number: int) -> bytes:
    """Return a StartTLS request (RFC 4511 4.14)."""
    return _encode_message(number, ber.sequence((ber.octets(_START_TLS, _EXTENDED_NAME),), _EXTENDED))


def parse_message(data: bytes) -> LdapMessage:
    """Parse a message. Raises MalformedBer."""
    inside = BerReader(data).inside(ber.SEQUENCE)
    number = inside.number()
    kind, content = inside.any()
    return LdapMessage(number, kind, content)


def parse_result(content: bytes) -> LdapResult:
    """Parse an LDAPResult (RFC 4511 4.1.9). Raises MalformedBer."""
    reader = BerReader(content)
    code = reader.number(ber.ENUMERATED)
    reader.of(ber.OCTET_STRING)
    text = reader.of(ber.OCTET_STRING).decode("utf-8", "replace").replace("\0", "")[:_MAX_TEXT]
    return LdapResult(code, "".join(character if character.isprintable() else " " for character in text))


def parse_entry(content: bytes) -> LdapEntry:
    """Parse a SearchResultEntry (RFC 4511 4.5.2). Raises MalformedBer."""
    reader = BerReader(content)
    try:
        dn = reader.of(ber.OCTET_STRING).decode()
        attributes: dict[str, tuple[bytes, ...]] = {}
        found = reader.inside(ber.SEQUENCE)
        while found.more:
            attribute = found.inside(ber.SEQUENCE)
            name = attribute.of(ber.OCTET_STRING).decode("ascii").lower()
            values, gathered = attribute.inside(ber.SET), []
            while values.more:
                gathered.append(values.of(ber.OCTET_STRING))
            attributes[name] = tuple(gathered)
    except UnicodeDecodeError as exc:
        raise MalformedBer("name is not valid UTF-8") from exc
    return LdapEntry(dn, attributes)


def _encode_message(number: int, operation: bytes) -> bytes:
    return ber.sequence((ber.integer(number), operation))

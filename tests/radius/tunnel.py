"""A supplicant of EAP-TTLS and PEAP in Python, which can send invalid messages inside the tunnel."""

import ssl
from collections import deque

from nac.kit.radius_packet import (
    ACCESS_CHALLENGE,
    CALLING_STATION_ID,
    EAP_MESSAGE,
    STATE,
    USER_NAME,
    encode_attribute,
    encode_eap_message,
    parse_attributes,
)
from tests.radius.nas import PATIENCE_SECONDS, Nas
from tests.radius.supplicant import new_mac
from tests.radius.tenants import Tenant

REQUEST, RESPONSE = 1, 2
IDENTITY, NAK, MD5, GTC, TLS, TTLS, PEAP, MSCHAPV2 = 1, 3, 4, 6, 13, 21, 25, 26
_LENGTH_INCLUDED, _MORE = 0x80, 0x40
_FRAGMENT_OCTETS = 1300
# Codes of AVPs (RFC 2865, RFC 2548 and RFC 5281 10.1).
USER_PASSWORD, CHAP_PASSWORD, CHAP_CHALLENGE, EAP_AVP = 2, 3, 60, 79


def avp(code: int, data: bytes, *, vendor: int = 0) -> bytes:
    """A mandatory AVP, padded to four octets (RFC 5281 10.1)."""
    flags = 0xC0 if vendor else 0x40
    head = code.to_bytes(4, "big") + bytes((flags,)) + (8 + 4 * bool(vendor) + len(data)).to_bytes(3, "big")
    return head + (vendor.to_bytes(4, "big") if vendor else b"") + data + bytes(-len(data) % 4)


def login(name: bytes, password: bytes) -> bytes:
    """PAP inside TTLS (RFC 5281 11.2.5). NULs pad the password to a multiple of 16 octets."""
    padding = -len(password) % 16 if password else 16
    return avp(USER_NAME, name) + avp(USER_PASSWORD, password + bytes(padding))


def eap(code: int, identifier: int, kind: int, data: bytes = b"") -> bytes:
    return bytes((code, identifier)) + (5 + len(data)).to_bytes(2, "big") + bytes((kind,)) + data


class Tunnel:
    """One conversation.

    `code` is the code of the last response, `heard` the data received in the tunnel since the last `say`.
    """

    def __init__(
        self,
        tenant: Tenant,
        kind: int = TTLS,
        *,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        outer: str | None = "anonymous",
        mac: str = "",
        context: ssl.SSLContext | None = None,
        session: ssl.SSLSession | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.tenant, self.kind, self.outer = tenant, kind, outer
        self.patience_seconds = patience_seconds
        self.mac = mac or new_mac()
        self.context = context or anonymous_context(version)
        self.code, self.heard, self.state = 0, b"", b""
        # Attributes that the NAS adds to each packet.
        self.more = b""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = self.context.wrap_bio(self._incoming, self._outgoing, session=session)
        self._identifier = 0

    def ask(self, packet: bytes) -> bytes:
        """Send an EAP packet and return the EAP packet of the response."""
        state = encode_attribute(STATE, self.state) if self.state else b""
        name = b"" if self.outer is None else encode_attribute(USER_NAME, self.outer)
        place = encode_attribute(CALLING_STATION_ID, self.mac) + self.more
        reply = Nas(self.tenant).ask(name + place + encode_eap_message(packet) + state, seconds=self.patience_seconds)
        self.code, self.state, found = reply[0], b"", b""
        for number, value in parse_attributes(reply):
            if number == EAP_MESSAGE:
                found += value
            elif number == STATE:
                self.state = value
        self._identifier = found[1] if found else 0
        return found

    def open(self) -> "Tunnel":
        """Complete the handshake of the tunnel.

        With TLS 1.3, the client's last flight waits for the first data to send.
        """
        answer = self.ask(eap(RESPONSE, 0, IDENTITY, self.outer.encode()))
        if self.code == ACCESS_CHALLENGE and answer[4] != self.kind:
            answer = self.ask(eap(RESPONSE, self._identifier, NAK, bytes((self.kind,))))
        assert self.code == ACCESS_CHALLENGE
        assert answer[4] == self.kind
        while not self._handshaken():
            self._flight()
            assert self.code == ACCESS_CHALLENGE
        return self

    def open_peap(self, name: bytes) -> "Tunnel":
        """Open a PEAP tunnel and send the inner name, which radiusd requests after all tickets."""
        self.open()
        while not self.heard:
            assert self.say() == ACCESS_CHALLENGE
        self.say(bytes((IDENTITY,)) + name)
        return self

    def say(self, data: bytes = b"") -> int:
        """Send data inside the tunnel, or only pending TLS messages. Returns the code of the response."""
        self.heard = b""
        if data:
            self.tls.write(data)
        self._flight()
        self._read()
        return self.code

    def _handshaken(self) -> bool:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _read(self) -> None:
        try:
            while data := self.tls.read(4096):
                self.heard += data
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            return

    def _flight(self) -> None:
        """Send the pending TLS data in fragments, and receive the response in fragments."""
        data = self._outgoing.read()
        pieces = deque(data[at : at + _FRAGMENT_OCTETS] for at in range(0, len(data), _FRAGMENT_OCTETS))
        flags, length = _LENGTH_INCLUDED, len(data).to_bytes(4, "big")
        answer = b""
        while pieces:
            piece = pieces.popleft()
            flags |= _MORE if pieces else 0
            answer = self._typed(bytes((flags,)) + length + piece)
            flags, length = 0, b""
        if not data:
            answer = self._typed(b"\0")
        while self.code == ACCESS_CHALLENGE:
            self._incoming.write(answer[10:] if answer[5] & _LENGTH_INCLUDED else answer[6:])
            if not answer[5] & _MORE:
                return
            answer = self._typed(b"\0")

    def _typed(self, data: bytes) -> bytes:
        return self.ask(eap(RESPONSE, self._identifier, self.kind, data))


def anonymous_context(version: ssl.TLSVersion) -> ssl.SSLContext:
    """TLS context of a client without a certificate, which trusts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    return context

"""A simulated device with a certificate.

The device uses EAP-TLS with OpenSSL over memory buffers (RFC 3748, RFC 5216, RFC 9190).
OpenSSL reads the private key from an anonymous file in memory, so the key is never on disk.
"""

import os
import ssl
from collections import deque
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from nac.kit.radius_packet import (
    ACCESS_CHALLENGE,
    EAP_MESSAGE,
    STATE,
    RadiusPacket,
    encode_attribute,
    encode_eap_message,
    join_values,
)
from nac.onboarding.self_tests.radius_client import RadiusServer
from pki.keys import PrivateKey, key_pem

_EAP_RESPONSE, _EAP_REQUEST = 2, 1
_IDENTITY, _NAK, _TLS = 1, 3, 13
_HAS_LENGTH, _HAS_MORE, _IS_START = 0x80, 0x40, 0x20
_FRAGMENT_OCTETS = 1200
# Maximum number of round trips in an EAP conversation. A handshake takes about ten.
_MAX_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """A device's certificate with its intermediate certificates and private key."""

    name: str
    chain: tuple[x509.Certificate, ...]
    key: PrivateKey = field(repr=False)


@dataclass(frozen=True, slots=True)
class EapConversation:
    # The server's last response; None without a response.
    reply: RadiusPacket | None
    # Reason why the device rejects the server; "" if the device accepts it.
    complaint: str
    tls_version: str = ""


def device_context(identity: DeviceIdentity, *, root: x509.Certificate, server_name: str) -> ssl.SSLContext:
    """Return a TLS context for the device, which trusts only `root` and requires `server_name` in the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=root.public_bytes(Encoding.PEM).decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = bool(server_name)
    pem = key_pem(identity.key) + b"".join(each.public_bytes(Encoding.PEM) for each in identity.chain)
    memory = os.memfd_create("admit-self-test", os.MFD_CLOEXEC)
    try:
        os.write(memory, pem)
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
    return context


class Supplicant:
    def __init__(self, context: ssl.SSLContext, name: str, *, server_name: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name or None)
        self._name = name.encode()
        self._fragments: deque[bytes] = deque()
        self._is_connected = False
        self.complaint = ""

    @property
    def tls_version(self) -> str:
        return (self._tls.version() or "").removeprefix("TLSv")

    def identity(self) -> bytes:
        return _encode_eap(0, _IDENTITY, self._name)

    def answer(self, eap: bytes) -> bytes:
        """Return the response of the device to an EAP request."""
        identifier, kind = eap[1], eap[4]
        if kind != _TLS or len(eap) < 6:
            return _encode_eap(identifier, _NAK, bytes((_TLS,)))
        flags = eap[5]
        came = eap[10:] if flags & _HAS_LENGTH else eap[6:]
        self._incoming.write(came)
        if not flags & _HAS_MORE and (came or flags & _IS_START):
            self._advance_tls()
            self._queue(self._outgoing.read())
        return _encode_eap(identifier, _TLS, self._fragments.popleft() if self._fragments else b"\0")

    def _advance_tls(self) -> None:
        """Continue the TLS handshake. After an error, OpenSSL sends an alert to the server."""
        try:
            if not self._is_connected:
                self._tls.do_handshake()
                self._is_connected = True
            # Read the server's last messages and its session tickets.
            while self._tls.read(64):
                continue
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            self.complaint = getattr(error, "verify_message", "") or error.reason or str(error)

    def _queue(self, octets: bytes) -> None:
        pieces = [octets[at : at + _FRAGMENT_OCTETS] for at in range(0, len(octets), _FRAGMENT_OCTETS)]
        for number, piece in enumerate(pieces):
            flags = _HAS_MORE if number + 1 < len(pieces) else 0
            if number == 0:
                piece, flags = len(octets).to_bytes(4) + piece, flags | _HAS_LENGTH
            self._fragments.append(bytes((flags,)) + piece)


def run_conversation(server: RadiusServer, supplicant: Supplicant, attributes: bytes) -> EapConversation:
    """Run an EAP conversation until Access-Accept or Access-Reject. Each Access-Request contains `attributes`."""
    eap, state = supplicant.identity(), b""
    for _ in range(_MAX_ROUNDS):
        reply = server.request_access(
            attributes + encode_eap_message(eap) + (encode_attribute(STATE, state) if state else b"")
        )
        if reply is None or reply.code != ACCESS_CHALLENGE:
            return EapConversation(reply, supplicant.complaint, supplicant.tls_version)
        eap_request, state = join_values(reply.octets, EAP_MESSAGE), join_values(reply.octets, STATE)
        if len(eap_request) < 5 or eap_request[0] != _EAP_REQUEST:
            return EapConversation(reply, "the server sent a challenge without an EAP request")
        eap = supplicant.answer(eap_request)
    return EapConversation(None, "the conversation does not end")


def _encode_eap(identifier: int, kind: int, data: bytes) -> bytes:
    return bytes((_EAP_RESPONSE, identifier)) + (5 + len(data)).to_bytes(2) + bytes((kind,)) + data

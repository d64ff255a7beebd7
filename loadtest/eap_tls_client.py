"""EAP-TLS client: plays a supplicant and its NAS. `EapTls` is an `Exchange` that runs OpenSSL on memory buffers.

Sources are RFC 3748 4 (EAP), RFC 5216 2.1 and 3 (EAP-TLS, fragments), and RFC 9190 2.1 and 2.5 (TLS 1.3). The client
does not check the MS-MPPE keys of the Access-Accept, because Python's ssl has no exporter (RFC 5705). eapol_test checks
these keys. A full handshake takes about 0.9 ms of CPU and a resumed handshake 0.5 ms, mostly in OpenSSL.

The module also encodes EAP packets in RADIUS (RFC 3748 4, RFC 3579 3.1), and simulates MAC authentication by EAP-MD5,
which some switches use.
"""

import ssl
from collections import deque
from collections.abc import Callable, Iterable
from hashlib import md5

from loadtest.radius_client import Request, Target, describe_unexpected_code
from loadtest.workloads import MAB_SERVICE, calling_station
from nac.kit.radius_packet import (
    ACCESS_ACCEPT,
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    ACCESS_REQUEST,
    EAP_MESSAGE,
    STATE,
    USER_NAME,
    encode_attribute,
    encode_eap_message,
    join_values,
    read_vlan,
)

REQUEST, RESPONSE, SUCCESS, FAILURE = 1, 2, 3, 4
IDENTITY, NAK, MD5_CHALLENGE, TLS = 1, 3, 4, 13


def eap_packet(code: int, identifier: int, kind: int, data: bytes) -> bytes:
    return bytes((code, identifier)) + (5 + len(data)).to_bytes(2, "big") + bytes((kind,)) + data


def extract_eap(reply: bytes) -> tuple[bytes, bytes]:
    """Return the EAP packet and the State attribute of a reply. A missing value is b""."""
    return join_values(reply, EAP_MESSAGE), join_values(reply, STATE)


class EapMd5:
    """An `Exchange` with the MAC address (12 hex digits) as name and password (RFC 3748 5.4, RFC 1994 2)."""

    __slots__ = ("_attributes", "_mac", "_vlan", "target")
    kind = "mab-md5"
    code = ACCESS_REQUEST

    def __init__(self, target: Target, mac: str, nas_attributes: bytes = b"", *, vlan: str | None = None) -> None:
        """Create the exchange. `vlan` is the expected VLAN in the Access-Accept: "" for no VLAN, None for any."""
        self.target = target
        self._mac = mac.encode()
        self._attributes = encode_attribute(USER_NAME, self._mac) + MAB_SERVICE + calling_station(mac) + nas_attributes
        self._vlan = vlan

    def first(self) -> Request:
        return Request(self._attributes + encode_eap_message(eap_packet(RESPONSE, 0, IDENTITY, self._mac)))

    def receive(self, reply: bytes) -> Request | str:
        eap, state = extract_eap(reply)
        if reply[0] == ACCESS_CHALLENGE:
            if len(eap) < 5 or eap[0] != REQUEST:
                return "Access-Challenge without an EAP request"
            return Request(self._attributes + encode_eap_message(self._answer(eap)) + encode_attribute(STATE, state))
        if reply[0] != ACCESS_ACCEPT:
            return describe_unexpected_code(reply, ACCESS_ACCEPT)
        if eap[:1] != bytes((SUCCESS,)):
            return "Access-Accept without EAP-Success"
        if self._vlan is not None and read_vlan(reply) != self._vlan:
            return f"VLAN {read_vlan(reply)!r} instead of {self._vlan!r}"
        return ""

    def _answer(self, eap: bytes) -> bytes:
        if eap[4] != MD5_CHALLENGE:
            return eap_packet(RESPONSE, eap[1], NAK, bytes((MD5_CHALLENGE,)))
        challenge = eap[6 : 6 + eap[5]]
        value = md5(eap[1:2] + self._mac + challenge, usedforsecurity=False).digest()
        return eap_packet(RESPONSE, eap[1], MD5_CHALLENGE, bytes((len(value),)) + value)


_LENGTH_INCLUDED, _MORE, _START = 0x80, 0x40, 0x20
# The default of eapol_test. The default of FreeRADIUS is 1024.
FRAGMENT_OCTETS = 1398

FULL, RESUMED, FALLEN_BACK = "eap-tls-full", "eap-tls-resumed", "eap-tls-not-resumed"


class Supplicant:
    """A device: identity, certificate, and the TLS session to resume. A device has one conversation at a time."""

    def __init__(
        self, context: ssl.SSLContext, identity: str, attributes: bytes = b"", *, server_certificate: bytes = b""
    ) -> None:
        """Create the device. `attributes` are the attributes that the NAS adds to each request.

        With `server_certificate` (DER), the server must present exactly this certificate. In this case, `context` need
        not verify the chain.
        """
        self.context = context
        self.identity = identity.encode()
        self.attributes = encode_attribute(USER_NAME, self.identity) + attributes
        self.server_certificate = server_certificate
        self.session: ssl.SSLSession | None = None


def client_context(
    *,
    certificate: str,
    key: str,
    trusted: str | None = None,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    ciphers: str = "",
) -> ssl.SSLContext:
    """Return a TLS context for `Supplicant`. `certificate` (with its chain) and `key` are PEM files. `ciphers` is in
    the format of OpenSSL; "" for the default.

    Without `trusted` (PEM text), the context does not verify the server's chain. TLS still verifies that the server has
    the key of the server's certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.minimum_version = context.maximum_version = version
    if trusted is None:
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=trusted)
    if ciphers:
        context.set_ciphers(ciphers)
    context.load_cert_chain(certificate, key)
    return context


class EapTls:
    """One EAP-TLS conversation.

    At the end, `kind` tells whether the handshake was full, was resumed, or failed to resume.
    """

    code = ACCESS_REQUEST

    def __init__(
        self,
        target: Target,
        supplicant: Supplicant,
        *,
        vlan: str | None = None,
        expected: int = ACCESS_ACCEPT,
        resume: bool = False,
        keep_session: bool = False,
        fragment_octets: int = FRAGMENT_OCTETS,
        finished: Callable[[], None] | None = None,
    ) -> None:
        """Create the conversation. `vlan` is the expected VLAN in the Access-Accept: "" for no VLAN, None for any
        result.

        With `keep_session`, the supplicant stores the TLS session for a later `resume`. Storing the session takes 0.15
        ms.
        """
        self.target = target
        self.kind = FULL
        self._supplicant = supplicant
        self._vlan = vlan
        self._expected = expected
        self._resume = resume
        self._keep_session = keep_session
        self._fragment_octets = fragment_octets
        self._finished = finished
        self._fragments: deque[bytes] = deque()
        self._connected = self._committed = False
        self._tls_fault = ""

    @property
    def supplicant(self) -> Supplicant:
        return self._supplicant

    @property
    def cipher(self) -> str:
        """Return the negotiated cipher; "" before the handshake."""
        agreed = self._tls.cipher()
        return agreed[0] if agreed else ""

    def first(self) -> Request:
        supplicant = self._supplicant
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = supplicant.session if self._resume else None
        self._wanted_resumption = session is not None
        self._tls = supplicant.context.wrap_bio(self._incoming, self._outgoing, session=session)
        identity = eap_packet(RESPONSE, 0, IDENTITY, supplicant.identity)
        return Request(supplicant.attributes + encode_eap_message(identity))

    def receive(self, reply: bytes) -> Request | str:
        eap, state = extract_eap(reply)
        if reply[0] != ACCESS_CHALLENGE:
            fault = self._end(reply, eap)
            if self._finished is not None:
                self._finished()
            return fault
        if len(eap) < 5 or eap[0] != REQUEST:
            return "Access-Challenge without an EAP request"
        return Request(
            self._supplicant.attributes + encode_eap_message(self._answer(eap)) + encode_attribute(STATE, state)
        )

    def _answer(self, eap: bytes) -> bytes:
        if eap[4] != TLS:
            return eap_packet(RESPONSE, eap[1], NAK, bytes((TLS,)))
        flags, data = eap[5], eap[10:] if eap[5] & _LENGTH_INCLUDED else eap[6:]
        if data:
            self._incoming.write(data)
        if flags & _MORE:
            return eap_packet(RESPONSE, eap[1], TLS, b"\0")
        if data or flags & _START:
            self._advance()
            self._fragment(self._outgoing.read())
        return eap_packet(RESPONSE, eap[1], TLS, self._fragments.popleft() if self._fragments else b"\0")

    def _advance(self) -> None:
        """Run OpenSSL on the received data. A failure writes an alert for the server to the outgoing buffer."""
        try:
            if not self._connected:
                self._tls.do_handshake()
                self._connected = True
            # Reading also processes the tickets, which arrive before or after the success byte.
            if self._tls.read(16) == b"\0":
                self._committed = True
                self._tls.read(16)
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            self._tls_fault = f"TLS: {error.reason or error}"

    def _fragment(self, data: bytes) -> None:
        size = self._fragment_octets
        for at in range(0, len(data), size):
            flags = (0 if at else _LENGTH_INCLUDED) | (_MORE if at + size < len(data) else 0)
            length = b"" if at else len(data).to_bytes(4, "big")
            self._fragments.append(bytes((flags,)) + length + data[at : at + size])

    def _end(self, reply: bytes, eap: bytes) -> str:
        if self._connected:
            resumed = bool(self._tls.session_reused)
            if self._wanted_resumption:
                self.kind = RESUMED if resumed else FALLEN_BACK
        if reply[0] != self._expected:
            return f"{describe_unexpected_code(reply, self._expected)} {self._tls_fault}".rstrip()
        if self._expected == ACCESS_REJECT:
            return "" if eap[:1] == bytes((FAILURE,)) else "Access-Reject without EAP-Failure"
        if self._tls_fault or not self._connected:
            return f"accepted although TLS did not complete {self._tls_fault}".rstrip()
        if eap[:1] != bytes((SUCCESS,)):
            return "Access-Accept without EAP-Success"
        if self._tls.version() == "TLSv1.3" and not self._committed:
            return "no protected success indication (RFC 9190 2.5)"
        pinned = self._supplicant.server_certificate
        if pinned and not self._tls.session_reused and self._tls.getpeercert(binary_form=True) != pinned:
            return "another server certificate"
        if self._vlan is not None and read_vlan(reply) != self._vlan:
            return f"VLAN {read_vlan(reply)!r} instead of {self._vlan!r}"
        if self._keep_session:
            self._supplicant.session = self._tls.session
        return ""


class EapTlsSource:
    """Source of EAP-TLS conversations, by several supplicants in turn.

    Each supplicant repeats one full handshake and `reconnects` resumptions.
    """

    def __init__(self, devices: Iterable[tuple[Target, Supplicant, str | None]], *, reconnects: int = 0) -> None:
        """Create the source. Each item of `devices` is a target, a supplicant and the expected VLAN."""
        self._idle = deque((target, supplicant, vlan, 0) for target, supplicant, vlan in devices)
        self._reconnects = reconnects

    def __call__(self) -> EapTls | None:
        if not self._idle:
            return None
        target, supplicant, vlan, turn = self._idle.popleft()
        following = (turn + 1) % (self._reconnects + 1)

        def again() -> None:
            self._idle.append((target, supplicant, vlan, following))

        return EapTls(target, supplicant, vlan=vlan, resume=turn > 0, keep_session=following > 0, finished=again)

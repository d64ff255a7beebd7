"""EAP packets in RADIUS (RFC 3748 4, RFC 3579 3.1), and MAC authentication by EAP-MD5, which some switches use."""

from hashlib import md5

from loadtest.radius_client import Request, Target, describe_unexpected_code
from loadtest.workloads import MAB_SERVICE, calling_station
from nac.kit.radius_packet import (
    ACCESS_ACCEPT,
    ACCESS_CHALLENGE,
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
        """`vlan` is the expected VLAN in the Access-Accept: "" for none, None for any."""
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

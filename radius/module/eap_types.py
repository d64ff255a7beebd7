"""EAP type to propose to a device, selected from its tenant's methods (RFC 3748 5.3).

radiusd proposes the type in EAP-Type of its control list. A device that does not accept the EAP type answers with a
NAK, which lists other types. The module then selects one of the listed types and sets EAP-Type again. radiusd may use
only the selected type.

This module also contains the names of EAP types, and reads the types that a device requests in an EAP packet.
"""

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache

from nac.engine.admission import describe_offer
from radius.module.request import Attributes

# IANA registry "Method Types" of EAP. 26 is Microsoft's EAP-MSCHAPv2; 29 is another number of that method.
_NAMES = {
    4: "EAP-MD5",
    5: "EAP-OTP",
    6: "EAP-GTC",
    9: "EAP-RSA",
    13: "EAP-TLS",
    14: "Defender Token",
    15: "EAP-SecurID",
    17: "LEAP",
    18: "EAP-SIM",
    19: "EAP-SRP-SHA1",
    21: "EAP-TTLS",
    23: "EAP-AKA",
    25: "PEAP",
    26: "EAP-MSCHAPv2",
    29: "EAP-MSCHAPv2",
    32: "EAP-POTP",
    38: "EAP-HTTP-Digest",
    41: "EAP-SPEKE",
    43: "EAP-FAST",
    46: "EAP-PAX",
    47: "EAP-PSK",
    48: "EAP-SAKE",
    49: "EAP-IKEv2",
    50: "EAP-AKA'",
    51: "EAP-GPSK",
    52: "EAP-PWD",
    53: "EAP-EKE",
    54: "PT-EAP",
    55: "TEAP",
    56: "EAP-NOOB",
    254: "an expanded EAP type",
    255: "an experimental EAP type",
}
_TYPE_AT = 4
_IDENTITY, _NAK = 1, 3


def eap_name(number: int) -> str:
    return _NAMES.get(number, f"EAP type {number}")


def eap_names(numbers: Iterable[int]) -> str:
    """Join the names for a sentence. Each name appears once, in the order of `numbers`."""
    return ", ".join(dict.fromkeys(map(eap_name, numbers)))


def list_nak_types(message: str) -> tuple[int, ...]:
    """Types that a NAK lists, in the order of the NAK. `message` is the NAK's EAP-Message in hex (0x03...)."""
    return tuple(number for number in bytes.fromhex(message[2:])[_TYPE_AT + 1 :] if number)


def list_requested_types(message: str) -> tuple[int, ...]:
    """Types that a device requests in its EAP-Message (hex), by a NAK or by starting a type.

    The result is empty if the device requests no type.
    """
    packet = bytes.fromhex(message[2:])
    if len(packet) <= _TYPE_AT or packet[_TYPE_AT] == _IDENTITY:
        return ()
    return list_nak_types(message) if packet[_TYPE_AT] == _NAK else (packet[_TYPE_AT],)


# Names that rlm_eap uses, by number of the type (IANA, "Method Types" of EAP).
_BY_NUMBER = {4: "MD5", 13: "TLS", 21: "TTLS", 25: "PEAP"}
_NUMBERS = {name: number for number, name in _BY_NUMBER.items()}
# Methods by type, in the order of proposal. radiusd first proposes the first offered type, except if the device
# requested another type before.
_METHODS = {"TLS": ("eap-tls",), "TTLS": ("eap-ttls-pap", "eap-ttls-mschapv2"), "PEAP": ("peap-mschapv2",)}
TUNNELLED_METHODS = (*_METHODS["TTLS"], *_METHODS["PEAP"])
# Method of a conversation that ends before the inner method is known.
METHOD_OF_TYPE = {"TLS": "eap-tls", "TTLS": "eap-ttls", "PEAP": "peap"}
_TUNNELS = ("TTLS", "PEAP")
UNFINISHED_TUNNELS = tuple(METHOD_OF_TYPE[name] for name in _TUNNELS)
# Outer method of each tunnelled method. The outer method is used if the device requests another inner method.
TUNNEL_OF_METHOD = {method: METHOD_OF_TYPE[name] for name in _TUNNELS for method in _METHODS[name]}

# Types in a conversation whose identity is a MAC address. Only EAP-MD5 can end in an Access-Accept.
_MAB_TYPES = ("MD5", "Identity", "NAK")

# Limit of devices in the cache of requested types; 200 bytes each.
MAX_DEVICES = 20_000


@lru_cache(maxsize=512)
def offered_types(methods: tuple[str, ...], *, mab: bool) -> tuple[str, ...]:
    """EAP types that the tenant offers, the preferred type first.

    If `mab` is true, the identity is a MAC address. EAP-MD5 is offered only for a MAC address.
    """
    types = tuple(name for name, inside in _METHODS.items() if any(method in methods for method in inside))
    return ("MD5", *types) if mab and "mab" in methods else types


def first_offered_type(proposed: Iterable[int], offered: tuple[str, ...]) -> str:
    """Name of the first type in `proposed` that is offered, as rlm_eap names the type; "" if no type is offered."""
    return next((name for number in proposed if (name := _BY_NUMBER.get(number, "")) in offered), "")


def eap_type_label(eap_type: str) -> str:
    """Convert a type name of rlm_eap to the name for people."""
    return eap_name(_NUMBERS[eap_type])


class PreferredTypes:
    """Type that each device requested last, if it differs from the first proposal.

    If Admit proposes this type first, the device needs no NAK, which saves two packets.
    """

    def __init__(self, max_devices: int = MAX_DEVICES) -> None:
        self._max_devices = max_devices
        # (slot, MAC address) -> type
        self._requested: OrderedDict[tuple[int, str], str] = OrderedDict()

    def choose_type(self, offered: tuple[str, ...], slot: int, mac: str) -> str:
        requested = self._requested.get((slot, mac))
        return requested if requested in offered else offered[0]

    def remember(self, slot: int, mac: str, requested: str) -> None:
        if not mac:
            return
        self._requested[slot, mac] = requested
        self._requested.move_to_end((slot, mac))
        if len(self._requested) > self._max_devices:
            self._requested.popitem(last=False)


def find_eap_method(eap_type: str, state: Attributes) -> str:
    """Method of a conversation, from the type of its last packet and the attributes that radiusd stores for the
    conversation.
    """
    inside = state.get("Admit-Method")
    if inside and eap_type in _TUNNELS:
        return inside[0]
    eap_method = METHOD_OF_TYPE.get(eap_type)
    return eap_method or ("mab" if eap_type in _MAB_TYPES and "Admit-MAB-Password" in state else "eap")


def offer_detail(methods: tuple[str, ...], requested: str = "") -> str:
    """Details for a reject: the type that the device requests, if known, and the offered types."""
    asks = f"the device wants {requested}; " if requested else ""
    return f"{asks}{describe_offer(methods)}"


def tunnel_tls_version(noted: str) -> str:
    """TLS version of an established tunnel, from the text that radiusd recorded ("TLS 1.2").

    radiusd records the version only if the last packet of the handshake contains no device data (tls_handshake_recv in
    src/main/tls.c of 3.2.7). Device data in this packet is common only with TLS 1.3. At the end of the conversation,
    Admit checks the version of the stored session.
    """
    return noted.removeprefix("TLS ") or "1.3"

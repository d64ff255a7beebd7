"""Names of EAP types, and the types that a device requests in an EAP packet."""

from collections.abc import Iterable

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

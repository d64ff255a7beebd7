"""Which EAP type a device is asked for, out of those that its tenant offers (RFC 3748 5.3).

radiusd starts with the type in EAP-Type of its control list. A device that wants another answers with a NAK that lists
what it would do; of that list radiusd may take nothing but the type in EAP-Type again, which is named here.
"""

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache

from radius.module.eap_names import eap_name
from radius.module.request import Attributes

# rlm_eap's names by number (IANA, "Method Types" of EAP).
_BY_NUMBER = {4: "MD5", 13: "TLS", 21: "TTLS", 25: "PEAP"}
_NUMBERS = {name: number for number, name in _BY_NUMBER.items()}
# What runs in each; a tenant's devices are asked for the first that is offered, unless they are known to want another.
_METHODS = {"TLS": ("eap-tls",), "TTLS": ("eap-ttls-pap", "eap-ttls-mschapv2"), "PEAP": ("peap-mschapv2",)}
TUNNELLED_METHODS = (*_METHODS["TTLS"], *_METHODS["PEAP"])
# Of a conversation that ends before it is known what runs inside.
METHOD_OF_TYPE = {"TLS": "eap-tls", "TTLS": "eap-ttls", "PEAP": "peap"}
_TUNNELS = ("TTLS", "PEAP")
UNFINISHED_TUNNELS = tuple(METHOD_OF_TYPE[name] for name in _TUNNELS)
# Of a tunnelled method: the tunnel, where what runs inside is not what the device wants.
TUNNEL_OF_METHOD = {method: METHOD_OF_TYPE[name] for name in _TUNNELS for method in _METHODS[name]}

# Of EAP packets in a conversation by which a MAC address authenticates. Only EAP-MD5 ends in an Access-Accept.
_MAB_TYPES = ("MD5", "Identity", "NAK")

# Devices that were asked for another type than they wanted; 200 bytes each.
MAX_DEVICES = 20_000


@lru_cache(maxsize=512)
def offered_types(methods: tuple[str, ...], *, mab: bool) -> tuple[str, ...]:
    """Best first; `mab`: the identity is a MAC address, for which alone EAP-MD5 is."""
    types = tuple(name for name, inside in _METHODS.items() if any(method in methods for method in inside))
    return ("MD5", *types) if mab and "mab" in methods else types


def begun_type(proposed: Iterable[int], offered: tuple[str, ...]) -> str:
    """The first proposed type that is offered, by rlm_eap's name; "" for none."""
    return next((name for number in proposed if (name := _BY_NUMBER.get(number, "")) in offered), "")


def eap_name_of(eap_type: str) -> str:
    """rlm_eap's name of a type in the words of radius.module.eap_names."""
    return eap_name(_NUMBERS[eap_type])


class WantedTypes:
    """What devices wanted last, where it was not what they would be asked for: it spares them two packets."""

    def __init__(self, max_devices: int = MAX_DEVICES) -> None:
        self._max_devices = max_devices
        # (slot, MAC address) -> type
        self._wanted: OrderedDict[tuple[int, str], str] = OrderedDict()

    def first_of(self, offered: tuple[str, ...], slot: int, mac: str) -> str:
        wanted = self._wanted.get((slot, mac))
        return wanted if wanted in offered else offered[0]

    def remember(self, slot: int, mac: str, wanted: str) -> None:
        if not mac:
            return
        self._wanted[slot, mac] = wanted
        self._wanted.move_to_end((slot, mac))
        if len(self._wanted) > self._max_devices:
            self._wanted.popitem(last=False)


def eap_method(eap_type: str, state: Attributes) -> str:
    """The method of a conversation, by the type of its last packet and what radiusd keeps of it."""
    inside = state.get("Admit-Method")
    if inside and eap_type in _TUNNELS:
        return inside[0]
    found = METHOD_OF_TYPE.get(eap_type)
    return found or ("mab" if eap_type in _MAB_TYPES and "Admit-MAB-Password" in state else "eap")


def offer(methods: tuple[str, ...], wanted: str = "") -> str:
    """For the detail of a reject: what the device wants, where that is known, and what is offered."""
    asks = f"the device wants {wanted}; " if wanted else ""
    return f"{asks}offered here: {', '.join(methods)}"


def tls_version_inside(noted: str) -> str:
    """Of a conversation whose tunnel stands, of what radiusd has noted ("TLS 1.2").

    radiusd notes the version when a handshake ends with nothing but the handshake (tls_handshake_recv in src/main/tls.c
    of 3.2.7). A device's data may follow in the same packet, which is usual only with TLS 1.3. The end of the
    conversation checks the version of the stored session.
    """
    return noted.removeprefix("TLS ") or "1.3"

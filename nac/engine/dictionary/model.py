"""Attributes of radiusd's dictionaries, and checks of values in replies."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from nac.engine.dictionary.value_checks import REPLY_TYPES, count_data_bytes, require_value


@dataclass(frozen=True, slots=True)
class VendorFormat:
    """Sizes of type and length in a vendor's attributes, in octets (RFC 2865 5.26 suggests 1 and 1)."""

    name: str
    type_bytes: int = 1
    length_bytes: int = 1
    # Whether an additional octet marks values that continue in the next attribute (WiMAX).
    continuation: bool = False

    def header_bytes(self) -> int:
        return self.type_bytes + self.length_bytes + self.continuation


@dataclass(frozen=True, slots=True)
class DictionaryAttribute:
    """An attribute. `name` has the spelling of the dictionary file.

    All fields except `name` are from the last definition of the attribute's number, because radiusd parses and encodes
    with the last definition.
    """

    name: str
    vendor: int
    number: int
    type: str
    tagged: bool = False
    # 0: none, 1: like User-Password, 2: like Tunnel-Password, 3: Ascend's encryption.
    encrypt: int = 0
    # Required octets of a value of type "octets[n]"; 0 for any number.
    length: int = 0
    # Whether this is part of a TLV or of the extended space (RFC 6929). Then `number` has no meaning.
    nested: bool = False


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Attributes in radiusd's dictionaries, by name in lower case (radiusd ignores case), with their named values and
    vendors."""

    attributes: Mapping[str, DictionaryAttribute]
    vendors: Mapping[int, VendorFormat]
    # (vendor, number) -> name in lower case -> value.
    values: Mapping[tuple[int, int], Mapping[str, int]]

    def knows(self, attribute: str) -> bool:
        return attribute.lower() in self.attributes

    def check(self, attribute: str, value: str, tag: int | None) -> None:
        """Raise ValueError unless radiusd accepts this value in a reply. The message is for the author of the policy.

        If radiusd cannot parse a value, radiusd replaces the value by zero and accepts the device, so this check must
        be complete. The check also rejects values that radiusd accepts by mistake: "3600s" as the name of a value,
        4294967296 as 0, a host name as an address.
        """
        found = self._require(attribute)
        require_replyable(found.name, found.vendor, found.number, found.type, found.encrypt, nested=found.nested)
        if tag is not None and not found.tagged:
            raise ValueError(f"{found.name} does not allow a tag")
        require_value(found.name, found.type, value, self.values.get((found.vendor, found.number), {}), found.length)
        self._require_fit(found, value, tag)

    def encoded_bytes(self, attribute: str, value: str, tag: int | None) -> int:
        """Return the octets of the attribute in a packet, including headers. `check` must have accepted the value."""
        found = self._require(attribute)
        return 2 + self._vendor_header(found) + self._payload(found, value, tag)

    def _require(self, name: str) -> DictionaryAttribute:
        found = self.attributes.get(name.lower())
        if found is None:
            raise ValueError(f"unknown attribute {name!r} in radiusd's dictionaries{self._suggestion(name)}")
        return found

    def _suggestion(self, name: str) -> str:
        # Comparing all 8,000 names takes 50 ms. Most typos keep the first two letters and nearly the length.
        start, length = name[:2].lower(), len(name)
        names = [other for other in self.attributes if other.startswith(start) and abs(len(other) - length) <= 2]
        close = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.75)
        return f"; did you mean {self.attributes[close[0]].name}?" if close else ""

    def _vendor_header(self, found: DictionaryAttribute) -> int:
        if not found.vendor:
            return 0
        return 4 + self.vendors.get(found.vendor, VendorFormat("")).header_bytes()

    def _payload(self, found: DictionaryAttribute, value: str, tag: int | None) -> int:
        size = count_data_bytes(found.type, value)
        if found.encrypt == 2:
            # RFC 2868 3.5: tag, two octets of salt, then length and value in blocks of 16.
            return found.tagged + 2 + (size + 1 + 15) // 16 * 16
        if found.encrypt == 3:
            return 16
        return size + bool(found.tagged and tag and found.type == "string")

    def _require_fit(self, found: DictionaryAttribute, value: str, tag: int | None) -> None:
        room = 253 - self._vendor_header(found)
        if found.encrypt == 3 and count_data_bytes(found.type, value) > 16:
            raise ValueError(f"{found.name} can have at most 16 octets")
        if self._payload(found, value, tag) > room:
            raise ValueError(
                f"too long: {found.name} has room for {room} octets, including encryption and tag (RFC 2865 5)"
            )
        if not found.tagged:
            return
        # RFC 2868 3: a first octet up to 0x1F is read as the tag. A tagged integer has 24 bits.
        if found.type == "string" and not found.encrypt and value[0] <= "\x1f":
            raise ValueError(f"{found.name} cannot start with a control character, which would be read as a tag")
        if found.type == "integer" and self._integer(found, value) > 0xFFFFFF:
            raise ValueError(f"{found.name} can be at most 16777215 because of its tag (RFC 2868 3)")

    def _integer(self, found: DictionaryAttribute, value: str) -> int:
        named = self.values.get((found.vendor, found.number), {}).get(value.lower())
        return int(value, 0) if named is None or value.isdigit() else named


_MICROSOFT = 311
_DHCP = 54

_REQUEST_ONLY = "belongs to requests: a NAS ignores it in a reply"
_SERVER_ONLY = "is set by the server"

# Indexed by number, so that aliases of these attributes are rejected, too.
_FORBIDDEN: dict[tuple[int, int], str] = {
    **{(0, number): _REQUEST_ONLY for number in (2, 3, 4, 5, 30, 31, 32, 55, 60, 61, 68, 70, 77, 86, 87, 95, 101)},
    # Accounting attributes of RFC 2866, and the 64-bit counters of RFC 2869.
    **{(0, number): _REQUEST_ONLY for number in range(40, 54)},
    # State, Proxy-State, Vendor-Specific itself, EAP-Message, Message-Authenticator, EAP-Key-Name.
    **{(0, number): _SERVER_ONLY for number in (24, 26, 33, 79, 80, 102)},
    # RFC 2548: MS-CHAP and EAP keys. MPPE-Send-Key and -Recv-Key are 16 and 17.
    **{(_MICROSOFT, number): _SERVER_ONLY for number in (1, 2, 3, 4, 5, 6, 11, 12, 16, 17, 25, 26, 27)},
}


def require_replyable(name: str, vendor: int, number: int, kind: str, encrypt: int, *, nested: bool) -> None:
    """Raise ValueError unless a policy can set this attribute in a reply."""
    if nested or kind not in REPLY_TYPES:
        raise ValueError(f"{name} has the type {'tlv' if nested else kind}, which a policy cannot send")
    if not vendor and number > 255:
        raise ValueError(f"{name} is internal to radiusd and never sent")
    if vendor == _DHCP:
        raise ValueError(f"{name} is a DHCP option, not a RADIUS attribute")
    refusal = _FORBIDDEN.get((vendor, number))
    if refusal is None and encrypt == 1:
        # This encryption uses the authenticator of a request (RFC 2865 5.2).
        refusal = _REQUEST_ONLY
    if refusal is not None:
        raise ValueError(f"{name} {refusal}")

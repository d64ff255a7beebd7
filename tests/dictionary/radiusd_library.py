"""`radiusd`'s own dictionary and parser of values, called in its shared library as the reference.

Signatures and layouts are those of FreeRADIUS 3.2.7 (libradius.h).
"""

import ctypes
from pathlib import Path

FOLDER = Path("/usr/share/freeradius")
_LIBRARY = Path("/usr/lib/freeradius/libfreeradius-radius.so")
_MAX_VENDOR = 1 << 24
_PAIR_TAG_OFFSET = 20
_VECTOR_OFFSET = 72

TYPES = (
    "invalid", "string", "integer", "ipaddr", "date", "abinary", "octets", "ifid", "ipv6addr", "ipv6prefix", "byte",
    "short", "ether", "signed", "combo-ip", "tlv", "extended", "long-extended", "evs", "integer64", "ipv4prefix", "vsa",
)  # fmt: skip


class _Attribute(ctypes.Structure):
    _fields_ = (("number", ctypes.c_uint), ("type", ctypes.c_int), ("vendor", ctypes.c_uint))


class Library:
    def __init__(self) -> None:
        self._lib = ctypes.CDLL(str(_LIBRARY))
        pointer = ctypes.c_void_p
        for name, result, *arguments in (
            ("dict_init", ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p),
            ("dict_attrbyname", ctypes.POINTER(_Attribute), ctypes.c_char_p),
            ("dict_attrbyvalue", ctypes.POINTER(_Attribute), ctypes.c_uint, ctypes.c_uint),
            ("fr_pair_afrom_da", pointer, pointer, pointer),
            ("fr_pair_value_from_str", ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_ssize_t),
            ("fr_pair_list_free", None, ctypes.POINTER(pointer)),
            ("rad_alloc", pointer, pointer, ctypes.c_bool),
            ("rad_vp2attr", ctypes.c_int, pointer, pointer, ctypes.c_char_p, ctypes.POINTER(pointer), pointer,
             ctypes.c_size_t),
        ):  # fmt: skip
            function = getattr(self._lib, name)
            function.restype, function.argtypes = result, arguments
        # A value that is not an address must not cause a DNS lookup.
        ctypes.c_bool.in_dll(self._lib, "fr_hostname_lookups").value = False
        if self._lib.dict_init(str(FOLDER).encode(), b"dictionary") < 0:
            raise RuntimeError("radiusd's library cannot read its dictionaries")
        self._packet = self._lib.rad_alloc(None, True)
        self._request = self._lib.rad_alloc(None, True)

    def find(self, name: str) -> tuple[int, int, str] | None:
        """The attribute (vendor, number, type) that radiusd creates for this name."""
        found = self._canonical(name)
        return (found.contents.vendor, found.contents.number, TYPES[found.contents.type]) if found else None

    def encode(self, name: str, value: str, tag: int | None) -> bytes | None:
        """The octets of the attribute in a packet, or None if radiusd cannot parse the value."""
        return self.encode_pair(value.replace("\\", "\\\\"), name, tag)

    def request_vector(self) -> bytes:
        """The authenticator of the request, which encrypts passwords in the response."""
        return ctypes.string_at(self._request + _VECTOR_OFFSET, 16)

    def encode_pair(self, quoted: str, name: str, tag: int | None) -> bytes | None:
        """Encode a value as rlm_python3 passes it: with escapes, as in double quotes."""
        found = self._canonical(name)
        if not found:
            return None
        pair = ctypes.c_void_p(self._lib.fr_pair_afrom_da(None, found))
        try:
            ctypes.c_int8.from_address(pair.value + _PAIR_TAG_OFFSET).value = tag or 0
            if self._lib.fr_pair_value_from_str(pair, quoted.encode(), -1) < 0:
                return None
            room = ctypes.create_string_buffer(4096)
            at = ctypes.c_void_p(pair.value)
            size = self._lib.rad_vp2attr(self._packet, self._request, b"secret", ctypes.byref(at), room, 4096)
            return room.raw[: max(size, 0)]
        finally:
            self._lib.fr_pair_list_free(ctypes.byref(pair))

    def _canonical(self, name: str):
        """Look up an attribute as rlm_python3 does: by name, then by the last definition of that number."""
        found = self._lib.dict_attrbyname(name.encode())
        if not found:
            return None
        return self._lib.dict_attrbyvalue(found.contents.number, found.contents.vendor) or found

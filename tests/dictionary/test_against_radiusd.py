"""`radiusd` accepts every value that Admit accepts, and encodes it into the number of octets that Admit counts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nac.engine.dictionary.value_checks import REPLY_TYPES
from tests.dictionary.radiusd_library import Library
from tests.factories.dictionary import installed_dictionary
from tests.run_depth import examples

ACCEPTED = [
    ("Session-Timeout", "0", None),
    ("Session-Timeout", "4294967295", None),
    ("Session-Timeout", "0xff", None),
    ("session-timeout", "60", None),
    ("Termination-Action", "RADIUS-Request", None),
    ("Service-Type", "framed-user", None),
    ("Tunnel-Type", "VLAN", 1),
    ("Tunnel-Type", "13", None),
    ("Tunnel-Medium-Type", "IEEE-802", 31),
    ("Tunnel-Private-Group-Id", "20", 1),
    ("Tunnel-Private-Group-Id", "x" * 252, 1),
    ("Tunnel-Password", "p" * 239, 0),
    ("Filter-Id", "x" * 253, None),
    ("Reply-Message", "Grüß Gott", None),
    ("Class", "0x0102", None),
    ("Framed-IP-Address", "192.0.2.1", None),
    ("Framed-IPv6-Prefix", "2001:db8::/32", None),
    ("Framed-Interface-Id", "1:22:333:4444", None),
    ("Framed-IPv6-Address", "2001:db8::1", None),
    ("Acct-Interim-Interval", "600", None),
    ("Cisco-AVPair", "x" * 247, None),
    ("Cisco-AVPair", "ip:inacl#1=permit ip any any", None),
    ("Aruba-User-Role", "guest", None),
    ("Aruba-User-Vlan", "20", None),
    ("Airespace-Interface-Name", "vlan20", None),
    ("Ascend-Send-Secret", "x" * 16, None),
    ("Lucent-Max-Shared-Users", "1", None),
    ("USR-Last-Number-Dialed-Out", "x" * 245, None),
    ("WiMAX-Session-Continue", "1", None),
]
REFUSED = [
    ("No-Such-Attribute-Here", "1", None, "unknown attribute"),
    ("Sesion-Timeout", "1", None, "did you mean Session-Timeout"),
    ("Session-Timeout", "4294967296", None, "from 0 to 4294967295"),
    ("Session-Timeout", "0x100000000", None, "from 0 to 4294967295"),
    ("Session-Timeout", "-1", None, "invalid value"),
    ("Session-Timeout", "notanumber", None, "invalid value"),
    ("Session-Timeout", "3600s", None, "invalid value"),
    ("Session-Timeout", " 1", None, "invalid value"),
    ("Session-Timeout", "1\n", None, "invalid value"),
    ("Session-Timeout", "٣", None, "invalid value"),
    ("Session-Timeout", "60", 1, "does not allow a tag"),
    ("Tunnel-Type", "VLANX", 1, "or one of"),
    ("Tunnel-Type", "16777216", 1, "16777215"),
    ("Tunnel-Private-Group-Id", "x" * 253, 1, "too long"),
    ("Tunnel-Private-Group-Id", "\x01", None, "read as a tag"),
    ("Tunnel-Password", "p" * 240, 0, "too long"),
    ("Filter-Id", "x" * 254, None, "too long"),
    ("Filter-Id", "", None, "nonempty"),
    ("Filter-Id", "a\0b", None, "NUL"),
    ("Filter-Id", "\ud800", None, "NUL"),
    ("Cisco-AVPair", "x" * 248, None, "too long"),
    ("Class", "0102", None, "in hex"),
    ("Class", "0x010", None, "in hex"),
    ("Class", "0x", None, "in hex"),
    ("Framed-IP-Address", "999.1.1.1", None, "IPv4 address"),
    ("Framed-IP-Address", "localhost", None, "IPv4 address"),
    ("Framed-IP-Address", "1", None, "IPv4 address"),
    ("Framed-IP-Address", "192.0.2.1/32", None, "IPv4 address"),
    ("Framed-IPv6-Address", "fe80::1%eth0", None, "IPv6 address"),
    ("Framed-IPv6-Prefix", "2001:db8::/129", None, "prefix"),
    ("Framed-IPv6-Prefix", "2001:db8::", None, "prefix"),
    ("Framed-Interface-Id", "1:2:3", None, "must have the form"),
    ("Ascend-Send-Secret", "x" * 17, None, "16 octets"),
    ("Auth-Type", "Accept", None, "internal"),
    ("Cleartext-Password", "x", None, "internal"),
    ("Tmp-String-0", "x", None, "internal"),
    ("User-Password", "x", None, "belongs to requests"),
    ("Calling-Station-Id", "x", None, "belongs to requests"),
    ("Acct-Status-Type", "Start", None, "belongs to requests"),
    ("Message-Authenticator", "0x00", None, "set by the server"),
    ("EAP-Message", "0x00", None, "set by the server"),
    ("State", "0x00", None, "set by the server"),
    ("Proxy-State", "0x00", None, "set by the server"),
    ("MS-MPPE-Send-Key", "0x00", None, "set by the server"),
    ("MS-MPPE-Recv-Key", "0x00", None, "set by the server"),
    ("MS-CHAP2-Success", "0x00", None, "set by the server"),
    ("Vendor-Specific", "0x00", None, "type vsa"),
    ("Ascend-Data-Filter", "ip in forward", None, "type abinary"),
    ("DHCP-Router-Address", "192.0.2.1", None, None),
    ("WiMAX-Release", "1.0", None, "type tlv"),
    ("Frag-Status", "1", None, "type tlv"),
]


@pytest.mark.parametrize(("name", "value", "tag"), ACCEPTED, ids=[f"{row[0]}-{row[1][:16]}" for row in ACCEPTED])
def test_good_pair_is_accepted_and_encodes_as_counted(dictionary, radiusd, name, value, tag):
    dictionary.check(name, value, tag)
    assert len(radiusd.encode(name, value, tag)) == dictionary.encoded_bytes(name, value, tag)


@pytest.mark.parametrize(
    ("name", "value", "tag", "words"), REFUSED, ids=[f"{row[0]}-{row[1][:16]!a}" for row in REFUSED]
)
def test_bad_pair_is_rejected_with_a_sentence(dictionary, name, value, tag, words):
    with pytest.raises(ValueError, match=words):
        dictionary.check(name, value, tag)


def test_every_attribute_has_the_radiusd_number_and_type(dictionary, radiusd):
    assert len(dictionary.attributes) > 7000
    ours = {a.name: (a.vendor, a.number, a.type) for a in dictionary.attributes.values() if not a.nested}
    assert ours == {name: radiusd.find(name) for name in ours}
    nested = [a.name for a in dictionary.attributes.values() if a.nested]
    assert all(radiusd.find(name) is not None for name in nested)


def test_every_named_value_encodes_to_its_number(dictionary, radiusd):
    compared = 0
    for attribute in dictionary.attributes.values():
        width = {"byte": 1, "short": 2, "integer": 4}.get(attribute.type)
        if width is None or attribute.encrypt:
            continue
        for name, number in dictionary.values.get((attribute.vendor, attribute.number), {}).items():
            try:
                dictionary.check(attribute.name, name, None)
            except ValueError:
                continue
            if name.isdigit():
                # radiusd parses "56" as the number, even if a dictionary gives another number this name.
                number = int(name)
            octets = radiusd.encode(attribute.name, name, None)
            assert octets is not None, (attribute.name, name)
            assert octets[-width:] == number.to_bytes(width, "big"), (attribute.name, name)
            compared += 1
    assert compared > 4000


DICTIONARY = installed_dictionary()
RADIUSD = Library()


def _is_tolerable(name: str) -> bool:
    attribute = DICTIONARY.attributes[name]
    return attribute.type in REPLY_TYPES and not attribute.nested and (attribute.vendor != 0 or attribute.number < 256)


names = st.sampled_from(sorted(filter(_is_tolerable, DICTIONARY.attributes)))
octet = st.integers(0, 300).map(str)
digits = st.integers(-5, 2**70) | st.sampled_from((2**8, 2**16, 2**24, 2**31, 2**32, 2**64)).flatmap(
    lambda bound: st.integers(bound - 2, bound + 1)
)
hexes = st.text("0123456789abcdefABCDEF", max_size=6)
values = st.one_of(
    st.text(max_size=260).filter(lambda text: text.isprintable() or "\0" not in text),
    st.text("ab\\\"'%{}$`n0 ", max_size=12),
    digits.map(str),
    digits.map(hex),
    st.binary(max_size=130).map(lambda data: "0x" + data.hex()),
    st.lists(octet, min_size=4, max_size=4).map(".".join),
    st.ip_addresses().map(str),
    st.tuples(st.ip_addresses().map(str), st.integers(-1, 130)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    st.lists(hexes, min_size=3, max_size=8).map(":".join),
    st.binary(min_size=6, max_size=6).map(lambda data: data.hex(":")),
    st.just("x" * 253),
)


@st.composite
def pairs(draw):
    name = draw(names)
    attribute = DICTIONARY.attributes[name]
    named = sorted(DICTIONARY.values.get((attribute.vendor, attribute.number), {}))
    value = draw(values | st.sampled_from(named) if named else values)
    return name, value, draw(st.none() | st.integers(0, 31))


@settings(deadline=None, max_examples=examples(1500))
@given(pairs())
def test_radiusd_accepts_and_encodes_all_accepted_values(pair):
    name, value, tag = pair
    try:
        DICTIONARY.check(name, value, tag)
    except ValueError:
        return
    octets = RADIUSD.encode(name, value, tag)
    assert octets is not None
    assert len(octets) == DICTIONARY.encoded_bytes(name, value, tag)
    # A truncated value, or a value split over several attributes, would differ from the policy.
    attribute = DICTIONARY.attributes[name]
    if attribute.type == "string" and not attribute.encrypt:
        assert octets.endswith(value.encode())


@settings(deadline=None, max_examples=examples(300))
@given(names, st.text(max_size=300), st.none() | st.integers(-1, 40))
def test_check_of_any_value_raises_only_value_error(name, value, tag):
    try:
        DICTIONARY.check(name, value, tag)
    except ValueError as error:
        problem = str(error)
    else:
        problem = "none"
    assert problem

"""Every vendor and neutral key: rendered as specified, encoded by radiusd's library, and decoded by pyrad."""

import io
import struct
from itertools import starmap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyrad.dictionary import Dictionary as PyradDictionary
from pyrad.packet import Packet

from nac.engine.vendors import (
    NEUTRAL_KEYS,
    DownloadableAcl,
    ReplyAttribute,
    Results,
    VendorRefusal,
    all_vendors,
    find_vendor,
    known_vendor,
)
from nac.engine.vendors.vendor import MAX_PASSPHRASE_LENGTH
from tests.run_depth import examples
from tests.vendors.samples import EXPECTED, PASSPHRASE, SSID

ROWS = [
    pytest.param(vendor, key, *row, id=f"{vendor}-{key}")
    for vendor, rows in EXPECTED.items()
    for key, row in rows.items()
]
# In pyrad's own definitions, so that an error in the dictionaries of FreeRADIUS or Admit is detected.
_PLAIN = """
ATTRIBUTE Filter-Id 11 string
ATTRIBUTE Session-Timeout 27 integer
ATTRIBUTE Termination-Action 29 integer
VALUE Termination-Action RADIUS-Request 1
ATTRIBUTE Tunnel-Type 64 octets
ATTRIBUTE Tunnel-Medium-Type 65 octets
ATTRIBUTE Tunnel-Password 69 octets
ATTRIBUTE Tunnel-Private-Group-Id 81 octets
ATTRIBUTE NAS-Filter-Rule 92 string
"""
_OF_VENDORS = {
    "Cisco 9": ["Cisco-AVPair 1 string"],
    "HP 11": ["HP-User-Role 25 string"],
    "Juniper 2636": ["Juniper-Switching-Filter 48 string"],
    "Fortinet 12356": ["Fortinet-Group-Name 1 string"],
    "Airespace 14179": ["Airespace-ACL-Name 6 string"],
    "Aruba 14823": ["Aruba-User-Role 1 string", "Aruba-MPSK-Passphrase 44 octets", "Aruba-NAS-Filter-Rule 51 string"],
    "Mikrotik 14988": [
        *("Mikrotik-Group 3 string", "Mikrotik-Wireless-PSK 16 string", "Mikrotik-Wireless-VLANID 26 integer"),
        *("Mikrotik-Wireless-VLANIDtype 27 integer", "Mikrotik-Switching-Filter 30 string"),
    ],
    "Ruckus 25053": ["Ruckus-User-Groups 1 string", "Ruckus-DPSK 142 octets"],
}


def _definitions(vendor: str, attributes: list[str]) -> str:
    name = vendor.split()[0]
    lines = [f"VENDOR {vendor}", f"BEGIN-VENDOR {name}", *(f"ATTRIBUTE {each}" for each in attributes)]
    return "\n".join([*lines, f"END-VENDOR {name}\n"])


PYRAD = PyradDictionary(io.StringIO(_PLAIN + "".join(starmap(_definitions, _OF_VENDORS.items()))))
_SECRET = b"secret"
# Octets that pyrad does not decode: a tag and a number of three octets, or a tag and text.
_TUNNEL_NUMBERS = {b"\x01\x00\x00\x0d": "VLAN", b"\x01\x00\x00\x06": "IEEE-802"}


def rendered(vendor: str, results: Results) -> list[ReplyAttribute]:
    rendering = find_vendor(vendor).render(results)
    secret = [template.fill_passphrase(PASSPHRASE, SSID) for template in rendering.passphrase]
    return [item.attribute for item in rendering.attributes] + secret


def test_every_vendor_and_key_has_a_sample():
    assert {name: set(rows) for name, rows in EXPECTED.items()} == {name: set(NEUTRAL_KEYS) for name in all_vendors()}


@pytest.mark.parametrize(("vendor", "key", "results", "expected"), ROWS)
def test_key_is_rendered_as_the_vendor_documents(vendor, key, results, expected):
    rendering = find_vendor(vendor).render(results)
    if expected is None:
        (refusal,) = rendering.refusals
        assert refusal.place == key
        assert refusal.why.startswith(find_vendor(vendor).title + ": ")
        assert (rendering.attributes, rendering.passphrase) == ((), ())
    else:
        assert rendering.refusals == ()
        assert [(item.attribute, item.value) for item in rendered(vendor, results)] == expected


@pytest.mark.parametrize(("vendor", "key", "results", "expected"), [row for row in ROWS if row.values[3] is not None])
def test_radiusd_and_another_decoder_accept_the_reply(dictionary, radiusd, vendor, key, results, expected):
    items = rendered(vendor, results)
    for item in items:
        dictionary.check(item.attribute, item.value, item.tag)
        octets = radiusd.encode(item.attribute, item.value, item.tag)
        assert len(octets) == dictionary.encoded_bytes(item.attribute, item.value, item.tag)
    body = b"".join(radiusd.encode_pair(item.pair()[2], item.attribute, item.tag) for item in items)
    header = struct.pack("!BBH16s", 2, 7, 20 + len(body), radiusd.request_vector())
    reply = Packet(packet=header + body, dict=PYRAD, secret=_SECRET)
    found: list[tuple[str, str]] = []
    for name in dict.fromkeys(item.attribute for item in items):
        found += ((name, _text(reply, name, value)) for value in reply[name])
    assert sorted(found) == sorted(expected)


def _text(reply: Packet, name: str, value: object) -> str:
    if name == "Tunnel-Private-Group-Id":
        assert value[:1] == b"\x01"
        return value[1:].decode()
    if name in ("Tunnel-Type", "Tunnel-Medium-Type"):
        return _TUNNEL_NUMBERS[value]
    if name == "Tunnel-Password":
        assert value[:1] == b"\0"
        return reply.SaltDecrypt(value[1:]).decode()
    if name == "Aruba-MPSK-Passphrase":
        return "0x" + reply.SaltDecrypt(value).hex()
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


@pytest.mark.parametrize(
    ("written", "vendor"),
    [
        ("cisco", "cisco"), ("CISCO", "cisco"), (" Cisco_Systems ", "cisco"), ("ios-xe", "cisco"),
        ("Catalyst 9800", "cisco-wlc"), ("cisco.wlc", "cisco-wlc"), ("Ubiquiti", "unifi"), ("RouterOS", "mikrotik"),
        ("HP", "hpe"), ("hpe aruba", "aruba"), ("Enterasys", "extreme"), ("default", "default"),
    ],
)  # fmt: skip
def test_vendor_is_found_by_any_of_its_names(written, vendor):
    assert known_vendor(written).name == find_vendor(written).name == vendor


@pytest.mark.parametrize("written", ["", "cisc", "ciscos", "acme", "cisco systems inc", "\0"])
def test_unknown_vendor_gets_the_rfc_attributes(written):
    assert known_vendor(written) is None
    assert find_vendor(written).name == "default"


def refusals(vendor, **results):
    return find_vendor(vendor).render(Results(**results)).refusals


def test_vlan_name_is_rejected_by_id_only_vendors():
    for vendor in ("unifi", "mikrotik"):
        (refusal,) = refusals(vendor, vlan="guests")
        assert refusal == VendorRefusal(
            "vlan", f"{find_vendor(vendor).title}: expects the id of a VLAN, not a name, not 'guests'"
        )


def test_entries_in_another_vendor_syntax_are_rejected():
    cisco, juniper = ("permit ip any any",), ("match destination-ip 192.0.2.1 action allow",)
    for vendor, entries, fits in (
        ("cisco", cisco, True), ("cisco", juniper, False), ("juniper", juniper, True), ("juniper", cisco, False),
        ("cisco", (*cisco, *juniper), False), ("cisco", ("permit ipv6 any any",), False),
        ("mikrotik", ("protocol 17 action allow",), True), ("mikrotik", ("action allow, action drop",), False),
        ("default", ("permit in ip from any to any",), True), ("default", ("permit ip any any",), False),
    ):  # fmt: skip
        found = refusals(vendor, downloadable_acl=DownloadableAcl(entries=entries))
        assert [refusal.place for refusal in found] == ([] if fits else ["downloadable_acl"]), (vendor, entries)


def test_entries_may_differ_by_vendor():
    acl = DownloadableAcl("x", (), (("cisco", ("permit ip any any",)), ("aruba", ("permit in ip from any to any",))))
    assert [item.value for item in rendered("cisco", Results(downloadable_acl=acl))] == [
        "ip:inacl#10=permit ip any any"
    ]
    assert [item.value for item in rendered("aruba", Results(downloadable_acl=acl))] == ["permit in ip from any to any"]
    (refusal,) = refusals("juniper", downloadable_acl=acl)
    assert refusal.why == "Juniper switches: the ACL has no entries for this vendor"


def test_conflicting_keys_are_rejected_only_for_that_vendor():
    assert refusals("default", acl="a", role="b") == (
        VendorRefusal("role", "acl already uses Filter-Id; use only one of the two"),
    )
    assert refusals("hpe", acl="a", role="b") == ()


def test_conflicting_attribute_is_rejected_only_for_that_vendor():
    reply = (ReplyAttribute("aruba-user-role", ":=", "x"),)
    (refusal,) = refusals("aruba", role="staff", reply=reply)
    assert refusal == VendorRefusal("reply[0].attribute", "role already sets this attribute; use only one of the two")
    assert refusals("hpe", role="staff", reply=reply) == ()
    password = (ReplyAttribute("Tunnel-Password", ":=", "x"),)
    assert [found.place for found in refusals("meraki", psk="endpoint", reply=password)] == ["reply[0].attribute"]


def test_list_begun_by_a_key_is_appended_to():
    reply = (ReplyAttribute("Cisco-AVPair", ":=", "device-traffic-class=voice"),)
    pairs = find_vendor("cisco").render(Results(role="phones", reply=reply)).pairs()
    assert pairs == (
        ("Cisco-AVPair", "+=", "subscriber:service-name=phones"),
        ("Cisco-AVPair", "+=", "device-traffic-class=voice"),
    )
    # Without a first entry, the operator does not change.
    assert find_vendor("aruba").render(Results(reply=reply)).pairs()[0][1] == ":="


texts = st.text(max_size=300)
downloads = st.builds(
    DownloadableAcl,
    texts,
    st.lists(texts, max_size=4).map(tuple),
    st.lists(st.tuples(st.sampled_from(sorted(all_vendors())), st.lists(texts, max_size=2).map(tuple))).map(tuple),
)
replies = st.builds(ReplyAttribute, texts, st.sampled_from((":=", "+=")), texts, st.none() | st.integers(0, 31))
any_results = st.builds(
    Results,
    *(texts, texts, st.none() | downloads, texts, st.integers(0, 2**40), st.booleans()),
    *(st.sampled_from(("", "endpoint")), st.lists(replies, max_size=4).map(tuple)),
)


@settings(deadline=None, max_examples=examples(400))
@given(st.sampled_from(sorted(all_vendors())), any_results, st.text(max_size=MAX_PASSPHRASE_LENGTH))
def test_rendering_never_raises_or_drops_silently(vendor, results, passphrase):
    rendering = find_vendor(vendor).render(results)
    assert find_vendor(passphrase).name in all_vendors()
    told = {item.source.partition("[")[0] for item in rendering.attributes}
    told |= {refusal.place.partition("[")[0] for refusal in rendering.refusals}
    told |= {"psk"} if rendering.passphrase else set()
    assert set(results.used_keys()) <= told
    for template in rendering.passphrase:
        if template.encoding != "pmk":
            template.fill_passphrase(passphrase, "ssid").pair()
    assert all(isinstance(part, str) for pair in rendering.pairs() for part in pair)

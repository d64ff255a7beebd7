"""Evidence parsed from packets: each format with its near miss. No packet makes the parser fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.inventory.profiling.evidence import EVIDENCE_KEYS, MAX_VALUE, Evidence, filter_evidence_pairs, read_evidence
from nac.inventory.profiling.sensor import SENSOR_ATTRIBUTE, is_sensor_pair, read_tlv


def sensor_data(kind: str, number: int, value: bytes, *, length: int | None = None) -> tuple[str, str]:
    body = number.to_bytes(2) + (len(value) if length is None else length).to_bytes(2) + value
    return SENSOR_ATTRIBUTE, "0x" + (f"{kind}=".encode() + body).hex()


@pytest.mark.parametrize(
    ("pair", "found"),
    [
        (sensor_data("dhcp-option", 12, b"BRW001"), Evidence("dhcp", "hostname", "BRW001")),
        (sensor_data("dhcp-option", 55, bytes((1, 3, 6, 252))), Evidence("dhcp", "parameters", "1,3,6,252")),
        (sensor_data("dhcp-option", 60, b"MSFT 5.0"), Evidence("dhcp", "class", "MSFT 5.0")),
        # RFC 4702 2.1: flags, two result codes, then text, or labels if the bit E is set.
        (sensor_data("dhcp-option", 81, b"\x00\xff\xffpc1.acme.example"), Evidence("dhcp", "fqdn", "pc1.acme.example")),
        (sensor_data("dhcp-option", 81, b"\x04\0\0\x03pc1\x04acme\0"), Evidence("dhcp", "fqdn", "pc1.acme")),
        (sensor_data("dhcp-option", 81, b"\x04\0\0\x3fshort"), Evidence("dhcp", "fqdn", "short")),
        (sensor_data("lldp-tlv", 5, b"ap-1"), Evidence("lldp", "name", "ap-1")),
        (sensor_data("lldp-tlv", 6, b"Axis P3245\nLVE"), Evidence("lldp", "description", "Axis P3245 LVE")),
        # Enabled capabilities, not supported capabilities.
        (sensor_data("lldp-tlv", 7, b"\x00\x24\x00\x20"), Evidence("lldp", "capabilities", "telephone")),
        (sensor_data("cdp-tlv", 4, b"\x00\x00\x04\x90"), Evidence("cdp", "capabilities", "host,phone")),
        (sensor_data("cdp-tlv", 6, b"Cisco IP Phone 7945"), Evidence("cdp", "platform", "Cisco IP Phone 7945")),
        (sensor_data("http-tlv", 1, b"Mozilla/5.0 (iPhone)"), Evidence("http", "user-agent", "Mozilla/5.0 (iPhone)")),
        (("Cisco-AVPair", "dc-profile-name=Apple-iPad"), Evidence("radius", "device-type", "Apple-iPad")),
        (("Aruba-Device-Type", "Win 10"), Evidence("radius", "device-type", "Win 10")),
        (("Ruckus-Client-Os-Type", "Android"), Evidence("radius", "os", "Android")),
        (("User-Name", "host/pc1.acme.example"), Evidence("radius", "machine", "host/pc1.acme.example")),
        (("User-Name", "ACME\\PC1$"), Evidence("radius", "machine", "ACME\\PC1$")),
        # Truncated in transit, and parsed as far as possible.
        (sensor_data("dhcp-option", 12, b"BRW", length=200), Evidence("dhcp", "hostname", "BRW")),
    ],
)
def test_packet_evidence_is_parsed(pair, found):
    assert read_evidence((("NAS-Port", "7"), pair)) == (found,)


@pytest.mark.parametrize(
    "pair",
    [
        sensor_data("dhcp-option", 50, b"\xc0\0\2\7"),
        sensor_data("dhcp-option", 12, b""),
        sensor_data("dhcp-option", 81, b"\x00\xff"),
        sensor_data("lldp-tlv", 7, b""),
        sensor_data("arp-tlv", 1, b"x"),
        (SENSOR_ATTRIBUTE, "0x" + b"dhcp-option=\0\x0c".hex()),
        (SENSOR_ATTRIBUTE, "0xdhcp"),
        (SENSOR_ATTRIBUTE, "0x646"),
        ("Cisco-AVPair", "audit-session-id=0A00"),
        ("Cisco-AVPair", "dc-profile-name"),
        ("User-Name", "anna"),
        ("User-Name", "ahost/pc1"),
        ("Calling-Station-Id", "host/pc1"),
    ],
)
def test_packet_without_evidence_is_skipped(pair):
    assert read_evidence((pair,)) == ()


def test_last_value_of_a_key_wins_and_keys_are_sorted():
    pairs = (
        sensor_data("lldp-tlv", 5, b"b"),
        sensor_data("dhcp-option", 12, b"old"),
        sensor_data("dhcp-option", 12, b"new"),
    )
    assert read_evidence(pairs) == (Evidence("dhcp", "hostname", "new"), Evidence("lldp", "name", "b"))


def test_other_cisco_pairs_are_ignored():
    said = (sensor_data("dhcp-option", 12, b"x"),)
    assert filter_evidence_pairs((("Cisco-AVPair", "audit-session-id=1"), *said, ("User-Name", "anna"))) == said


octets = st.one_of(
    st.binary(max_size=300),
    st.builds(
        lambda kind, number, length, value: kind + number.to_bytes(2) + length.to_bytes(2) + value,
        st.sampled_from((b"dhcp-option=", b"lldp-tlv=", b"cdp-tlv=", b"http-tlv=")),
        st.sampled_from((1, 4, 5, 6, 7, 12, 55, 60, 81)) | st.integers(0, 65535),
        st.integers(0, 65535),
        st.binary(max_size=300),
    ),
)
pairs = st.tuples(
    st.sampled_from(
        (SENSOR_ATTRIBUTE, "Cisco-AVPair", "User-Name", "Aruba-Device-Type", "Ruckus-Client-Os-Class", "Class")
    ),
    st.text(max_size=300) | octets.map(lambda value: "0x" + value.hex()),
)


@given(st.lists(pairs, max_size=30).map(tuple))
def test_any_packet_gives_bounded_storable_evidence(sent):
    found = read_evidence(sent)
    assert len({(each.source, each.key) for each in found}) == len(found) <= len(EVIDENCE_KEYS)
    for each in found:
        assert (each.source, each.key) in EVIDENCE_KEYS
        assert 0 < len(each.value) <= MAX_VALUE
        assert each.value.isprintable()
    assert read_evidence(filter_evidence_pairs(sent)) == found
    for name, value in sent:
        if name == SENSOR_ATTRIBUTE and not is_sensor_pair((name, value)):
            assert read_tlv(value) is None or not value.startswith("0x")

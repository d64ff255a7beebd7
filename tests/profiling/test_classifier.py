"""Classification of devices: profiles from realistic evidence, and a confidence that follows from the reasons."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.inventory.profiling.classifier import MAX_CONFIDENCE, MIN_CONFIDENCE, ProfileFinding, load_packaged_profiles
from nac.inventory.profiling.evidence import EVIDENCE_KEYS, Evidence

WINDOWS = "1,3,6,15,31,33,43,44,46,47,119,121,249,252"


def classify(vendor="", *evidence, mac="001122334455"):
    return load_packaged_profiles().classify(mac=mac, vendor=vendor, evidence=[Evidence(*each) for each in evidence])


@pytest.mark.parametrize(
    ("vendor", "evidence", "profile", "os"),
    [
        ("Brother industries, LTD.", [("dhcp", "hostname", "BRW001BA9")], "printer", ""),
        ("HP Inc.", [("dhcp", "class", "Hewlett-Packard JetDirect")], "printer", ""),
        ("HP Inc.", [("dhcp", "class", "MSFT 5.0"), ("dhcp", "parameters", WINDOWS)], "computer", "windows"),
        ("Apple, Inc.", [("dhcp", "parameters", "1,121,3,6,15,119,252")], "mobile", "ios"),
        ("Apple, Inc.", [("dhcp", "parameters", "1,121,3,6,15,119,252,95,44,46")], "computer", "macos"),
        ("Samsung Electronics Co.,Ltd", [("dhcp", "class", "android-dhcp-13")], "mobile", "android"),
        ("Axis Communications AB", [], "camera", ""),
        ("Espressif Inc.", [("dhcp", "hostname", "ESP_0A1B2C")], "iot", ""),
        ("", [("cdp", "platform", "Cisco IP Phone 7945"), ("cdp", "capabilities", "host,phone")], "phone", ""),
        ("", [("cdp", "platform", "cisco WS-C2960X"), ("cdp", "capabilities", "switch,igmp")], "switch", ""),
        ("Ruckus Wireless", [("lldp", "capabilities", "bridge,wlan-ap")], "ap", ""),
        ("VMware, Inc.", [], "server", ""),
        ("Sonos, Inc.", [], "media", ""),
        ("", [("radius", "machine", "host/pc1.acme.example")], "computer", "windows"),
        ("", [("http", "user-agent", "Mozilla/5.0 (iPhone; CPU OS 17_0)")], "mobile", "ios"),
        # Near misses, which get no profile.
        ("Cisco Systems, Inc", [], "", ""),
        ("Hewlett Packard", [], "", ""),
        ("", [("dhcp", "parameters", WINDOWS + ",1")], "", ""),
        ("", [("dhcp", "hostname", "reception")], "", ""),
    ],
)  # fmt: skip
def test_device_gets_the_profile_of_its_evidence(vendor, evidence, profile, os):
    found = classify(vendor, *evidence)
    assert (found.profile, found.os) == (profile, os)


def test_confidence_follows_from_the_listed_reasons():
    found = classify("Brother industries, LTD.", ("dhcp", "hostname", "BRW001BA9"))
    assert [(reason.field, reason.weight) for reason in found.why] == [("vendor", 50), ("dhcp.hostname", 45)]
    # Half of the remaining doubt of 55 %.
    assert found.confidence == 72


def test_evidence_for_another_profile_counts_half_against():
    alone = classify("", ("dhcp", "class", "MSFT 5.0"))
    doubted = classify("", ("dhcp", "class", "MSFT 5.0"), ("dhcp", "hostname", "reception-printer"))
    assert (alone.profile, alone.confidence) == ("computer", 70)
    # 70 %, minus a quarter of 70 %.
    assert (doubted.profile, doubted.confidence) == ("computer", 52)
    assert {reason.profile for reason in doubted.why} == {"computer", "printer"}


def test_random_address_with_other_evidence_suggests_a_phone():
    assert classify("", mac="02aabbccddee").profile == ""
    android = ("dhcp", "class", "android-dhcp-13")
    made_up, lasting = (classify("", android, mac=mac) for mac in ("02aabbccddee", "00aabbccddee"))
    assert (made_up.profile, lasting.profile) == ("mobile", "mobile")
    assert made_up.confidence > lasting.confidence


def test_model_is_the_name_that_the_device_reports():
    assert classify("", ("cdp", "platform", "Cisco IP Phone 7945")).model == "Cisco IP Phone 7945"


evidence = st.lists(
    st.builds(lambda key, value: Evidence(*key, value), st.sampled_from(sorted(EVIDENCE_KEYS)), st.text(max_size=60)),
    max_size=20,
)


@given(st.text(max_size=60), evidence, st.sampled_from(("001122334455", "02aabbccddee")))
def test_any_evidence_gives_one_bounded_result(vendor, told, mac):
    found = load_packaged_profiles().classify(mac=mac, vendor=vendor, evidence=told)
    assert found == load_packaged_profiles().classify(mac=mac, vendor=vendor, evidence=told)
    assert found.confidence == 0 if not found.profile else MIN_CONFIDENCE <= found.confidence <= MAX_CONFIDENCE
    assert found.profile in {"", *load_packaged_profiles().titles}
    if not found.why:
        assert found == ProfileFinding()

"""The parsed output of eapol_test and radclient."""

import pytest

from cli.demo.checks import describe_eap_result, describe_response
from cli.demo.responses import RadiusResponse, parse_eapol_output, parse_radclient_output
from cli.demo.tools import ToolFailed, read_eapol_result
from tests.demo.conftest import recorded

VLAN_20 = (("Tunnel-Type:1", "VLAN"), ("Tunnel-Medium-Type:1", "IEEE-802"), ("Tunnel-Private-Group-Id:1", "20"))


def test_radclient_accept_reject_and_timeout_differ() -> None:
    answer = parse_radclient_output(recorded("radclient_permit"))
    assert answer is not None
    assert (answer.code, answer.vlan) == ("Access-Accept", "20")
    assert tuple(pair for pair in answer.attributes if pair[0].startswith("Tunnel")) == VLAN_20
    assert describe_response(answer) == "permit VLAN 20"
    assert describe_response(parse_radclient_output(recorded("radclient_reject"))) == "reject"
    assert parse_radclient_output(recorded("radclient_silence")) is None


@pytest.mark.parametrize(
    ("attributes", "vlan"),
    [
        (VLAN_20, "20"),
        ((), ""),
        (VLAN_20[:2], "broken"),
        ((*VLAN_20, VLAN_20[2]), "broken"),
        ((*VLAN_20[:2], ("Tunnel-Private-Group-Id:2", "20")), "broken"),
        ((("Tunnel-Type:1", "L2TP"), *VLAN_20[1:]), "broken"),
        ((VLAN_20[0], ("Tunnel-Medium-Type:1", "IPv4"), VLAN_20[2]), "broken"),
    ],
)
def test_vlan_needs_all_three_attributes_of_one_tag(attributes: tuple[tuple[str, str], ...], vlan: str) -> None:
    assert RadiusResponse("Access-Accept", attributes).vlan == vlan


@pytest.mark.parametrize(
    ("message", "failure"), [("046d0004", True), ("0x046d0004", True), ("036d0004", False), ("", False)]
)
def test_eap_failure_is_eap_code_four(message: str, failure: bool) -> None:
    assert RadiusResponse("Access-Reject", (("EAP-Message", message),)).has_eap_failure is failure


def test_vlan_name_without_tag_keeps_its_first_letter() -> None:
    """RFC 2868 3.6: a first octet above 0x1F belongs to the name."""
    block = "RADIUS message: code=2 (Access-Accept) identifier=1 length=1\n   Attribute 81 (Tunnel-Private-Group-Id)"
    (answer,) = parse_eapol_output(f"{block} length=8\n      Value: {b'guests'.hex()}\n")
    assert answer.attributes == (("Tunnel-Private-Group-Id:0", "guests"),)


RESUMED, PERMIT, EXPIRED = map(recorded, ("tls13_resumed", "tls12_permit", "tls13_expired"))
_KEYS_DIFFER = PERMIT.replace("MPPE keys OK: 1  mismatch: 0", "MPPE keys OK: 0  mismatch: 1")


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (RESUMED, "4 x permit VLAN 30, 3600 s, keys"),
        ("013331".join(RESUMED.rsplit("013330", 1)), "4 x permit VLAN 30, 3600 s and permit VLAN 31, 3600 s, keys"),
        (PERMIT, "permit VLAN 30, 3600 s, keys"),
        (
            _KEYS_DIFFER.replace("SUCCESS\n", "FAILURE\n"),
            "permit VLAN 30, 3600 s, no keys, but the supplicant failed",
        ),
        (recorded("tls13_revoked"), "reject, EAP-Failure"),
        (EXPIRED, "reject, EAP-Failure"),
        (recorded("tls13_distrust"), "reject, EAP-Failure"),
        (
            EXPIRED.replace("   Attribute 79 (EAP-Message)", "   Attribute 18 (Reply-Message)"),
            "reject, no EAP-Failure",
        ),
        # A time-out is no reject.
        (recorded("silence"), "silence"),
        (recorded("tls12_unanswered"), "silence"),
    ],
)
def test_eap_result_is_described(output: str, told: str) -> None:
    result = read_eapol_result(output, 0.5)
    assert describe_eap_result(result) == told
    assert result.success == (told.endswith(", keys"))
    assert result.access_reject_has_eap_failure == (told == "reject, EAP-Failure")
    assert (result.answers == ()) == (told == "silence")


def test_reauthentications_are_listed_separately() -> None:
    result = read_eapol_result(RESUMED, 0.5)
    assert (result.mppe_ok, result.resumed_count) == (True, 3)
    assert [answer.vlan for answer in result.answers] == ["30"] * 4


def test_supplicant_alert_is_named() -> None:
    assert read_eapol_result(recorded("tls13_distrust"), 1.0).alert == "sent unknown CA"
    assert read_eapol_result(PERMIT, 1.0).alert == ""


def test_mac_by_eap_md5_is_accepted_without_keys() -> None:
    result = read_eapol_result(recorded("md5_permit"), 0.1)
    assert result.success
    assert describe_eap_result(result, keys=False) == "permit VLAN 20"


def test_interrupted_eapol_test_is_an_error() -> None:
    with pytest.raises(ToolFailed, match="did not finish"):
        read_eapol_result("Segmentation fault", 0.1)

"""Unknown attributes inside EAP-TTLS: radiusd rejects the login and continues."""

import pytest

from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, USER_NAME
from radius.agent.alarms import Alarms
from radius.agent.radiusd.library_corrections import (
    CORRECTIONS,
    DISTRIBUTION_FOLDER,
    alarm_uncorrected_libraries,
    list_uncorrected_libraries,
    write_corrected_libraries,
)
from tests.radius.tenants import PASSWORD
from tests.radius.tunnel import TTLS, USER_PASSWORD, Tunnel, avp, login

UNKNOWN = {
    "standard": avp(17, b"abcd"),
    "known vendor": avp(201, b"abcd", vendor=9),
    "unknown vendor": avp(1, b"abcd", vendor=25622),
    "several": avp(201, b"abcd", vendor=9) + avp(1, b"abcd", vendor=25622) + avp(17, b""),
}


@pytest.mark.parametrize("unknown", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_attribute_after_a_known_one_crashes_nothing(cell, unknown):
    for inside in (
        avp(USER_NAME, b"anna") + unknown,
        avp(USER_NAME, b"anna") + unknown + avp(USER_PASSWORD, bytes(16)),
    ):
        tunnel = Tunnel(cell.alpha, TTLS).open()
        assert tunnel.say(inside) == ACCESS_REJECT
    assert Tunnel(cell.alpha, TTLS).open().say(login(b"anna", PASSWORD.encode())) == ACCESS_ACCEPT


def test_corrections_fit_the_installed_package(tmp_path):
    assert list_uncorrected_libraries() == ()
    write_corrected_libraries(tmp_path / "lib")
    for each in CORRECTIONS:
        corrected, original = (folder / each.file for folder in (tmp_path / "lib", DISTRIBUTION_FOLDER))
        assert (
            sum(left != right for left, right in zip(corrected.read_bytes(), original.read_bytes(), strict=True)) == 1
        )


def test_other_build_is_not_patched(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "rlm_eap_ttls.so").write_bytes(b"another build")
    assert list_uncorrected_libraries(source) == ("rlm_eap_ttls.so",)
    write_corrected_libraries(tmp_path / "lib", source)
    assert list((tmp_path / "lib").iterdir()) == []
    alarms = Alarms()
    alarm_uncorrected_libraries(alarms, source)
    (alarm,) = alarms.standing()
    assert alarm.code == "uncorrected-library:rlm_eap_ttls.so"
    assert CORRECTIONS[0].package in alarm.detail


def test_patched_build_raises_no_alarm():
    alarms = Alarms()
    alarm_uncorrected_libraries(alarms)
    assert alarms.standing() == []

from datetime import timedelta

import pytest

from pki.errors import ProfileErrors
from pki.profiles import BUILT_IN_PROFILES, PROFILES, adjust_profile, parse_profiles


def test_all_errors_are_reported_with_their_positions():
    user, issuing, server = (dict(BUILT_IN_PROFILES[name]) for name in ("eap-client-user", "issuing", "eap-server"))
    documents = {
        "one": user | {"key": "rsa-512", "validity_days": 0, "colour": "red"},
        "two": {"validity_days": "365", "key_usage": ["key-cert-sign", "juggling"], "path_length": 1},
        "three": issuing | {"path_length": 9, "key_usage": ["crl-sign"]},
        "four": server | {"required_names": ["email"], "authority": 1},
        "six": user | {"ocsp_no_check": True},
        "seven": user | {"validity_days_most": 10, "keys": ["dsa"]},
        "five": {"key_usage": ["digital-signature"], "extended_key_usage": ["client-auth"]},
    }
    with pytest.raises(ProfileErrors) as caught:
        parse_profiles(documents)
    places = [mistake.partition(":")[0] for mistake in caught.value.mistakes]
    assert places == [
        *("one.key", "one.validity_days", "one.colour"),
        *("two.validity_days", "two.key_usage", "two.key_usage", "two.path_length", "two.extended_key_usage"),
        *("three.path_length", "three.key_usage", "four.authority", "four.required_names"),
        *("six.ocsp_no_check", "seven.keys", "seven.validity_days_most", "five.validity_days"),
    ]
    assert "one.key: 'rsa-512' must be one of ecdsa-p256, ecdsa-p384, rsa-2048, rsa-3072" in caught.value.mistakes


def test_tenant_settings_are_accepted_within_profile_limits():
    chosen = adjust_profile(PROFILES["eap-client-device"], {"validity_days": 90, "key": "rsa-2048"})
    assert (chosen.validity, chosen.key) == (timedelta(days=90), "rsa-2048")
    assert adjust_profile(chosen, {}) == chosen
    # Apple's limit is 825 days, and a certificate begins one hour before its issue.
    assert adjust_profile(PROFILES["eap-server"], {"validity_days": 824}).validity.days == 824
    with pytest.raises(ProfileErrors) as caught:
        adjust_profile(PROFILES["eap-server"], {"validity_days": 825, "key": "dsa", "authority": True})
    found = [mistake.partition(":")[0].removeprefix("eap-server.") for mistake in caught.value.mistakes]
    assert found == ["validity_days", "key", "authority"]
    with pytest.raises(ProfileErrors, match="must be one of rsa-2048, rsa-3072"):
        adjust_profile(PROFILES["scep-ra"], {"key": "ecdsa-p256"})

"""The checks of admission, in order. The first failed check decides, and no later fact is read."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.engine import Decision, compile_policy
from nac.engine.admission import (
    TLS_METHODS,
    USER_METHODS,
    Refusal,
    explain_denial,
    find_refusal,
    get_standing,
    refuse_certificate,
    require_passphrase,
)
from nac.engine.attributes import ATTRIBUTE_CATALOGUE
from nac.engine.vendors import find_vendor

NOW = 1_000
USER = SimpleNamespace(disabled=False, valid_until=0)


@dataclass
class Facts:
    """A request that passes every check, and a list of the facts that were read."""

    method: str = "eap-ttls-pap"
    tls_version: str = "1.3"
    now_seconds: int = NOW
    tenant: object = field(
        default_factory=lambda: SimpleNamespace(
            status="active", methods=["mab", "eap-ttls-pap", "eap-tls"], tls_versions=["1.2", "1.3"]
        )
    )
    place: object = field(default_factory=lambda: SimpleNamespace(site="main", policy={}))
    login: Refusal | None = None
    is_vouched: bool = False
    user: object = field(default_factory=lambda: USER)
    standing: str = "approved"
    read: list = field(default_factory=list)

    def refuse_login(self):
        self.read.append("login")
        return self.login

    def is_vouched_for(self):
        return self.is_vouched

    def find_user(self):
        self.read.append("user")
        return self.user

    def find_standing(self):
        self.read.append("standing")
        return self.standing


def change(name, value, of=None):
    return lambda facts: setattr(getattr(facts, of) if of else facts, name, value)


# In the order of the checks: failure, reason, facts read up to it.
LADDER = (
    (change("status", "suspended", of="tenant"), "tenant-suspended", []),
    (change("login", Refusal("wrong-password")), "wrong-password", ["login"]),
    (change("tls_versions", ["1.2"], of="tenant"), "tls-version", ["login"]),
    (change("methods", ["mab"], of="tenant"), "method-not-offered", ["login"]),
    (change("user", None), "unknown-user", ["login", "user"]),
    (change("site", None, of="place"), "no-site", ["login", "user"]),
    (change("policy", None, of="place"), "no-policy", ["login", "user"]),
    (change("standing", "blocked"), "endpoint-blocked", ["login", "user", "standing"]),
)


@given(st.sets(st.integers(0, len(LADDER) - 1), min_size=1))
def test_first_failed_check_decides_and_ends_the_checks(failed):
    facts = Facts()
    assert find_refusal(Facts()) is None
    for number in failed:
        LADDER[number][0](facts)
    _, reason, read = LADDER[min(failed)]
    assert (find_refusal(facts).reason, facts.read) == (reason, read)


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        (SimpleNamespace(disabled=True, valid_until=0), "user-disabled"),
        (SimpleNamespace(disabled=False, valid_until=NOW), "user-disabled"),
        (SimpleNamespace(disabled=False, valid_until=NOW + 1), None),
    ],
)
def test_user_is_rejected_from_the_second_of_expiry(user, reason):
    refusal = find_refusal(Facts(user=user))
    assert (refusal and refusal.reason) == reason


def test_user_of_a_directory_or_a_device_needs_no_own_user():
    assert find_refusal(Facts(is_vouched=True, user=None)) is None
    for method in ("mab", "eap-tls"):
        facts = Facts(method=method, user=None)
        assert find_refusal(facts) is None
        assert "user" not in facts.read


@pytest.mark.parametrize(
    ("version", "offered", "is_accepted"),
    [("1.2", ["1.3"], False), ("1.3", ["1.3"], True), ("", ["1.3"], False), ("", ["1.2", "1.3"], True)],
)
def test_unknown_tls_version_is_accepted_only_if_all_are(version, offered, is_accepted):
    facts = Facts(tls_version=version)
    facts.tenant.tls_versions = offered
    assert (find_refusal(facts) is None) is is_accepted
    facts.method = "mab"
    assert find_refusal(facts) is None


def test_every_method_of_the_catalogue_is_of_a_device_or_a_user():
    methods = set(ATTRIBUTE_CATALOGUE["method"].choices)
    assert methods - USER_METHODS == {"mab", "eap-tls"}
    assert methods > USER_METHODS
    assert {method for method in methods if method.startswith(("eap-", "peap"))} == TLS_METHODS & methods


@pytest.mark.parametrize(
    ("status", "valid_until", "standing"),
    [
        ("active", 0, "approved"),
        ("active", NOW + 1, "approved"),
        ("active", NOW, "expired"),
        ("blocked", 0, "blocked"),
        ("blocked", NOW, "blocked"),
        ("discovered", 0, "unapproved"),
        ("ignored", NOW, "unapproved"),
        ("a later status", 0, "unapproved"),
    ],
)
def test_standing_of_an_endpoint_is_reported(status, valid_until, standing):
    assert get_standing(SimpleNamespace(status=status, valid_until=valid_until), NOW) == standing
    assert get_standing(None, NOW) == "unapproved"


def authority(**changes):
    return SimpleNamespace(**{"own": True, "revoked": False, "not_after": NOW, "listed_until": 0} | changes)


def own(status="valid", profile="eap-client-device"):
    return SimpleNamespace(status=status, profile=profile)


def external(*, revoked=False, until=0):
    return SimpleNamespace(revoked=revoked, until=until)


FOREIGN = authority(own=False)
LISTED = authority(own=False, listed_until=NOW + 1)


@pytest.mark.parametrize(
    ("signer", "record", "status", "is_required", "reason"),
    [
        (authority(), own(), None, True, ""),
        (authority(revoked=True, not_after=0), own("revoked"), None, False, "ca-revoked"),
        (authority(not_after=NOW - 1), own("revoked"), None, False, "ca-expired"),
        (authority(), None, None, False, "certificate-unknown"),
        (authority(), own("revoked", "radsec-client"), None, False, "certificate-revoked"),
        (authority(), own("suspended"), None, False, "certificate-suspended"),
        (authority(), own(profile="radsec-client"), None, False, "wrong-key-usage"),
        (FOREIGN, None, None, False, ""),
        (FOREIGN, None, None, True, "certificate-status-unknown"),
        (FOREIGN, None, external(until=NOW), True, "certificate-status-unknown"),
        (FOREIGN, None, external(until=NOW + 1), True, ""),
        (LISTED, None, None, True, ""),
        (LISTED, None, external(revoked=True, until=NOW + 1), True, "certificate-revoked"),
        (authority(own=False, revoked=True), None, external(), False, "ca-revoked"),
    ],
)
def test_certificate_status_decides_about_admission(signer, record, status, is_required, reason):
    assert refuse_certificate(signer, record, status, now_seconds=NOW, is_status_required=is_required) == reason


@pytest.mark.parametrize(
    ("reason", "method", "standing", "has_mac", "explained"),
    [
        ("fallback-denied", "mab", "unapproved", True, "unknown-mac"),
        ("fallback-denied", "mab", "unapproved", False, "no-station"),
        ("fallback-denied", "mab", "expired", True, "endpoint-expired"),
        ("fallback-denied", "mab", "approved", True, "fallback-denied"),
        ("fallback-denied", "pap", "unapproved", True, "fallback-denied"),
        ("rule-denied", "mab", "unapproved", True, "rule-denied"),
        ("fallback-permitted", "mab", "unapproved", True, "fallback-permitted"),
    ],
)
def test_denial_of_an_unapproved_device_is_explained(reason, method, standing, has_mac, explained):
    assert explain_denial(reason, method=method, standing=standing, has_mac=has_mac) == explained


def passphrase_decision(vendor, *, monitor=False, by_fallback=False):
    psk, plain = {"verdict": "permit", "psk": "endpoint"}, {"verdict": "permit", "vlan": "7"}
    rule = {"id": "r", "name": "r", "when": {"all": []}, "then": plain if by_fallback else psk}
    document = {"rules": [rule], "fallback": psk if by_fallback else plain}
    policy = compile_policy(document, monitor=monitor)
    return policy.decisions.of((find_vendor(vendor).name,), 0)


@pytest.mark.parametrize(
    ("vendor", "has_passphrase", "has_ssid", "is_permitted"),
    [
        ("aruba", True, False, True),
        ("aruba", False, True, False),
        ("ruckus", True, True, True),
        ("ruckus", True, False, False),
    ],
)
def test_reply_that_needs_a_passphrase_is_rejected_without(vendor, has_passphrase, has_ssid, is_permitted):
    decision = passphrase_decision(vendor)
    checked = require_passphrase(decision, has_passphrase=has_passphrase, has_ssid=has_ssid)
    assert checked.permitted is is_permitted
    assert (checked is decision) is is_permitted
    assert checked.rule_id == "r"
    if not is_permitted:
        assert (checked.reason, checked.reply, checked.passphrase) == ("no-passphrase", (), ())
        assert checked.detail


def test_monitor_mode_admits_without_the_passphrase_of_a_rule_only():
    checked = require_passphrase(passphrase_decision("aruba", monitor=True), has_passphrase=False, has_ssid=True)
    assert (checked.permitted, checked.verdict, checked.vlan) == (True, "deny", "7")
    decision = passphrase_decision("aruba", monitor=True, by_fallback=True)
    assert not require_passphrase(decision, has_passphrase=False, has_ssid=True).permitted


def test_reply_without_a_passphrase_needs_none():
    decision = Decision("permit", "rule-permitted")
    assert require_passphrase(decision, has_passphrase=False, has_ssid=False) is decision

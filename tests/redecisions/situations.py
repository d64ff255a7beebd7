"""Situations in which one check fails. tests/engine/test_admission.py tests the order of the checks."""

from tests.redecisions.agreement import USER


def rule(*conditions, identifier="r", **then):
    return {"id": identifier, "name": identifier, "when": {"all": list(conditions)}, "then": then}


_KNOWN = {"attribute": "endpoint.known", "operator": "equals", "value": True}
KNOWN_ONLY = {"rules": [rule(_KNOWN, verdict="permit", vlan="20")]}
GUESTS = KNOWN_ONLY | {"fallback": {"verdict": "permit", "vlan": "30"}}
PASSPHRASE = {"rules": [rule(verdict="permit", psk="endpoint")]}
ENDED, LATER = "2020-01-01", "2090-01-01"
CALL_CHECK = (("Service-Type", "Call-Check"),)
SSID = (("Called-Station-Id", "00-11-22-33-44-55:office"),)


def endpoint_state(**changes):
    return lambda agreement: agreement.add_endpoint(**changes)


def user_state(**changes):
    def change(agreement):
        agreement.execute("DELETE FROM users")
        if changes:
            agreement.add_user(**changes)

    return change


def rows(statement):
    return lambda agreement: agreement.execute(statement)


def site_state(**changes):
    return lambda agreement: agreement.set_site(**changes)


def no_site(agreement):
    agreement.execute("UPDATE tenants SET default_site_id = NULL")


def monitored(**changes):
    return site_state(monitor=True, **changes)


SUSPENDED = rows("UPDATE tenants SET status = 'suspended'")
ONLY_MAB, ONLY_PAP = (rows(f"UPDATE tenants SET methods = '{{{method}}}'") for method in ("mab", "pap"))
ARUBA = rows("UPDATE nases SET vendor = 'aruba'")
RUCKUS = rows("UPDATE nases SET vendor = 'ruckus'")
BLOCKED, APPROVED = endpoint_state(status="blocked"), endpoint_state()
# Situation: policy, changes after the admission, request, the cell's reason.
SITUATIONS = {
    "approved": (KNOWN_ONLY, [APPROVED], {}, "rule-permitted"),
    "approved until later": (KNOWN_ONLY, [endpoint_state(valid_until=LATER)], {}, "rule-permitted"),
    "approval ended": (KNOWN_ONLY, [endpoint_state(valid_until=ENDED)], {}, "endpoint-expired"),
    "approval ended, guests": (GUESTS, [endpoint_state(valid_until=ENDED)], {}, "fallback-permitted"),
    "unknown device": (KNOWN_ONLY, [], {}, "unknown-mac"),
    "unknown device, guests": (GUESTS, [], {}, "fallback-permitted"),
    "unknown device of a user": (KNOWN_ONLY, [], {"user": USER}, "fallback-denied"),
    "discovered device": (KNOWN_ONLY, [endpoint_state(status="discovered")], {}, "unknown-mac"),
    "ignored device": (KNOWN_ONLY, [endpoint_state(status="ignored", valid_until=ENDED)], {}, "unknown-mac"),
    "blocked device": (KNOWN_ONLY, [BLOCKED], {}, "endpoint-blocked"),
    "blocked device of a user": (GUESTS, [BLOCKED], {"user": USER}, "endpoint-blocked"),
    "blocked device, monitored": (GUESTS, [BLOCKED, monitored()], {}, "endpoint-blocked"),
    "no policy": (GUESTS, [site_state(has_policy=False)], {}, "no-policy"),
    "no policy, monitored": (GUESTS, [monitored(has_policy=False)], {}, "no-policy"),
    "no site": (GUESTS, [no_site], {"identifier": "unknown"}, "no-site"),
    "unknown device, monitored": (KNOWN_ONLY, [monitored()], {}, "unknown-mac"),
    "user": (GUESTS, [], {"user": USER}, "fallback-permitted"),
    "user in other case": (GUESTS, [], {"user": "Anna"}, "fallback-permitted"),
    "user until later": (GUESTS, [user_state(valid_until=LATER)], {"user": USER}, "fallback-permitted"),
    "unknown user": (GUESTS, [user_state()], {"user": USER}, "unknown-user"),
    "disabled user": (GUESTS, [user_state(disabled=True)], {"user": USER}, "user-disabled"),
    "expired user": (GUESTS, [user_state(valid_until=ENDED)], {"user": USER}, "user-disabled"),
    "method not offered": (GUESTS, [ONLY_PAP], {}, "method-not-offered"),
    "method of users not offered": (GUESTS, [ONLY_MAB], {"user": USER}, "method-not-offered"),
    "suspended": (GUESTS, [SUSPENDED], {}, "tenant-suspended"),
    "passphrase": (PASSPHRASE, [ARUBA, endpoint_state(psk_sealed=b"sealed")], {}, "rule-permitted"),
    "no passphrase": (PASSPHRASE, [ARUBA, APPROVED], {}, "no-passphrase"),
    "no passphrase, monitored": (PASSPHRASE, [ARUBA, APPROVED, monitored()], {}, "no-passphrase"),
    "passphrase without SSID": (PASSPHRASE, [RUCKUS, endpoint_state(psk_sealed=b"sealed")], {}, "no-passphrase"),
    "passphrase with SSID": (
        PASSPHRASE,
        [RUCKUS, endpoint_state(psk_sealed=b"sealed")],
        {"pairs": SSID},
        "rule-permitted",
    ),
    "passphrase not supported": (PASSPHRASE, [APPROVED], {}, "result-not-supported"),
}

"""Passwords inside EAP-TTLS and PEAP with eapol_test: each method, each failure, and two TLS versions."""

import pytest

from tests.radius.supplicant import (
    PEAP,
    TLS_1_1,
    TLS_1_2,
    TLS_1_3,
    TTLS_EAP,
    TTLS_MSCHAPV2,
    TTLS_PAP,
    eap_password,
    new_mac,
)
from tests.radius.tenants import PASSWORD, PRINTER

both_versions = pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
both_types = pytest.mark.parametrize(("way", "unfinished"), [(TTLS_PAP, "eap-ttls"), (PEAP, "peap")])
METHOD = {
    TTLS_PAP: "eap-ttls-pap",
    TTLS_MSCHAPV2: "eap-ttls-mschapv2",
    TTLS_EAP: "eap-ttls-mschapv2",
    PEAP: "peap-mschapv2",
}

pytestmark = pytest.mark.usefixtures("everything_offered")


def assert_refused(cell, seen, reason, method, *, identity="anna"):
    assert not seen.accepted
    assert seen.codes[-1] == "Access-Reject"
    assert seen.eap_failure
    assert seen.vlans == []
    record = cell.decision()
    assert (record.permitted, record.reason, record.method, record.identity) == (False, reason, method, identity)
    assert record.mac == seen.mac
    return record


@both_versions
@pytest.mark.parametrize("way", METHOD, ids=["ttls-pap", "ttls-mschapv2", "ttls-eap-mschapv2", "peap"])
@pytest.mark.parametrize("slug", ["alpha", "bravo"])
def test_right_password_is_permitted_as_the_inner_user(cell, slug, way, version):
    """`radiusd` chooses alpha's server certificate for each session.

    Bravo's server certificate is in its configuration.
    """
    tenant = cell.tenants[slug]
    seen = eap_password(tenant, way, "anna", version=version, attributes=("32:s:switch-1",)).run()
    assert seen.accepted, seen.output[-2000:]
    assert seen.vlans == ["30"]
    # The name that the NAS uses in accounting.
    assert seen.user_names[-1] == "anna"
    record = cell.decision()
    assert (record.permitted, record.reason, record.rule_id) == (True, "rule-permitted", "staff")
    assert (record.method, record.tls_version, record.resumed) == (METHOD[way], version, False)
    assert (record.tenant_id, record.nas_id, record.mac) == (tenant.tenant_id, tenant.nas_id, seen.mac)
    assert record.identity == "anna"
    expected = {
        "identity": ("anna",),
        "user.name": ("anna",),
        "user.group": ("staff",),
        # The outer name has no effect on the decision, but is logged.
        "radius.User-Name": ("anonymous@elsewhere.example",),
        "tls.version": (version,),
    }
    assert expected.items() <= record.request.items()
    assert PASSWORD not in str(record)
    # The conversation began with a record of the server's certificate, which names the type.
    (sent,) = cell.certificates_sent()
    assert (sent.method, sent.conversation) == ({"TTLS": "eap-ttls", "PEAP": "peap"}[way[0]], record.conversation)


REJECTED = [
    ("anna", "wrong password", "wrong-password"),
    ("nobody", PASSWORD, "unknown-user"),
    ("disabled", PASSWORD, "user-disabled"),
    ("guest", PASSWORD, "rule-denied"),
    # A user of another tenant.
    ("bravo-user", PASSWORD, "unknown-user"),
]


@pytest.mark.parametrize(
    ("way", "version", "name", "password", "reason"),
    [
        *((way, TLS_1_3, *row) for way in (TTLS_PAP, PEAP) for row in REJECTED),
        # The TLS version and the framing of MS-CHAPv2 affect only the comparison of passwords.
        *((way, TLS_1_2, *REJECTED[0]) for way in METHOD),
    ],
)
def test_rejected_user_gets_a_reason(cell, way, version, name, password, reason):
    seen = eap_password(cell.alpha, way, name, password, version).run()
    assert_refused(cell, seen, reason, METHOD[way], identity=name)


@pytest.mark.parametrize("outer", ["", "disabled", "anna@other.example", PRINTER, "x" * 200])
def test_outer_name_is_not_used(cell, outer):
    """A MAC address as outer name is not used either. radiusd proposes MD5 first, but the login is no MAB."""
    mac = outer if outer == PRINTER else new_mac()
    seen = eap_password(cell.alpha, TTLS_PAP, "anna", outer=outer, mac=mac).run()
    assert seen.accepted
    record = cell.decision()
    assert (record.identity, record.method, record.rule_id) == ("anna", "eap-ttls-pap", "staff")


@pytest.mark.parametrize("way", [TTLS_MSCHAPV2, TTLS_EAP, PEAP])
def test_user_without_nt_hash_cannot_use_mschap(cell, way):
    seen = eap_password(cell.alpha, way, "pap-only").run()
    assert_refused(cell, seen, "mschap-not-allowed", METHOD[way], identity="pap-only")


@pytest.mark.parametrize("way", [TTLS_EAP, PEAP])
def test_device_gets_wrong_password_without_retry(cell, way):
    seen = eap_password(cell.alpha, way, "anna", "wrong password").run()
    assert "EAP-MSCHAPV2: error 691" in seen.output
    assert "EAP-MSCHAPV2: retry is not allowed" in seen.output


@both_versions
@both_types
def test_device_that_distrusts_the_server_is_logged(cell, way, unfinished, version):
    seen = eap_password(cell.alpha, way, "anna", version=version, trusts=cell.bravo.authorities.root_file).run()
    record = assert_refused(cell, seen, "supplicant-alert", unfinished, identity="anonymous@elsewhere.example")
    assert record.detail == "fatal unknown CA"


@both_types
def test_device_with_only_tls_1_1_is_rejected_with_a_reason(cell, way, unfinished):
    seen = eap_password(cell.alpha, way, "anna", version=TLS_1_1).run()
    record = assert_refused(cell, seen, "tls-version", unfinished, identity="anonymous@elsewhere.example")
    assert record.detail.endswith("offered here: 1.2, 1.3")


@both_versions
@pytest.mark.parametrize("way", [TTLS_PAP, PEAP])
def test_small_fragments_make_no_difference(cell, way, version):
    seen = eap_password(cell.alpha, way, "anna", version=version, fragment_octets=100, attributes=("12:d:600",)).run()
    assert seen.accepted
    assert cell.decision().method == METHOD[way]


@pytest.mark.parametrize("way", [TTLS_PAP, PEAP])
@both_versions
def test_each_reconnection_checks_password_and_policy(cell, way, version):
    """No session is resumed, because radiusd would not know the session's user."""
    seen = eap_password(cell.alpha, way, "anna", version=version, reauthentications=2).run()
    assert seen.accepted
    assert seen.resumptions == 0
    assert [record.rule_id for record in cell.decisions(permitted=True)] == ["staff"] * 3

"""Every part that decides agrees with the cell, where the module decides the request from its replica.

Generated states combine the checks before the policy. The table has each check separately.
"""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from nac.certificates import service as certificates
from nac.engine import PolicyErrors, compile_policy
from tests.factories.certificates import certify
from tests.redecisions.agreement import MAC, USER, AgreementNet, Answer
from tests.redecisions.situations import SITUATIONS
from tests.run_depth import examples

_ATTRIBUTES = {
    "endpoint.group": ("printers", "cameras"),
    "endpoint.name": ("Printer", "Camera"),
    "endpoint.vendor": ("Brother",),
    "endpoint.os": ("linux",),
    "endpoint.attribute.floor": ("1", "2"),
    "mdm.state": ("good", "bad"),
    "user.group": ("staff", "guests"),
    "user.name": (USER,),
    "ssid": ("office", "guest"),
    "method": ("mab", "pap"),
    "identity": (USER, MAC),
    "nas.name": ("Switch",),
    "nas.vendor": ("cisco",),
    "site.name": ("Branch",),
    "radius.Service-Type": ("Call-Check",),
}
_when = st.sampled_from(sorted(_ATTRIBUTES)).flatmap(
    lambda name: st.builds(
        lambda value: {"attribute": name, "operator": "equals", "value": value}, st.sampled_from(_ATTRIBUTES[name])
    )
) | st.sampled_from(
    (
        {"attribute": "endpoint.known", "operator": "equals", "value": True},
        {"attribute": "mac.random", "operator": "equals", "value": False},
        {"attribute": "endpoint.first_seen_age", "operator": "at_least", "value": 2},
    )
)
_PSK = {"verdict": "permit", "psk": "endpoint"}
_then = st.sampled_from(
    (
        {"verdict": "deny"},
        {"verdict": "permit"},
        {"verdict": "permit", "vlan": "20"},
        {"verdict": "permit", "vlan": "20", "acl": "printers"},
        {"verdict": "quarantine", "vlan": "99"},
        {"verdict": "permit", "vlan": "30", "session_timeout": 600},
        _PSK,
    )
)
_rules = st.lists(st.tuples(_when, st.booleans(), _then), max_size=5)


@st.composite
def documents(draw):
    rules = [
        {"id": f"r{number}", "name": f"r{number}", "when": {"not": when} if negated else when, "then": then}
        for number, (when, negated, then) in enumerate(draw(_rules))
    ]
    document = {"profiles": {"quarantine": {"vlan": "98"}}, "rules": rules, "fallback": draw(_then)}
    assume(is_publishable(document))
    return document


def is_publishable(document):
    """Whether the policy has no unreachable rule."""
    try:
        compile_policy(document)
    except PolicyErrors:
        return False
    return True


_ENDPOINTS = st.none() | st.fixed_dictionaries(
    {
        "status": st.sampled_from(("active", "blocked", "discovered", "ignored")),
        "name": st.sampled_from(("Printer", "Camera")),
        "vendor": st.sampled_from(("", "Brother")),
        "os": st.sampled_from(("", "linux")),
        "attributes": st.sampled_from(({}, {"floor": "1"}, {"floor": 2})),
        "posture": st.sampled_from(
            ({}, {"mdm.state": {"value": "good", "until": 0}}, {"mdm.state": {"value": "bad", "until": 5}})
        ),
        "valid_until": st.sampled_from((None, "2020-01-01", "2090-01-01")),
        "first_seen_at": st.sampled_from((None, "2020-01-01", "2090-01-01")),
        "groups": st.sets(st.sampled_from(("printers", "cameras"))),
        "psk_sealed": st.sampled_from((None, b"sealed")),
    }
)
_USERS = st.none() | st.fixed_dictionaries(
    {
        "disabled": st.booleans(),
        "valid_until": st.sampled_from((None, "2020-01-01", "2090-01-01")),
        "groups": st.sets(st.sampled_from(("staff", "guests"))),
    }
)
_SITES = st.fixed_dictionaries(
    {
        "monitor": st.booleans(),
        "fallback": st.none() | _then.filter(lambda then: then["verdict"] != "quarantine" and then != _PSK),
        "has_policy": st.sampled_from((True, True, False)),
    }
)
_TENANTS = st.fixed_dictionaries(
    {
        "methods": st.sampled_from((["mab", "pap"], ["mab", "pap"], ["mab"], ["pap"])),
        "status": st.sampled_from(("active", "active", "active", "suspended")),
        "has_site": st.sampled_from((True, True, True, False)),
        "vendor": st.sampled_from(("cisco", "aruba", "ruckus", "unifi")),
    }
)


@pytest.fixture
def agreement(net):
    return AgreementNet(net)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    documents(),
    _ENDPOINTS,
    _USERS,
    _SITES,
    _TENANTS,
    st.sampled_from(("", USER)),
    st.sampled_from(((), (("Called-Station-Id", "00-11-22-33-44-55:office"),), (("Service-Type", "Call-Check"),))),
    st.sampled_from(("switch", "unknown")),
)
def test_all_parts_agree_with_the_cell(agreement, document, endpoint, user, site, tenant, name, pairs, identifier):
    agreement.reset_rows()
    queued_requests = {"user": name, "pairs": pairs, "identifier": identifier}
    row = agreement.begin(**queued_requests)
    agreement.execute("DELETE FROM users")
    agreement.set_policy(document)
    agreement.set_site(**site)
    agreement.execute("UPDATE nases SET vendor = %s", tenant["vendor"])
    agreement.execute("UPDATE tenants SET methods = %s, status = %s", tenant["methods"], tenant["status"])
    if not tenant["has_site"]:
        agreement.execute("UPDATE tenants SET default_site_id = NULL")
    if endpoint is not None:
        agreement.add_endpoint(**endpoint)
    if user is not None:
        agreement.add_user(**user)
    check_agreement(agreement, row, document, **queued_requests)


def check_agreement(agreement, row, document, **queued_requests):
    case, outcome = agreement.net.answer(MAC, **queued_requests)
    expected = Answer.of(outcome)
    told, action = agreement.redecide(row)
    assert told == expected
    assert (action == "disconnect") == (not outcome.permitted)
    simulation = agreement.simulate(case).decision
    assert Answer.of(simulation) == expected
    assert simulation.reply == outcome.reply
    replay = agreement.replay(case, outcome, document)
    if outcome.policy_version:
        assert (replay.unchanged, replay.changed) == (1, 0), replay.differences
    elif case.place.site:
        assert replay.not_replayable == {outcome.reason: 1}
    for known in (True, False):
        outcome, prediction = agreement.self_test(known=known, group="printers" if known else "")
        check_prediction(outcome, prediction)


def check_prediction(outcome, prediction):
    permit = f"permit VLAN {outcome.vlan}" if outcome.vlan else "permit"
    assert prediction.text == (permit if outcome.permitted else "reject"), outcome
    assert outcome.reason in prediction.reasons


@pytest.fixture
def situation(agreement, request):
    """A session that began before the changes: (agreement, session, document, request, reason)."""
    document, changes, queued_requests, reason = SITUATIONS[request.param]
    agreement.reset_rows()
    row = agreement.begin(**queued_requests)
    agreement.set_policy(document)
    for change in changes:
        change(agreement)
    return agreement, row, document, queued_requests, reason


@pytest.mark.parametrize("situation", SITUATIONS, indirect=True)
def test_all_parts_agree_with_the_cell_in_a_situation(situation):
    agreement, row, document, queued_requests, reason = situation
    case, outcome = agreement.net.answer(MAC, **queued_requests)
    assert outcome.reason == reason
    assert agreement.redecide(row)[0] == Answer.of(outcome)
    simulation = agreement.simulate(case)
    assert Answer.of(simulation.decision) == Answer.of(outcome)
    assert simulation.decision.reply == outcome.reply
    known = case.facts.get("endpoint.known", simulation.request.get("endpoint.known"))
    assert simulation.request.get("endpoint.known") == known
    for is_known in (True, False):
        check_prediction(*agreement.self_test(known=is_known))
    replay = agreement.replay(case, outcome, document)
    assert replay.differences == ()
    assert replay.not_replayable == ({} if outcome.policy_version or not case.place.site else {outcome.reason: 1})


@pytest.fixture
def certificate(agreement, app_engine):
    """A device's certificate, and the request with this certificate: (serial, request)."""
    agreement.reset_rows()
    made = certify(app_engine, agreement.net.id)
    with agreement.net.scope() as session:
        serial = made.issue(session).serial.hex()
        row = certificates.require_by_serial(session, tenant_id=agreement.net.id, serial=serial)
        authority_id = row.authority_id
    (issuer,) = agreement.execute("SELECT subject FROM certificate_authorities WHERE id = %s", authority_id).fetchone()
    pairs = (
        ("TLS-Client-Cert-Serial", serial),
        ("TLS-Client-Cert-Issuer", issuer),
        ("TLS-Client-Cert-Common-Name", "laptop 1"),
    )
    return {"user": "laptop 1", "pairs": pairs, "method": "eap-tls", "tls_version": "1.3"}


_CERTIFICATE_STATES = {
    "valid": (None, "fallback-permitted"),
    "revoked": ("UPDATE certificates SET status = 'revoked'", "certificate-revoked"),
    "suspended": ("UPDATE certificates SET status = 'suspended'", "certificate-suspended"),
    "other profile": ("UPDATE certificates SET profile = 'radsec-client'", "wrong-key-usage"),
    "deleted": ("DELETE FROM certificates", "certificate-unknown"),
    "authority revoked": ("UPDATE certificate_authorities SET status = 'revoked' WHERE kind = 'root'", "ca-revoked"),
    "authority expired": ("UPDATE certificate_authorities SET not_after = now() - interval '1 day'", "ca-expired"),
    "authority renamed": ("UPDATE certificate_authorities SET subject = '/CN=another'", "unknown-ca"),
    "TLS version": ("UPDATE tenants SET tls_versions = '{1.2}'", "tls-version"),
    "method": ("UPDATE tenants SET methods = '{mab}'", "method-not-offered"),
    "policy": ("UPDATE sites SET policy_id = NULL", "no-policy"),
    "endpoint": (
        "INSERT INTO endpoints (tenant_id, mac, status, name) SELECT id, '00a0c0000001', 'blocked', '' FROM tenants",
        "endpoint-blocked",
    ),
}
# A simulation assumes that the credentials are valid.
_CREDENTIAL_STATES = ("revoked", "suspended", "other", "deleted", "authority")


@pytest.mark.parametrize("state", _CERTIFICATE_STATES)
def test_decisions_about_a_certificate_equal_the_cell(agreement, certificate, state):
    statement, reason = _CERTIFICATE_STATES[state]
    row = agreement.begin(**certificate)
    if statement:
        agreement.execute(statement)
    case, outcome = agreement.net.answer(MAC, **certificate)
    assert outcome.reason == reason
    told, action = agreement.redecide(row)
    assert told == Answer.of(outcome)
    assert action == ("" if outcome.permitted else "disconnect")
    if not state.startswith(_CREDENTIAL_STATES):
        assert Answer.of(agreement.simulate(case).decision) == Answer.of(outcome)


@pytest.mark.parametrize("offered", ["1.2", "1.3", "1.2,1.3"])
def test_redecision_of_an_unknown_tls_version_equals_the_cell(agreement, certificate, offered):
    certificate["tls_version"] = ""
    row = agreement.begin(**certificate)
    agreement.execute(f"UPDATE tenants SET tls_versions = '{{{offered}}}'")
    _, outcome = agreement.net.answer(MAC, **certificate)
    assert agreement.redecide(row)[0] == Answer.of(outcome)

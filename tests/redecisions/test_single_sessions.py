"""Redecision of one session: certificates, directories, session limits, passphrases, monitor mode and time."""

import json

import pytest
from sqlalchemy.orm import Session

from nac.cellformat.class_attribute import encode_class
from nac.certificates.external_authorities import import_authorities
from nac.kit.clock import epoch_microseconds, utc_now
from nac.kit.db import TenantScope, session_scope
from nac.models import AuthLog
from nac.redecisions import live_sessions
from nac.redecisions.judgement import Judge
from nac.sessions.decisions.recorded_requests import from_microseconds
from tests.certificates.uploads import authority, pem
from tests.factories.certificates import certify
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR
from tests.redecisions.conftest import ADDRESS, IDENTIFIER, by_group, document

MAC = "00a0c0000001"
ANYBODY = {"fallback": {"verdict": "permit", "vlan": "1"}}
# The reply of the cell to a NAS of this vendor.
TOLD = [
    ["Tunnel-Type:1", ":=", "VLAN"],
    ["Tunnel-Medium-Type:1", ":=", "IEEE-802"],
    ["Tunnel-Private-Group-Id:1", ":=", "1"],
]


@pytest.fixture
def recorded(net):
    """Function that creates a session of a device that was admitted with this decision. Returns the session's id."""

    def recorded(method="eap-tls", mac=MAC, identity="laptop", minutes_ago=0, **values):
        at = epoch_microseconds()
        request = {"method": [method], "identity": [identity], "mac": [mac]} | values.pop("request", {})
        row = {"at": from_microseconds(at), "mac": mac, "method": method, "identity": identity, "permitted": True}
        row |= {"tls_version": "1.3" if method == "eap-tls" else "", "policy_version": 1, "reply": TOLD, "vlan": "1"}
        row |= {"verdict": "permit", "rule_id": "", "policy_id": net.policy_id, "certificate_serial": ""}
        row |= {"nas_identifier": IDENTIFIER, "nas_address": ADDRESS, "request": json.loads(json.dumps(request))}
        with Session(net.engines.owner) as session, session.begin():
            make_row(session, AuthLog.__table__, net.id, **row | values)
        return net.begin(mac, encode_class(at), identity, minutes_ago)

    return recorded


@pytest.fixture
def judged(net):
    def judged(*rows):
        with session_scope(TenantScope(net.id), engine=net.engines.worker) as session:
            found = Judge(session, net.id).judge(
                live_sessions.read_rows(session, net.id, rows), at=int(utc_now().timestamp())
            )
        by_row = {each.live.id: each for each in found}
        return by_row[rows[0]] if len(rows) == 1 else [by_row[row] for row in rows]

    return judged


@pytest.fixture
def admit_anybody(net):
    net.decide_by(ANYBODY)


@pytest.fixture
def issued(net, admit_anybody, app_engine):
    """Function that returns the recorded fields of a decision about a certificate of the tenant."""
    made = certify(app_engine, net.id)
    with net.scope() as session:
        serial = made.issue(session).serial.hex()
    request = {
        "certificate.serial": [serial],
        "certificate.issuer": [made.authorities.issuing.subject],
        "certificate.profile": ["eap-client-device"],
        "tls.version": ["1.3"],
    }
    return lambda **facts: {"certificate_serial": serial, "request": request | facts}


@pytest.fixture
def external(net, issued):
    """The certificate can come only from an external authority."""
    corporate = authority("Corp CA", utc_now())
    with net.scope() as session:
        import_authorities(session, actor=ACTOR, tenant_id=net.id, files=[("ca.pem", pem(corporate))], now=utc_now())
    (number, subject) = net.owner.execute(
        "SELECT id, subject FROM certificate_authorities WHERE kind = 'external'"
    ).fetchone()
    return number, {
        "certificate_serial": "77",
        "request": {"certificate.serial": ["77"], "certificate.issuer": [subject]},
    }


def test_external_certificate_follows_its_authoritys_status(net, recorded, judged, external):
    number, told = external
    session = recorded(**told)
    assert judged(session).action == ""
    net.owner.execute("UPDATE tenants SET status_failure = 'hard'")
    assert judged(session).reason == "certificate-status-unknown"
    net.owner.execute(
        "INSERT INTO external_statuses (tenant_id, authority_id, serial, listed, answer, until) "
        "VALUES (%s, %s, '\\x77', false, 'good', now() + interval '1 hour')",
        (net.id, number),
    )
    assert judged(session).action == ""
    net.owner.execute("UPDATE external_statuses SET listed = true")
    assert judged(session).reason == "certificate-revoked"


def test_equal_names_of_two_authorities_decide_nothing(net, recorded, judged, external):
    number, told = external
    net.owner.execute(
        "INSERT INTO certificate_authorities (id, tenant_id, kind, name, subject, certificate_der, key_id, not_before, "
        "not_after) SELECT gen_random_uuid(), tenant_id, kind, name, subject, certificate_der, key_id, not_before, "
        "not_after FROM certificate_authorities WHERE id = %s",
        (number,),
    )
    assert judged(recorded(**told)).undecidable == "not-recorded"


def rule_on(attribute, value, operator="equals"):
    when = {"attribute": attribute, "operator": operator, "value": value}
    rule = {"id": "r", "name": "r", "when": when, "then": {"verdict": "permit", "vlan": "1"}}
    return {"rules": [rule], "fallback": {"verdict": "deny"}}


def test_unrecorded_certificate_field_decides_nothing(net, recorded, judged, issued):
    before = recorded(**issued())
    net.decide_by(rule_on("certificate.subject.OU", "Sales"))
    assert judged(before).undecidable == "not-recorded"
    # The recorded version uses the field, so an unrecorded value was absent.
    after = recorded(**issued(), mac="00a0c0000002", policy_version=2)
    assert judged(after).action == "disconnect"
    there = recorded(**issued(**{"certificate.subject.OU": ["Sales"]}), mac="00a0c0000003", policy_version=2)
    assert judged(there).action == ""


def test_own_certificate_uses_its_current_age(net, recorded, judged, issued):
    session = recorded(**issued())
    net.decide_by(rule_on("certificate.age_days", 10, "at_least"))
    assert judged(session).action == "disconnect"
    net.owner.execute("UPDATE certificates SET not_before = now() - interval '11 days'")
    assert judged(session).action == ""


def test_groups_come_from_the_login_or_the_local_user(net, recorded, judged):
    net.decide_by(rule_on("user.group", "staff"))
    facts = {"user.name": ["anna"], "user.group": ["staff"]}
    by_directory = recorded("pap", identity="anna", request=facts | {"user.source": ["corp"]})
    local = recorded("pap", mac="00a0c0000002", identity="Anna", request=facts)
    assert [each.reason for each in judged(by_directory, local)] == ["rule-permitted", "unknown-user"]
    # A local user with the name of a directory's user is another user. Current groups apply to local users.
    net.add_user("anna")
    assert [each.reason for each in judged(by_directory, local)] == ["rule-permitted", "fallback-denied"]


def test_session_limit_keeps_the_earliest_sessions(net, recorded, judged):
    limit = rule_on("session.count.user", 2, "less_than")
    net.decide_by(limit)
    net.add_user("anna")
    rows = [recorded("pap", mac=f"00a0c000000{age}", identity="anna", minutes_ago=age) for age in (3, 2, 1)]
    assert [each.action for each in judged(*rows)] == ["", "", "disconnect"]


def test_deleted_passphrase_is_a_deny(net, recorded, judged):
    psk = {"id": "r", "name": "r", "when": {"all": []}, "then": {"verdict": "permit", "psk": "endpoint"}}
    net.decide_by({"rules": [psk]})
    net.owner.execute("UPDATE nases SET vendor = 'aruba'")
    net.add(MAC)
    session = recorded("mab", identity=MAC)
    assert judged(session).reason == "no-passphrase"
    net.owner.execute("UPDATE endpoints SET psk_sealed = 'sealed'")
    assert judged(session).action == "reauthenticate"


def test_monitor_mode_disconnects_nobody(net, recorded, judged, admit_anybody):
    session = recorded("mab", identity=MAC)
    net.decide_by({"rules": [], "fallback": {"verdict": "deny"}})
    assert judged(session).action == "disconnect"
    net.owner.execute("UPDATE sites SET monitor = true, fallback = %s", (json.dumps(ANYBODY["fallback"]),))
    found = judged(session)
    assert (found.action, found.after.verdict, found.after.monitored) == ("", "permit", "site")


def test_time_window_uses_the_current_time(net, recorded, judged):
    net.decide_by(rule_on("time", {"dates": {"from": "2000-01-01"}}, "within"))
    session = recorded("mab", identity=MAC)
    assert judged(session).action == ""
    net.decide_by(rule_on("time", {"dates": {"to": "2001-12-31"}}, "within"))
    assert judged(session).action == "disconnect"


def test_unreadable_policy_or_decision_is_reported(net, recorded, judged, admit_anybody):
    session = recorded("mab", identity=MAC)
    net.decide_by({"rules": "none"})
    assert judged(session).undecidable == "unreadable-policy"
    # An older version of Admit recorded no request.
    net.owner.execute("UPDATE auth_log SET request = '{}'")
    assert judged(session).undecidable == "older-format"


def test_other_vendor_format_of_the_reply_is_a_difference(net, recorded, judged, admit_anybody):
    session = recorded("mab", identity=MAC)
    assert judged(session).action == ""
    net.decide_by({"fallback": {"verdict": "permit", "vlan": "1", "acl": "guests"}})
    assert judged(session).action == "reauthenticate"
    net.decide_by(document(by_group("printers")))
    assert judged(session).action == "disconnect"

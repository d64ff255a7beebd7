"""An event is the same whether it is made of what the agent ships or of what PostgreSQL keeps, and fits the schema."""

import json
import re
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator
from sqlalchemy import select

from cli.layout import CHECKOUT
from nac.db import TenantScope, session_scope
from nac.decisions.recorded import microseconds_of
from nac.events import accounting, alarms, audit, authentication, certificates, coa, endpoints, feed
from nac.events.document import MAX_TEXT, from_json, to_json
from nac.events.schema import event_schema
from nac.events.texts import Tenant
from nac.models import AccountingLog, AuditEntry, AuthLog, CoaRequest, RadiusSession
from nac.models import Certificate as CertificateRow
from nac.models import Endpoint as EndpointRow
from radius.agent import rows
from radius.agent.usage import accounting_line, accounting_record, read_usage
from tests.agent.journal import auth
from tests.events.samples import SECRET, accounting_records, auth_records

FILE = CHECKOUT / "docs" / "events.schema.json"
VALIDATOR = Draft202012Validator(event_schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)
NOW = datetime(2026, 11, 21, 18, 30, 0, 1, UTC)
ALPHA = Tenant("6b1f4f0e-1111-4222-8333-444455556666", "alpha")


def checked(event):
    """Its JSON, which fits the schema and is one line, read again."""
    line = to_json(event)
    assert from_json(line) == event
    assert b"\n" not in line
    document = json.loads(line)
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    return document


def test_file_is_made_of_the_code():
    schema = json.loads(FILE.read_text())
    Draft202012Validator.check_schema(schema)
    assert schema == json.loads(json.dumps(event_schema())), (
        "make it anew: python -m nac.events.schema > docs/events.schema.json"
    )


def stored(engine, tenant_id, model):
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        return session.scalars(select(model).where(model.tenant_id == tenant_id)).all()


def distinct(records):
    """Of each moment one, so that rows and records find each other."""
    return list({record.at: record for record in records}.values())


def test_decision_of_the_journal_is_that_of_the_log(app_engine, owner, alpha, journal):
    tenant = Tenant(str(alpha.id), "alpha")

    @settings(max_examples=100)
    @given(auth_records(alpha))
    def gather(record):
        records.append(record)

    records = []
    gather()
    records = distinct(records)
    journal.ship(*records)
    logged = {microseconds_of(row.at): row for row in stored(app_engine, alpha.id, AuthLog)}
    assert len(logged) == len(records)
    for record in records:
        row = logged[record.at]
        event = authentication.from_record(as_shipped(record, rows.auth_line), number=row.id, tenant=tenant)
        assert to_json(event) == to_json(authentication.from_log(row, tenant=tenant))
        assert checked(event)["event"]["id"] == f"authentication:{record.at}-{row.id}"


def as_shipped(record, line):
    try:
        line(record)
    except rows.Unstorable:
        return rows.cleaned(record)
    return record


def test_accounting_of_the_journal_is_that_of_the_log(app_engine, owner, alpha, journal):
    tenant = Tenant(str(alpha.id), "alpha")

    @settings(max_examples=100)
    @given(accounting_records(alpha))
    def gather(record):
        records.append(record)

    records = []
    gather()
    records = distinct(records)
    journal.ship(*records)
    logged = {microseconds_of(row.at): row for row in stored(app_engine, alpha.id, AccountingLog)}
    assert len(logged) == len(records)
    for record in records:
        row = logged[record.at]
        shipped = as_shipped(record, lambda each: accounting_line(each, read_usage(each)))
        event = accounting.from_record(accounting_record(shipped, read_usage(shipped)), number=row.id, tenant=tenant)
        assert to_json(event) == to_json(accounting.from_log(row, tenant=tenant))
        told = checked(event)
        assert SECRET.hex() not in json.dumps(told)
        assert told["event"]["id"] == f"accounting:{record.at}-{row.id}"


def test_nothing_secret_of_a_reply_or_a_packet_is_told():
    secret = "hunter2-hunter2"
    record = auth(
        type("T", (), {"slot": 0, "id": ALPHA.id}),
        reply=(("Tunnel-Password", ":=", secret), ("Class", ":=", f"0x{secret.encode().hex()}")),
        pairs=(("User-Password", secret), ("Cisco-AVPair", f"psk={secret}")),
        facts={"endpoint.attribute.pin": (secret,)},
    )
    line = to_json(authentication.from_record(record, number=1, tenant=ALPHA)).decode()
    assert secret not in line
    assert secret.encode().hex() not in line


def test_long_values_are_cut():
    record = auth(type("T", (), {"slot": 0, "id": ALPHA.id}), identity="ü" * 70_000, detail="d" * 70_000)
    told = checked(authentication.from_record(record, number=1, tenant=ALPHA))
    assert len(told["user"]["name"]) == MAX_TEXT
    assert len(told["admit"]["detail"]) == MAX_TEXT


def session_row(**values):
    given = {
        "id": 7,
        "nas_key": "switch-1|192.0.2.7",
        "session_id": "s1",
        "started_at": NOW,
        "updated_at": NOW + timedelta(seconds=60),
        "stopped_at": None,
        "identity": "anna",
        "mac": "aabbccddeeff",
        "nas_port": "1/0/3",
        "session_seconds": 60,
        "input_octets": 2**33,
        "output_octets": 0,
        "terminate_cause": "",
        "flags": ["no-start"],
        "class_": SECRET.hex(),
    }
    return RadiusSession(**(given | values))


def test_session_has_an_event_for_its_start_its_reports_and_each_end():
    live = session_row()
    ended = session_row(stopped_at=NOW + timedelta(seconds=90), terminate_cause="User-Request")
    events = [
        accounting.session_event(live, "started", tenant=ALPHA),
        accounting.session_event(live, "updated", tenant=ALPHA),
        accounting.session_event(ended, "ended", tenant=ALPHA),
        accounting.session_event(
            session_row(stopped_at=NOW + timedelta(seconds=95), terminate_cause="Lost-Carrier"), "ended", tenant=ALPHA
        ),
    ]
    told = [checked(event) for event in events]
    assert len({each["event"]["id"] for each in told}) == 4
    assert told[2]["client"] == {"mac": "AA-BB-CC-DD-EE-FF", "bytes": 2**33}
    assert told[2]["server"] == {"bytes": 0}
    assert told[2]["admit"]["session"] == {
        "id": "s1",
        "row": 7,
        "seconds": 60,
        "started": "2026-11-21T18:30:00.000001Z",
        "ended": "2026-11-21T18:31:30.000001Z",
        "terminate_cause": "User-Request",
        "flags": ["no-start"],
    }
    assert SECRET.hex() not in json.dumps(told)
    with pytest.raises(ValueError, match="not ended"):
        accounting.session_event(live, "ended", tenant=ALPHA)


def coa_row(**values):
    given = {
        "id": 4711,
        "created_at": NOW,
        "kind": "disconnect",
        "asked_by": "cli:anna",
        "session_row": 7,
        "session_id": "s1",
        "nas_id": uuid4(),
        "nas_key": "switch-1|192.0.2.7",
        "nas_port": "",
        "nas_address": "192.0.2.7",
        "mac": "aabbccddeeff",
        "identity": "anna",
        "framed_ip": None,
        "reason": "endpoint-blocked",
        "state": "refused",
        "step": 1,
        "attempts": 2,
        "sent_at": NOW,
        "ended_at": NOW + timedelta(seconds=1),
        "answer_code": 42,
        "error_cause": 503,
        "detail": "The NAS refused.",
    }
    return CoaRequest(**(given | values))


def test_request_that_was_refused_tells_why():
    told = checked(coa.from_request(coa_row(), tenant=ALPHA))
    assert told["event"]["outcome"] == "failure"
    assert told["event"]["code"] == "503"
    assert "knows no such session" in told["event"]["reason"]
    assert told["admit"]["step"] == 2


def test_request_that_was_done_is_a_success():
    row = coa_row(state="acknowledged", error_cause=None, answer_code=41)
    told = checked(coa.from_request(row, tenant=ALPHA))
    assert (told["event"]["outcome"], told["event"]["action"]) == ("success", "request-acknowledged")


def test_request_that_waits_is_no_result_yet():
    with pytest.raises(ValueError, match="not ended"):
        coa.from_request(coa_row(state="sending", ended_at=None), tenant=ALPHA)


def entry(**values):
    given = {
        "id": 12,
        "at": NOW,
        "actor": "cli:anna",
        "action": "nas.add",
        "target": "switch-3",
        "before": None,
        "after": {"vendor": "cisco", "behind_nat": False, "secret": SECRET.hex()},
    }
    return AuditEntry(**(given | values))


def test_endpoint_is_told_when_it_is_discovered_and_when_it_is_blocked():
    row = EndpointRow(id=uuid4(), mac="aabbccddeeff", name="", first_seen_at=NOW, vendor="Axis", found_profile="camera")
    told = checked(endpoints.discovered(row, tenant=ALPHA))
    assert told["admit"] == {
        "kind": "endpoint",
        "schema": 1,
        "status": "discovered",
        "vendor": "Axis",
        "profile": "camera",
    }
    blocked = entry(action="endpoint.block", target="aa:bb:cc:dd:ee:ff", after={"status": "blocked"})
    assert checked(endpoints.blocked(blocked, tenant=ALPHA))["client"] == {"mac": "AA-BB-CC-DD-EE-FF"}
    with pytest.raises(ValueError, match="blocks no endpoint"):
        endpoints.blocked(entry(), tenant=ALPHA)


def certificate_row(**values):
    given = {
        "id": uuid4(),
        "serial": b"\x4d\x2a",
        "profile": "eap-client-user",
        "common_name": "anna",
        "subject": "/O=Alpha/CN=anna",
        "status": "valid",
        "revoked_at": None,
        "revocation_reason": "",
        "created_at": NOW,
        "not_before": NOW,
        "not_after": NOW + timedelta(days=365),
        "key_sealed": SECRET,
    }
    return CertificateRow(**(given | values))


def test_certificate_has_an_event_for_each_thing_that_befalls_it():
    row = certificate_row()
    events = [
        certificates.issued(row, tenant=ALPHA),
        certificates.expiring(row, days=14, warned_at=NOW, tenant=ALPHA),
        certificates.expiring(row, days=7, warned_at=NOW, tenant=ALPHA),
    ]
    for at in (NOW, NOW + timedelta(days=1)):
        row.status, row.revoked_at, row.revocation_reason = "suspended", at, "certificate-hold"
        events.append(certificates.ended(row, tenant=ALPHA))
    told = [checked(event) for event in events]
    assert len({each["event"]["id"] for each in told}) == 5
    assert told[0]["x509"]["serial_number"] == "4D2A"
    assert told[1]["admit"]["days"] == 14
    assert told[4]["admit"]["revocation_reason"] == "certificate-hold"
    with pytest.raises(ValueError, match="neither"):
        certificates.ended(certificate_row(), tenant=ALPHA)


def test_alarm_is_told_when_it_is_raised_and_when_it_is_cleared():
    alarm = {"code": "coa", "detail": "No requests are sent.", "since": NOW.isoformat()}
    raised = checked(alarms.from_alarm(alarm, cell="cell-1"))
    cleared = checked(alarms.from_alarm(alarm, cell="cell-1", cleared_at=NOW + timedelta(minutes=5)))
    assert cleared["event"]["id"] == raised["event"]["id"] + ":cleared"
    assert cleared["@timestamp"] == "2026-11-21T18:35:00.000001Z"
    assert (raised["admit"]["state"], cleared["admit"]["state"]) == ("raised", "cleared")


def test_change_tells_its_members_and_no_credential():
    after = {"mac": "00:1b:a9:00:00:01", "groups": ["a"], "reply": [{"User-Password": "very secret", "vlan": "20"}]}
    row = AuditEntry(
        id=3,
        at=NOW,
        actor="cli:anna",
        action="endpoint.add",
        target="x",
        before=None,
        after=after | {"Tunnel-Password": "x"},
    )
    told = checked(audit.from_log(row, tenant=ALPHA))
    assert (told["event"]["action"], told["user"]["name"]) == ("endpoint.add", "anna")
    assert told["admit"] == {
        "kind": "audit",
        "schema": 1,
        "actor": "cli:anna",
        "target": "x",
        "after": {"mac": '"00:1b:a9:00:00:01"', "groups": '["a"]', "reply": '[{"vlan": "20"}]'},
    }


def test_change_of_any_size_is_bounded():
    values = {f"member {number}": "x" * 5_000 for number in range(200)}
    row = AuditEntry(id=3, at=NOW, actor="a", action="policy.save", target="x" * 9_999, before=values, after=values)
    assert len(to_json(audit.from_log(row, tenant=ALPHA))) < 120_000


def test_test_of_a_feed_is_an_event():
    told = checked(feed.tested("siem", now=NOW, tenant=ALPHA))
    assert (told["admit"]["kind"], told["admit"]["feed"]) == ("feed", "siem")


def fields(schema, part, path=""):
    """Dotted names of all that has no parts of its own."""
    part = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    options = part.get("anyOf", [part])
    if len(options) > 1:
        return set().union(*(fields(schema, option, path) for option in options))
    if "properties" not in part:
        return {path.removeprefix(".")}
    return set().union(*(fields(schema, each, f"{path}.{name}") for name, each in part["properties"].items()))


def test_page_names_every_field():
    table = (CHECKOUT / "docs" / "events.md").read_text().partition("## Fields")[2]
    firsts = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {name.removesuffix(".*") for first in firsts for name in re.findall(r"`([^`]+)`", first)}
    constant = {"ecs.version", "admit.kind", "admit.schema", "observer.type"}
    told = fields(event_schema(), {"$ref": "#/$defs/Event"}) - constant
    assert [name for name in sorted(told) if not any(f"{name}.".startswith(f"{each}.") for each in named)] == []
    assert [each for each in sorted(named) if not any(f"{name}.".startswith(f"{each}.") for name in told)] == []
